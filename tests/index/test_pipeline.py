"""Many documents at once: what is stored is what one call for each would store, and nothing outlives the call."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from embedder_double import EmbedderDouble
from hypothesis import given, settings
from hypothesis import strategies as st
from many_documents import PATH, documents, make_groups_small, text_of, writers

from rag_stdlib import (
    ChunkOptions,
    Config,
    Err,
    Ok,
    Runtime,
    SourceDocument,
    arag_ingest_many,
    rag_check,
    rag_get,
    rag_ingest_document,
    rag_ingest_many,
    rag_stats,
)
from rag_stdlib.errors import fail
from rag_stdlib.index import lexical, pipeline, vectors, writer
from rag_stdlib.text import chunker


def held(runtime: Runtime, dim: int = 32) -> tuple[list[Any], list[Any], dict[str, bytes]]:
    """Return everything that is stored, by names instead of numbers."""
    with runtime.store.reading(PATH) as connection:
        stored = connection.execute("SELECT * FROM rag_documents ORDER BY id").fetchall()
        chunks = connection.execute("SELECT chunk_id, doc_id, source, text, start_char, end_char, provenance_key, ordinal, start_byte, "
                                    "end_byte, start_line, end_line, page, content_sha256, context FROM rag_chunks ORDER BY 1").fetchall()
        names = dict(connection.execute("SELECT seq, chunk_id FROM rag_chunks").fetchall())
        seqs, rows = vectors.load(connection, dim)
    return stored, chunks, {str(names[seq]): row.tobytes() for seq, row in zip(seqs.tolist(), rows, strict=True)}


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    make_groups_small(monkeypatch)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    yield
    assert writers() == []


DOCUMENTS = st.lists(st.builds(
    SourceDocument, st.sampled_from(["a", "b", "c", "\u00e9", "e\u0301"]), st.sampled_from(["s", "t"]),
    st.text(st.sampled_from("ab .\n\u4e2d\u00e9#|"), max_size=120), st.sampled_from(["text/plain", "text/markdown"]),
    st.sampled_from([{}, {"a": 1}]), st.sampled_from([(), ((0, 5),)]), st.sampled_from([(), ((0, 1), (9, 2))])), max_size=8)


@settings(max_examples=40, deadline=None)
@given(before=DOCUMENTS, given_documents=DOCUMENTS, size=st.sampled_from([1, 6, 1_000]), markdown=st.booleans(), embedding=st.booleans())
def test_many_at_once_are_stored_as_one_after_the_other(before: list[SourceDocument], given_documents: list[SourceDocument],
                                                        size: int, markdown: bool, embedding: bool) -> None:
    options = ChunkOptions(markdown=markdown, graphemes=True)
    embedder = EmbedderDouble() if embedding else None
    with TemporaryDirectory() as one, TemporaryDirectory() as other, pytest.MonkeyPatch.context() as patch:
        make_groups_small(patch, size)
        with Runtime(Config(), root=one, embedder=embedder) as runtime:
            for document in before:
                rag_ingest_document(PATH, document, 20, options).unwrap()
            done = rag_ingest_many(PATH, given_documents, 20, options)
            assert rag_check(PATH).unwrap().clean if before or given_documents else True
            many = held(runtime) if before or given_documents else None
            stats = rag_stats(PATH)
        with Runtime(Config(), root=other, embedder=embedder) as runtime:
            for document in before:
                rag_ingest_document(PATH, document, 20, options).unwrap()
            singly = [rag_ingest_document(PATH, document, 20, options).unwrap() for document in given_documents]
            assert done.unwrap() == singly
            if many is not None:
                assert held(runtime) == many
                assert rag_stats(PATH).unwrap().content == stats.unwrap().content


@pytest.mark.usefixtures("small_groups")
def test_groups_are_written_in_order_and_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    embedder = EmbedderDouble()
    with Runtime(Config(), root=tmp_path, embedder=embedder, progress=lambda done, total: told.append((done, total))) as runtime:
        given_documents = documents(20)
        done = rag_ingest_many(PATH, given_documents, 60)
        assert len(done.unwrap()) == 20
        assert told[-1] == (20, 20)
        assert len(told) > 3
        assert told == sorted(told)
        assert all(total == 20 for _, total in told)
        assert rag_stats(PATH).unwrap().generation == 20, "each document is a step"
        assert rag_check(PATH).unwrap().clean
        texts = embedder.texts
        again = rag_ingest_many(PATH, given_documents, 60)
        assert again == done
        assert again.notes == ("unchanged: " + ",".join(map(str, range(20))),)
        assert embedder.texts == texts
        changed = [*given_documents[:3], SourceDocument("d3", "s3", text_of(3) + " And more."), *given_documents[4:]]
        assert rag_ingest_many(PATH, changed, 60).notes == ("unchanged: " + ",".join(map(str, [*range(3), *range(4, 20)])),)
        assert 1 <= embedder.texts - texts <= 2, "the other chunks keep their vectors"
        with runtime.store.reading(PATH) as connection:
            ranges = connection.execute("SELECT max(seq) - min(seq) + 1 - count(*) FROM rag_chunks GROUP BY doc_id").fetchall()
        assert set(ranges) == {(0,)}, "a document's chunks stand side by side"


@pytest.mark.usefixtures("small_groups")
def test_the_next_group_is_embedded_while_one_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first group's writing waits until the embedder has been asked for the second group's texts."""
    asked = threading.Event()
    threads: list[str] = []
    write = writer.write

    def waiting(*arguments: Any) -> None:
        threads.append(threading.current_thread().name)
        assert len(threads) > 1 or asked.wait(20), "nothing was embedded meanwhile"
        write(*arguments)

    def before(texts: Sequence[str]) -> None:
        if any("document 9" in text for text in texts):
            asked.set()

    monkeypatch.setattr(pipeline, "write", waiting)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=before)):
        given_documents = [*documents(1, 60), SourceDocument("d9", "s", text_of(9, 60))]
        assert rag_ingest_many(PATH, given_documents, 60).is_ok
        assert threads == ["rag-write"] * 2
        assert rag_check(PATH).unwrap().clean


