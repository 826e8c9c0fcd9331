"""Cut a text into overlapping windows at sentence ends: std/rag's rules and offsets, in linear time.

A window reaches `max_chars` code points beyond its start. In its second half the last position behind one of
``. ! ? newline`` is taken as the end, or else the window's full length; white space is trimmed off both ends; the next
window starts `overlap` before the trimmed end. Where that would go back to the trimmed start or before it, std/rag
repeats the chunk or never ends; here the next window starts at the trimmed end. `options` name every other departure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from rag_stdlib.errors import fail
from rag_stdlib.text import markdown
from rag_stdlib.text.graphemes import Clusters
from rag_stdlib.text.positions import ByteOffsets

MAX_CHUNKS: Final = 200_000

# Unicode White_Space. Python's str.isspace() also takes U+001C..U+001F, which std/rag keeps.
WHITE_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_BLANKS: Final = frozenset(WHITE_SPACE)
_STOPS: Final = ".!?\n"
_CJK_STOPS: Final = "\u3002\uff01\uff1f\uff0e"


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """Departures from std/rag's rules; all off by default.

    `end_boundary`: a sentence end exactly at the window's end is taken too. `graphemes`: never cut inside an extended
    grapheme cluster (UAX #29) of up to 64 code points. `cjk_stops`: also end at full-width stops. `markdown`: never cut inside
    a fenced code block or a table row if the block or row fits a window, and give the later pieces of a table its header
    as context for embedding.
    """

    end_boundary: bool = False
    graphemes: bool = False
    cjk_stops: bool = False
    markdown: bool = False

    def name(self) -> str:
        """Name the rules as the index stores them: ``std-rag/1`` plus the options that are on."""
        on = [option for option in self.__slots__ if getattr(self, option)]
        return "+".join(["std-rag/1", *on])


STD_RAG: Final = ChunkOptions()


class Chunk(NamedTuple):
    """A piece of a text: half-open code point and UTF-8 byte offsets, and the text between them.

    `context` is text that belongs before the chunk where it is read alone (a table's header); it is embedded with the
    chunk and is no part of it.
    """

    ordinal: int
    start_char: int
    end_char: int
    start_byte: int
    end_byte: int
    text: str
    context: str = ""

    @property
    def embedded_text(self) -> str:
        """The text to embed: the chunk behind its context."""
        return embedded_text(self.context, self.text)


def embedded_text(context: str, text: str) -> str:
    """Join a chunk's context and text to what is embedded."""
    return f"{context}\n{text}" if context else text


def default_overlap(chunk_chars: int) -> int:
    """Give std/rag's overlap: a fifth of the window, rounded down."""
    return chunk_chars // 5


def chunk_text(text: str, max_chars: int, overlap: int | None = None, options: ChunkOptions = STD_RAG) -> list[Chunk]:
    """Cut `text` into chunks of at most `max_chars` code points (a larger grapheme cluster stays whole).

    `overlap` is capped at ``max_chars - 1``; None takes `default_overlap`. Every non-blank character is in a chunk;
    starts and ends strictly advance.

    Raises:
        Failure: `invalid_chunk_chars`, `too_many_chunks`.
    """
    if max_chars < 1:
        raise fail("invalid_chunk_chars")
    wanted = default_overlap(max_chars) if overlap is None else overlap
    blocks = markdown.scan(text) if options.markdown else markdown.NO_BLOCKS
    start_bytes, end_bytes = ByteOffsets(text), ByteOffsets(text)
    narrow = text.isascii()  # characters are bytes
    chunks: list[Chunk] = []
    for start, end in _spans(text, max_chars, min(max(wanted, 0), max_chars - 1), options, blocks):
        if len(chunks) == MAX_CHUNKS:
            raise fail("too_many_chunks", cap=MAX_CHUNKS, chunk_chars=max_chars)
        context = blocks.table_header(start) if options.markdown else ""
        first, behind = (start, end) if narrow else (start_bytes.at(start), end_bytes.at(end))
        chunks.append(Chunk(len(chunks), start, end, first, behind, text[start:end], context))
    return chunks


def _spans(text: str, max_chars: int, overlap: int, options: ChunkOptions,
           blocks: markdown.Blocks) -> Iterator[tuple[int, int]]:
    """Yield trimmed (start, end) spans. Each round moves `start` forward, so that it ends for every text."""
    last = len(text.rstrip(WHITE_SPACE))
    stops = [stop for stop in _STOPS + (_CJK_STOPS if options.cjk_stops else "") if stop in text]
    clusters = Clusters(text) if options.graphemes else None
    start, covered = 0, 0
    while start < last:
        target = min(start + max_chars, len(text))
        end = target if target == len(text) else _cut(text, start, target, stops, options)
        if options.markdown and end < len(text):
            end = blocks.cut_before(start, end, target)
        if clusters:
            end = clusters.end(end) if clusters.start(end) <= start else clusters.start(end)
        left, right = _trimmed(text, start, end, clusters)
        if left >= right:  # blank so far; std/rag skips the whole window, ours only where that loses nothing
            start = end if clusters or text[end:target].strip(WHITE_SPACE) else target
            continue
        if right > covered:  # a window that only repeats what the one before it held adds nothing
            yield left, right
            covered = right
        if right >= last:
            return
        following = blocks.resume(right - overlap, right) if options.markdown else right - overlap
        if clusters:
            following = clusters.start(following)
        start = following if following > left else covered


def _trimmed(text: str, start: int, end: int, clusters: Clusters | None) -> tuple[int, int]:
    left, right = start, end
    while left < right and text[left] in _BLANKS:
        left += 1
    while left < right and text[right - 1] in _BLANKS:
        right -= 1
    if clusters and left < right:  # a blank can be the base of a combining mark, or follow a prefixed sign
        return clusters.start(left), clusters.end(right)
    return left, right


def _cut(text: str, start: int, target: int, stops: list[str], options: ChunkOptions) -> int:
    """Find the end of the window: behind its last stop in the second half, or `target`."""
    low = start + max(1, (target - start) // 2) - 1  # the stop itself stands one before the cut
    high = target if options.end_boundary else target - 1
    found = -1
    for stop in stops:
        at = text.rfind(stop, low, high)
        if at > found:
            found, low = at, at + 1
    return target if found < 0 else found + 1
