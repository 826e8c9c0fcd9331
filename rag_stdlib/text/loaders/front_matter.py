"""The block of metadata at the start of a Markdown file: YAML between ``---`` lines or TOML between ``+++`` lines.

Only what a flat mapping can hold is read: top-level keys with a string, a finite number, a boolean or null. Nested
mappings, lists, block and multi-line scalars, anchors and tags are skipped, never guessed at.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from rag_stdlib.records import Scalar
from rag_stdlib.text.loaders.decoding import scrub

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_CHARS: Final = 65_536  # a longer block is no metadata; it also bounds what the TOML parser is given
_OPENINGS: Final = re.compile(r"(---|\+\+\+)[ \t]*(?:\r\n|\r|\n)")
_LINE: Final = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_CLOSINGS: Final = {"---": ("---", "..."), "+++": ("+++",)}
_ENTRY: Final = re.compile(r"""("[^"\\]*"[ \t]*|'[^']*'[ \t]*|[^\s"'#\[\]{},&*!|>%@`:?-][^:]*):(?:[ \t]+(.*))?$""")
_DOUBLE: Final = re.compile(r'("(?:[^"\\]|\\.)*")[ \t]*(?:#.*)?$')
_SINGLE: Final = re.compile(r"'((?:[^']|'')*)'[ \t]*(?:#.*)?$")
_COMMENT: Final = re.compile(r"(?:^|(?<=[ \t]))#.*$")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, Scalar]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}
_INT_DIGITS: Final = 18  # always inside 64 bits, which is what stores and filters can compare


class FrontMatter(NamedTuple):
    """What was set aside: its values, the first character of the body and the file line it stands on."""

    metadata: dict[str, Scalar]
    body_start: int
    body_line: int


def split(text: str) -> FrontMatter | None:
    """Find the front matter of `text`; None when it has none.

    There is none without a closing line, with a block over 65,536 characters, with invalid TOML, or where the first
    line inside ``---`` is no ``key:`` at all: that is prose between two thematic breaks, and prose is not thrown away.
    """
    opening = _OPENINGS.match(text)
    if opening is None:
        return None
    fence = opening[1]
    block: list[str] = []
    for number, (line, end) in enumerate(_lines(text, opening.end()), start=3):
        if line.rstrip(" \t") in _CLOSINGS[fence]:
            values = _yaml(block) if fence == "---" else _toml("\n".join(block))
            return None if values is None else FrontMatter(_storable(values), end, number)
        block.append(line)
    return None


def _lines(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield each line after `start` without its end, and the offset behind it, within the bound of a block."""
    for match in _LINE.finditer(text, start):
        if match.end() > _MOST_CHARS:
            return
        yield match[1], match.end()


def _storable(values: dict[str, Scalar]) -> dict[str, Scalar]:
    return {scrub(key)[0]: scrub(value)[0] if isinstance(value, str) else value for key, value in values.items()}


def _toml(block: str) -> dict[str, Scalar] | None:
    try:
        table = tomllib.loads(block)
    except (ValueError, RecursionError):
        return None
    return {key: scalar for key, value in table.items() if (scalar := _toml_scalar(value)) is not None}


def _toml_scalar(value: object) -> Scalar:
    """Return a TOML value as a scalar, dates and times as ISO 8601; None for what has no scalar form."""
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 10**_INT_DIGITS else None
    return value if isinstance(value, float) and math.isfinite(value) else None


def _yaml(block: list[str]) -> dict[str, Scalar] | None:
    values: dict[str, Scalar] = {}
    key = ""
    seen = False
    for line in block:
        if not line.strip() or line.startswith("#"):
            continue
        if seen and line[0] in " \t-]}":  # it belongs to the value of the key before, which is then no plain scalar
            values.pop(key, None)
            continue
        entry = _ENTRY.match(line)
        if entry is None:
            if not seen:
                return None
            continue
        seen = True
        key = entry[1].rstrip()
        key = key[1:-1] if key[0] in "\"'" else key
        values.pop(key, None)
        for scalar in _yaml_scalar((entry[2] or "").strip()):
            values[key] = scalar
    return values


def _yaml_scalar(source: str) -> tuple[Scalar, ...]:
    """Read a scalar on one line (YAML 1.2.2 core schema, numbers in JSON's form); empty for anything else."""
    if source.startswith('"'):
        return _double_quoted(source)
    if source.startswith("'"):
        single = _SINGLE.match(source)
        return (single[1].replace("''", "'"),) if single else ()
    if source.startswith(("- ", "? ", ": ", *"[]{},&*!|>%@`")):
        return ()
    plain = _COMMENT.sub("", source).rstrip()
    if ": " in plain or plain.endswith(":"):
        return ()
    return (_WORDS[plain] if plain in _WORDS else _number(plain),)


def _double_quoted(source: str) -> tuple[Scalar, ...]:
    quoted = _DOUBLE.match(source)
    try:
        return (json.loads(quoted[1], strict=False),) if quoted else ()
    except ValueError:  # an escape that YAML has and JSON has not
        return ()


def _number(plain: str) -> Scalar:
    """Return a number in JSON's form that fits 64 bits as one; the text itself otherwise."""
    match = _NUMBER.fullmatch(plain)
    if match is None:
        return plain
    if match[1] is None and match[2] is None:
        return int(plain) if len(plain) <= _INT_DIGITS else plain
    value = float(plain)
    return value if math.isfinite(value) else plain
