"""Text for a terminal: nothing a document or file name holds can move the cursor, colour or reorder what is shown."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from contextlib import suppress
from typing import Any, Final, TextIO

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls, DEL
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls and marks
    "\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff"  # nothing to see: zero width, deprecated format controls
    "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"  # separators, interlinear marks, tags, lone surrogates
    # Joiners are spelling in many scripts and emoji; behind anything else they only hide.
    "|(?<![\u0300-\u200b\u2100-\U000dffff])[\u200c\u200d]")
_LINE_BREAKS: Final = re.compile(r"\r\n|[\n\t]")


class OutputError(Exception):
    """Standard output does not take what is written; `reason` is empty where its reader has simply gone away."""

    def __init__(self, error: OSError) -> None:
        """Take the reason over."""
        self.reason = "" if isinstance(error, BrokenPipeError) else error.strerror or str(error)
        super().__init__(self.reason)


def show(text: str, end: str = "\n") -> None:
    """Write a result to standard output."""
    try:
        print(text, end=end)  # noqa: T201 - the one place that does
    except OSError as error:
        raise OutputError(error) from None


def flush() -> None:
    """Send out what `show` wrote."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise OutputError(error) from None


def say(line: str, *codes: int) -> None:
    """Write one cleaned line, styled by SGR codes, to standard error; where that fails there is nobody left to tell."""
    say_page(styled(clean(line), *codes, stream=sys.stderr) if codes else clean(line))


def say_page(text: str) -> None:
    """Write text of our own to standard error, as it is."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - the one place that does


def clean(text: str) -> str:
    """Make a text safe to print on one line: each unsafe character is U+FFFD, line breaks and tabs are blanks."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", _LINE_BREAKS.sub(" ", text))


def clean_block(text: str) -> str:
    """Make a text of several lines safe to print; its line breaks and tabs stay."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))


def size(count: int) -> str:
    """Write a number of bytes for people, in powers of 1,000."""
    if count < 1000:  # noqa: PLR2004 - the step between units
        return f"{count} B"
    for exponent, unit in ((1, "kB"), (2, "MB")):
        value = count / 1000**exponent
        if value < 999.95:  # noqa: PLR2004 - what would round to 1000.0 is one of the next unit
            return f"{value:.1f} {unit}"
    return f"{count / 1000**3:,.1f} GB"


def plural(count: int, what: str) -> str:
    """Write a count with its noun."""
    return f"{count:,} {what}" if count != 1 else f"1 {what.removesuffix('s')}"


def colour_wanted(stream: Any) -> bool:  # noqa: ANN401 - anything that stands in for a stream
    """Tell whether output to `stream` may carry colour: a terminal, and neither NO_COLOR nor TERM=dumb forbids it."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and not is_dumb()


def is_terminal(stream: Any) -> bool:  # noqa: ANN401 - as above
    """Tell whether a stream is a terminal."""
    return bool(getattr(stream, "isatty", lambda: False)())


def is_dumb() -> bool:
    """Tell whether the terminal can only take lines."""
    return os.environ.get("TERM") == "dumb"


def styled(text: str, *codes: int, stream: TextIO | None = None) -> str:
    """Wrap cleaned text in SGR codes if the stream (standard output) is a terminal that wants them."""
    wanted = text and colour_wanted(stream or sys.stdout)
    return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m" if wanted else text


def cells(char: str) -> int:
    """Count the columns that a character takes: two for wide ones, none for marks and format characters."""
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
