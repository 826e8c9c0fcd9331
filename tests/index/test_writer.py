"""F1 and F2: documents go in and out whole, or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest
from asking import LONG, PATH, clean, error_of, ids
from embedder_double import EmbedderDouble

from rag_stdlib import (
    Config,
    Err,
    Ok,
    RagDocumentEnvelope,
    Result,
    Runtime,
    rag_check,
    rag_compact,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_query,
    rag_search,
    rag_stats,
)
from rag_stdlib.index import store as store_module
from rag_stdlib.index import vectors
from rag_stdlib.options import QueryOptions


@pytest.mark.parametrize(("first", "second"), [(LONG, LONG + " More."), (LONG, "Sentence."), ("Sentence.", LONG), (LONG, " \n ")])
def test_r1_r2_reingest_replaces_every_part_as_often_as_you_like(hybrid: Runtime, first: str, second: str) -> None:
    for turn in range(3):
        for text in (first, second):
            chunks = rag_ingest(PATH, "d", "s", text, 80).unwrap()
            stats = rag_stats(PATH).unwrap()
            assert (stats.documents, stats.chunks, stats.vectors) == (1, chunks, chunks), turn
            assert ids() == ids("vector") == {f"d:{ordinal}" for ordinal in range(chunks)}
    assert clean()
    assert hybrid.has_embedder


def test_r5_keys_hold_in_ordinary_tables(hybrid: Runtime, tmp_path: Path) -> None:
    rag_ingest(PATH, "d", "s", LONG, 80)
    hybrid.close()
    connection = apsw.Connection(str(tmp_path / PATH))
    for statement in ("INSERT INTO rag_documents SELECT * FROM rag_documents",
                      ("INSERT INTO rag_chunks SELECT seq + 1000, chunk_id, doc_id, source, text, start_char, end_char, provenance_key, "
                       "ordinal, start_byte, end_byte, start_line, end_line, page, content_sha256, context FROM rag_chunks")):
        with pytest.raises(apsw.ConstraintError):
            connection.execute(statement)
    connection.close()


def test_r6_r8_r9_a_limit_above_every_engines_cap_is_answered_exactly(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=4)):
        text = " ".join(f"w{n}x" for n in range(5_000))
        chunks = rag_ingest(PATH, "d", "s", text, 6).unwrap()
        assert chunks > 5_000
        rag_ingest(PATH, "wanted", "wanted source", "w1x", 6)
        for limit in (4_096, 4_097, 5_000, 2**62):
            for mode in ("vector", "hybrid"):
                found = rag_query(PATH, "w1x", limit, QueryOptions(mode=mode)).unwrap()
                assert len(found) == min(limit, chunks + 1)
        filtered = rag_query(PATH, "w4000x", 1, QueryOptions(mode="vector", source="wanted source")).unwrap()
        assert [chunk.doc_id for chunk in filtered] == ["wanted"]
        for limit in (0, -1, -(2**63)):
            assert error_of(rag_search(PATH, "w1x", limit)) == "invalid_limit"


def test_r12_r13_r14_nothing_that_is_no_direction_is_stored_or_ranked(hybrid: Runtime, embedder: EmbedderDouble,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    assert rag_ingest(PATH, "blank", "s", " \n\t ", 10) == Ok(0)
    assert rag_ingest(PATH, "d", "s", "some words", 10) == Ok(1)
    assert [texts for _, texts in embedder.calls] == [("some words",)]  # blanks were never sent
    monkeypatch.setattr(embedder, "embed", lambda texts, _role: np.zeros((len(texts), 32), np.float32))
    for mode in ("vector", "hybrid"):
        assert error_of(rag_query(PATH, "words", 3, QueryOptions(mode=mode))) == "zero_query_vector"
    assert len(rag_query(PATH, "words", 3, QueryOptions(mode="lexical")).unwrap()) == 1
    assert hybrid.mode == "hybrid"


def test_r16_r17_r18_another_embedder_is_refused_and_drops_nothing(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        rag_ingest(PATH, "d", "s", LONG, 80)
    for other in (EmbedderDouble(dim=16), EmbedderDouble(model="other"), EmbedderDouble(dim=64)):
        with Runtime(Config(), root=tmp_path, embedder=other):
            results: list[Result[object]] = [rag_ingest(PATH, "e", "s", "text", 80), rag_ingest(PATH, "d", "s", LONG, 80),
                                             rag_search(PATH, "sentence", 3)]
            for result in results:
                assert isinstance(result, Err)
                assert result.error.code == "embedding_mismatch"
                assert "hashing/words-sha256, 32 dimensions" in result.error
                assert other.identity().describe() in result.error
                assert "rag reembed index.db" in result.error
            assert other.calls == []
            assert len(rag_query(PATH, "sentence", 3, QueryOptions(mode="lexical")).unwrap()) == 3
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        assert clean()
        assert len(ids("vector")) == len(ids())


def test_an_emptied_index_takes_another_embedder(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        rag_ingest(PATH, "d", "s", LONG, 80)
        rag_delete(PATH, "d")
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=16)):
        assert rag_search(PATH, "sentence", 3) == Ok([])
        assert rag_ingest(PATH, "d", "s", LONG, 80).is_ok
        assert clean()
        assert "16 dimensions" in rag_stats(PATH).unwrap().embedder


def test_chunks_without_vectors_are_named_with_the_command_and_never_hidden(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path):
        count = rag_ingest(PATH, "old", "s", LONG, 80).unwrap()
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        for _ in range(2):
            result = rag_search(PATH, "sentence", 3)
            assert isinstance(result, Err)
            assert result.error.code == "vectors_missing"
            assert f"{count} of " in result.error
            assert "rag reembed index.db" in result.error
            assert "hashing/words-sha256, 32 dimensions" in result.error
            rag_ingest(PATH, "new", "s", "new words", 80)
        assert rag_check(PATH).unwrap().notices
        assert rag_stats(PATH).unwrap().notices
        assert rag_ingest(PATH, "old", "s", LONG, 80) == Ok(count)  # stored just so, but for its vectors
        assert clean()
        assert rag_search(PATH, "sentence", 3).is_ok


def test_r24_r112_chunks_of_equal_text_are_distinct(hybrid: Runtime) -> None:
    for name in ("a", "b", "c"):
        rag_ingest(PATH, name, "s", "Equal sentence here.", 80)
    assert ids() == ids("vector") == {"a:0", "b:0", "c:0"}
    assert rag_delete(PATH, "b") == Ok(1)
    assert ids() == ids("vector") == ids("hybrid") == {"a:0", "c:0"}
    assert clean()
    assert hybrid.has_embedder


def test_r25_counts_come_from_one_place_and_are_held_against_the_others(hybrid: Runtime, tmp_path: Path) -> None:
    chunks = rag_ingest(PATH, "d", "s", LONG, 80).unwrap()
    hybrid.close()
    connection = apsw.Connection(str(tmp_path / PATH))
    seq, text = connection.execute("SELECT seq, text FROM rag_chunks LIMIT 1").fetchall()[0]
    from rag_stdlib.index import lexical

    lexical.remove(connection, [(int(str(seq)), str(text))])
    vectors.load_extension(connection)
    vectors.remove(connection, [int(str(seq))])
    connection.close()
    stats = rag_stats(PATH).unwrap()
    assert (stats.chunks, stats.vectors) == (chunks, chunks - 1)
    assert any(f"{chunks - 1} rows for {chunks} chunks" in notice for notice in stats.notices)
    assert any(" chunks have no vector" in notice and notice.startswith("1 of ") for notice in stats.notices)


def test_r32_no_lock_is_held_while_texts_are_embedded(tmp_path: Path) -> None:
    embedding, finish = threading.Event(), threading.Event()

    def slow(texts: Sequence[str]) -> None:
        if "slow" in texts[0]:
            embedding.set()
            assert finish.wait(10)

    from rag_stdlib import carry

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=slow)):
        rag_ingest(PATH, "first", "s", "text", 80)
        results: list[Result[int]] = []
        thread = threading.Thread(target=carry(lambda: results.append(rag_ingest(PATH, "slow", "s", "slow text", 80))))
        thread.start()
        assert embedding.wait(10)
        assert rag_ingest(PATH, "other", "s", "other text", 80).is_ok
        assert error_of(rag_get(PATH, "slow")) == "not_found"
        assert rag_compact(PATH).is_ok  # neither a writer's lock nor an old snapshot is in the way
        finish.set()
        thread.join()
        assert results == [Ok(1)]
        assert clean()


@pytest.mark.parametrize("fail_after", [0, 1, 5])
def test_r42_r96_r114_a_failing_embedder_leaves_the_old_document(hybrid: Runtime, embedder: EmbedderDouble, fail_after: int) -> None:
    chunks = rag_ingest(PATH, "d", "old", LONG, 80).unwrap()
    before = rag_search(PATH, "sentence", 100).unwrap()
    changed = LONG.replace("topic", "subject")
    embedder.fail_after = fail_after
    result = rag_ingest(PATH, "d", "new", changed, 80)
    assert isinstance(result, Err)
    assert result.error.code == "embedder_failed"
    assert error_of(rag_ingest(PATH, "e", "new", changed, 80)) == "embedder_failed"
    embedder.fail_after = None
    assert rag_search(PATH, "sentence", 100).unwrap() == before
    assert rag_stats(PATH).unwrap().documents == 1
    assert clean()
    assert rag_ingest(PATH, "d", "new", changed, 80) == Ok(chunks)
    assert {chunk.source for chunk in rag_search(PATH, "sentence", 100).unwrap()} == {"new"}
    assert hybrid.has_embedder


def test_a_failing_embedder_makes_no_file(hybrid: Runtime, embedder: EmbedderDouble, tmp_path: Path) -> None:
    embedder.fail_after = 0
    assert error_of(rag_ingest(PATH, "d", "s", LONG, 80)) == "embedder_failed"
    assert list(tmp_path.iterdir()) == []
    assert hybrid.has_embedder


def test_a_full_disk_leaves_the_old_document(hybrid: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    rag_ingest(PATH, "d", "old", LONG, 80)
    before = rag_search(PATH, "sentence", 100).unwrap()
    hybrid.close()
    configure = store_module.configure

    def small(connection: apsw.Connection, synchronous: store_module.Synchronous) -> None:
        configure(connection, synchronous)
        connection.pragma("max_page_count", connection.pragma("page_count") + 2)

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "configure", small)
        for doc_id in ("d", "e"):
            result = rag_ingest(PATH, doc_id, "new", LONG * 40, 80)
            assert isinstance(result, Err)
            assert result.error.code == "disk_full"
            assert "unchanged" in result.error
        assert rag_search(PATH, "sentence", 100).unwrap() == before
        hybrid.close()
    assert clean()
    assert rag_ingest(PATH, "d", "new", LONG * 40, 80).is_ok


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system of one megabyte needs root")
def test_a_really_full_file_system_leaves_the_old_document(tmp_path: Path) -> None:
    import subprocess

    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("this system lets nobody mount a small file system")
    try:
        with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
            assert rag_ingest(PATH, "d", "old", LONG, 80).is_ok
            refused = 0
            for number in range(60):
                result = rag_ingest(PATH, f"more-{number}", "new", LONG + str(number), 80)
                if isinstance(result, Err):
                    assert result.error.code in ("disk_full", "index_io")
                    refused += 1
            assert refused
            report = rag_check(PATH).unwrap()
            assert report.problems == ()
            assert report.documents == 61 - refused
            document = rag_get(PATH, "d").unwrap()
            assert isinstance(document, RagDocumentEnvelope)
            assert document.text == LONG
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
