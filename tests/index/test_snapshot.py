"""What is remembered of a file between two searches, and everything that may become of the file in between."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from embedder_double import EmbedderDouble
from search_oracle import MODES, PATH, Stored, agree, both, hits, in_memory

from rag_stdlib import (
    Config,
    Err,
    QueryOptions,
    Runtime,
    rag_compact,
    rag_delete,
    rag_ingest,
    rag_query,
    rag_reembed,
    rag_search,
)
from rag_stdlib.index import lexical, vectors
from rag_stdlib.index.facts import Facts
from rag_stdlib.index.resident.cache import RESIDENTS

QUERIES = ["alpha something", "refund", "beta1 gamma"]
DIM = 8
Both = tuple[Runtime, Runtime]


@pytest.fixture
def embedder() -> EmbedderDouble:
    return EmbedderDouble(dim=DIM)


@pytest.fixture
def ways(tmp_path: Path, embedder: EmbedderDouble) -> Both:
    return both(tmp_path, embedder)


def ingest(root: Path, embedder: EmbedderDouble, *texts: str, path: str = PATH, name: str = "d") -> None:
    with Runtime(Config(), root=root, embedder=embedder):
        for number, text in enumerate(texts):
            assert rag_ingest(path, f"{name}{number}", "s", text, 40).is_ok


FIRST = [f"alpha beta{number} gamma" for number in range(6)]


def test_a_restored_backup_is_not_taken_for_what_it_replaced(ways: Both, tmp_path: Path, embedder: EmbedderDouble) -> None:
    """The copy has the same name, may get the same inode, and after as many steps the same generation."""
    ingest(tmp_path, embedder, *FIRST)
    shutil.copy(tmp_path / PATH, tmp_path / "backup.db")
    ingest(tmp_path, embedder, "alpha new one", "alpha new two", name="n")
    agree(ways, tmp_path, embedder, QUERIES)
    (tmp_path / PATH).unlink()
    shutil.copy(tmp_path / "backup.db", tmp_path / PATH)
    agree(ways, tmp_path, embedder, QUERIES)
    assert in_memory()[-1].generation == 6, "the state of what was there before is forgotten"
    ingest(tmp_path, embedder, "other thing entirely", "alpha something", name="m")
    agree(ways, tmp_path, embedder, QUERIES)
    with (tmp_path / PATH).open("r+b") as file:  # in place: the inode is certainly the same
        file.write((tmp_path / "backup.db").read_bytes())
        file.truncate()
    agree(ways, tmp_path, embedder, QUERIES)
    assert [state.generation for state in in_memory()][-1] == 6
    ingest(tmp_path, embedder, "refund refund", "alpha", "beta1", name="m")
    agree(ways, tmp_path, embedder, QUERIES)


def test_a_restored_backup_with_a_longer_history_of_its_own(ways: Both, tmp_path: Path, embedder: EmbedderDouble) -> None:
    """The journal of the other history says nothing of what the state in memory holds."""
    ingest(tmp_path, embedder, *FIRST)
    shutil.copy(tmp_path / PATH, tmp_path / "backup.db")
    ingest(tmp_path, embedder, "alpha new one", name="n")
    agree(ways, tmp_path, embedder, QUERIES)
    shutil.copy(tmp_path / "backup.db", tmp_path / PATH)
    ingest(tmp_path, embedder, "beta1 refund", "something gamma", name="m")
    agree(ways, tmp_path, embedder, QUERIES)
    assert len(in_memory()[-1].rows) == 8


def test_an_index_made_anew_in_the_same_place(ways: Both, tmp_path: Path, embedder: EmbedderDouble) -> None:
    for number in range(4):
        ingest(tmp_path, embedder, *FIRST[:3], f"refund number{number}", "alpha " * (number + 1))
        agree(ways, tmp_path, embedder, QUERIES)
        (tmp_path / PATH).unlink()
        for way in ways:
            with way:
                assert rag_search(PATH, "alpha", 1).error.code == "index_missing"  # type: ignore[union-attr]


def test_a_file_renamed_over_the_index_while_connections_are_open(tmp_path: Path, embedder: EmbedderDouble) -> None:
    ingest(tmp_path, embedder, *FIRST)
    ingest(tmp_path, embedder, "refund alpha", "refund something", path="other.db")
    for resident in (True, False):
        shutil.copy(tmp_path / "other.db", tmp_path / "again.db")
        shutil.copy(tmp_path / PATH, tmp_path / "first.db")
        with Runtime(Config(), root=tmp_path, embedder=embedder, resident=resident):
            for mode in MODES:
                assert hits("refund", mode, 9) == Stored(tmp_path / PATH, embedder).best(mode, "refund", 9)
            (tmp_path / "again.db").replace(tmp_path / PATH)
            for suffix in ("-wal", "-shm"):
                (tmp_path / f"{PATH}{suffix}").unlink(missing_ok=True)
            for mode in MODES:
                assert hits("refund", mode, 9) == Stored(tmp_path / "other.db", embedder).best(mode, "refund", 9)
        (tmp_path / "first.db").replace(tmp_path / PATH)


def foreign(file: Path, *statements: str) -> None:
    connection = apsw.Connection(str(file))
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize(("statements", "code"), [
    (("DROP TABLE rag_meta",), "index_corrupt"),
    (("PRAGMA application_id = 0", "DROP TABLE rag_chunks", "DROP TABLE rag_documents", "CREATE TABLE theirs(x)"),
     "not_an_index"),
    (("PRAGMA user_version = 999",), "index_too_new"),
    (("UPDATE rag_meta SET value = 'other/9' WHERE key = 'normalizer'",), "index_too_new"),
    (("PRAGMA application_id = 0",), "index_foreign_schema")])
def test_a_file_that_becomes_something_else_between_two_searches(tmp_path: Path, embedder: EmbedderDouble, resident: bool,
                                                                 statements: tuple[str, ...], code: str) -> None:
    ingest(tmp_path, embedder, *FIRST)
    with Runtime(Config(), root=tmp_path, embedder=embedder, resident=resident):
        assert len(hits("alpha", "hybrid", 9)) == 6
        foreign(tmp_path / PATH, *statements)
        for mode in MODES:
            result = rag_query(PATH, "alpha", 9, QueryOptions(mode=mode))  # type: ignore[arg-type]
            assert isinstance(result, Err)
            assert result.error.code == code, result


def test_another_process_is_seen_at_once(ways: Both, tmp_path: Path, embedder: EmbedderDouble) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from embedder_double import EmbedderDouble
from rag_stdlib import Config, Runtime, rag_ingest, rag_delete
with Runtime(Config(), root={str(tmp_path)!r}, embedder=EmbedderDouble(dim={DIM})):
    assert rag_ingest({PATH!r}, "d2", "s", "something else", 40).is_ok
    assert rag_delete({PATH!r}, "d0").is_ok
"""
    ingest(tmp_path, embedder, *FIRST)
    with Runtime(Config(), root=tmp_path, embedder=embedder):
        before = hits("alpha something", "hybrid", 9)
        subprocess.run([sys.executable, "-c", program], check=True)
        after = hits("alpha something", "hybrid", 9)
        assert after == Stored(tmp_path / PATH, embedder).best("hybrid", "alpha something", 9) != before
    agree(ways, tmp_path, embedder, QUERIES)


