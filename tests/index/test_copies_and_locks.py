"""Copies of a live index are whole, the only lock is SQLite's own, and a failing embedder is never papered over."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from embedder_double import EmbedderDouble

from rag_stdlib import Err, Ok, Runtime, rag_check, rag_ingest, rag_search, rag_stats
from rag_stdlib.errors import fail
from rag_stdlib.index.store import Store
from rag_stdlib.root import Root


@pytest.mark.parametrize("how", ["vacuum into", "backup", "file copy after closing"])
def test_r28_a_copy_made_elsewhere_has_every_row(tmp_path: Path, how: str) -> None:
    with Runtime(root=tmp_path, embedder=EmbedderDouble()):
        for number in range(20):
            rag_ingest("a.db", f"d{number}", "s", f"text number {number} about copies", 100).unwrap()
        wanted = rag_search("a.db", "copies", 30).unwrap()
        source = apsw.Connection(str(tmp_path / "a.db"))
        if how == "vacuum into":
            source.execute("VACUUM INTO ?", (str(tmp_path / "b.db"),))
        elif how == "backup":
            target = apsw.Connection(str(tmp_path / "b.db"))
            with target.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(5)
            target.close()
        source.close()
    if how == "file copy after closing":
        (tmp_path / "b.db").write_bytes((tmp_path / "a.db").read_bytes())
    with Runtime(root=tmp_path, embedder=EmbedderDouble()):
        assert rag_check("b.db").unwrap().problems == ()
        assert rag_stats("b.db").unwrap().vectors == 20
        assert rag_search("b.db", "copies", 30).unwrap() == wanted
        assert len(wanted) == 20


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_r38_another_programs_lock_is_waited_for_and_named(tmp_path: Path, statement: str) -> None:
    with Runtime(root=tmp_path) as runtime:
        runtime._store = Store(Root(str(tmp_path)), busy_seconds=0.2)
        rag_ingest("a.db", "d", "s", "before", 100).unwrap()
        other = apsw.Connection(str(tmp_path / "a.db"))
        other.execute(statement)
        refused = rag_ingest("a.db", "d", "s", "after", 100)
        assert isinstance(refused, Err)
        assert refused.error.code == "busy"
        assert rag_search("a.db", "before", 5).unwrap()[0].text == "before"  # a log's readers wait for nobody
        other.execute("ROLLBACK")
        other.close()
        assert rag_ingest("a.db", "d", "s", "after", 100) == Ok(1)
        assert {path.name for path in tmp_path.iterdir()} <= {"a.db", "a.db-wal", "a.db-shm"}


class Failing(EmbedderDouble):
    """An embedder whose server answers every query with one failure."""

    code = ""

    def embed(self, texts, role):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        if role == "query":
            raise fail(self.code, provider="openai", endpoint="http://localhost:1", status=401, detail="refused", seconds=1)
        return super().embed(texts, role)


@pytest.mark.parametrize("code", ["embedder_unreachable", "embedder_auth", "embedder_timeout"])
def test_r198_a_failing_embedder_is_an_err_and_never_another_mode(tmp_path: Path, code: str) -> None:
    embedder = Failing()
    embedder.code = code
    with Runtime(root=tmp_path, embedder=embedder):
        rag_ingest("a.db", "d", "s", "the words of the query", 100).unwrap()
        result = rag_search("a.db", "query", 5)
    assert isinstance(result, Err)
    assert result.error.code == code


def test_r198_without_an_embedder_the_reason_is_told(tmp_path: Path) -> None:
    with Runtime(root=tmp_path):
        rag_ingest("a.db", "d", "s", "the words of the query", 100).unwrap()
        result = rag_search("a.db", "query", 5)
    assert isinstance(result, Ok)
    assert result.notes == ("lexical search: no [rag] embedder is configured",)
    assert result.value[0].mode == "lexical"
