"""Which trace a test has: what its marker says, and a file beside its own.

    tests/test_desk.py::TestRefunds::test_late            tests/traces/test_desk/TestRefunds.test_late.jsonl
    tests/test_desk.py::test_country[de-3]                tests/traces/test_desk/test_country-de-3.jsonl
    tests/test_desk.py::test_country[Côte d'Ivoire]       tests/traces/test_desk/test_country-C_te_d_Ivoire~1b5f6d0a8c.jsonl

A name keeps what is safe in every file system; where something had to go, or it is too long, a digest of the whole keeps it apart from others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import pytest

from replay.errors import ReplayError
from replay.matching import MATCHINGS, Matching
from replay.scripts.substitute import Leftover
from replay.testing.keys import MARKER, REFUSED

FOLDER: Final = "traces"
LONGEST: Final = 120  # of a file name without its ending; file systems allow 255 bytes
_DIGITS: Final = 10
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]")
_LOSSY_IN_IDS: Final = re.compile(r"[^a-z0-9_.-]")  # ids often differ by case alone, which some file systems do not see
_GIVEN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Marked:
    """What the marker of a test says."""

    matching: Matching = "ordered"
    name: str | None = None
    leftover: Leftover = "report"
    allow_network: bool = False


def marked(item: pytest.Item) -> Marked:
    """Read the markers of a test: of its function, else its class, else its module.

    Raises:
        ReplayError: a marker that means nothing.
    """
    merged: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers(MARKER))):
        if mark.args:
            raise _refused(f"takes named arguments only, not {', '.join(map(repr, mark.args))}")
        merged.update(mark.kwargs)
    names = [field.name for field in fields(Marked)]
    for name in merged:
        if name not in names:
            raise _refused(f"has no argument {name!r}, only {', '.join(names)}")
    for name, words in (("matching", MATCHINGS), ("leftover", ("error", "report")), ("allow_network", (True, False))):
        if name in merged and merged[name] not in words:
            raise _refused(f"has {name}={merged[name]!r}, not one of {', '.join(map(repr, words))}")
    given = merged.get("name")
    if given is not None and not (isinstance(given, str) and _GIVEN.fullmatch(given) and len(given) <= LONGEST):
        raise _refused(f"has name={given!r}; a name is made of ASCII letters, digits, '_', '-' and '.', {LONGEST} at most")
    return Marked(**merged)


def _refused(problem: str) -> ReplayError:
    return ReplayError(f"the marker {MARKER} {problem}")


def trace_of(item: pytest.Function, name: str | None = None) -> Path:
    """Return where the trace of a test is; `name` stands for its class and function, not for the id of its parameters."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    own = item.originalname
    stem = file_name(name or ".".join([*classes, own]), item.name[len(own):])
    return item.path.parent / FOLDER / item.path.stem / f"{stem}.jsonl"


def file_name(name: str, parameters: str = "") -> str:
    """Return a file name without its ending, another one for each test; `parameters` is an id such as ``[de-3]``, or nothing."""
    inner = parameters[1:-1] if parameters.startswith("[") else parameters
    shown = _UNSAFE.sub("_", f"{name}-{inner}" if parameters else name)
    if not _UNSAFE.search(name) and not _LOSSY_IN_IDS.search(inner) and len(shown) <= LONGEST:
        return shown
    digest = hashlib.sha256(f"{name}{parameters}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{shown[:LONGEST - _DIGITS - 1]}~{digest}"


def refuse_wrong(items: Iterable[pytest.Item]) -> None:
    """Have each test fail alone whose marker means nothing, or that would share the trace of one before it."""
    owners: dict[Path, str] = {}
    for item in items:
        try:
            _check(item, owners)
        except ReplayError as error:
            item.stash[REFUSED] = error


def _check(item: pytest.Item, owners: dict[Path, str]) -> None:
    if not isinstance(item, pytest.Function):
        raise _refused("is for test functions, which this is not")
    path = trace_of(item, marked(item).name)
    owner = owners.setdefault(path, item.nodeid)
    if owner != item.nodeid:
        raise _refused(f"gives this test the trace {path.name} that {owner} has; give one of them another name")