@pytest.mark.parametrize("fact", ["mark", "generation", "last_seq", "id"])
def test_an_index_without_a_fact_is_served_from_the_file(ways: Both, tmp_path: Path, embedder: EmbedderDouble, fact: str) -> None:
    ingest(tmp_path, embedder, *FIRST)
    agree(ways, tmp_path, embedder, QUERIES)
    RESIDENTS.clear()
    foreign(tmp_path / PATH, f"DELETE FROM rag_meta WHERE key = '{fact}'")
    agree(ways, tmp_path, embedder, QUERIES)
    assert (in_memory() == []) == (fact != "id")


def test_an_index_of_a_release_without_marks_and_changes(ways: Both, tmp_path: Path, embedder: EmbedderDouble) -> None:
    ingest(tmp_path, embedder, *FIRST)
    foreign(tmp_path / PATH, "DROP TABLE rag_changes", "DELETE FROM rag_meta WHERE key IN ('id', 'mark', 'last_seq')")
    agree(ways, tmp_path, embedder, QUERIES)
    ingest(tmp_path, embedder, "alpha refund", name="n")
    agree(ways, tmp_path, embedder, QUERIES)
    with ways[0]:
        assert rag_delete(PATH, "d1").is_ok
    agree(ways, tmp_path, embedder, QUERIES)


def without_a_mark(file: Path, doc_id: str) -> None:
    """Delete a document as the release before did: the generation counts on, and nothing else is noted."""
    connection = apsw.Connection(str(file))
    with connection:
        found: list[Any] = connection.execute("SELECT seq, text FROM rag_chunks WHERE doc_id = ?", (doc_id,)).fetchall()
        lexical.remove(connection, found)
        vectors.remove(connection, [seq for seq, _ in found])
        connection.execute("DELETE FROM rag_chunks WHERE doc_id = ?", (doc_id,))
        connection.execute("DELETE FROM rag_documents WHERE id = ?", (doc_id,))
        connection.execute("UPDATE rag_meta SET value = value + 1 WHERE key = 'generation'")
    connection.close()


