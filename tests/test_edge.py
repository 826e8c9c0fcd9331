"""The edge of every tool: shape, then the recorder around effects, values, root and index."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Awaitable, Callable
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, TypeVar, get_origin

import orjson
import pytest
from embedder_double import EmbedderDouble

import rag_stdlib
from rag_stdlib import (
    RAG_READ,
    RAG_WRITE,
    ChunkOptions,
    Config,
    Err,
    Ok,
    QueryOptions,
    RagChunkEnvelope,
    Runtime,
    SourceDocument,
    ToolShapeError,
    deterministic,
    grant,
    rag_check,
    rag_compact,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_ingest_document,
    rag_ingest_many,
    rag_query,
    rag_reembed,
    rag_search,
    rag_search_many,
    rag_stats,
)
from rag_stdlib.edge import TOOLS
from rag_stdlib.records import EffectEnvelope
from rag_stdlib.result import to_json
from rag_stdlib.tools import chunk_in_index
from replay import Call

R = TypeVar("R")
PATH = "index.db"
CHUNK = RagChunkEnvelope("d", "d:0", "s", "t", 0, 1, "", EffectEnvelope("x"), 0, 1, 1, 0, 1, "", None, None, None, None)
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rag_ingest": (rag_ingest, (PATH, "d", "s", "One sentence. Two sentences.", 20)),
    "rag_ingest_document": (rag_ingest_document, (PATH, SourceDocument("e", "s", "Text.", metadata={"a": 1}), 20, ChunkOptions())),
    "rag_ingest_many": (rag_ingest_many, (PATH, [SourceDocument("e", "s", "Text."), SourceDocument("f", "s", "More text. Sentence.")], 20, ChunkOptions())),
    "rag_search": (rag_search, (PATH, "sentence", 3)),
    "rag_query": (rag_query, (PATH, "sentence", 3, QueryOptions(mode="lexical", metadata={"a": (1, None)}))),
    "rag_search_many": (rag_search_many, (PATH, ["sentence", "", "two sentences"], 3, QueryOptions(per_document=1))),
    "rag_get": (rag_get, (PATH, "d")),
    "rag_delete": (rag_delete, (PATH, "e")),
    "chunk_in_index": (chunk_in_index, (PATH, CHUNK)),
    "rag_stats": (rag_stats, (PATH,)),
    "rag_check": (rag_check, (PATH,)),
    "rag_reembed": (rag_reembed, (PATH,)),
    "rag_compact": (rag_compact, (PATH,)),
}


def test_the_two_tools_have_std_rags_parameters_in_order() -> None:
    wanted = {"rag_ingest": {"index_path": "str", "doc_id": "str", "source": "str", "text": "str", "chunk_chars": "int"},
              "rag_search": {"index_path": "str", "query": "str", "limit": "int"}}
    for name, parameters in wanted.items():
        signature = inspect.signature(getattr(rag_stdlib, name))
        assert {key: value.annotation for key, value in signature.parameters.items()} == parameters
        assert list(signature.parameters) == list(parameters)
        assert all(value.default is inspect.Parameter.empty for value in signature.parameters.values())
    assert inspect.signature(rag_ingest).return_annotation == "Result[int]"
    assert inspect.signature(rag_search).return_annotation == "Result[list[RagChunkEnvelope]]"


def test_every_tool_is_registered_with_its_parameters_and_effects() -> None:
    assert TOOLS.keys() == CALLS.keys()
    for name, (function, arguments) in CALLS.items():
        spec = TOOLS[name]
        assert list(inspect.signature(function).parameters) == [parameter for parameter, _ in spec.parameters]
        assert len(arguments) == len(spec.parameters)
        assert function.__effects__ == spec.effects  # type: ignore[attr-defined]
        assert getattr(rag_stdlib, f"a{name}").__effects__ == spec.effects
    writing = {name for name, spec in TOOLS.items() if spec.effects == (RAG_WRITE,)}
    assert writing == {"rag_ingest", "rag_ingest_document", "rag_ingest_many", "rag_delete", "rag_compact", "rag_reembed"}
    assert all(spec.effects in ((RAG_READ,), (RAG_WRITE,)) for spec in TOOLS.values())


def test_the_shape_is_shown_as_std_rag_shows_it() -> None:
    for name, shape in (("rag_ingest", "index_path: String, doc_id: String, source: String, text: String, chunk_chars: Int"),
                        ("rag_search", "index_path: String, query: String, limit: Int")):
        with pytest.raises(ToolShapeError) as failed:
            CALLS[name][0](*[None] * len(TOOLS[name].parameters))
        assert str(failed.value).startswith(f"tool `{name}` failed: expected ({shape})")


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_shape_is_raised_before_anything_is_touched(lexical: Runtime, tmp_path: Path, name: str) -> None:
    function, arguments = CALLS[name]
    spec = TOOLS[name]
    for position, (parameter, kind) in enumerate(spec.parameters):
        takes_list = get_origin(kind) is list
        for wrong in (None, 1.0, float("nan"), b"x", {}, object(), *(("x", {"x"}, iter(["x"])) if takes_list else ([],)),
                      *((True, False, "5", 2**63, -2**63 - 1) if kind is int else (5, True))):
            with pytest.raises(ToolShapeError, match=f"{parameter} is {type(wrong).__name__}"):
                function(*arguments[:position], wrong, *arguments[position + 1:])
            if takes_list and not isinstance(wrong, str):
                with pytest.raises(ToolShapeError, match=rf"{parameter}\[1\] is {type(wrong).__name__}"):
                    function(*arguments[:position], [arguments[position][0], wrong], *arguments[position + 1:])
    for bad in (function, lambda: function(*arguments, 1), lambda: function(*arguments[:-1], nonsense=1),
                lambda: function(*arguments, index_path=PATH)):
        with pytest.raises(ToolShapeError, match="expected"):
            bad()
    with deterministic(), pytest.raises(ToolShapeError):  # before effects
        function(*[object()] * len(arguments))
    assert list(tmp_path.iterdir()) == []
    assert lexical.mode == "lexical"


@pytest.mark.parametrize(("arguments", "field"), [
    ((PATH, SourceDocument(5, "s", "t"), 10), "document.doc_id is int 5"),  # type: ignore[arg-type]
    ((PATH, SourceDocument("d", None, "t"), 10), "document.source is NoneType None"),  # type: ignore[arg-type]
    ((PATH, SourceDocument("d", "s", b"t"), 10), "document.text is bytes"),  # type: ignore[arg-type]
    ((PATH, SourceDocument("d", "s", "t", 7), 10), "document.media_type is int 7"),  # type: ignore[arg-type]
    ((PATH, SourceDocument("d", "s", "t"), 10, ChunkOptions(graphemes="yes")), "options.graphemes is str"),  # type: ignore[arg-type]
])
def test_the_fields_of_a_document_have_a_shape_too(lexical: Runtime, arguments: tuple[Any, ...], field: str) -> None:
    with pytest.raises(ToolShapeError) as failed:
        rag_ingest_document(*arguments)
    assert field in str(failed.value)
    with pytest.raises(ToolShapeError, match=r"chunk.ordinal is int"):
        chunk_in_index(PATH, RagChunkEnvelope(**{**{f: getattr(CHUNK, f) for f in vars(CHUNK)}, "ordinal": 2**70}))
    assert lexical.mode == "lexical"


class Name(str, Enum):
    """A string that formats itself as something else."""

    A = "text of a"

    def __format__(self, spec: str) -> str:  # noqa: D105 - said above
        return "formatted"

    __str__ = __repr__ = object.__repr__


class Size(IntEnum):
    """A whole number with a name."""

    TEN = 10


def test_subclasses_of_strings_and_whole_numbers_are_taken_for_what_they_hold(lexical: Runtime) -> None:
    assert rag_ingest(PATH, Name.A, Name.A, Name.A, Size.TEN) == Ok(1)
    assert rag_search(PATH, Name.A, Size.TEN).unwrap()[0].chunk_id == "text of a:0"
    assert rag_get(PATH, Name.A).unwrap().text == "text of a"
    assert rag_check(PATH).unwrap().clean
    assert chunk_in_index(PATH, rag_search(PATH, "text", 1).unwrap()[0]) == Ok(True)
    assert rag_delete(PATH, Name.A) == Ok(1)
    assert lexical.mode == "lexical"


class Tape:
    """A recorder that keeps each call as JSON text, or gives it back without running anything."""

    def __init__(self, recorded: list[str] | None = None) -> None:
        self.lines: list[str] = []
        self.recorded = recorded

    def call(self, call: Call[R], run: Callable[[], R]) -> R:
        asked = json.dumps([call.tool, call.arguments()], allow_nan=False)
        if self.recorded is not None:
            tool, arguments, result = json.loads(self.recorded.pop(0))
            assert json.loads(asked) == [tool, arguments]
            return call.decode(result)
        result = run()
        self.lines.append(json.dumps([*json.loads(asked), json.loads(orjson.dumps(call.encode(result)))], allow_nan=False))
        return result

    async def acall(self, call: Call[R], run: Callable[[], Awaitable[R]]) -> R:
        raise NotImplementedError


def run_all() -> list[Any]:
    results = [function(*arguments) for function, arguments in CALLS.values()]
    return [*results, rag_get(PATH, "d:0"), rag_get(PATH, "nobody"), rag_search(PATH, "x", 0), rag_search("../x", "y", 1)]


def test_every_tool_is_recorded_and_replayed_equal_without_being_run(tmp_path: Path) -> None:
    tape = Tape()
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(), recorder=tape):
        live = run_all()
    assert [json.loads(line)[0] for line in tape.lines[:len(CALLS)]] == list(CALLS)
    assert all(isinstance(result, Ok) for result in live[:len(CALLS) + 1]), live
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = EmbedderDouble()
    broken.fail_after = 0
    with Runtime(Config(), root=empty, embedder=broken, recorder=Tape(list(tape.lines))):
        replayed = run_all()
    assert replayed == live
    assert [type(result) for result in replayed] == [type(result) for result in live]
    assert [repr(result) for result in replayed] == [repr(result) for result in live]
    assert [result.notes for result in replayed if isinstance(result, Ok)] == [result.notes for result in live if isinstance(result, Ok)]
    assert list(empty.iterdir()) == []


def test_r192_every_result_is_plain_json(hybrid: Runtime) -> None:
    for result in run_all():
        encoded = json.dumps(TOOL_JSON(result), allow_nan=False)
        assert json.loads(encoded) == TOOL_JSON(result)
    for mode in ("lexical", "vector", "hybrid"):
        for chunk in rag_query(PATH, "sentence", 3, QueryOptions(mode=mode)).unwrap():  # type: ignore[arg-type]
            assert {type(value) for value in chunk.to_dict().values()} <= {str, int, float, dict, type(None)}
            assert RagChunkEnvelope.from_dict(json.loads(json.dumps(chunk.to_dict()))) == chunk
    assert hybrid.has_embedder


def TOOL_JSON(result: Any) -> Any:  # noqa: N802 - reads as a constant conversion
    return json.loads(orjson.dumps(to_json(result)))


def test_errs_and_refusals_are_results_that_the_recorder_sees(tmp_path: Path) -> None:
    tape = Tape()
    with Runtime(Config(), root=tmp_path, recorder=tape):
        with grant(RAG_READ):
            assert rag_ingest(PATH, "d", "s", "t", 10).error.code == "effect_not_granted"  # type: ignore[union-attr]
            assert rag_search(PATH, "d", 1).error.code == "index_missing"  # type: ignore[union-attr]
        with deterministic():
            assert rag_search(PATH, "d", 1).error.code == "deterministic_context"  # type: ignore[union-attr]
        with pytest.raises(ToolShapeError):
            rag_search(PATH, "d", None)  # type: ignore[arg-type]
    assert [json.loads(line)[2]["code"] for line in tape.lines] == ["effect_not_granted", "index_missing", "deterministic_context"]
    assert list(tmp_path.iterdir()) == []


def test_a_grant_of_the_configuration_is_enforced_before_anything_is_opened(tmp_path: Path) -> None:
    with Runtime(Config(grant=frozenset({"rag_read"})), root=tmp_path):
        for name, (function, arguments) in CALLS.items():
            result = function(*arguments)
            assert isinstance(result, Err)
            code = "effect_not_granted" if TOOLS[name].effects == (RAG_WRITE,) else "index_missing"
            assert result.error.code == code
    with Runtime(Config(grant=frozenset()), root=None):
        assert all(function(*arguments).error.code == "effect_not_granted" for function, arguments in CALLS.values())
    assert list(tmp_path.iterdir()) == []


def test_a_thread_without_a_context_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORVID_IO_ROOT", str(tmp_path))
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(rag_ingest(PATH, "d", "s", "t", 10)))
    thread.start()
    thread.join()
    assert results[0].error.code == "effect_not_granted"
    assert "rag_stdlib.carry" in results[0].error
    assert list(tmp_path.iterdir()) == []


def test_a_defect_becomes_an_err_and_its_traceback_goes_to_the_log(
        lexical: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from rag_stdlib.index import search

    def broken(*_args: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(search, "search", broken)
    result = rag_search(PATH, "x", 1)
    assert isinstance(result, Err)
    assert (result.error.code, result.error.fix) == ("internal", "nobody")
    assert "ZeroDivisionError: a defect" in result.error
    assert "Traceback" in caplog.text
    assert lexical.mode == "lexical"


def test_long_arguments_are_shown_short() -> None:
    with pytest.raises(ToolShapeError) as failed:
        rag_search(PATH, "x", "y" * 10_000)  # type: ignore[arg-type]
    assert len(str(failed.value)) < 250
