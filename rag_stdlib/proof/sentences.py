"""Where sentences end in a stretch of prose, decided so that no piece of a sentence is taken for a whole one.

A stop ends a sentence only where nothing speaks against it: not behind an abbreviation, an initial or a list's number, not before a small
letter, not where words were left out (…), and not inside quotation marks or brackets. Where in doubt the sentence goes on: two sentences
taken for one can be read, while half of one may say the contrary of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from rag_stdlib.text.chunker import WHITE_SPACE

_PAIRS: Final = {"(": ")", "[": "]", "\uff08": "\uff09", "\u3010": "\u3011", "\u300a": "\u300b", "\u3008": "\u3009", "\u300c": "\u300d", "\u300e": "\u300f"}
_CLOSES: Final = {closing: opening for opening, closing in _PAIRS.items()}
_SPOKEN: Final = frozenset("\u300c\u300e<")  # of the pairs, those that are quotation marks; "<" is for markup that quotes, strikes out or hides
_OPENS_SPEECH: Final = frozenset(("\u201c", "\u201e", "\u00ab", "``"))
_ENDS_SPEECH: Final = frozenset(("\u201d", "\u00bb", "''"))
_EITHER: Final = frozenset(('"', "\u201f", "\uff02", "~~"))
_ALWAYS_ENDS: Final = "\u3002\uff01\uff1f\uff61"  # of scripts that set no space behind a stop,
_NO_SPACE_BEHIND: Final = "\u3001\uff0c\uff1a\uff1b"  # nor behind these
_MARK: Final = re.compile(
    r"<(?:q|s|del|strike|blockquote)(?:\s[^<>]{0,200})?>|</(?:q|s|del|strike|blockquote)>|<!--|-->|~~"
    "|``|''|[\"\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02]|['\u2018\u2019\u201a]"
    f"|[{re.escape(''.join((*_PAIRS, *_CLOSES)))}]|[.!?\u2026\u203d]+|[{_ALWAYS_ENDS}]+|[\uff0e\u061f\u06d4\u0964\u0965\u0589\u1362]")
_WHITE: Final = re.compile(f"[{WHITE_SPACE}]*")
_CLOSING: Final = re.compile("(?:''|[\"'\u201c\u201d\u2019\u00bb)\\]}\u300d\u300f\uff09\u3011*_]){0,8}")
_OPENING: Final = re.compile("(?:``|[\"'\u201c\u2018\u201e\u00ab(\\[{\u00bf\u00a1*_]){0,8}")
_CLOSED: Final = frozenset('"\u201d\u00bb)]}*_')
_GOES_ON: Final = frozenset(".,;:)]}%/&")
_LONGEST_WORD: Final = 24  # code points; no abbreviation is longer
_WORD_BREAK: Final = re.compile(f"[{WHITE_SPACE}(\\[\"'\u201c\u2018\u2019/\u2013\u2014-]")
_ENUMERATOR: Final = re.compile(r"[0-9]{1,3}|[ivxlc]{1,5}", re.IGNORECASE)

# What is written with a full stop that ends no sentence, without that stop. Some are words as well; those go on, too.
_SHORT_WORDS: Final = """
    adm al apr approx apt art assoc aug ave bd bldg blvd bros bzw ca capt cf chap cie cmdr co col comdr corp cpl ct dec dept dipl dir dist div dr ed eds
    eg eq eqs esp est esq etc evtl ex excl feb ff fig figs fr fri ft gen gov ggf hon hr hrs ibid ie inc incl int jan jr jul jun ken lat lieut lit llc lt ltd
    maj mar max min misc mlle mme mon mr mrs ms msgr mt mtn mts nat neg nov nr obs oct op orig para pfc ph pl pos pp pres prof prop prov pt pty pvt
    rd ref rel rep reps resp rev rs sat sci sec sect sen sens sep sept ser sgt sq sr sra st ste str sun supp supt surg tel temp thu thur thurs trans treas
    tue tues univ usw var viz vgl vol vols vs wed yr yrs"""
_SHORT_BEFORE_NUMBERS: Final = "abs ch cl col line n no nos note nr p par pp s sect tab v ver vers"
_ABBREVIATIONS: Final = frozenset(_SHORT_WORDS.split())
_BEFORE_NUMBERS: Final = frozenset(_SHORT_BEFORE_NUMBERS.split())

Span = tuple[int, int]


class _Cover(NamedTuple):
    """A stretch inside quotation marks (`spoken`) or brackets, the marks included."""

    start: int
    end: int
    spoken: bool


def cut(text: str, start: int, end: int) -> list[Span]:
    """Return the sentences of `text` from `start` to `end`, a stretch without blank lines: trimmed, in order, none empty.

    They hold all of it that is not white space. Time is linear in the stretch.
    """
    stops: list[Span] = []
    covers = _merged(_Marks(text, start, end).covers(stops))
    found: list[Span] = []
    begin = _skip_white(text, start, end)
    cover, last = 0, start
    for stop, after in stops:
        left_out = last < stop == _skip_white(text, last, stop) and last > start  # a stop alone behind another: an ellipsis with blanks
        last = after
        behind = _CLOSING.match(text, after, end).end()  # type: ignore[union-attr] # it matches nothing, too
        while cover < len(covers) and covers[cover].end <= stop:
            cover += 1
        if left_out or (cover < len(covers) and not _is_outside(covers[cover], begin, stop, behind)):
            continue
        if cover < len(covers) and covers[cover].start > stop:
            behind = min(behind, covers[cover].start)  # a mark that opens closes nothing
        following = _skip_white(text, behind, end)
        if following < end and _is_end(text, begin, text[stop:after], stop, behind, following, end):
            found.append((begin, behind))
            begin = following
    last = begin + len(text[begin:end].rstrip(WHITE_SPACE))
    return [*found, (begin, last)] if begin < last else found


def closes(text: str) -> bool:
    """Tell whether a text ends as a sentence does: with a stop, and maybe marks that close."""
    bare = text.rstrip("\"'\u201c\u201d\u2019\u00bb)]}\u300d\u300f\uff09\u3011*_" + WHITE_SPACE)
    return bare.endswith(tuple(".!?\u2026\u203d\uff0e\u061f\u06d4\u0964\u0965\u0589\u1362" + _ALWAYS_ENDS))


def closes_surely(text: str) -> bool:
    """Tell the same of a text that may have been cut behind any character: "3." can be the beginning of "3.5", "e." of "e.g."."""
    bare = text.rstrip(WHITE_SPACE)
    if not closes(bare):
        return False
    if not bare.endswith("."):
        return True
    word = _word_before(bare, 0, len(bare) - 1)
    return not (bare.endswith("..") or word[-1:].isdigit() or _is_short(word, ""))


def _skip_white(text: str, at: int, end: int) -> int:
    return _WHITE.match(text, at, end).end()  # type: ignore[union-attr] # it matches nothing, too


def _is_outside(cover: _Cover, begin: int, stop: int, behind: int) -> bool:
    """Tell whether a sentence may end behind a stop for all that a cover has to say, the first that ends behind the stop.

    What is nothing but somebody's words goes on to who says them: ``"Yes." Bob said.``
    """
    return cover.start > stop or (behind >= cover.end and not (cover.spoken and cover.start <= begin))


def _is_end(text: str, begin: int, mark: str, stop: int, behind: int, following: int, end: int) -> bool:
    if mark[0] in _ALWAYS_ENDS:
        return True
    if mark == "\uff0e":
        return not text[behind].isdigit()
    if following == behind or "\u2026" in mark or ".." in mark:
        return False
    first = _OPENING.match(text, following, end).end()  # type: ignore[union-attr] # it matches nothing, too
    letter = text[first:first + 1]
    if letter.islower() or letter in _GOES_ON:
        return False
    if mark != ".":
        return True
    word = _word_before(text, begin, stop)
    return not (_is_short(word, letter) or (begin + len(word) == stop and _ENUMERATOR.fullmatch(word)))


def _word_before(text: str, begin: int, stop: int) -> str:
    return "" if text[stop - 1:stop] in _CLOSED else _WORD_BREAK.split(text[max(begin, stop - _LONGEST_WORD):stop])[-1]


def _is_short(word: str, following: str) -> bool:
    """Tell whether a full stop behind a word may stand for letters left out."""
    if len(word) == 1 and word.isalpha():
        return True
    bare = word.casefold()
    if "." in word and not bare.replace(".", "").isdigit():
        return True
    return bare in _ABBREVIATIONS or (bare in _BEFORE_NUMBERS and following.isdigit())


def _merged(covers: Iterator[_Cover]) -> list[_Cover]:
    """Return covers as disjoint ones, ascending; one that holds a quotation is a quotation's."""
    merged: list[_Cover] = []
    for cover in sorted(covers):
        if merged and cover.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = _Cover(last.start, max(last.end, cover.end), last.spoken or (cover.spoken and cover.start == last.start))
        else:
            merged.append(cover)
    return merged


