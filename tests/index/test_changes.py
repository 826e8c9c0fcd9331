"""The journal of what came and went: whoever follows it holds what the index holds."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from embedder_double import EmbedderDouble
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib import Config, Runtime, rag_check, rag_compact, rag_delete, rag_ingest, rag_reembed
from rag_stdlib.index import changes, schema
from rag_stdlib.index.changes import NONE

PATH = "index.db"
State = tuple[int, frozenset[int], str]


def state(runtime: Runtime) -> State:
    with runtime.store.reading(PATH) as connection:
        generation = schema.get_fact(connection, "generation")
        assert isinstance(generation, int)
        seqs = frozenset(int(str(seq)) for (seq,) in connection.execute("SELECT seq FROM rag_chunks"))
        return generation, seqs, str(schema.get_fact(connection, "mark") or "")


def follow(runtime: Runtime, before: State) -> frozenset[int] | None:
    with runtime.store.reading(PATH) as connection:
        steps = changes.since(connection, before[0], before[2])
    if steps is None:
        return None
    seqs = set(before[1])
    for gone, come in steps:
        assert seqs.issuperset(gone)
        assert seqs.isdisjoint(come)
        seqs = (seqs - set(gone)) | set(come)
    return frozenset(seqs)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ingest", "delete", "compact"]), st.integers(0, 3), st.integers(0, 6)), max_size=12))
def test_following_the_journal_from_any_moment_gives_the_present(steps: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as folder, Runtime(Config(), root=folder, embedder=EmbedderDouble()) as runtime:
        rag_ingest(PATH, "first", "s", "word " * 20, 10).unwrap()
        seen = [state(runtime)]
        given_ever = set(seen[0][1])
        for what, name, words in steps:
            if what == "ingest":
                rag_ingest(PATH, f"d{name}", "s", f"{words} word. " * words, 10).unwrap()
            elif what == "delete":
                rag_delete(PATH, f"d{name}")
            else:
                rag_compact(PATH).unwrap()
            now = state(runtime)
            assert (now[1] - seen[-1][1]).isdisjoint(given_ever), "a seq was given twice"
            given_ever |= now[1]
            seen.append(now)
            assert all(follow(runtime, before) == now[1] for before in seen)
        assert rag_check(PATH).unwrap().clean


def test_an_exchange_of_all_vectors_cannot_be_followed(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()) as runtime:
        rag_ingest(PATH, "d", "s", "some words", 20).unwrap()
        before = state(runtime)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(model="other")) as runtime:
        rag_reembed(PATH).unwrap()
        assert follow(runtime, before) is None
        now = state(runtime)
        assert now[0] == before[0] + 1
        assert follow(runtime, now) == now[1]
        rag_ingest(PATH, "e", "s", "more words", 20).unwrap()
        assert follow(runtime, now) == state(runtime)[1]
        assert follow(runtime, before) is None


def test_an_index_without_the_facts_and_the_table_gets_them(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as runtime:
        rag_ingest(PATH, "a", "s", "one. two. three.", 5).unwrap()
        rag_ingest(PATH, "b", "s", "four. five.", 5).unwrap()
        with runtime.store.writing(PATH) as connection:
            connection.execute("DROP TABLE rag_changes")
            connection.execute("DELETE FROM rag_meta WHERE key IN ('mark', 'last_seq')")
        before = state(runtime)
        assert follow(runtime, before) is None, "a state without a mark is nobody's"
        assert follow(runtime, (before[0] - 1, frozenset(), "")) is None
        assert rag_check(PATH).unwrap().clean
        assert rag_delete(PATH, "b").is_ok
        left = state(runtime)[1]
        assert follow(runtime, before) == left
        rag_ingest(PATH, "b", "s", "four. five.", 5).unwrap()
        assert min(state(runtime)[1] - left) > max(before[1]), "the numbers of chunks that went are not given again"
        assert follow(runtime, before) == state(runtime)[1]
        assert rag_check(PATH).unwrap().clean


def test_a_program_that_steps_without_a_row_leaves_a_gap(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as runtime:
        rag_ingest(PATH, "a", "s", "one.", 5).unwrap()
        before = state(runtime)
        with runtime.store.writing(PATH) as connection:
            schema.next_generation(connection)
        rag_ingest(PATH, "b", "s", "two.", 5).unwrap()
        assert follow(runtime, before) is None
        assert follow(runtime, (10**6, frozenset(), before[2])) is None, "a generation that is still to come"


def test_chunks_that_are_no_range_cannot_be_followed(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as runtime:
        rag_ingest(PATH, "a", "s", "one. two. three.", 5).unwrap()
        before = state(runtime)
        with runtime.store.writing(PATH) as connection:
            (seq, text), = connection.execute("SELECT seq, text FROM rag_chunks WHERE ordinal = 1").fetchall()
            connection.execute("INSERT INTO rag_lexical(rag_lexical, rowid, terms) VALUES ('delete', ?, ?)", (seq, text))
            connection.execute("INSERT INTO rag_lexical(rowid, terms) VALUES (90, ?)", (text,))
            connection.execute("UPDATE rag_chunks SET seq = 90 WHERE seq = ?", (seq,))
        assert rag_ingest(PATH, "a", "s", "other", 5).is_ok
        assert follow(runtime, before) is None
        assert min(state(runtime)[1]) > 90


def test_only_the_last_generations_are_kept() -> None:
    connection = apsw.Connection(":memory:")
    schema.create(connection)
    schema.set_fact(connection, "last_seq", changes.KEPT + 3)
    mark = str(schema.get_fact(connection, "mark"))
    for generation in range(1, 4):
        changes.note(connection, generation, [(NONE, range(generation, generation + 1))], mark)
    changes.note(connection, 4, [(range(seq, seq + 1), NONE) for seq in range(1, changes.KEPT + 1)], "third")
    schema.next_generation(connection, 3 + changes.KEPT)
    assert connection.execute("SELECT count(*), min(generation) FROM rag_changes").fetchall() == [(changes.KEPT, 4)]
    assert len(changes.since(connection, 3, "third") or []) == changes.KEPT
    assert changes.since(connection, 3, "another third") is None
    assert changes.since(connection, 2, mark) is None
    changes.clear(connection)
    assert changes.since(connection, 3, "third") is None
    assert changes.since(connection, 3 + changes.KEPT, mark) == []
    assert changes.since(connection, 3 + changes.KEPT, "another") is None


def test_a_copy_that_went_another_way_cannot_be_followed(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as runtime:
        rag_ingest(PATH, "a", "s", "one.", 5).unwrap()
        first = state(runtime)
        runtime.close()
        copy = (tmp_path / PATH).read_bytes()
        rag_ingest(PATH, "b", "s", "two.", 5).unwrap()
        second = state(runtime)
        runtime.close()
        (tmp_path / PATH).write_bytes(copy)
        assert follow(runtime, second) is None
        rag_ingest(PATH, "c", "s", "three.", 5).unwrap()
        assert state(runtime)[0] == second[0]
        assert follow(runtime, second) is None
        rag_ingest(PATH, "d", "s", "four.", 5).unwrap()
        assert follow(runtime, second) is None
        assert follow(runtime, first) == state(runtime)[1]


@pytest.mark.parametrize(("damage", "named"), [
    ("UPDATE rag_changes SET generation = generation + 10", "changes: 1 steps are of generations that are still to come"),
    ("UPDATE rag_changes SET gone_first = 1, gone_count = 1", "changes: 1 steps say that chunks went which are there"),
])
def test_check_sees_a_wrong_journal(tmp_path: Path, damage: str, named: str) -> None:
    with Runtime(Config(), root=tmp_path) as runtime:
        rag_ingest(PATH, "a", "s", "one.", 5).unwrap()
        with runtime.store.writing(PATH) as connection:
            connection.execute(damage)
        assert rag_check(PATH).unwrap().problems == (named,)
