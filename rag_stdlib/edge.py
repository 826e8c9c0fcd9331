"""The one edge that every call of a tool passes.

Its order is fixed: the shape of the call (a wrong one raises `ToolShapeError`), the recorder, then runtime, effects, values,
root and index. Behind the recorder everything comes back as a `Result`, and nothing else is raised but what a session itself
raises (`replay.ReplayError`). So a recorder that answers by itself needs no configuration, and sees each refusal like any result.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar, cast

from rag_stdlib import audit, calljson
from rag_stdlib.effects import Effect, carry, refusal
from rag_stdlib.errors import Failure, rag_error
from rag_stdlib.index.state import Observation
from rag_stdlib.result import Err, Ok, Result, to_json
from rag_stdlib.runtime import Runtime, active_recorder, current_runtime
from rag_stdlib.shape import ToolSpec, arguments_of
from replay import Call, ReplayError, quarantine

P = ParamSpec("P")
T = TypeVar("T")
Work: TypeAlias = Callable[Concatenate[Runtime, P], Ok[T]]  # what a tool does, given the runtime; it may raise `Failure`

_LOG: Final = logging.getLogger("rag_stdlib")

TOOLS: Final[dict[str, ToolSpec]] = {}
_WORKS: Final[dict[str, Callable[..., Ok[Any]]]] = {}

quarantine.watch(audit.INDEX, "index")
quarantine.watch(audit.EMBED, "embedder")


def tool(name: str, parameters: dict[str, Any], *effects: Effect, decode: Callable[[Any], Any] = calljson.as_it_is,
         ranking: Callable[[Any], list[tuple[str, float | None]] | None] | None = None,
         ) -> Callable[[Work[P, T]], Callable[P, Result[T]]]:
    """Make the public function of a tool out of its work: the same parameters but the runtime, a `Result` in place of the `Ok`.

    Its effect row is readable as ``function.__effects__``.
    """

    def make(work: Work[P, T]) -> Callable[P, Result[T]]:
        shape = inspect.signature(work)
        returned = str(shape.return_annotation).replace("Ok", "Result", 1)
        python = shape.replace(parameters=list(shape.parameters.values())[1:], return_annotation=returned)
        spec = ToolSpec(name, tuple(parameters.items()), effects, python, decode, ranking)
        TOOLS[name], _WORKS[name] = spec, work

        @functools.wraps(work)
        def public(*args: P.args, **kwargs: P.kwargs) -> Result[T]:
            return _call(spec, arguments_of(spec, args, kwargs))

        public.__annotations__ = {**{part.name: part.annotation for part in python.parameters.values()}, "return": returned}
        public.__signature__ = python  # type: ignore[attr-defined]
        public.__effects__ = effects  # type: ignore[attr-defined]
        return public

    return make


def awaited(function: Callable[P, Result[T]]) -> Callable[P, Coroutine[Any, Any, Result[T]]]:
    """Make the asyncio twin of a tool: its work is done in a worker thread, in the caller's context."""
    spec = TOOLS[function.__name__]

    @functools.wraps(function)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> Result[T]:
        return cast("Result[T]", await _acall(spec, arguments_of(spec, args, kwargs)))

    twin.__name__ = twin.__qualname__ = f"a{function.__name__}"
    twin.__doc__ = f"Do what `{function.__name__}` does, off the event loop."
    return twin


def _call(spec: ToolSpec, arguments: tuple[Any, ...]) -> Result[Any]:
    recorder = active_recorder()
    if recorder is None:
        return _done(spec, arguments)
    seen = Observation()

    def run() -> Result[Any]:
        with seen:
            return _done(spec, arguments)

    return recorder.call(_recorded(spec, arguments, seen), run)


async def _acall(spec: ToolSpec, arguments: tuple[Any, ...]) -> Result[Any]:
    import asyncio

    recorder = active_recorder()
    if recorder is None:
        return await asyncio.to_thread(carry(_done), spec, arguments)
    seen = Observation()

    async def run() -> Result[Any]:
        with seen:
            work = carry(_done)
        return await asyncio.to_thread(work, spec, arguments)

    return await recorder.acall(_recorded(spec, arguments, seen), run)


def _recorded(spec: ToolSpec, arguments: tuple[Any, ...], seen: Observation) -> Call[Result[Any]]:
    """Describe a call to a recorder."""
    return Call(spec.name, lambda: [calljson.argument(value) for value in arguments], to_json,
                lambda recorded: calljson.decode(spec.decode, recorded), plain=True, facts=seen.facts, ranking=spec.ranking)


def _done(spec: ToolSpec, arguments: tuple[Any, ...]) -> Result[Any]:
    """Do a call: runtime, effects, then the tool's own work, which looks at values, root and index in this order."""
    try:
        runtime = current_runtime()
        refused = refusal(spec.name, spec.effects, runtime.config.grant)
        if refused is not None:
            return Err(refused)
        return _WORKS[spec.name](runtime, *arguments)
    except Failure as failure:
        return Err(failure.error)
    except ReplayError:
        raise  # what a session refuses is no failure of the tool
    except Exception as error:  # noqa: BLE001 - a tool never raises; the traceback goes to the log
        _LOG.exception("%s failed unexpectedly", spec.name)
        return Err(rag_error("internal", tool=spec.name, detail=f"{type(error).__name__}: {error}"))
