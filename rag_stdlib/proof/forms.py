"""Forms of JSON values: checked strictly and closed, and written as a JSON Schema, from one declaration.

A form says where a value departs from it, as a path of member names and places; it never quotes the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast

Path: TypeAlias = "tuple[str | int, ...]"


class Form(Protocol):
    """The form of a value."""

    def departs(self, value: object, path: Path = ()) -> Path | None:
        """Return the path of the first part that has not the form, in the order of the declaration; None where all has."""

    def schema(self) -> dict[str, Any]:
        """Write it as a JSON Schema of draft 2020-12."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text of so many code points; with a `pattern`, one that it fits as a whole. `is_fit` holds it to what a pattern cannot say."""

    least: int = 0
    most: int = 1_000_000
    pattern: str | None = None
    is_fit: Callable[[str], bool] | None = None
    _compiled: re.Pattern[str] | None = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the pattern."""
        if self.pattern is not None:
            object.__setattr__(self, "_compiled", re.compile(self.pattern, re.ASCII))

    def departs(self, value: object, path: Path = ()) -> Path | None:
        """See `Form`."""
        if not isinstance(value, str) or not self.least <= len(value) <= self.most:
            return path
        if self._compiled is not None and not self._compiled.fullmatch(value):
            return path
        return path if self.is_fit is not None and not self.is_fit(value) else None

    def schema(self) -> dict[str, Any]:
        """See `Form`."""
        bounds: dict[str, Any] = {"type": "string"}
        if self.pattern is not None:
            return {**bounds, "pattern": f"^(?:{self.pattern})$"}
        return {**bounds, **({"minLength": self.least} if self.least else {}), "maxLength": self.most}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds; true and false are none."""

    least: int = 0
    most: int = 2**53 - 1

    def departs(self, value: object, path: Path = ()) -> Path | None:
        """See `Form`."""
        return None if type(value) is int and self.least <= value <= self.most else path

    def schema(self) -> dict[str, Any]:
        """See `Form`."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def departs(self, value: object, path: Path = ()) -> Path | None:
        """See `Form`."""
        return None if isinstance(value, bool) else path

    def schema(self) -> dict[str, Any]:
        """See `Form`."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these texts."""

    words: tuple[str, ...]

    def departs(self, value: object, path: Path = ()) -> Path | None:
        """See `Form`."""
        return None if isinstance(value, str) and value in self.words else path

    def schema(self) -> dict[str, Any]:
        """See `Form`."""
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class OrNull:
    """The form, or null."""

    form: Form

    def departs(self, value: object, path: Path = ()) -> Path | None:
        """See `Form`."""
        return None if value is None else self.form.departs(value, path)

    def schema(self) -> dict[str, Any]:
        """See `Form`."""
        return {"anyOf": [self.form.schema(), {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of so many parts of a form."""

    form: Form
    most: int
    least: int = 0
    is_fit: Callable[[Sequence[Any]], bool] | None = None

    def departs(self, value: object, path: Path = ()) -> Path | None:
        """See `Form`."""
        if not isinstance(value, list) or not self.least <= len(value) <= self.most:
            return path
        for place, part in enumerate(value):
            found = self.form.departs(part, (*path, place))
            if found is not None:
                return found
        return path if self.is_fit is not None and not self.is_fit(value) else None

    def schema(self) -> dict[str, Any]:
        """See `Form`."""
        return {"type": "array", "items": self.form.schema(), "minItems": self.least, "maxItems": self.most}


@dataclass(frozen=True, slots=True)
class Members:
    """An object with exactly these members; those of `sometimes` may be absent."""

    always: Mapping[str, Form]
    sometimes: Mapping[str, Form] = field(default_factory=dict)

    def departs(self, value: object, path: Path = ()) -> Path | None:
        """See `Form`."""
        if not isinstance(value, dict):
            return path
        for name in self.always:
            if name not in value:
                return (*path, name)
        if any(name not in self.always and name not in self.sometimes for name in value):
            return path  # the member's own name is the text of whoever wrote it
        for name, form in (*self.always.items(), *self.sometimes.items()):
            found = form.departs(value[name], (*path, name)) if name in value else None
            if found is not None:
                return found
        return None

    def schema(self) -> dict[str, Any]:
        """See `Form`."""
        forms = {**self.always, **self.sometimes}
        return {"type": "object", "properties": {name: form.schema() for name, form in forms.items()},
                "required": list(self.always), "additionalProperties": False}


def pointer(path: Path) -> str:
    """Write a path as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def departure(given: object, form: Members, *, is_secret: bool = False) -> str:
    """Say where and in what a value of JSON departs from a form of objects, lists and simple values; nothing where it has it.

    Args:
        given: The value.
        form: The form.
        is_secret: Quote nothing of the value, neither the names of unknown members.
    """
    path = form.departs(given)
    if path is None:
        return ""
    where, part, at = pointer(path) or "the file", cast("Any", given), cast("Form", form)
    for step in path:
        if isinstance(part, dict) and step not in part:
            return f"{where} is missing"
        part = part[step]
        if isinstance(at, Members):
            at = {**at.always, **at.sometimes}[str(step)]
        elif isinstance(at, ListOf):
            at = at.form
    return f"{where} {_misfit(part, at, is_secret=is_secret)}"


def _misfit(part: object, form: Form, *, is_secret: bool) -> str:
    match form:
        case Members() if isinstance(part, dict):
            unknown = next(name for name in part if name not in form.always and name not in form.sometimes)
            return "has an unknown member" if is_secret else f"has an unknown member, {unknown!r:.60}"
        case Members():
            return "is no object"
        case ListOf() if isinstance(part, list):
            return f"is no list of {form.least} to {form.most:,} parts"
        case ListOf():
            return "is no list"
        case Text() if not isinstance(part, str):
            return "is no text"
        case _:
            return "is not of its form"
