"""Real repositories to mirror, and a way to see which processes are left."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from git_repos import Repo
from syncing import A, B

from rag_stdlib.corpus.git import Mirror


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if shutil.which("git") is None:
        for item in items:
            if Path(__file__).parent in item.path.parents and {"repo", "make_repo"} & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.skip(reason="git is not installed"))


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[..., Repo]:
    """Make an empty repository of a name."""
    return lambda name, *init: Repo(tmp_path / "sources" / f"{name}.git", *init)


@pytest.fixture
def repo(make_repo: Callable[..., Repo]) -> Repo:
    """A repository with two commits on main."""
    made = make_repo("source")
    made.commit({"README.md": "# One\n", "docs/a.md": "# A\n"})
    made.commit({"README.md": "# Two\n"})
    return made


@pytest.fixture
def alpha(make_repo: Callable[..., Repo]) -> Repo:
    """A repository of two pages."""
    made = make_repo("alpha")
    made.commit({"README.md": A, "docs/b.md": B})
    return made


@pytest.fixture
def beta(make_repo: Callable[..., Repo]) -> Repo:
    """A repository of one page."""
    made = make_repo("beta")
    made.commit({"guide.md": "# Guide\n\nCherries are stoned before they go into the pot.\n"})
    return made


@pytest.fixture
def is_running() -> Callable[[str], bool]:
    """Tell whether a git with these words in its command line runs."""
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("the system does not show its processes in /proc")

    def is_running(words: str) -> bool:
        commands = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has just ended
                commands.append(file.read_bytes())
        return any(words.encode() in command and Path(os.fsdecode(command.split(b"\0")[0])).name.startswith("git") for command in commands)

    return is_running


@pytest.fixture
def mirror(tmp_path: Path, repo: Repo) -> Mirror:
    """A mirror of `repo` that was not fetched yet."""
    return Mirror(tmp_path / "mirrors" / "source.git", repo.url)


@pytest.fixture(scope="session")
def noise() -> bytes:
    """A megabyte that no packing makes smaller."""
    return random.Random(0).randbytes(1_000_000)


@pytest.fixture(scope="session")
def heavy() -> dict[str, bytes]:
    """Files of 20 megabytes in all, none like another, so that fetching them takes a while."""
    return {f"{number}.bin": random.Random(number).randbytes(1_000_000) for number in range(1, 21)}
