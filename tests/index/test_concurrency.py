"""Many threads, many processes, and processes that fork, on one file."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from embedder_double import EmbedderDouble
from writing_child import PATH, text_of

from rag_stdlib import (
    Config,
    Err,
    Ok,
    RagDocumentEnvelope,
    Runtime,
    carry,
    rag_check,
    rag_compact,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_query,
    rag_search,
    rag_stats,
)
from rag_stdlib.index.store import Store
from rag_stdlib.options import QueryOptions
from rag_stdlib.root import Root

TESTS = Path(__file__).parent.parent
SECONDS = 4  # some hundred transactions of eight processes on two processors
READER = """
import sys, time
sys.path.insert(0, {tests!r})
from embedder_double import EmbedderDouble
from rag_stdlib import Config, Ok, Runtime, chunk_in_index, chunk_is_grounded, rag_query, QueryOptions
count, bad = 0, []
with Runtime(Config(), root={root!r}, embedder=EmbedderDouble()):
    end = time.monotonic() + {seconds}
    while time.monotonic() < end:
        result = rag_query("index.db", "sentence says", 20, QueryOptions(mode=("hybrid", "vector", "lexical")[count % 3]))
        if isinstance(result, Ok):
            bad += [c.chunk_id for c in result.value if not chunk_is_grounded(c)]
            scores = [c.score for c in result.value]
            bad += [] if scores == sorted(scores, reverse=True) else ["order"]
            count += 1
        elif result.error.code != "index_missing":
            bad.append(str(result.error))
print(count, bad)
"""
WRITER = """
import json, sys, time
sys.path.insert(0, {tests!r}); sys.path.insert(0, {tests!r} + "/index")
from embedder_double import EmbedderDouble
from writing_child import text_of
from rag_stdlib import Config, Ok, Runtime, rag_delete, rag_ingest
have, busy, bad, version = {{}}, 0, [], 1
with Runtime(Config(), root={root!r}, embedder=EmbedderDouble()):
    end = time.monotonic() + {seconds}
    while time.monotonic() < end:
        version += 1
        name = "w{number}-" + str(version % 40)
        if version % 7 == 3 and have.get(name):
            result, now = rag_delete("index.db", name), 0
        else:
            result, now = rag_ingest("index.db", name, "v" + str(version), text_of(name, version), 60), version
        if isinstance(result, Ok):
            have[name] = now
        elif result.error.code == "busy":
            busy += 1
        else:
            bad.append(str(result.error))
print(json.dumps([have, busy, bad]))
"""


def start(program: str, **values: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program.format(tests=str(TESTS), **values)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_r26_four_writing_and_four_reading_processes_lose_nothing(tmp_path: Path) -> None:
    writers = [start(WRITER, root=str(tmp_path), seconds=SECONDS, number=number) for number in range(4)]
    readers = [start(READER, root=str(tmp_path), seconds=SECONDS) for _ in range(4)]
    written = [json.loads(child.communicate(timeout=100)[0]) for child in writers]
    read = [child.communicate(timeout=100)[0] for child in readers]
    assert sum(busy for _, busy, _ in written) <= 2  # each a bounded wait of ten seconds, and an Err that says so
    assert [bad for _, _, bad in written] == [[], [], [], []]
    for line in read:
        count, bad = line.split(" ", 1)
        assert int(count) > 10
        assert bad == "[]\n"
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        report = rag_check(PATH).unwrap()
        assert (report.problems, report.notices) == ((), ())
        expected = {name: version for have, _, _ in written for name, version in have.items() if version}
        assert len(expected) == report.documents
        for name, version in expected.items():
            match rag_get(PATH, name):
                case Ok(RagDocumentEnvelope() as document):
                    assert (document.source, document.text) == (f"v{version}", text_of(name, version))
                case other:
                    raise AssertionError(other)
    assert [path.name for path in tmp_path.iterdir()] == [PATH]


def test_r33_r34_eight_processes_make_one_file_at_once(tmp_path: Path) -> None:
    program = """
