"""A tool as data, and the shape of its calls: the number, names and types of arguments, before anything is touched."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, get_args, get_type_hints

from rag_stdlib.effects import Effect
from rag_stdlib.errors import ToolShapeError
from rag_stdlib.records import Record
from rag_stdlib.text.chunker import ChunkOptions

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_PLAIN: Final = (str, int, bool)  # types of record fields that need no thought


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as data: name, parameters with their types in order (a list's as ``list[str]``), effect row, and the function's own signature.

    `decode` makes its value from JSON; `ranking` reads (id, score), best first, out of an encoded result, where the tool ranks.
    """

    name: str
    parameters: tuple[tuple[str, Any], ...]
    effects: tuple[Effect, ...]
    python: inspect.Signature
    decode: Callable[[Any], Any]
    ranking: Callable[[Any], list[tuple[str, float | None]] | None] | None = None

    def signature(self) -> str:
        """Write the expected shape, as a refusal shows it."""
        return ", ".join(f"{name}: {_type_name(kind)}" for name, kind in self.parameters)


def arguments_of(spec: ToolSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a call in the order of the parameters, defaults filled in.

    Raises:
        ToolShapeError: a wrong number, name or type; a bool is no Int, and an Int fits 64 bits.
    """
    if kwargs or len(args) != len(spec.parameters):
        try:
            bound = spec.python.bind(*args, **kwargs)
        except TypeError as error:
            raise _misshapen(spec, str(error)) from None
        bound.apply_defaults()
        args = bound.args
    for (name, kind), value in zip(spec.parameters, args, strict=True):
        if kind is str and type(value) is str:
            continue
        misfit = _misfit(name, kind, value)
        if misfit:
            raise _misshapen(spec, misfit)
    return args


def _misshapen(spec: ToolSpec, what: str) -> ToolShapeError:
    return ToolShapeError(f"tool `{spec.name}` failed: expected ({spec.signature()}); {what}")


def _type_name(kind: Any) -> str:  # noqa: ANN401 - a type or an alias like list[str]
    inner = get_args(kind)
    return f"List<{_type_name(inner[0])}>" if inner else {str: "String", int: "Int"}.get(kind, kind.__name__)


def _misfit(name: str, kind: Any, value: object) -> str:  # noqa: ANN401 - the same
    """Name what does not have its declared type: the argument, an item of a list, or a plain field of a record."""
    inner = get_args(kind)
    if inner and isinstance(value, (list, tuple)):
        return next((misfit for at, item in enumerate(value) if (misfit := _misfit(f"{name}[{at}]", inner[0], item))), "")
    return f"{name} is {_short(value)}" if inner or not _fits(kind, value) else _misfit_inside(name, value)


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
