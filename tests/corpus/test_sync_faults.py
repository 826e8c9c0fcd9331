"""Faults that corpora elsewhere had, and what happens here: each named by its id in the list of the contract's reference."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from embedder_double import EmbedderDouble
from git_repos import Repo
from syncing import INDEX, commits, found, listed, synced

import rag_stdlib
from rag_stdlib import Config, Failure, QueryOptions, Runtime, rag_ingest, rag_query, rag_stats
from rag_stdlib.corpus.sync import sync
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.index import store as store_module

MakeRepo = Callable[..., Repo]
A = "# Alpha\n\nApples are sweet and they keep well in a cool cellar over winter.\n"


@pytest.fixture
def alpha(make_repo: MakeRepo) -> Repo:
    made = make_repo("alpha")
    made.commit({"README.md": A})
    return made


def test_b3_an_index_that_cannot_be_written_now_is_told_and_the_next_sync_brings_everything(
        tmp_path: Path, alpha: Repo, embedder: EmbedderDouble) -> None:
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        rag_ingest(INDEX, "d", "s", "there before", 100).unwrap()
        patient = runtime.store._busy_seconds
        runtime.store._busy_seconds = 0.05
        runtime.store.close_idle()
        with store_module.Store(runtime.root).writing(INDEX):
            report = synced(runtime, listed(alpha))["alpha"]
        assert (report.outcome, report.code) == ("failed", "busy")
        runtime.store._busy_seconds = patient
        runtime.store.close_idle()
        assert synced(runtime, listed(alpha))["alpha"].outcome == "switched"
        assert len(found("apples")) == 1


def test_b11_there_is_one_source_of_the_version() -> None:
    assert version("rag-stdlib") == rag_stdlib.__version__


def test_b18_naming_a_new_commit_takes_nothing_out_of_a_search(hybrid: Runtime, alpha: Repo) -> None:
    synced(hybrid, listed(alpha))
    alpha.commit({"other.md": "# Other\n\nPears are picked before they are ripe and ripen in the dark.\n"})
    synced(hybrid, listed(alpha))
    hits = rag_query(INDEX, "apples are sweet and they keep well", 5, QueryOptions("vector")).unwrap()
    assert hits[0].metadata == {"kind": "corpus", "repo_id": "alpha", "commit": commits(hybrid)["alpha"], "path": "alpha/README.md"}
    stats = rag_stats(INDEX).unwrap()
    assert stats.vectors == stats.chunks == 2


def test_b26_all_that_a_sync_keeps_lies_beside_the_index_and_what_stands_in_the_way_is_named(hybrid: Runtime, alpha: Repo, tmp_path: Path) -> None:
    synced(hybrid, listed(alpha))
    assert {path.name for path in tmp_path.iterdir()} - {"sources"} <= {INDEX, f"{INDEX}-wal", f"{INDEX}-shm", ".rag"}
    assert (tmp_path / ".rag" / INDEX / "alpha.git" / "objects").is_dir()
    (tmp_path / ".rag" / "other.db").write_text("in the way")
    with pytest.raises(Failure) as caught:
        sync(hybrid, "other.db", [listed(alpha)])
    assert (caught.value.error.code, ".rag/other.db" in caught.value.error) == ("path_special", True)


def test_b29_nobody_waits_for_an_embedder(tmp_path: Path, alpha: Repo) -> None:
    """While texts of a sync are embedded, others read and write the index."""
    embedder, stored = EmbedderDouble(), []

    def meanwhile(texts: object) -> None:
        if not stored:
            stored.append(texts)
            stored.append(rag_ingest(INDEX, "meanwhile", "s", "Written while a sync embeds.", 100).unwrap())
            stored.append(len(rag_query(INDEX, "written", 5, QueryOptions("lexical")).unwrap()))

    embedder.before = meanwhile
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        assert synced(runtime, listed(alpha))["alpha"].outcome == "switched"
    assert stored[1:] == [1, 1]


class _Prefixed:
    """The same model with other role prefixes, which make other vectors."""

    remote = False

    def __init__(self, query: str, passage: str) -> None:
        self._inner, self._prefixes = HashingEmbedder(32), {"query": query, "passage": passage}

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:  # noqa: ARG002 - the dimension is known
        return EmbedderIdentity("double", "words", 32, "", self._prefixes["query"], self._prefixes["passage"])

    def embed(self, texts: list[str], role: str) -> object:
        return self._inner.embed([self._prefixes[role] + text for text in texts], role)  # type: ignore[arg-type]


def test_b34_vectors_made_before_there_were_prefixes_are_not_compared_with_those_that_have_them(tmp_path: Path, alpha: Repo) -> None:
    with Runtime(Config(), root=tmp_path, embedder=_Prefixed("", "")) as runtime:  # type: ignore[arg-type]
        synced(runtime, listed(alpha))
    with Runtime(Config(), root=tmp_path, embedder=_Prefixed("query: ", "passage: ")) as runtime:  # type: ignore[arg-type]
        refused = rag_query(INDEX, "apples", 5)
        assert not refused.is_ok
        assert refused.error.code == "embedding_mismatch"
        assert synced(runtime, listed(alpha, branch="main"))["alpha"].outcome == "unchanged"
        alpha.commit({"new.md": A})
        assert synced(runtime, listed(alpha))["alpha"].code == "embedding_mismatch"