import sys
sys.path.insert(0, {tests!r})
from embedder_double import EmbedderDouble
from rag_stdlib import Config, Runtime, rag_ingest
import numpy, sqlite_vec
with Runtime(Config(), root={root!r}, embedder=EmbedderDouble()):
    rag_ingest("warm{number}.db", "d", "s", "warm", 10)
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(5):
        for name in "abc":
            result = rag_ingest(name + str(turn) + ".db", "doc{number}", "s", "written by number {number}", 10)
            assert result.is_ok, result
"""
    children = [start(program, root=str(tmp_path), number=number) for number in range(8)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=60)
    assert [child.returncode for child in children] == [0] * 8
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        for turn in range(5):
            for name in "abc":
                report = rag_check(f"{name}{turn}.db").unwrap()
                assert (report.documents, report.problems) == (8, ())
                assert rag_stats(f"{name}{turn}.db").unwrap().journal_mode == "wal"


def test_r30_threads_share_one_runtime(hybrid: Runtime) -> None:
    def work(number: int) -> list[str]:
        wrong = []
        for turn in range(15):
            name = f"t{number}-{turn % 5}"
            wrong += [str(r.error) for r in (rag_ingest(PATH, name, "s", text_of(name, turn), 60),) if isinstance(r, Err)]
            found = rag_query(PATH, f"Sentence of {name}", 500, QueryOptions(mode=("lexical", "vector")[turn % 2]))
            if isinstance(found, Err) or not any(chunk.doc_id == name for chunk in found.value):
                wrong.append(f"{name} is not found in {found}")
            if turn % 10 == 9:
                wrong += [] if rag_delete(PATH, name).is_ok else ["not deleted"]
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert [wrong for wrong in pool.map(carry(work), range(8)) if wrong] == []
    report = rag_check(PATH).unwrap()
    assert (report.documents, report.problems) == (8 * 5, ())
    assert hybrid.store is hybrid.store


def open_files() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_connections_and_descriptors_are_given_back(tmp_path: Path) -> None:
    before = open_files()
    for turn in range(3):
        with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()) as runtime:
            rag_ingest(PATH, "d", "s", f"some text {turn}", 100)
            for path in ("missing.db", "no/folder.db", "../out.db", "index.db-wal"):
                assert not rag_search(path, "text", 3).is_ok
                assert not rag_ingest(path, "", "s", "text", 3).is_ok
            (tmp_path / "text.db").write_text("this is no database, but it is longer than a header of one hundred bytes " * 3)
            for _ in range(20):
                assert rag_search("text.db", "text", 3).error.code == "not_an_index"
                assert rag_ingest("text.db", "d", "s", "text", 3).error.code == "not_an_index"
                assert rag_search(PATH, "text", 3).is_ok
                assert rag_get(PATH, "nobody").error.code == "not_found"
            with ThreadPoolExecutor(8) as pool:
                assert all(result.is_ok for result in pool.map(carry(lambda _: rag_search(PATH, "text", 3)), range(64)))
            assert open_files() - before < 8 * 4 + 8
            del runtime
        assert open_files() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [PATH, "text.db"]


def test_closing_while_in_use_leaves_no_connection_behind(tmp_path: Path) -> None:
    before = open_files()
    store = Store(Root(str(tmp_path)))
    with store.writing(PATH, create=True):
        store.close()
    assert open_files() == before
    with store.reading(PATH) as connection:
        assert connection.execute("SELECT count(*) FROM rag_chunks").fetchall() == [(0,)]
    assert open_files() == before
    assert [path.name for path in tmp_path.iterdir()] == [PATH]


def test_an_interrupt_inside_a_transaction_rolls_it_back(tmp_path: Path) -> None:
    store = Store(Root(str(tmp_path)), busy_seconds=0.2)
    with store.writing(PATH, create=True):
        pass
    for error in (KeyboardInterrupt, RuntimeError, SystemExit):
        with pytest.raises(error), store.writing(PATH) as connection:
            connection.execute("INSERT INTO rag_meta VALUES ('x', 1)")
            raise error
        with store.reading(PATH) as connection:
            assert connection.execute("SELECT * FROM rag_meta WHERE key = 'x'").fetchall() == []
        with store.writing(PATH) as connection:
            assert connection.execute("SELECT * FROM rag_meta WHERE key = 'x'").fetchall() == []


def test_a_statement_left_unfinished_does_not_keep_the_old_snapshot(tmp_path: Path) -> None:
    store = Store(Root(str(tmp_path)))
    with store.writing(PATH, create=True) as connection:
        connection.executemany("INSERT INTO rag_meta VALUES (?, 1)", [(f"k{n}",) for n in range(100)])
    with store.reading(PATH) as connection:
        cursor = connection.execute("SELECT key FROM rag_meta")
        next(cursor)
    with store.writing(PATH) as connection:
        connection.execute("INSERT INTO rag_meta VALUES ('new', 1)")
    for _ in range(3):
        with store.reading(PATH) as connection:
            assert connection.execute("SELECT count(*) FROM rag_meta WHERE key = 'new'").fetchall() == [(1,)]
    with pytest.raises(Exception, match="closed"):
        list(cursor)


def test_a_file_that_was_replaced_is_read_anew(lexical: Runtime, tmp_path: Path) -> None:
    assert rag_ingest("a.db", "d", "s", "the old words", 100).is_ok
    assert rag_ingest("b.db", "d", "s", "the new words", 100).is_ok
    lexical.close()
    assert rag_search("a.db", "old", 1).unwrap()[0].text == "the old words"
    for _ in range(3):
        (tmp_path / "b.db").replace(tmp_path / "a.db")
        assert rag_search("a.db", "words", 1).unwrap()[0].text == "the new words"
        assert rag_search("a.db", "old", 1) == Ok([])
        assert not rag_search("b.db", "new", 1).is_ok
        (tmp_path / "a.db").unlink()
        assert rag_search("a.db", "old", 1).error.code == "index_missing"  # type: ignore[union-attr]
        assert rag_ingest("b.db", "d", "s", "the new words", 100).is_ok
        lexical.close()


def test_the_bounded_wait_for_a_writer_ends_in_busy(tmp_path: Path) -> None:
    patient, hasty = Store(Root(str(tmp_path))), Store(Root(str(tmp_path)), busy_seconds=0.3)
    with patient.writing(PATH, create=True):
        pass
    from rag_stdlib.errors import Failure

    with patient.writing(PATH):
        begin = time.monotonic()
        with pytest.raises(Failure) as failed, hasty.writing(PATH):
            pass
        assert 0.2 < time.monotonic() - begin < 8
        assert failed.value.error.code == "busy"
        assert "0.3 s" in str(failed.value)
        with hasty.reading(PATH):
            pass
    with hasty.writing(PATH):
        pass


def test_compact_beside_readers_says_busy_or_leaves_nothing(tmp_path: Path) -> None:
    from rag_stdlib.errors import Failure
    from rag_stdlib.index.maintenance import compact

    store = Store(Root(str(tmp_path)), busy_seconds=0.3)
    with Runtime(Config(), root=tmp_path):
        rag_ingest(PATH, "d", "s", "canarycanarycanary " * 50, 100)
        rag_ingest(PATH, "e", "s", "other words", 100)
        rag_delete(PATH, "d")
    with store.reading(PATH), pytest.raises(Failure) as failed:
        compact(store, PATH)
    assert failed.value.error.code == "busy"
    compact(store, PATH)
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"canary" not in left
    with Runtime(Config(), root=tmp_path):
        assert rag_compact(PATH).is_ok
