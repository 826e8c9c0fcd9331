"""What of a text can be read by itself: its sentences, headings, tables and code, and what each has to be read with.

A sentence may say the contrary of what its author says where it stands below "You may not:", behind "Myth:", or before "That is false.".
So a unit knows the one it stands *under*, and whether the next one takes it back; the stretch that holds all of them is its `outer` one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from rag_stdlib.proof.decisions import is_loose, squeezed
from rag_stdlib.proof.overlap import JOINING
from rag_stdlib.proof.sentences import closes, closes_surely, cut
from rag_stdlib.text.chunker import WHITE_SPACE
from rag_stdlib.text.mdblocks import Block, blocks
from rag_stdlib.text.mdlines import flat

_LINE: Final = re.compile(r"[^\n]*\n?")
_ITEM: Final = re.compile(r"(?P<lead>[ \t]*(?:>[ \t]?)*[ \t]*)(?:(?P<bullet>(?:[-*\u2022+][ \t]+)+)|(?P<number>[0-9]{1,9})[.)][ \t]+)(?=[^ \t\n])")
_LOOSE_MARKS: Final = re.compile(r"[-*\u2022#> \t]*[ \t]")  # what no claim has to hold (docs/certificate.md, check 16)
_QUOTE_MARKS: Final = re.compile(r"(?:[ \t\n]|>(?![ \t]*[0-9]))*")  # ">" before a number may be "more than"
_COLON: Final = re.compile(r"[:\uff1a](?:[\"'\u201d\u2019)*_]|\s*</[a-z]{1,10}>){0,4}\Z", re.IGNORECASE)
_LABEL: Final = re.compile(r"[*_\"'\u201c]{0,3}(?:[^\s:\uff1a.!?,;]+\s+){0,5}[^\s:\uff1a.!?,;]+\s?[:\uff1a][*_]{0,3}\s+(?=\S)")
_SAYS: Final = re.compile(r"[:\uff1a][*_]{0,3}\s+[\"'\u201c\u2018(*_]{0,3}(\w)")
_HANGS: Final = re.compile(r"[,;\u2013\u2014-]\Z|(?<!\w)[^\W\d_]+\Z")
_ANNOUNCES: Final = re.compile(
    r"\bas follows\b|\bthe following(?:\s+(?:is|are|was|were)\b|\s+(?:[a-z]+\s+)?(?:statement|claim|assertion|sentence|myth|rumou?r|belief|opinion|"
    r"quotation|text|passage|paragraph)s?\b|\s*[.!]?\Z)", re.IGNORECASE)
_TAKES_BACK: Final = re.compile(r"""
    [("'\u201c\u2018\[*_]{0,3}(?:(?:but|yet|however|in\s+fact|actually|of\s+course),?\s+)?
    (?:(?:this|that|it|these|those|they|both|neither|none|all)(?:\s+of\s+(?:this|that|it|these|those|them))?(?:\s+(?:claim|statement|assertion|report|rumou?r)s?)?
       \s+(?:
         (?:(?:is|was|are|were|has\s+been|have\s+been)(?:n['\u2019]t|\s+(?:(?:[a-z]+ly|later|now|since)\s+)?not)|(?:has|have)(?:n['\u2019]t|\s+not)\s+been)\s+(?:the\s+)?
           (?:true|so|correct|accurate|right|case|confirmed|proven|proved)\b
        |(?:is|was|are|were|has\s+been|have\s+been|turned\s+out\s+to\s+be|proved\s+to\s+be)\s+(?:(?:[a-z]+ly|later|now|since)\s+)?(?:an?\s+|all\s+)?
           (?:false|untrue|wrong|incorrect|inaccurate|myth|lie|hoax|rumou?r|mistake|error|misconception|nonsense|fiction|disputed|refuted|disproved|disproven|
              debunked|denied|retracted|withdrawn|unfounded|unproven)s?\b)
     |(?:none|neither|nothing)\s+of\s+(?:this|that|it|these|those|them)\s+(?:is|was|are|were|has\s+been|have\s+been)\s+
        (?:true|so|correct|accurate|right|the\s+case|confirmed|proven|proved)\b
     |or\s+so\b
     |(?:no|not|wrong|false|untrue|nonsense|incorrect|not\s+(?:so|true|at\s+all))\b[.!]*[)"'\u201d\u2019\]*_]{0,3}\Z)""", re.IGNORECASE | re.VERBOSE)
_DENIED_THING: Final = re.compile(r"\b(?:myths?|misconceptions?|falsehoods?|rumou?rs?|hoax(?:es)?|fallac(?:y|ies)|debunked)\b", re.IGNORECASE)
_DENIED: Final = re.compile(r"(?:(?:[a-z]+ )?(?:false|untrue|wrong|incorrect)(?: (?:claim|statement|assertion|belief)s?)?|fictions?)[.:!]?", re.IGNORECASE)
_MAY_TAKE_BACK: Final = re.compile(  # the beginning of such a sentence, or of any word
    r"(?:but|yet|however|in|actually|of|this|that|it|these|those|they|both|neither|none|nothing|all|no|not|wrong|false|untrue|nonsense|incorrect)\b"
    r"|[A-Za-z]+\s*\Z", re.IGNORECASE)
_LOOKED_AT: Final = 400  # code points of a unit's beginning or end, for the rules above


_NUMBER: Final = re.compile(r"[0-9]{1,3}[.)][ \t]+(?=[^ \t\n])")
_FINAL_STOP: Final = re.compile(r"(?<![.\u2026])[.\u3002\uff0e\uff61]\Z")
_INDENTED: Final = re.compile(r"[\n\r]([ \t]*)(?=[^ \t\n\r])")


class Unit(NamedTuple):
    """A unit of a text: `start` and `end`, in code points, trimmed and without the mark of a list, heading or quotation before it.

    `mark` is where such a mark begins (`start` where there is none); `listed` whether it is part of a list's item; `under` the number of the
    unit that this one is read with, which comes before; `undone` whether the next one takes it back; `outer_start` and `outer_end` hold
    the unit and all that it is read with.
    """

    start: int
    end: int
    mark: int
    listed: bool
    under: int | None
    undone: bool
    outer_start: int
    outer_end: int

    @property
    def alone(self) -> bool:
        """Whether it can be read by itself."""
        return self.under is None and not self.undone


def units(text: str) -> list[Unit]:
    """Return the units of a text, in order and disjoint.

    Outside of them is nothing but white space and the marks ``- * • # >``. Time is linear in the text.
    """
    found = _Reader(text).read()
    made: list[Unit] = []
    for number, (start, end, mark, listed, under) in enumerate(found):
        behind = found[number + 1] if number + 1 < len(found) else None
        undone = behind is not None and _TAKES_BACK.match(text, behind[0], min(behind[1], behind[0] + _LOOKED_AT)) is not None
        outer_start = start if under is None else made[under].outer_start
        made.append(Unit(start, end, mark, listed, under, undone, outer_start, behind[1] if behind is not None and undone else end))
    return made


def form(text: str) -> str:
    """Return the form in which two units are the same: white space is squeezed, and a list's number and a final full stop do not count.

    A text whose lines are indented unequally is laid out, as code is, and its white space has a meaning: it stays as it is.
    """
    bare = text[len(found[0]):] if (found := _NUMBER.match(text)) else text
    if text.startswith(("```", "~~~")) or len(set(_INDENTED.findall(flat(text)))) > 1:
        return f"\n{bare}"
    return _FINAL_STOP.sub("", squeezed(bare)).rstrip(" ")


def whole_part(text: str, *, cut_before: bool, cut_behind: bool) -> tuple[int, int]:
    """Return the place of what surely consists of whole units, in a text that may have been cut out of a longer one at any character.

    Where it was cut before, the first unit may be the rest of one ("40 MB are needed." of "640 MB are needed."), and a list that it begins with
    may have stood under something: both are left out, with all that stands under them. Where it was cut behind, a last unit that does not
    surely end is left out as well, and the one before it if the last may be about to take it back. The place is empty where nothing is left.
    """
    found = units(text)
    if not found:
        return 0, 0
    first, last = 0, len(found)
    if cut_behind and not closes_surely(text[found[-1].start:found[-1].end]):
        last -= 2 if _MAY_TAKE_BACK.match(text, found[-1].start) else 1
    if cut_before:
        first = 1
        while first < last and (found[first].listed or found[first].under is not None):
            first += 1
    if first >= last:
        return 0, 0
    return found[first].mark, found[last - 1].end


class _Found(NamedTuple):
    start: int
    end: int
    mark: int
    listed: bool
    under: int | None


class _Segment(NamedTuple):
    """A paragraph, or one item of a list; `column` is the item's, None for a paragraph. `indented`: the paragraph may go on with an item."""

    start: int
    end: int
    mark: int
    column: int | None
    indented: bool = False


class _Reader:
    """One walk over the blocks of a text.

    `_intro` is the unit that the next block stands under, `_list` the one that a list does, from its first item to the next paragraph,
    `_items` are the items that are open, each with its column and its last unit, and `_section` is a heading that denies what stands
    below it ("Myths"), with its level.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._flat = flat(text)
        self._found: list[_Found] = []
        self._intro: int | None = None
        self._list: int | None = None
        self._items: list[tuple[int, int]] = []
        self._section: tuple[int, int] | None = None
        self._unfinished = False  # whether a paragraph came last that ends like none

    def read(self) -> list[_Found]:
        for block in blocks(self._flat):
            if block.kind == "text":
                for segment in self._segments(block):
                    self._prose(segment)
            else:
                self._whole(block)
        return self._found

    def _segments(self, block: Block) -> Iterator[_Segment]:
        """Yield the paragraphs and items of a block of text."""
        segment: _Segment | None = None
        numbered = False
        for line in _LINE.finditer(self._flat, block.start, block.end):
            item = _ITEM.match(self._flat, line.start(), line.end())
            if item and (item["bullet"] or segment is None or numbered or item["number"] == "1"):
                if segment is not None:
                    yield segment._replace(end=line.start())
                numbered = item["bullet"] is None
                column = len(item["lead"].replace(">", " ").expandtabs(4))
                loose = not numbered and "+" not in item["bullet"]
                segment = _Segment(item.end() if loose else item.end("lead"), block.end, item.end("lead"), column)
            elif segment is None:
                start = self._behind_marks(block.start, block.end)
                segment = _Segment(start, block.end, start, None, self._flat[block.start] in " \t")
        if segment is not None:
            yield segment

    def _behind_marks(self, start: int, end: int) -> int:
        return _QUOTE_MARKS.match(self._flat, start, end).end()  # type: ignore[union-attr] # it matches nothing, too

    def _prose(self, segment: _Segment) -> None:
        above = self._above(segment)
        label: int | None = None
        first = len(self._found)
        for begin, end in cut(self._text, segment.start, segment.end):
            begins_line = begin == 0 or self._flat[begin - 1] == "\n"
            start = self._behind_marks(begin, end) if begins_line else begin
            if not is_loose(self._text[start:end]):
                continue
            number = len(self._found)
            listed = segment.column is not None or (segment.indented and bool(self._items))
            self._add(start, end, segment.mark if number == first else start, above if label is None else label, listed=listed)
            if self._speaks_for_what_follows(start, end, is_first=number == first):
                label = number
        if len(self._found) > first:
            self._end_segment(segment, label)

    def _speaks_for_what_follows(self, start: int, end: int, *, is_first: bool) -> bool:
        """Tell whether the rest of a paragraph has to be read with a sentence of it: "Myth: ...", "Smith said: We ...", "The following is false."."""
        if _ANNOUNCES.search(self._text, max(start, end - _LOOKED_AT), end) or (is_first and _LABEL.match(self._text, start, end)):
            return True
        says = _SAYS.search(self._text, start, min(end, start + _LOOKED_AT))
        return says is not None and says[1].isupper()

    def _above(self, segment: _Segment) -> int | None:
        """Return the unit that a segment stands under."""
        if segment.column is None:
            if self._items and segment.indented:
                return self._intro if self._intro is not None else self._items[-1][1]
            self._items.clear()
            self._list = None
            goes_on = self._intro is None and bool(self._found) and self._text[segment.start:segment.start + 1].islower()
            return len(self._found) - 1 if goes_on else self._intro
        if not self._items:
            last = len(self._found) - 1
            self._list = self._intro if self._intro is not None else last if self._unfinished else None
        while self._items and self._items[-1][0] >= segment.column:
            self._items.pop()
        return self._items[-1][1] if self._items else self._list

    def _end_segment(self, segment: _Segment, label: int | None) -> None:
        last = len(self._found) - 1
        text = self._text[self._found[last].start:self._found[last].end][-_LOOKED_AT:]
        announces = _COLON.search(text) is not None or (label is not None and _ANNOUNCES.search(text) is not None)
        self._intro = last if announces or _hangs(text) else None
        self._unfinished = segment.column is None and not closes(text)
        if segment.column is not None:
            self._items.append((segment.column, last))

    def _whole(self, block: Block) -> None:
        """Take a heading, table, code or raw HTML as one unit."""
        start, end = block.start, block.end
        body = self._text[start:end]
        mark = start + len(body) - len(body.lstrip(WHITE_SPACE))
        end -= len(body) - len(body.rstrip(WHITE_SPACE))
        start = mark
        if block.kind == "heading":
            loose = _LOOSE_MARKS.match(self._text, start, end)
            start = loose.end() if loose else start
            self._items.clear()
            self._list = None
            if self._section is not None and block.level <= self._section[0]:
                self._section = None
        if is_loose(self._text[start:end]):
            self._add(start, end, mark, self._intro if self._intro is not None else self._list, listed=bool(self._items))
            last = len(self._found) - 1
            is_intro = block.kind in ("heading", "html") and _COLON.search(self._text[max(start, end - _LOOKED_AT):end])
            self._intro = last if is_intro else None
            self._unfinished = False
            if block.kind == "heading" and self._section is None and _denies(block.title[:_LOOKED_AT]):
                self._section = block.level, last

    def _add(self, start: int, end: int, mark: int, under: int | None, *, listed: bool) -> None:
        section = None if self._section is None else self._section[1]
        self._found.append(_Found(start, end, mark, listed, under if under is not None else section))


def _hangs(text: str) -> bool:
    """Tell whether a text breaks off in the midst of a sentence: behind a comma, or a word such as "that"."""
    found = _HANGS.search(text)
    return found is not None and (not found[0].isalpha() or found[0].casefold() in JOINING)


def _denies(title: str) -> bool:
    """Tell whether a heading says of what stands below it that it is not so: "Common myths", "False claims", and not "False positives"."""
    return _DENIED_THING.search(title) is not None or _DENIED.fullmatch(title) is not None
