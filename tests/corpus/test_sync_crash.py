"""A sync that is killed anywhere leaves the index as it was, and the next one brings it to where the list says."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from embedder_double import EmbedderDouble
from git_repos import Repo
from killed_sync import POINTS
from syncing import INDEX, commits, found, listed, synced

from rag_stdlib import Config, Runtime
from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.corpus.status import last_scan
from rag_stdlib.root import Root

PAGE = "# Page {0}\n\nWords of the page {0} about {1}, and a few more of them to make a sentence.\n"
PROGRAM = Path(__file__).with_name("killed_sync.py")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("first", [True, False], ids=["the first sync", "a later one"])
def test_killed_anywhere_it_leaves_the_old_state_and_is_gone_on_with(tmp_path: Path, repo: Repo, point: str, *, first: bool) -> None:
    repo.commit({"README.md": None, "docs/a.md": None, "kept.md": PAGE.format("kept", "quinces"), "old.md": PAGE.format("old", "medlars")})
    embedder = EmbedderDouble()
    served: dict[str, str] = {}
    if not first:
        with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
            synced(runtime, listed(repo))
            served = commits(runtime)
    head = repo.commit({"old.md": PAGE.format("old", "sloes"), **{f"new{n}.md": PAGE.format(f"new {n}", "damsons") for n in range(3)}})
    killed = subprocess.run([sys.executable, PROGRAM, str(tmp_path), repo.url, point], capture_output=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    place = SyncPlace(Root(str(tmp_path)), INDEX)
    assert (last_scan(place)["state"], place.is_locked()) == ("unknown", False)
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        if (tmp_path / INDEX).exists():
            assert commits(runtime) == served
            assert (len(found("quinces medlars")), found("sloes damsons")) == (0 if first else 2, [])
        assert synced(runtime, listed(repo))["alpha"].outcome == "switched"
        assert commits(runtime) == {"alpha": head}
        assert (len(found("damsons")), len(found("sloes")), found("medlars")) == (3, 1, [])
    assert {path.name for path in place.folder.iterdir()} == {"alpha.git", "alpha.git.lock", "status.json", "sync.lock"}
