"""The one edge that every call of a tool passes.

Its order is fixed: the shape of the call (a wrong one raises `ToolShapeError`), the runtime, the recorder, then effects, values,
root and index. From the runtime on everything comes back as a `Result`, and nothing else is raised; a refusal of an effect
is a result that the recorder sees, like any other. Where the configuration cannot be read there is no recorder.
"""

from __future__ import annotations

import functools
import inspect
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar, cast, get_type_hints

from rag_stdlib.effects import Effect, refusal
from rag_stdlib.errors import Failure, ToolShapeError, rag_error
from rag_stdlib.records import Record
from rag_stdlib.result import Err, Ok, Result, from_json, to_json
from rag_stdlib.runtime import Runtime, current_runtime
from rag_stdlib.text.chunker import ChunkOptions
from replay import Call

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_LOG: Final = logging.getLogger("rag_stdlib")
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_PLAIN: Final = (str, int, bool)  # types of record fields that need no thought


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 - JSON
    return value


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as data: name, parameters with their types in order, effect row, and its results' JSON decoder."""

    name: str
    parameters: tuple[tuple[str, type], ...]
    effects: tuple[Effect, ...]
    decode: Callable[[Any], Any] = _as_it_is

    def signature(self) -> str:
        """Write the expected shape, as a refusal shows it."""
        names = {str: "String", int: "Int"}
        return ", ".join(f"{name}: {names.get(kind, kind.__name__)}" for name, kind in self.parameters)


TOOLS: Final[dict[str, ToolSpec]] = {}


def tool(name: str, parameters: dict[str, type], *effects: Effect,
          decode: Callable[[Any], Any] = _as_it_is) -> Callable[[F], F]:
    """Register a tool and tag its function with the effect row, readable as ``function.__effects__``."""
    spec = ToolSpec(name, tuple(parameters.items()), effects, decode)
    TOOLS[name] = spec

    def tag(function: F) -> F:
        shape = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own types
            try:
                shape.bind(*args, **kwargs)
            except TypeError as error:
                raise ToolShapeError(f"tool `{name}` failed: expected ({spec.signature()}); {error}") from None
            return function(*args, **kwargs)

        checked.__effects__ = effects  # type: ignore[attr-defined]
        return cast("F", checked)

    return tag


def check_shape(spec: ToolSpec, arguments: tuple[Any, ...]) -> None:
    """Refuse arguments of a wrong type: a bool is no Int, an Int fits 64 bits."""
    for (name, kind), value in zip(spec.parameters, arguments, strict=True):
        misfit = f"{name} is {_short(value)}" if not _fits(kind, value) else _misfit_inside(name, value)
        if misfit:
            msg = f"tool `{spec.name}` failed: expected ({spec.signature()}); {misfit}"
            raise ToolShapeError(msg)


def _fits(kind: type, value: object) -> bool:
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and _INT_MIN <= value <= _INT_MAX
    return isinstance(value, kind)


def _misfit_inside(name: str, value: object) -> str:
    """Name the first plain field of a record argument that does not have its declared type."""
    if isinstance(value, (Record, ChunkOptions)):
        for part, kind in _plain_fields(type(value)):  # type: ignore[arg-type] # a class can always be hashed
            if not _fits(kind, getattr(value, part)):
                return f"{name}.{part} is {_short(getattr(value, part))}"
    return ""


@functools.cache
def _plain_fields(record: type) -> tuple[tuple[str, type], ...]:
    hints = get_type_hints(record)
    return tuple((part.name, hints[part.name]) for part in fields(record) if hints[part.name] in _PLAIN)


def _short(value: object) -> str:
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 60 else shown[:57] + '...'}"  # noqa: PLR2004 - one line


def call_tool(name: str, arguments: tuple[Any, ...], work: Callable[[Runtime], Ok[T]]) -> Result[T]:
    """Take one call over the edge; `work` does it, given the runtime, and may raise `Failure`."""
    spec = TOOLS[name]
    check_shape(spec, arguments)
    try:
        runtime = current_runtime()
    except Failure as failure:
        return Err(failure.error)
    call: Call[Result[T]] = Call(name, lambda: [_argument(value) for value in arguments], _encode,
                                 lambda recorded: _decode(spec, recorded))
    return runtime.recorder.call(call, lambda: _guarded(spec, work, runtime))


def _guarded(spec: ToolSpec, work: Callable[[Runtime], Ok[T]], runtime: Runtime) -> Result[T]:
    refused = refusal(spec.name, spec.effects, runtime.config.grant)
    if refused is not None:
        return Err(refused)
    try:
        return work(runtime)
    except Failure as failure:
        return Err(failure.error)
    except Exception as error:  # noqa: BLE001 - a tool never raises; the traceback goes to the log
        _LOG.exception("%s failed unexpectedly", spec.name)
        return Err(rag_error("internal", tool=spec.name, detail=f"{type(error).__name__}: {error}"))


def _argument(value: Any) -> Any:  # noqa: ANN401 - any argument
    """Give an argument as JSON; what is none, and will be refused as a value, as the name of its type."""
    if isinstance(value, Record):
        return _argument(value.to_dict())
    if isinstance(value, ChunkOptions):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else repr(key): _argument(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_argument(item) for item in value]
    if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return {"not_json": repr(value) if isinstance(value, float) else type(value).__name__}


def _encode(result: Result[Any]) -> dict[str, Any]:
    if isinstance(result, Err):
        return to_json(result)
    value = result.value
    if isinstance(value, list):
        value = [item.to_dict() for item in value]
    return to_json(Ok(value.to_dict() if isinstance(value, Record) else value, notes=result.notes))


def _decode(spec: ToolSpec, recorded: dict[str, Any]) -> Result[Any]:
    result = from_json(recorded)
    return Ok(spec.decode(result.value), notes=result.notes) if isinstance(result, Ok) else result
