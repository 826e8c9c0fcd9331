"""What the tools answer to each condition that a program can meet, and in which order they look (std/rag §1.8)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from embedder_double import EmbedderDouble
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_stdlib import (
    ERRORS,
    ChunkOptions,
    Config,
    Err,
    Ok,
    QueryOptions,
    Result,
    Runtime,
    SourceDocument,
    ToolShapeError,
    calljson,
    chunk_in_index,
    rag_check,
    rag_compact,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_ingest_document,
    rag_query,
    rag_reembed,
    rag_search,
    rag_stats,
)
from rag_stdlib.result import to_json
from rag_stdlib.values import MAX_QUERY_BYTES, MAX_TEXT_BYTES
from replay.jsontext import canonical

PATH = "index.db"
U3 = "Corvid is an AI-native language. Effects are typed. Replay is deterministic. Budgets are compile-checked."


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder without corvid.toml above it that matters, and no environment."""
    for name in ("CORVID_IO_ROOT", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("call", "code"), [
    (lambda: rag_ingest(PATH, "d", "s", "t", 0), "invalid_chunk_chars"), (lambda: rag_ingest(PATH, "d", "s", "t", -5), "invalid_chunk_chars"),
    (lambda: rag_ingest("../x", "d", "s", "t", 0), "invalid_chunk_chars"), (lambda: rag_ingest("../x", "", "s", "t", 5), "invalid_doc_id"),
    (lambda: rag_ingest(PATH, " \t", "s", "t", 5), "invalid_doc_id"), (lambda: rag_ingest(PATH, "é" * 513, "s", "t", 5), "invalid_doc_id"),
    (lambda: rag_ingest(PATH, "d", "s", "x" * (MAX_TEXT_BYTES + 1), 5), "text_too_large"),
    (lambda: rag_ingest(PATH, "d", "s", "é" * (MAX_TEXT_BYTES // 2 + 1), 5), "text_too_large"),
    (lambda: rag_ingest(PATH, "d", "s", "x" * 200_001, 1), "too_many_chunks"),
    (lambda: rag_search(PATH, "q", 0), "invalid_limit"), (lambda: rag_search("../x", "q", -1), "invalid_limit"),
    (lambda: rag_search(PATH, "q" * (MAX_QUERY_BYTES + 1), 1), "text_too_large"), (lambda: rag_search(PATH, "q", 1), "index_missing"),
    (lambda: rag_search("no/such/folder.db", "q", 1), "index_missing"), (lambda: rag_ingest("no/such.db", "d", "s", "t", 5), "path_folder_missing"),
    (lambda: rag_search("", "q", 1), "path_empty"), (lambda: rag_search(".", "q", 1), "path_empty"), (lambda: rag_search("a/", "q", 1), "path_empty"),
    (lambda: rag_search("..", "q", 1), "path_parent"), (lambda: rag_ingest("a/../../x", "d", "s", "t", 5), "path_parent"),
    (lambda: rag_search("/etc/passwd", "q", 1), "path_outside_root"), (lambda: rag_search("a\0b", "q", 1), "path_nul"),
    (lambda: rag_search("C:\\x.db", "q", 1), "path_form"), (lambda: rag_search("x" * 300, "q", 1), "path_too_long"),
    (lambda: rag_query(PATH, "q", 1, QueryOptions(mode="vector")), "mode_needs_embedder"),
    (lambda: rag_query(PATH, "", 1, QueryOptions(mode="hybrid")), "mode_needs_embedder"),
    (lambda: rag_query(PATH, "q", 1, QueryOptions(mode="fuzzy")), "invalid_option"),  # type: ignore[arg-type]
    (lambda: rag_query(PATH, "q", 1, QueryOptions(min_score=float("nan"))), "invalid_option"),
    (lambda: rag_query(PATH, "q", 1, QueryOptions(min_score=True)), "invalid_option"),
    (lambda: rag_query(PATH, "q", 1, QueryOptions(per_document=0)), "invalid_option"),
    (lambda: rag_query("../x", "q", 0, QueryOptions(per_document=0)), "invalid_limit"),
    (lambda: rag_delete(PATH, ""), "invalid_doc_id"), (lambda: rag_delete(PATH, "d"), "index_missing"),
    (lambda: rag_get(PATH, "d"), "index_missing"), (lambda: rag_get(PATH, "\ud800"), "invalid_text"),
    (lambda: rag_stats(PATH), "index_missing"), (lambda: rag_check(PATH), "index_missing"), (lambda: rag_compact(PATH), "index_missing"),
    (lambda: rag_reembed(PATH), "embedder_unconfigured"),
    (lambda: rag_ingest_document(PATH, SourceDocument("d", "s", "t", metadata={"a": []}), 5), "invalid_metadata"),  # type: ignore[dict-item]
    (lambda: rag_ingest_document(PATH, SourceDocument("d", "s", "t", metadata=[1]), 5), "invalid_metadata"),  # type: ignore[arg-type]
    (lambda: rag_ingest_document(PATH, SourceDocument("d", "s", "t", metadata={"a": 2**64}), 5), "invalid_metadata"),
    (lambda: rag_ingest_document(PATH, SourceDocument("d", "s", "t", lines=((5, 1), (0, 1))), 5), "invalid_option"),
    (lambda: rag_ingest_document(PATH, SourceDocument("d", "s", "t", lines=((-1, 1),)), 5), "invalid_option"),
    (lambda: rag_ingest_document(PATH, SourceDocument("d", "s", "t", pages=(1, 2)), 5), "invalid_option"),  # type: ignore[arg-type]
    (lambda: rag_ingest_document(PATH, SourceDocument("d", "s", "t", pages="ab"), 5), "invalid_option"),  # type: ignore[arg-type]
    (lambda: rag_ingest_document(PATH, SourceDocument("d", "s", "t", pages=((0, 2**70),)), 5), "invalid_option"),
])
def test_each_condition_is_its_own_err_and_makes_no_file(lexical: Runtime, tmp_path: Path, call: Callable[[], Result[Any]], code: str) -> None:
    result = call()
    assert isinstance(result, Err)
    assert result.error.code == code
    assert result.error.fix == ERRORS[code].fix
    assert "{" not in result.error
    assert str(tmp_path) not in result.error
    assert list(tmp_path.iterdir()) == []
    assert lexical.mode == "lexical"


def test_std_rags_two_messages_are_its_own() -> None:
    assert ERRORS["invalid_chunk_chars"].message == "chunk_chars must be at least 1"
    assert ERRORS["invalid_limit"].message == "limit must be at least 1"


def test_without_a_root_everything_fails_closed_and_no_file_appears(nowhere: Path) -> None:
    (nowhere / "sub").mkdir()
    for path in (PATH, "sub/index.db", str(nowhere / PATH), "/tmp/rag-stdlib-never.db"):  # noqa: S108 - it must not appear
        for result in (rag_ingest(path, "d", "s", "t", 5), rag_search(path, "q", 1), rag_delete(path, "d"), rag_stats(path),
                       rag_check(path), rag_get(path, "d"), rag_compact(path)):
            assert isinstance(result, Err)
            assert (result.error.code, result.error.fix) == ("root_unconfigured", "operator")
            assert "CORVID_IO_ROOT" in result.error
        assert not Path(path).exists()
    assert [entry.name for entry in nowhere.rglob("*")] == ["sub"]


def test_a_root_that_is_not_there_or_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "nowhere", tmp_path / "file"):
        with Runtime(Config(), root=root):
            result = rag_ingest(PATH, "d", "s", "t", 5)
            assert isinstance(result, Err)
            assert result.error.code == "root_unusable"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def picture(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}


def test_reading_changes_neither_the_folder_nor_a_byte(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        rag_ingest(PATH, "d", "s", U3, 60)
    before = picture(tmp_path)
    assert list(before) == [PATH]
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        chunk = rag_search(PATH, "replay", 1).unwrap()[0]
        for call in (lambda: rag_search(PATH, "replay", 5), lambda: rag_get(PATH, "d"), lambda: rag_stats(PATH), lambda: rag_check(PATH),
                     lambda: chunk_in_index(PATH, chunk), lambda: rag_query(PATH, "x", 3, QueryOptions(mode="lexical"))):
            assert call().is_ok
        missing = rag_search("missing.db", "q", 1)
        assert isinstance(missing, Err)
        assert missing.error.code == "index_missing"
    assert picture(tmp_path) == before


def test_std_rags_own_end_to_end_example(lexical: Runtime) -> None:
    assert rag_ingest(PATH, "doc-1", "docs", U3, 60) == Ok(3)
    result = rag_search(PATH, "deterministic replay", 2)
    assert isinstance(result, Ok)
    first = result.value[0]
    assert "Replay" in first.text
    assert first.chunk_id == "doc-1:1"
    assert (first.start_char, first.end_char) == (39, 76)
    assert first.provenance_key == "rag_fd1a72f97bd7cadb0aacf2397cf7250e7761c694261d85331218ad774e9d7916"
    assert list(first.to_dict())[:8] == ["doc_id", "chunk_id", "source", "text", "start_char", "end_char", "provenance_key", "effect_meta"]
    assert {chunk.chunk_id for chunk in rag_search(PATH, "replay replay budgets", 5).unwrap()} == {"doc-1:1", "doc-1:2"}
    assert rag_search(PATH, "zzz", 5) == Ok([])
    assert result.notes == ("lexical search: no [rag] embedder is configured",)
    assert lexical.mode == "lexical"


def test_the_upstream_cosine_example_ranks_the_nearer_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    embedder = EmbedderDouble(dim=2)
    table = {"one": (1.0, 0.0), "two": (0.8, 0.2), "three": (0.0, 1.0), "query": (0.9, 0.1)}

    def embed(texts: Any, _role: str) -> Any:
        rows = np.array([table[text] for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    monkeypatch.setattr(embedder, "embed", embed)
    with Runtime(Config(), root=tmp_path, embedder=embedder, mode="vector"):
        for name in ("three", "two", "one"):
            assert rag_ingest(PATH, name, "s", name, 100) == Ok(1)
        assert [chunk.doc_id for chunk in rag_search(PATH, "query", 2).unwrap()] == ["one", "two"]
        assert [chunk.doc_id for chunk in rag_search(PATH, "query", 9).unwrap()] == ["one", "two", "three"]
        assert {chunk.mode for chunk in rag_search(PATH, "query", 9).unwrap()} == {"vector"}


any_text = st.one_of(st.text(max_size=30), st.sampled_from(["", PATH, "d", "../x", "a\0b", "\ud800", "é" * 600, "words of text " * 40, "d:0"]))
any_int = st.one_of(st.integers(-3, 60), st.sampled_from([2**63 - 1, -2**63, 2**63, 10**30]))
scalar = st.one_of(any_text, st.integers(-2**70, 2**70), st.floats(), st.booleans(), st.none())
anything = st.one_of(scalar, st.lists(scalar, max_size=2), st.dictionaries(any_text, scalar, max_size=2), st.builds(object), st.binary(max_size=3))
path = st.one_of(st.sampled_from([PATH, "other.db", "sub/x.db"]), any_text)
documents = st.builds(SourceDocument, any_text, any_text, any_text, any_text, st.one_of(st.dictionaries(any_text, anything, max_size=3), anything),
                      st.one_of(st.just(()), st.just(((0, 1),)), anything), st.one_of(st.just(()), anything))
option_sets = st.builds(QueryOptions, st.one_of(st.sampled_from([None, "lexical", "vector", "hybrid"]), anything), *[st.one_of(st.none(), anything)] * 4,
                        st.one_of(st.just({}), st.dictionaries(st.one_of(any_text, st.integers()), anything, max_size=2), anything),
                        st.one_of(st.none(), anything), st.one_of(st.none(), st.integers(-1, 3), anything))


@settings(deadline=None, max_examples=80, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_whatever_the_arguments_are_the_outcome_is_ok_err_or_a_shape_error(hybrid: Runtime, data: st.DataObject) -> None:
    function, strategies = data.draw(st.sampled_from([
        (rag_ingest, (path, any_text, any_text, any_text, any_int)), (rag_search, (path, any_text, any_int)),
        (rag_ingest_document, (path, documents, any_int, st.builds(ChunkOptions, *[st.one_of(st.booleans(), anything)] * 4))),
        (rag_query, (path, any_text, any_int, option_sets)), (rag_get, (path, any_text)), (rag_delete, (path, any_text)),
        (rag_ingest, (anything,) * 5), (rag_search, (anything,) * 3), (rag_query, (path, anything, anything, option_sets)),
        (rag_stats, (path,)), (rag_check, (path,)), (rag_compact, (path,)), (rag_reembed, (anything,))]))
    arguments = [data.draw(strategy) for strategy in strategies]
    try:
        result = function(*arguments)  # type: ignore[operator]
    except ToolShapeError:
        return
    assert isinstance(result, (Ok, Err))
    assert json.loads(orjson.dumps(to_json(result))) is not None
    recorded = [calljson.argument(value) for value in arguments]
    assert canonical(recorded) == recorded
    if isinstance(result, Err):
        assert result.error.code in ERRORS
        assert result.error.code not in ("internal", "index_io", "index_corrupt", "busy"), (function, arguments, result)
    assert hybrid.has_embedder


READER = """
import sys
from rag_stdlib import Config, Err, Ok, Runtime, rag_check, rag_delete, rag_ingest, rag_search
with Runtime(Config(), root=sys.argv[1]):
    for _ in range(2):
        found = rag_search("index.db", "replay", 5)
        print("search", len(found.value) if isinstance(found, Ok) else found.error.code)
    print("check", rag_check("index.db").unwrap_or(None))
    for name, result in (("ingest", rag_ingest("index.db", "e", "s", "text", 60)), ("same", rag_ingest("index.db", "d", "s", sys.argv[2], 60)),
                         ("delete", rag_delete("index.db", "d")), ("new", rag_ingest("new.db", "d", "s", "text", 60))):
        print(name, result.error.code if isinstance(result, Err) else result.value)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a folder read-only needs root")
def test_an_index_on_a_read_only_file_system_is_read_and_not_written(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path):
        rag_ingest(PATH, "d", "s", U3, 60)
    before = picture(tmp_path)
    mounts = ["mount --bind {0} {0}", "mount -o remount,ro,bind {0}"]
    script = " && ".join(line.format(tmp_path) for line in mounts) + ' && exec "$@"'
    probe = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", "true"], check=False, capture_output=True)
    if probe.returncode:
        pytest.skip("this system lets nobody mount a folder read-only")
    child = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", READER, str(tmp_path), U3], check=True,
                           capture_output=True, text=True)
    said = dict(line.split(" ", 1) for line in child.stdout.splitlines())
    assert said["search"] == "1"
    assert "documents=1, chunks=3" in said["check"]
    assert (said["ingest"], said["delete"], said["same"]) == ("index_readonly", "index_readonly", "3")
    assert said["new"] == "index_readonly"
    assert picture(tmp_path) == before


def test_a_failure_to_open_in_a_writable_folder_is_no_reason_to_ignore_the_log(lexical: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    import apsw

    from rag_stdlib.index import connect

    rag_ingest(PATH, "d", "s", U3, 60)
    lexical.close()

    class Failing(apsw.Connection):
        def execute(self, statements: str, *rest: Any, **named: Any) -> Any:
            if statements.startswith("SELECT 1 FROM sqlite_schema") and not self.readonly("main"):
                raise apsw.CantOpenError("too many open files")
            return super().execute(statements, *rest, **named)

    monkeypatch.setattr(connect.apsw, "Connection", Failing)
    result = rag_search(PATH, "replay", 1)
    assert isinstance(result, Err)
    assert result.error.code == "index_io"
    monkeypatch.setattr(connect, "_folder_writable", lambda _place: False)
    for _ in range(2):
        assert len(rag_search(PATH, "replay", 1).unwrap()) == 1
        for refused in (rag_ingest(PATH, "e", "s", "t", 5), rag_delete(PATH, "d")):
            assert isinstance(refused, Err)
            assert refused.error.code == "index_readonly"