CONTEXT: ContextVar[str] = ContextVar("test_pipeline_context", default="none")


def test_the_writing_thread_is_in_the_callers_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    write = writer.write

    def noting(*arguments: Any) -> None:
        seen.append(CONTEXT.get())
        write(*arguments)

    monkeypatch.setattr(pipeline, "write", noting)
    token = CONTEXT.set("the caller's")
    try:
        with Runtime(Config(), root=tmp_path):
            rag_ingest_many(PATH, documents(1), 60).unwrap()
    finally:
        CONTEXT.reset(token)
    assert seen == ["the caller's"]


def test_a_document_that_cannot_be_taken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunker, "MAX_CHUNKS", 100)
    with Runtime(Config(), root=tmp_path):
        for bad, code in ((SourceDocument("b", "s", "a\0b"), "text_nul"), (SourceDocument(" ", "s", "t"), "invalid_doc_id"),
                          (SourceDocument("b", "s", "w " * 101), "too_many_chunks")):
            assert not rag_stats(PATH).is_ok, "nothing was made"
            refused = rag_ingest_many(PATH, [SourceDocument("a", "s", "fine"), bad], 1)
            assert isinstance(refused, Err)
            assert refused.error.code == code
            assert str(refused.error).startswith(f"document {bad.doc_id!r}: ")
        assert rag_ingest_many(PATH, [SourceDocument("a", "s", "fine")], 0).error.code == "invalid_chunk_chars"  # type: ignore[union-attr]
        assert rag_ingest_many(PATH, [], 5) == Ok([])


@pytest.mark.usefixtures("small_groups")
def test_a_group_that_cannot_be_written_ends_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, calls = writer.write, []

    def full(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise fail("disk_full", path=PATH)
        write(*arguments)

    monkeypatch.setattr(pipeline, "write", full)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        refused = rag_ingest_many(PATH, documents(20), 60)
        assert isinstance(refused, Err)
        assert refused.error.code == "disk_full"
        assert len(calls) == 2
        assert rag_check(PATH).unwrap().clean
        assert rag_get(PATH, "d0").is_ok
        assert not rag_get(PATH, "d19").is_ok


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("failing", [False, True])
def test_ctrl_c_waits_for_what_is_being_written_and_is_never_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                    failing: bool) -> None:
    begun, stopped = threading.Event(), threading.Event()
    write = writer.write

    def slow(*arguments: Any) -> None:
        begun.set()
        assert stopped.wait(20)
        if failing:
            raise fail("disk_full", path=PATH)
        write(*arguments)

    def before(texts: Sequence[str]) -> None:
        if any("document 5" in text for text in texts):
            assert begun.wait(20)
            stopped.set()
            raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "write", slow)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=before)):
        with pytest.raises(KeyboardInterrupt):
            rag_ingest_many(PATH, [*documents(1, 60), SourceDocument("d5", "s", text_of(5, 60))], 60)
        assert rag_get(PATH, "d0").is_ok == (not failing)
        assert failing or rag_check(PATH).unwrap().clean