def test_a_writer_that_leaves_no_mark_is_seen(ways: Both, tmp_path: Path, embedder: EmbedderDouble) -> None:
    ingest(tmp_path, embedder, *FIRST)
    agree(ways, tmp_path, embedder, QUERIES)
    without_a_mark(tmp_path / PATH, "d1")
    agree(ways, tmp_path, embedder, QUERIES)
    ingest(tmp_path, embedder, "alpha refund", name="n")
    agree(ways, tmp_path, embedder, QUERIES)
    without_a_mark(tmp_path / PATH, "d3")
    ingest(tmp_path, embedder, "beta1 beta1", name="o")
    agree(ways, tmp_path, embedder, QUERIES)


@pytest.mark.parametrize("change", [
    lambda: rag_ingest(PATH, "d0", "s", "gamma", 40), lambda: rag_ingest(PATH, "d0", "new", FIRST[0], 40),
    lambda: rag_ingest(PATH, "d0", "s", FIRST[0], 40), lambda: rag_ingest(PATH, "x", "s", "", 40), lambda: rag_delete(PATH, "d1"),
    lambda: rag_compact(PATH), lambda: rag_reembed(PATH)])
def test_facts_that_are_counted_on_are_those_of_a_whole_look(tmp_path: Path, embedder: EmbedderDouble,
                                                             change: Callable[[], Any]) -> None:
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        for number, text in enumerate(FIRST):
            rag_ingest(PATH, f"d{number}", "s", text, 40)
        hits("alpha", "hybrid", 3)
        for turn in range(3):
            assert change().is_ok or turn  # what was deleted already is not found
            with runtime.store.snapshot(PATH) as snapshot:
                assert snapshot.facts == Facts.of(snapshot.connection)
                assert snapshot.facts is snapshot.facts


def test_facts_are_looked_up_once_for_each_state(tmp_path: Path, embedder: EmbedderDouble,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(tmp_path, embedder, *FIRST)
    looked = []
    of = Facts.of
    monkeypatch.setattr(Facts, "of", lambda *arguments: (looked.append(1), of(*arguments))[1])
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        for _ in range(3):
            hits("alpha", "hybrid", 3)
        assert len(looked) == 1
        rag_ingest(PATH, "n", "s", "alpha", 40)
        hits("alpha", "hybrid", 3)
        hits("alpha", "lexical", 3)
        assert len(looked) == 2
        with runtime.store.snapshot(PATH) as one, runtime.store.snapshot(PATH) as two:
            assert one is not two
            assert one.facts == two.facts


def test_an_embedder_is_not_asked_where_the_stored_vectors_are_anothers(tmp_path: Path, embedder: EmbedderDouble) -> None:
    """What was seen of the index last saves a look before the embedding; where it does not fit, the index is looked at first."""
    ingest(tmp_path, embedder, *FIRST)
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        hits("alpha", "vector", 3)
        asked = len(embedder.calls)
        other = EmbedderDouble(dim=DIM, model="other")
        with Runtime(Config(), root=tmp_path, embedder=other):
            assert rag_reembed(PATH).is_ok
        result = rag_query(PATH, "alpha", 3, QueryOptions(mode="vector"))
        assert isinstance(result, Err)
        assert result.error.code == "embedding_mismatch"
        assert len(embedder.calls) <= asked + 1
        again = rag_query(PATH, "alpha", 3, QueryOptions(mode="hybrid"))
        assert again.error.code == "embedding_mismatch"  # type: ignore[union-attr]
        with Runtime(Config(), root=tmp_path, embedder=embedder):
            assert rag_reembed(PATH).is_ok
        assert len(hits("alpha", "vector", 9)) == 6
        assert runtime.resident


def test_seen_paths_are_few(tmp_path: Path, embedder: EmbedderDouble) -> None:
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        rag_ingest(PATH, "d", "s", "alpha", 40)
        with runtime.store.snapshot(PATH) as snapshot:
            for number in range(200):
                runtime.store.see(f"{number}.db", snapshot.facts)
        assert len(runtime.store._seen) <= 64
        assert runtime.store.seen("199.db") is not None
        assert runtime.store.seen("absent.db") is None
        assert len(hits("alpha", "vector", 9)) == 1
