"""Options that several commands take.

A group of them is a dataclass: a command has one parameter of its type, and the fields are its options.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from rag_stdlib.records import Mode

ModeOption = Annotated[Mode | None, typer.Option("--mode", metavar="MODE", help="hybrid, vector or lexical; otherwise as configured.")]


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command's function of one whose parameters may be dataclasses: it takes their fields in their place, and makes them of these.

    A field is declared as a parameter is, with its default. Whatever a dataclass refuses when it is made, the command does.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type[Any]] = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}

    def parameters() -> Iterator[inspect.Parameter]:
        for name, parameter in inspect.signature(function).parameters.items():
            if name not in groups:
                yield parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
                continue
            types = get_type_hints(groups[name], include_extras=True)
            for field in fields(groups[name]):
                yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])

    @functools.wraps(function)
    def command(**given: Any) -> None:  # noqa: ANN401 - whatever the options are
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        function(**given)

    taken = list(parameters())
    command.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in taken}
    return command
