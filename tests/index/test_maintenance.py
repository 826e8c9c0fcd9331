"""compact, reembed and stats; R40: nothing of a deleted text is left."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest
from embedder_double import EmbedderDouble

from rag_stdlib import (
    Config,
    Err,
    Ok,
    Runtime,
    carry,
    rag_check,
    rag_compact,
    rag_delete,
    rag_ingest,
    rag_query,
    rag_reembed,
    rag_search,
    rag_stats,
)
from rag_stdlib.errors import Failure
from rag_stdlib.index import maintenance, schema, store, vectors
from rag_stdlib.index.store import Store
from rag_stdlib.options import QueryOptions
from rag_stdlib.records import Reembedded
from rag_stdlib.root import Root

PATH = "index.db"
CANARY = "xylophonecanary"


def bytes_left(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("way", ["delete", "replace", "reembed"])
def test_r40_after_compact_nothing_of_a_deleted_text_is_left(tmp_path: Path, way: str) -> None:
    embedder = EmbedderDouble(dim=48)
    secret = " ".join(f"{CANARY}{n} and what else is said here of it." for n in range(100))
    vectors = [row.tobytes() for row in embedder.embed([f"{CANARY}{n} and what else is said here of it." for n in range(100)], "passage")]
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        for n in range(30):
            rag_ingest(PATH, f"keep-{n}", "s", f"Other words number {n}. " * 30, 100)
        rag_ingest(PATH, CANARY, CANARY, secret, 60)
        stored = [chunk.text for chunk in rag_query(PATH, CANARY + "7", 1000, QueryOptions(doc_id=CANARY, mode="vector")).unwrap()]
        vectors += [row.tobytes() for row in embedder.embed(stored, "passage")]
        runtime.close()
        assert CANARY.encode() in bytes_left(tmp_path)
        stored_bytes = bytes_left(tmp_path)
        assert any(vector in stored_bytes for vector in vectors)
        before = (tmp_path / PATH).stat().st_size
        if way == "replace":
            rag_ingest(PATH, CANARY, "s", "Short.", 60)
            rag_ingest(PATH, CANARY.upper(), "s", "Short.", 60)
        rag_delete(PATH, CANARY)
    if way == "reembed":  # what is staged for a text goes too
        with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=48, model="m2")):
            assert rag_reembed(PATH).is_ok
    with Runtime(Config(), root=tmp_path, embedder=embedder):
        compacted = rag_compact(PATH).unwrap()
        for folder_open in (True, False):
            left = bytes_left(tmp_path)
            for text in (CANARY, CANARY.upper() if way != "replace" else CANARY, CANARY[:12], CANARY + "99"):
                assert text.encode() not in left, (text, folder_open)
            assert not any(vector in left for vector in vectors)
        assert compacted.bytes_after < compacted.bytes_before
        assert (tmp_path / PATH).stat().st_size < before
        assert rag_check(PATH).unwrap().problems == ()
        assert len(rag_query(PATH, "other words", 1000, QueryOptions(mode="lexical")).unwrap()) >= 30


@pytest.mark.parametrize("kept", [True, False])
def test_r40_compact_leaves_nothing_of_deleted_texts_in_the_staging_area(tmp_path: Path, kept: bool) -> None:
    texts = ["Secret words of old.", "Words that stay here."]
    other = EmbedderDouble(dim=48, model="m2")
    secret, stays = (other.embed([text], "passage")[0].tobytes() for text in texts)
    fill(tmp_path, EmbedderDouble(dim=48), 1)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=48)) as runtime:
        rag_delete(PATH, "d0")
        for name, text in zip(("secret", "stays"), texts, strict=True):
            rag_ingest(PATH, name, "s", text, 100)
        assert rag_stats(PATH).unwrap().notices == ()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(maintenance, "_switch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                maintenance.reembed(runtime.store, PATH, other)
        (notice,) = rag_stats(PATH).unwrap().notices
        assert notice == "a re-embedding by hashing/m2, 48 dimensions is unfinished (2 texts are staged); run reembed to finish it"
        rag_delete(PATH, "secret")
        if not kept:
            rag_delete(PATH, "stays")
        runtime.close()
        assert secret in bytes_left(tmp_path)
        assert rag_compact(PATH).is_ok
        assert secret not in bytes_left(tmp_path)
        assert (stays in bytes_left(tmp_path)) == kept
        assert ["(1 texts are staged)" in notice for notice in rag_stats(PATH).unwrap().notices] == [True] * kept
        assert rag_check(PATH).unwrap().clean
    asked = other.texts
    with Runtime(Config(), root=tmp_path, embedder=other):
        assert rag_reembed(PATH) == Ok(Reembedded(int(kept), 0))
        assert other.texts == asked  # what is still needed was not thrown away
        assert rag_stats(PATH).unwrap().notices == ()


def test_a_switch_takes_any_number_of_staged_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, EmbedderDouble(), 7)
    monkeypatch.setattr(maintenance, "SLICE", 2)
    new = EmbedderDouble(model="m2")
    with Runtime(Config(), root=tmp_path, embedder=new) as runtime:
        assert rag_reembed(PATH).is_ok
        with runtime.store.reading(PATH) as connection:
            seqs, rows = vectors.load(connection, 32)
            texts = dict(connection.execute("SELECT seq, text FROM rag_chunks"))
    assert len(seqs) == len(texts) > 7
    assert rows.tobytes() == new.embed([str(texts[seq]) for seq in seqs.tolist()], "passage").tobytes()


def test_compact_changes_no_answer(hybrid: Runtime) -> None:
    for n in range(10):
        rag_ingest(PATH, f"d{n}", "s", f"Words of number {n}. " * (n + 1), 40)
    rag_delete(PATH, "d3")
    before = [rag_query(PATH, "words number 5", 20, QueryOptions(mode=mode)).unwrap() for mode in ("lexical", "vector", "hybrid")]  # type: ignore[arg-type]
    assert rag_compact(PATH).is_ok
    assert [rag_query(PATH, "words number 5", 20, QueryOptions(mode=mode)).unwrap() for mode in ("lexical", "vector", "hybrid")] == before  # type: ignore[arg-type]
    assert rag_compact(PATH).is_ok
    assert hybrid.has_embedder


def test_r37_compact_of_a_lexical_or_empty_index(lexical: Runtime) -> None:
    missing = rag_compact(PATH)
    assert isinstance(missing, Err)
    assert missing.error.code == "index_missing"
    rag_ingest(PATH, "d", "s", "words", 10)
    rag_delete(PATH, "d")
    assert rag_compact(PATH).is_ok
    assert rag_check(PATH).unwrap().clean
    assert lexical.mode == "lexical"


def fill(root: Path, embedder: EmbedderDouble | None, count: int = 12) -> None:
    with Runtime(Config(), root=root, embedder=embedder):
        for n in range(count):
            assert rag_ingest(PATH, f"d{n}", "s", f"Words of document {n}. They are many, {n * n} in all.", 40).is_ok


def test_reembed_switches_the_model_at_once(tmp_path: Path) -> None:
    fill(tmp_path, EmbedderDouble())
    new = EmbedderDouble(dim=24, model="m2")
    progress: list[tuple[int, int]] = []
    with Runtime(Config(), root=tmp_path, embedder=new, progress=lambda *step: progress.append(step)):
        refused = rag_search(PATH, "words", 3)
        assert isinstance(refused, Err)
        assert refused.error.code == "embedding_mismatch"
        result = rag_reembed(PATH).unwrap()
        assert result.embedded == new.texts == progress[-1][0] == progress[-1][1]
        assert result.chunks == rag_stats(PATH).unwrap().vectors
        assert rag_check(PATH).unwrap().notices == ()
        assert "m2" in rag_stats(PATH).unwrap().embedder
        assert len(rag_search(PATH, "words", 3).unwrap()) == 3
        assert rag_reembed(PATH) == Ok(type(result)(result.chunks, 0))
    connection = apsw.Connection(str(tmp_path / PATH))
    assert connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE '%staging%'").fetchall() == []
    assert connection.execute("SELECT key FROM rag_meta WHERE key = 'staging'").fetchall() == []
    connection.close()


def test_reembed_equals_an_ingest_by_the_new_embedder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    fill(tmp_path / "a", None)
    fill(tmp_path / "b", EmbedderDouble())
    answers = []
    for name in ("a", "b"):
        with Runtime(Config(), root=tmp_path / name, embedder=EmbedderDouble()):
            assert rag_reembed(PATH).is_ok
            answers.append(rag_search(PATH, "words document 7", 50).unwrap())
    assert answers[0] == answers[1]


@pytest.mark.parametrize("good", [0, 3, 1_000_000])
def test_reembed_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: int) -> None:
    fill(tmp_path, EmbedderDouble())
    monkeypatch.setattr(maintenance, "SLICE", 3)
    new = EmbedderDouble(model="m2")
    new.fail_after = good
    with Runtime(Config(), root=tmp_path, embedder=new), monkeypatch.context() as patch:
        if good > 100:  # everything was staged, and then the switch was not reached

            def killed(*_args: object) -> bool:
                raise KeyboardInterrupt

            patch.setattr(maintenance, "_switch", killed)
            with pytest.raises(KeyboardInterrupt):
                rag_reembed(PATH)
        else:
            interrupted = rag_reembed(PATH)
            assert isinstance(interrupted, Err)
            assert interrupted.error.code == "embedder_failed"
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):  # the old state serves meanwhile
        assert len(rag_search(PATH, "words", 5).unwrap()) == 5
        assert rag_check(PATH).unwrap().problems == ()
    new.fail_after = None
    first = new.texts
    with Runtime(Config(), root=tmp_path, embedder=new):
        result = rag_reembed(PATH).unwrap()
        assert result.embedded == new.texts - first
        assert new.texts == len({text for _, texts in new.calls for text in texts})
        assert len(rag_search(PATH, "words", 5).unwrap()) == 5
        assert rag_check(PATH).unwrap().notices == ()


def test_reembed_takes_in_what_is_ingested_meanwhile(tmp_path: Path) -> None:
    fill(tmp_path, EmbedderDouble())
    done = []

    def meanwhile(_texts: Sequence[str]) -> None:
        if not done:
            done.append(1)
            with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
                rag_ingest(PATH, "late", "s", "A late document of new words.", 40)
                rag_delete(PATH, "d1")

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(model="m2", before=meanwhile)):
        assert rag_reembed(PATH).is_ok
        assert rag_check(PATH).unwrap().notices == ()
        assert rag_query(PATH, "late document", 1, QueryOptions(mode="vector")).unwrap()[0].doc_id == "late"


def test_two_reembeds_at_once_never_mix_two_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, EmbedderDouble())
    monkeypatch.setattr(maintenance, "SLICE", 4)
    done = []

    def meanwhile(_texts: Sequence[str]) -> None:
        if not done:
            done.append(1)
            store = Store(Root(str(tmp_path)))
            other = EmbedderDouble(model="m3")
            other.fail_after = 4
            with pytest.raises(Failure):
                maintenance.reembed(store, PATH, other)
            store.close()

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(model="m2", before=meanwhile)):
        result = rag_reembed(PATH)
        assert isinstance(result, Err)
        assert result.error.code == "embedding_mismatch"
        assert "m3" in result.error
        assert rag_reembed(PATH).is_ok  # begun anew, it takes over
        assert rag_check(PATH).unwrap().notices == ()


def test_two_reembeds_of_one_model_share_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, EmbedderDouble())
    monkeypatch.setattr(maintenance, "SLICE", 4)
    done = []

    def meanwhile(_texts: Sequence[str]) -> None:
        if not done:
            done.append(1)
            store = Store(Root(str(tmp_path)))
            maintenance.reembed(store, PATH, EmbedderDouble(model="m2"))
            store.close()

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(model="m2", before=meanwhile)):
        assert rag_reembed(PATH).is_ok
        assert rag_check(PATH).unwrap().notices == ()
        assert len(rag_search(PATH, "words", 5).unwrap()) == 5


def test_the_staging_area_is_looked_at_again_after_it_was_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, EmbedderDouble())
    store, distinct, done = Store(Root(str(tmp_path))), maintenance._is_staging, []

    def gone_once(connection: apsw.Connection, identity: object) -> bool:
        answer = distinct(connection, identity)  # type: ignore[arg-type]
        if answer and not done:
            done.append(1)
            return False
        return answer

    monkeypatch.setattr(maintenance, "_is_staging", gone_once)
    assert maintenance.reembed(store, PATH, EmbedderDouble(model="m2")).chunks > 12
    store.close()


def test_reembed_of_no_chunks_and_without_an_embedder(tmp_path: Path, embedder: EmbedderDouble) -> None:
    with Runtime(Config(), root=tmp_path):
        rag_ingest(PATH, "d", "s", "  ", 40)
        refused = rag_reembed(PATH)
        assert isinstance(refused, Err)
        assert refused.error.code == "embedder_unconfigured"
    with Runtime(Config(), root=tmp_path, embedder=embedder):
        assert (rag_reembed(PATH).unwrap().chunks, embedder.calls) == (0, [])
        missing = rag_reembed("missing.db")
        assert isinstance(missing, Err)
        assert missing.error.code == "index_missing"
        assert rag_check(PATH).unwrap() == rag_check(PATH).unwrap()


def test_stats_tell_what_is_there(tmp_path: Path) -> None:
    fill(tmp_path, EmbedderDouble(), 3)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        stats = rag_stats(PATH).unwrap()
        assert (stats.documents, stats.vectors, stats.generation, stats.schema_version) == (3, stats.chunks, 3, schema.SCHEMA_VERSION)
        assert (stats.journal_mode, stats.notices) == ("wal", ())
        assert stats.file_bytes == (tmp_path / PATH).stat().st_size
        assert stats.text_bytes == sum(len(f"Words of document {n}. They are many, {n * n} in all.") for n in range(3))
        assert stats.embedder == "hashing/words-sha256, 32 dimensions"


def test_a_long_log_is_cut_after_a_commit_unless_a_reader_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_WAL_LIMIT_BYTES", 1_000_000)
    log = tmp_path / f"{PATH}-wal"
    big = "Some words of a long text. " * 22_000
    with Runtime(Config(), root=tmp_path) as runtime:
        rag_ingest(PATH, "d", "s", "words", 500)
        with runtime.store.reading(PATH):
            done: list[object] = []
            thread = threading.Thread(target=carry(lambda: done.append(rag_ingest(PATH, "big", "s", big, 500))))
            thread.start()
            thread.join()
            assert isinstance(done[0], Ok)
            assert log.stat().st_size > 1_000_000
        rag_ingest(PATH, "e", "s", "words", 500)
        assert log.stat().st_size == 0