class _Marks:
    """One walk over the marks of a stretch, which are quotation marks, brackets and stops.

    A quotation that is not closed goes on to the end of the stretch, and one that was not opened began before it. A bracket without
    its other half is none.
    """

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text, self._start, self._end = text, start, end
        self._depth = dict.fromkeys((*_PAIRS, "<"), 0)
        self._since = dict.fromkeys((*_PAIRS, "<"), start)
        self._quoted: int | None = None
        self._single: int | None = None

    def covers(self, stops: list[Span]) -> Iterator[_Cover]:
        """Yield the covers, and put the stops into a list."""
        for found in _MARK.finditer(self._text, self._start, self._end):
            mark, at = found.group(), found.start()
            if mark in _PAIRS or (mark[0] == "<" and mark[1] != "/"):
                self._open(mark[0], at)
            elif mark in _CLOSES or mark[0] == "<" or mark == "-->":
                yield from self._close(_CLOSES.get(mark, "<"), found.end())
            elif mark in "'\u2018\u2019\u201a":
                yield from self._apostrophe(mark, at)
            elif mark in _OPENS_SPEECH or mark in _ENDS_SPEECH or mark in _EITHER:
                yield from self._quotation(mark, at, found.end())
            else:
                stops.append(found.span())
        if self._quoted is not None:
            yield _Cover(self._quoted, self._end, spoken=True)
        for opening in _SPOKEN:
            if self._depth[opening]:
                yield _Cover(self._since[opening], self._end, spoken=True)

    def _open(self, opening: str, at: int) -> None:
        if not self._depth[opening]:
            self._since[opening] = at
        self._depth[opening] += 1

    def _close(self, opening: str, after: int) -> Iterator[_Cover]:
        if self._depth[opening]:
            self._depth[opening] -= 1
            if not self._depth[opening]:
                yield _Cover(self._since[opening], after, opening in _SPOKEN)
        elif opening in _SPOKEN:
            yield _Cover(self._start, after, spoken=True)

    def _quotation(self, mark: str, at: int, after: int) -> Iterator[_Cover]:
        """Read a double mark: by its shape where that tells, else by the white space around it, as shapes differ between languages."""
        tight = not self._is_white(after)
        opens = (self._is_white(at - 1) and (mark in _EITHER or tight)) or (tight and self._text[at - 1] in _ALWAYS_ENDS + _NO_SPACE_BEHIND)
        if self._quoted is not None:
            if not (opens and mark in _OPENS_SPEECH):  # which is a quotation within this one
                yield _Cover(self._quoted, after, spoken=True)
                self._quoted = None
        elif opens or mark in _OPENS_SPEECH:
            self._quoted = at
        elif not (mark in _EITHER and self._text[at - 1].isdigit()):  # inches
            yield _Cover(self._start, after, spoken=True)

    def _apostrophe(self, mark: str, at: int) -> Iterator[_Cover]:
        """Take single marks for quotation marks only where one opens before a letter and one closes behind a stop or a comma."""
        if self._single is None:
            if mark != "\u2019" and self._is_white(at - 1) and self._text[at + 1:at + 2].isalpha():
                self._single = at
        elif mark in "'\u2018\u2019" and at > self._start and self._text[at - 1] in ".,!?\u2026" and not self._text[at + 1:at + 2].isalnum():
            yield _Cover(self._single, at + 1, spoken=True)
            self._single = None

    def _is_white(self, at: int) -> bool:
        """Tell whether a place is white space, outside of the stretch, or a mark that a quotation may open behind."""
        return not self._start <= at < self._end or self._text[at] in WHITE_SPACE or self._text[at] in "([{\u2014\u2013*_"
