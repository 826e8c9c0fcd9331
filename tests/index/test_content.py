"""The digest of what an index holds: the same for the same documents whatever the history, and kept, not recomputed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from embedder_double import EmbedderDouble
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_stdlib import (
    ChunkOptions,
    Config,
    Err,
    Runtime,
    SourceDocument,
    rag_check,
    rag_compact,
    rag_delete,
    rag_ingest,
    rag_ingest_document,
    rag_reembed,
    rag_search,
    rag_stats,
)
from rag_stdlib.index import content, multiset

PATH = "index.db"
DOCUMENTS = [SourceDocument(f"d{number}", "s", "Some words. Other words." * number, metadata={"n": number}) for number in range(6)]
MISMATCH = ("content: the digest kept of the documents is not theirs; run compact to make it anew",)


def digest(path: str = PATH) -> str:
    return rag_stats(path).unwrap().content


def problems(path: str = PATH) -> tuple[str, ...]:
    return rag_check(path).unwrap().problems


@contextmanager
def raw(folder: Path, path: str = PATH) -> Iterator[apsw.Connection]:
    """The file as another program sees it."""
    connection = apsw.Connection(str(folder / path))
    try:
        yield connection
    finally:
        connection.close()


def forget(folder: Path) -> None:
    """Make the index one of a release that kept no digest."""
    with raw(folder) as connection:
        connection.execute("DELETE FROM rag_meta WHERE key IN ('content', 'content_state')")


def test_an_index_without_documents_has_one_digest(lexical: Runtime) -> None:
    for path in ("a.db", "b.db"):
        rag_ingest(path, "d", "s", path, 50)
        rag_delete(path, "d")
    assert digest("a.db") == digest("b.db") == multiset.digest(bytes(multiset.STATE_BYTES))
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("seed", range(4))
def test_neither_order_nor_history_shows(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    with Runtime(Config(), root=tmp_path):
        for document in DOCUMENTS:
            rag_ingest_document("plain.db", document, 20).unwrap()
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        for document in draw.sample(DOCUMENTS * 3, len(DOCUMENTS) * 3):
            change = draw.choice(("same", "resized", "deleted", "longer", "compacted", "reembedded"))
            if change == "resized":
                rag_ingest_document(PATH, document, 7).unwrap()
            elif change == "deleted":
                rag_delete(PATH, document.doc_id)
            elif change == "longer":
                rag_ingest(PATH, document.doc_id, "s", document.text + "And more.", 20).unwrap()
            elif change == "compacted":
                rag_compact(PATH)
            elif change == "reembedded":
                rag_reembed(PATH)
            rag_ingest_document(PATH, document, 20).unwrap()
            rag_ingest_document(PATH, document, 20).unwrap()
        assert digest() == digest("plain.db")
        assert problems() == ()


@pytest.mark.parametrize(("document", "chunk_chars", "options"), [
    (SourceDocument("e", "s", "Some text. More text."), 40, ChunkOptions()),
    (SourceDocument("d", "t", "Some text. More text."), 40, ChunkOptions()),
    (SourceDocument("d", "s", "Some text. More text!"), 40, ChunkOptions()),
    (SourceDocument("d", "s", "Some text. More text.", "text/markdown"), 40, ChunkOptions()),
    (SourceDocument("d", "s", "Some text. More text.", metadata={"a": 1}), 40, ChunkOptions()),
    (SourceDocument("d", "s", "Some text. More text.", lines=((0, 3),)), 40, ChunkOptions()),
    (SourceDocument("d", "s", "Some text. More text.", pages=((0, 3),)), 40, ChunkOptions()),
    (SourceDocument("d", "s", "Some text. More text."), 41, ChunkOptions()),
    (SourceDocument("d", "s", "Some text. More text."), 40, ChunkOptions(graphemes=True)),
])
def test_whatever_makes_a_document_answer_as_it_does_changes_the_digest(
        lexical: Runtime, document: SourceDocument, chunk_chars: int, options: ChunkOptions) -> None:
    rag_ingest_document("one.db", SourceDocument("d", "s", "Some text. More text."), 40).unwrap()
    rag_ingest_document("other.db", document, chunk_chars, options).unwrap()
    assert digest("one.db") != digest("other.db")
    assert lexical.mode == "lexical"


def test_vectors_and_reads_leave_the_digest_as_it_is(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path):
        rag_ingest(PATH, "d", "s", "Some words.", 50)
        before = rag_stats(PATH).unwrap()
        rag_search(PATH, "words", 3)
    for model in ("one", "two"):
        with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(model=model)):
            rag_reembed(PATH).unwrap()
            after = rag_stats(PATH).unwrap()
            assert (after.content, after.vectors) == (before.content, 1)
            assert problems() == ()
    assert after.generation == before.generation + 2


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(texts, st.dictionaries(texts, st.integers(-9, 9) | texts, max_size=2)), min_size=1, max_size=3))
def test_the_row_in_hand_is_hashed_as_the_row_that_is_stored(lexical: Runtime, parts: list[tuple[str, dict[str, Any]]]) -> None:
    for number, (text, metadata) in enumerate(parts):
        rag_ingest_document(PATH, SourceDocument(f"é{number}", text, text, text, metadata), 5).unwrap()
    with lexical.store.reading(PATH) as connection:
        assert list(content.problems(connection)) == []


def test_a_transaction_that_is_rolled_back_changes_nothing(lexical: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    rag_ingest(PATH, "d", "s", "words", 50)
    before = rag_stats(PATH).unwrap()
    advance = content.advance

    def failing(connection: apsw.Connection, **lanes: int) -> None:
        advance(connection, **lanes)
        raise apsw.FullError("no room")

    monkeypatch.setattr(content, "advance", failing)
    for result in (rag_ingest(PATH, "e", "s", "words", 50), rag_delete(PATH, "d")):
        assert isinstance(result, Err)
        assert result.error.code == "disk_full"
    after = rag_stats(PATH).unwrap()
    assert (after.content, after.generation) == (before.content, before.generation)
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("write", [
    lambda: rag_ingest(PATH, "late", "s", "late words", 50), lambda: rag_delete(PATH, "d1"), lambda: rag_compact(PATH),
    lambda: rag_reembed(PATH),
])
def test_an_index_that_kept_no_digest_gets_one_with_the_next_change(tmp_path: Path, write: Callable[[], Any]) -> None:
    with Runtime(Config(), root=tmp_path):
        for document in DOCUMENTS:
            rag_ingest_document(PATH, document, 20).unwrap()
    forget(tmp_path)
    with Runtime(Config(), root=tmp_path):
        assert (digest(), problems()) == ("", ())
        assert rag_search(PATH, "words", 1).is_ok
        assert rag_ingest_document(PATH, DOCUMENTS[1], 20).notes == ("unchanged",)  # type: ignore[union-attr]
        assert rag_delete(PATH, "nobody").error.code == "not_found"  # type: ignore[union-attr]
        assert digest() == ""
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        write().unwrap()
        assert digest() != ""
        assert problems() == ()


def test_a_digest_made_anew_is_the_one_that_would_have_been_kept(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path):
        for path in (PATH, "twin.db"):
            for document in DOCUMENTS[:5]:
                rag_ingest_document(path, document, 20).unwrap()
    forget(tmp_path)
    with Runtime(Config(), root=tmp_path):
        for path in (PATH, "twin.db"):
            rag_ingest_document(path, DOCUMENTS[5], 20).unwrap()
            rag_delete(path, "d2").unwrap()
        assert digest() == digest("twin.db")


def test_a_release_that_keeps_no_digest_leaves_none_that_is_wrong(lexical: Runtime, tmp_path: Path) -> None:
    """It counts up the generation, as every release does, and the digest of before no longer goes with it."""
    for document in DOCUMENTS:
        rag_ingest_document(PATH, document, 20).unwrap()
    lexical.close()
    with raw(tmp_path) as connection:
        connection.execute("UPDATE rag_documents SET source = 'elsewhere' WHERE id = 'd0'")  # d0 has no chunks
        connection.execute("UPDATE rag_meta SET value = value + 1 WHERE key = 'generation'")
    assert (digest(), problems()) == ("", ())
    rag_ingest(PATH, "late", "s", "late words", 50).unwrap()
    assert len(digest()) == 64
    assert problems() == ()


@pytest.mark.parametrize("damage", [
    "UPDATE rag_documents SET source = 'forged' WHERE id = 'd0'",
    "UPDATE rag_meta SET value = value || '0' WHERE key = 'content'",
    "UPDATE rag_meta SET value = 'text' WHERE key = 'content'",
    "UPDATE rag_meta SET value = ':' WHERE key = 'content'",
    "UPDATE rag_meta SET value = zeroblob(3) WHERE key = 'content_state'",
    "UPDATE rag_meta SET value = zeroblob(2048) WHERE key = 'content_state'",
    "UPDATE rag_meta SET value = 'text' WHERE key = 'content_state'",
    "DELETE FROM rag_meta WHERE key = 'content_state'",
    "UPDATE rag_meta SET value = value - 1 WHERE key = 'generation'",
    "UPDATE rag_meta SET value = 'x' WHERE key = 'generation'",
    "DELETE FROM rag_meta WHERE key = 'generation'",
])
def test_a_digest_that_is_not_that_of_the_documents_is_damage(lexical: Runtime, tmp_path: Path, damage: str) -> None:
    for document in DOCUMENTS:
        rag_ingest_document(PATH, document, 20).unwrap()
    assert problems() == ()
    lexical.close()
    with raw(tmp_path) as connection:
        connection.execute(damage)
    assert problems()[:1] == MISMATCH
    rag_compact(PATH).unwrap()
    if "= 'generation'" in damage and "- 1" not in damage:  # nothing to count on; the next write of a document says so
        assert digest() == ""
        assert rag_delete(PATH, "d1").error.code == "index_corrupt"  # type: ignore[union-attr]
    else:
        assert problems() == ()
        assert len(digest()) == 64


def test_without_either_fact_there_is_no_digest(lexical: Runtime, tmp_path: Path) -> None:
    rag_ingest(PATH, "d", "s", "words", 50)
    lexical.close()
    with raw(tmp_path) as connection:
        connection.execute("DELETE FROM rag_meta WHERE key IN ('generation', 'content', 'content_state')")
    assert (digest(), problems()) == ("", ())


@pytest.mark.parametrize("fact", ["content", "content_state"])
def test_half_of_the_facts_is_none_that_a_change_would_go_on_from(lexical: Runtime, tmp_path: Path, fact: str) -> None:
    for document in DOCUMENTS:
        rag_ingest_document(PATH, document, 20).unwrap()
        rag_ingest_document("twin.db", document, 20).unwrap()
    lexical.close()
    with raw(tmp_path) as connection:
        connection.execute("DELETE FROM rag_meta WHERE key = ?", (fact,))
    for path in (PATH, "twin.db"):
        rag_delete(path, "d3").unwrap()
    assert digest() == digest("twin.db") != ""
    assert problems() == ()


def test_damaged_text_is_hashed_all_the_same(lexical: Runtime, tmp_path: Path) -> None:
    rag_ingest(PATH, "d", "s", "words", 50)
    rag_ingest(PATH, "e", "s", "words", 50)
    lexical.close()
    with raw(tmp_path) as connection:
        connection.execute("UPDATE rag_documents SET media_type = CAST(x'ff' AS TEXT) WHERE id = 'd'")
        connection.execute("DELETE FROM rag_meta WHERE key = 'content'")
    rag_delete(PATH, "e").unwrap()
    assert len(digest()) == 64
    rag_delete(PATH, "d").unwrap()
    assert digest() == multiset.digest(bytes(multiset.STATE_BYTES))


def test_what_decides_the_answers_is_described_in_one_look(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as runtime:
        rag_ingest(PATH, "d", "s", "words", 50)
        with runtime.store.reading(PATH) as connection:
            assert content.describe(connection) == {"generation": 1, "content": digest(), "embedder": ""}
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()) as runtime:
        rag_reembed(PATH)
        with runtime.store.reading(PATH) as connection:
            assert content.describe(connection) == {
                "generation": 2, "content": digest(), "embedder": "hashing/words-sha256, 32 dimensions"}
        rag_delete(PATH, "d")
        with runtime.store.reading(PATH) as connection:
            described = content.describe(connection)
            assert described["embedder"] == rag_stats(PATH).unwrap().embedder == ""


@pytest.mark.parametrize(("damage", "shown"), [
    ("UPDATE rag_meta SET value = '{}' WHERE key = 'embedder'", "unreadable"),
    ("UPDATE rag_meta SET value = '{' WHERE key = 'embedder'", "unreadable"),
    ("DROP TABLE rag_vectors_rowids", ""),
    ("UPDATE rag_meta SET value = x'ff' WHERE key IN ('embedder', 'generation')", ""),
    ("UPDATE rag_meta SET value = CAST(x'ff' AS TEXT) WHERE key = 'embedder'", ""),
    ("UPDATE rag_meta SET value = 7 WHERE key = 'embedder'", ""),
])
def test_a_damaged_description_is_described_as_far_as_it_goes(hybrid: Runtime, tmp_path: Path, damage: str, shown: str) -> None:
    """What is recorded beside a call must not change how it ends."""
    rag_ingest(PATH, "d", "s", "words", 50)
    hybrid.close()
    with raw(tmp_path) as connection:
        if "DROP" in damage:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("DELETE FROM sqlite_schema WHERE name = 'rag_vectors_rowids'")
        else:
            connection.execute(damage)
    with hybrid.store.reading(PATH) as connection:
        described = content.describe(connection)
    assert described["embedder"] == shown
    assert isinstance(described["generation"], int)