def test_ctrl_c_while_waiting_for_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    writing = pipeline._Writing(lambda: go.wait(20) and None)  # type: ignore[func-returns-value]
    join, calls = threading.Thread.join, []

    def interrupted(self: threading.Thread, timeout: float | None = None) -> None:
        calls.append(timeout)
        if len(calls) == 1:
            raise KeyboardInterrupt
        go.set()
        join(self, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writing.wait()
    assert len(calls) == 2


@pytest.mark.usefixtures("small_groups")
def test_a_fork_in_the_middle_waits_for_the_writer(tmp_path: Path) -> None:
    """An embedder that forks: the child can open the index."""
    status: list[int] = []

    def before(texts: Sequence[str]) -> None:
        if any("document 5" in text for text in texts):
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if rag_stats(PATH).is_ok else 7)
                finally:
                    os._exit(8)
            status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=before)):
        rag_ingest_many(PATH, [*documents(1, 60), SourceDocument("d5", "s", text_of(5, 60))], 60).unwrap()
        assert status
        assert set(status) == {0}
        assert rag_check(PATH).unwrap().clean


def test_groups_get_smaller_for_long_vectors_and_slow_embedders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    write = writer.write

    def noting(*arguments: Any) -> None:
        sizes.append(sum(document.chunks for document in arguments[2]))
        write(*arguments)

    monkeypatch.setattr(pipeline, "write", noting)
    monkeypatch.setattr(pipeline, "MOST_BYTES", 100 * (1_400 + 4 * 512))
    given_documents = documents(40, 40)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=512)):
        rag_ingest_many("long.db", given_documents, 60).unwrap()
    assert 10 < max(sizes) <= 200, "a group is of about a hundred chunks"
    assert len(sizes) >= 10
    sizes.clear()
    monkeypatch.setattr(pipeline, "_GROUP_SECONDS", 0.0)
    for name, size in (("FIRST_CHUNKS", 400), ("LEAST_CHUNKS", 100)):
        monkeypatch.setattr(pipeline, name, size)
    with Runtime(Config(), root=tmp_path):
        rag_ingest_many("slow.db", given_documents, 60).unwrap()
    assert sizes[0] > 200
    assert max(sizes[2:]) <= 200, "as slow as can be"
    monkeypatch.setattr(pipeline, "MOST_CHARS", 1)
    sizes.clear()
    with Runtime(Config(), root=tmp_path):
        rag_ingest_many("single.db", given_documents[:3], 60).unwrap()
    assert len(sizes) == 3


def test_the_same_id_looks_like_another(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path):
        done = rag_ingest_many(PATH, [SourceDocument("caf\u00e9", "s", "one"), SourceDocument("cafe\u0301", "s", "two")], 10)
    assert [note.partition(":")[0] for note in done.notes] == [  # type: ignore[union-attr]
        "document 'caf\\xe9'", "document 'cafe\\u0301'"]


async def _twin(path: str) -> Any:
    return await arag_ingest_many(path, documents(2), 60)


def test_the_twin_for_asyncio(tmp_path: Path) -> None:
    import asyncio

    with Runtime(Config(), root=tmp_path):
        assert len(asyncio.run(_twin(PATH)).unwrap()) == 2


@pytest.mark.parametrize("arrays", [False, True])
def test_many_terms_at_once_with_and_without_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: bool) -> None:
    """Not every SQLite takes arrays; every wheel's does."""
    assert lexical.HAS_ARRAYS
    monkeypatch.setattr(lexical, "HAS_ARRAYS", arrays)
    with Runtime(Config(), root=tmp_path):
        assert sum(rag_ingest_many(PATH, documents(10, 60), 30).unwrap()) > lexical._MANY
        assert rag_check(PATH).unwrap().clean


