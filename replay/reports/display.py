"""Text for people: values of a trace on one line of a terminal, cut to a number of columns and with nothing in it that acts.

Widths are columns of a terminal: a wide character takes two, a combining mark none.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

from replay.jsontext import short
from replay.recorder import Cancelled, Ending, Raised, Returned

NARROWEST: Final = 40
UNLIMITED: Final = 1 << 30  # columns of a file or pipe: nothing is cut

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls, DEL
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls and marks
    "\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff"  # nothing to see: zero width, deprecated format controls
    "\u2028\u2029\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f\ud800-\udfff]"  # separators, marks, tags, no characters at all
    # Joiners are spelling in many scripts and emoji; behind anything else they only hide.
    "|(?<![\u0300-\u200b\u2100-\U000dffff])[\u200c\u200d]")
_BLANKS: Final = re.compile(r"\r\n|[\n\t]")
_DETAIL: Final = 8  # columns in which a detail still says something
_NAME: Final = 8  # and a name
_LOOKED_AT: Final = 4  # characters read for each column to fill, since marks take none
_MARKS: Final = 64  # and beside those, for a text of marks alone


def clean(text: str) -> str:
    """Make a text safe to show on one line: each unsafe character is U+FFFD, line breaks and tabs are blanks."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", _BLANKS.sub(" ", text))


def columns(text: str) -> int:
    """Count the columns that a cleaned text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, width: int) -> str:
    """Clean a text and cut off its end, where it is longer than `width` columns: names and JSON say most at their start."""
    looked_at = width * _LOOKED_AT + _MARKS
    whole = len(text) <= looked_at
    text = clean(text if whole else text[:looked_at])
    if whole and columns(text) <= width:
        return text
    return f"{_head(text, width - 1)}…" if width > 0 else ""


def _head(text: str, width: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > width:
            return text[:index]
    return text


def cell(text: str, width: int) -> str:
    """Fit a text and fill it up with blanks to exactly `width` columns."""
    shown = fit(text, width)
    return shown + " " * (width - columns(shown))


def ending(end: Ending | None, width: int = 80) -> str:
    """Write how a call ended on one line.

    A value is shown as JSON; a result that is tagged as `ok` or `err` by its word, with the number of its items where it
    holds a list. None is a call that the run ended inside of.
    """
    if end is None:
        return fit("not ended", width)
    if isinstance(end, Raised):
        return fit(f"raised {_plain_type(end.type)}: {end.message}" if end.message else f"raised {_plain_type(end.type)}", width)
    if isinstance(end, Cancelled):
        return fit("cancelled", width)
    return fit(_tagged(end.value, width) or short(end.value, width), width)


def is_error(end: Ending | None) -> bool:
    """Tell whether a call came to no good end: raised, cancelled, not ended, or returned an `err`."""
    return not isinstance(end, Returned) or (isinstance(end.value, dict) and end.value.get("tag") == "err")


def tag_of(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return `ok` or `err` for a result that is tagged as such, else nothing."""
    tag = value.get("tag") if isinstance(value, dict) else None
    return tag if (tag == "ok" and "value" in value) or (tag == "err" and "err" in value) else ""


def _tagged(value: Any, width: int) -> str:  # noqa: ANN401 - JSON
    tag = tag_of(value)
    if tag == "ok":
        inner = value["value"]
        return f"ok, {plural(len(inner), 'items')}" if isinstance(inner, list) else f"ok {short(inner, width)}"
    if tag == "err":
        code, message = value.get("code"), value["err"]
        shown = message if isinstance(message, str) else short(message, width)
        return f"err {code}: {shown}" if isinstance(code, str) else f"err: {shown}"
    return f"[] {plural(len(value), 'items')}" if isinstance(value, list) and len(value) > 1 else ""


def _plain_type(name: str) -> str:
    return name.removeprefix("builtins.")


def headed(name: str, detail: str, width: int) -> str:
    """Write a name and what belongs to it, each at least by its start; where there is room for one only, it is the name."""
    if not name:
        return fit(detail, width)
    name = clean(name)
    least = min(columns(clean(detail)), _DETAIL)
    if width - columns(name) - 1 < least:
        if width - 1 - least < _NAME:
            return fit(name, width)
        name = fit(name, width - 1 - least)
    return f"{name} {fit(detail, width - columns(name) - 1)}".rstrip()


def contrast(left: Any, right: Any, width: int = 80) -> tuple[str, str]:  # noqa: ANN401 - JSON
    """Write two values that differ, each in about `width` characters; of two long texts, what stands around their first difference."""
    if not (isinstance(left, str) and isinstance(right, str) and max(len(left), len(right)) > width):
        return short(left, width), short(right, width)
    same = _common(left, right)
    start = max(0, same - width // 3)
    return _excerpt(left, start, width), _excerpt(right, start, width)


def _common(left: str, right: str) -> int:
    """Count the characters with which both begin."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _excerpt(text: str, start: int, width: int) -> str:
    part = short(text[start:start + width], width * 6)
    return f"{'…' if start else ''}{part}{'…' if start + width < len(text) else ''}"


def plural(count: int, what: str) -> str:
    """Write a count with its noun, whose plural ends in s."""
    return f"{count:,} {what}" if count != 1 else f"1 {what.removesuffix('s')}"


def flowed(text: str, width: int, by: int = 2) -> list[str]:
    """Break a cleaned text between its words; the first line keeps its indentation, the others get `by` blanks more."""
    if columns(text) <= width:
        return [text]
    words = text.split()
    lead = " " * (len(text) - len(text.lstrip(" ")))
    lines, line = [], lead
    for word in words:
        grown = f"{line} {word}" if line.strip() else f"{line}{word}"
        if line.strip() and columns(grown) > width:
            lines.append(line)
            grown = f"{lead}{' ' * by}{word}"
        line = fit(grown, width)
    return [*lines, line]
