"""What a pipeline does besides its tools' calls and a trace has to hold as well: asking a model, embedding, judging by one.

It goes through the recorder of the context, as a tool's call does (`rag_stdlib.edge`), so that a recorded run replays without the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rag_stdlib import calljson
from rag_stdlib.errors import Failure
from rag_stdlib.result import Err, Ok, Result, from_json, to_json
from rag_stdlib.runtime import active_recorder
from replay import Call
from replay.recorder import Kind

T = TypeVar("T")


def recorded(name: str, arguments: Sequence[Any], run: Callable[[], T], *, kind: Kind = "tool") -> T:
    """Return what `run` returns, by running it or from a trace; a `Failure` that it raises is recorded, and raised again by a replay.

    Args:
        name: What the call is called in the trace.
        arguments: JSON by which a replay knows the call again.
        run: The work; its result is JSON (lists, no tuples).
        kind: Which events it becomes: ``llm`` for a model that was asked.

    Raises:
        Failure: that of `run`.
        ReplayError: a session that refuses the call.
    """
    recorder = active_recorder()
    if recorder is None:
        return run()

    def result() -> Result[T]:
        try:
            return Ok(run())
        except Failure as failure:
            return Err(failure.error)

    call: Call[Result[T]] = Call(name, lambda: [calljson.argument(each) for each in arguments], to_json, from_json, kind=kind)
    found = recorder.call(call, result)
    if isinstance(found, Err):
        raise Failure(found.error)
    return found.value
