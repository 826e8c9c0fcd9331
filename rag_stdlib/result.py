"""Results as values: `Ok`, `Err` and the error a tool returns.

A tool never raises for a condition a program can meet at run time; it returns `Ok(value)` or `Err(error)`, to be
taken apart by pattern matching::

    match rag_search("notes.db", "refund", 5):
        case Ok(chunks): ...
        case Err(error): print(error.code, error)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeAlias, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

Fix: TypeAlias = Literal["caller", "operator", "nobody"]


class RagError(str):
    """An error message that is a plain `str` and also says what kind it is.

    `code` comes from the closed table of `rag_stdlib.errors`; `fix` names who can put it right: the *caller*
    (change the call), the *operator* (change the installation or configuration) or *nobody*.
    """

    __slots__ = ("code", "fix")
    code: str
    fix: Fix

    def __new__(cls, message: str, code: str, fix: Fix) -> Self:
        """Make an error; the three parts are read-only by convention."""
        self = super().__new__(cls, message)
        self.code = code
        self.fix = fix
        return self

    def __repr__(self) -> str:
        """Show the code beside the message."""
        return f"RagError({self.code!r}, {str(self)!r})"

    def __reduce__(self) -> tuple[type[RagError], tuple[str, str, Fix]]:
        """Pickle and copy with all three parts."""
        return RagError, (str(self), self.code, self.fix)


class UnwrapError(Exception):
    """`unwrap()` was called on an `Err`; `error` holds it."""

    def __init__(self, error: RagError) -> None:
        """Keep the error that was unwrapped."""
        super().__init__(f"{error.code}: {error}")
        self.error = error


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    """Success. `notes` are remarks for people (which mode served, what was skipped); they take no part in equality."""

    value: T
    notes: tuple[str, ...] = field(default=(), compare=False, kw_only=True)

    @property
    def is_ok(self) -> Literal[True]:
        """Always true; `Err.is_ok` is always false."""
        return True

    def unwrap(self) -> T:
        """Return the value."""
        return self.value

    def unwrap_or(self, default: object) -> T:  # noqa: ARG002 - same signature as Err's
        """Return the value; the default is for `Err`."""
        return self.value


@dataclass(frozen=True, slots=True)
class Err:
    """Failure, carrying a `RagError`."""

    error: RagError

    @property
    def is_ok(self) -> Literal[False]:
        """Always false."""
        return False

    def unwrap(self) -> NoReturn:
        """Raise `UnwrapError`: for scripts and tests that do not expect to fail."""
        raise UnwrapError(self.error)

    def unwrap_or(self, default: T) -> T:
        """Return `default`."""
        return default


Result: TypeAlias = Ok[T] | Err


def to_json(result: Ok[Any] | Err) -> dict[str, Any]:
    """Encode a result: ``{"tag": "ok", "value": …}``, the value as it is, or ``{"tag": "err", "err": …}``.

    The shape is Corvid's; an Err also carries `code` and `fix`, and an Ok its notes when it has any.
    """
    if isinstance(result, Ok):
        notes = {"notes": list(result.notes)} if result.notes else {}
        return {"tag": "ok", "value": result.value, **notes}
    return {"tag": "err", "err": str(result.error), "code": result.error.code, "fix": result.error.fix}


def from_json(encoded: dict[str, Any]) -> Ok[Any] | Err:
    """Decode what `to_json` wrote; the value stays JSON."""
    if encoded["tag"] == "ok":
        return Ok(encoded["value"], notes=tuple(encoded.get("notes", ())))
    return Err(RagError(encoded["err"], encoded["code"], encoded["fix"]))
