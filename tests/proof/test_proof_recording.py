"""What a pipeline does besides its tools, in a trace: its results and its failures come back without being done again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

import replay
from rag_stdlib import Config, Runtime
from rag_stdlib.errors import Failure, fail
from rag_stdlib.proof.recording import recorded


def never() -> NoReturn:
    raise AssertionError("a replay did the work again")


def test_without_a_session_the_work_is_done() -> None:
    assert recorded("work", [1], lambda: [1, "a"]) == [1, "a"]


def test_a_result_is_recorded_and_given_back(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    with replay.record(trace):
        assert recorded("chat", [{"model": "m"}], lambda: "é😀", kind="llm") == "é😀"
    with replay.substitute(trace):
        assert recorded("chat", [{"model": "m"}], never, kind="llm") == "é😀"
    (call,) = replay.load_trace(trace).calls
    assert (call.kind, call.name) == ("llm", "chat")


def test_a_failure_is_recorded_with_its_code_and_raised_again(tmp_path: Path) -> None:
    def failing() -> NoReturn:
        raise fail("generator_reply", provider="openai", detail="no text")

    trace, found = tmp_path / "t.jsonl", []
    for session, work in ((replay.record, failing), (replay.substitute, never)):
        with session(trace), pytest.raises(Failure) as caught:
            recorded("chat", [], work)
        found.append(caught.value.error)
    assert [(str(error), error.code, error.fix) for error in found] == [("openai sent an unusable answer: no text", "generator_reply", "operator")] * 2


def test_other_arguments_are_another_call(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    with replay.record(trace):
        recorded("chat", ["a"], lambda: "x")
    with pytest.raises(replay.Divergence), replay.substitute(trace):
        recorded("chat", ["b"], never)


def test_a_runtimes_recorder_takes_the_call(tmp_path: Path) -> None:
    class Answers:
        def call(self, call: Any, run: Any) -> Any:
            assert (call.tool, call.arguments()) == ("chat", [{"not_json": "object"}])
            return call.decode(call.encode(run()) | {"value": "another"})

        async def acall(self, call: Any, run: Any) -> Any:
            raise NotImplementedError

    with Runtime(Config(), root=tmp_path, recorder=Answers()):
        assert recorded("chat", [object()], lambda: "one") == "another"
