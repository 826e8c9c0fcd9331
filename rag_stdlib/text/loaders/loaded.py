"""What every loader returns, and what it raises for a file it cannot make sense of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rag_stdlib.errors import Failure, fail
from rag_stdlib.records import Anchors, FrozenDict, Scalar
from rag_stdlib.text.loaders.decoding import scrub

_DETAIL_CHARS = 200


@dataclass(frozen=True, slots=True)
class Loaded:
    """The text of a file and the way back to the original.

    `lines` and `pages` are anchors ``(start_char, number)`` in ascending order, numbers from 1. The original line of an
    offset is the line of the last anchor at or before it plus the line breaks (LF, CRLF, CR) of the text in between;
    the page is the last anchor's. Empty `lines`: the text's own lines are the file's. `notes` are sentences for people:
    what was stripped, replaced or left out. `text` never holds U+0000 or a lone surrogate.
    """

    text: str
    media_type: str
    metadata: Mapping[str, Scalar] = field(default_factory=FrozenDict)
    lines: Anchors = ()
    pages: Anchors = ()
    notes: tuple[str, ...] = ()


def unreadable(name: str, kind: str, reason: str | Exception) -> Failure:
    """Make the `file_unreadable` for a reason in words, or for what a parser raised, as one short line."""
    if isinstance(reason, Exception):
        said = " ".join(scrub(str(reason))[0].split())[:_DETAIL_CHARS]
        reason = f"{said} ({type(reason).__name__})" if said else type(reason).__name__
    return fail("file_unreadable", name=name, kind=kind, detail=reason)
