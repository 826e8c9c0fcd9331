"""Numbers as sentences give them, with what qualifies them: "at least 64", "between 10 and 20", "under 1,000", "5 May 2011", "before 1990".

A number is read as the set of values that it allows. Two numbers contradict each other where no value is allowed by both, and neither is the
other one rounded. What is said to be about a number contradicts nothing.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["number", "ordinal", "date", "day"]
Relation: TypeAlias = Literal["same", "differs", "unknown"]

_SMALL: Final = {word: number for number, word in enumerate(
    ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen",
     "sixteen", "seventeen", "eighteen", "nineteen"))}
_TENS: Final = {word: 10 * number for number, word in enumerate(
    ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2)}
_SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_ORDINALS: Final = {word: number for number, word in enumerate(
    ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"), 1)}
_MONTHS: Final = {name: number for number, names in enumerate(
    ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug", "september sep sept", "october oct",
     "november nov", "december dec"), 1) for name in names.split()}
_WHOLE: Final = re.compile(r"[0-9]+")
_GROUPS: Final = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_DECIMAL: Final = re.compile(r"[0-9]+\.[0-9]+")
_YEAR: Final = re.compile(r"[12][0-9]{3}")
_LONGEST: Final = 30  # digits; longer ones are names of things, and are compared as words
_MOST: Final = 10**_LONGEST
_ROUND: Final = 3  # final zeros that may be rounding

_QUALIFIERS: Final = {tuple(words.split()): sign for sign, phrases in {
    ">": ("more than", "greater than", "higher than", "over", "above", "exceeding", "in excess of", "beyond", "upwards of", ">"),
    ">=": ("at least", "no fewer than", "no less than", "not less than", "not fewer than", "minimum of", "\u2265"),
    "<": ("less than", "fewer than", "lower than", "under", "below", "<"),
    "<=": ("at most", "no more than", "not more than", "up to", "maximum of", "\u2264"),
    "~": ("about", "around", "approximately", "roughly", "nearly", "almost", "circa", "ca", "c", "close to", "estimated", "~", "\u2248")}.items()
    for words in phrases}
_OF_TIMES: Final = {"after": ">", "before": "<", "on": "", "in": ""}
_BEHIND: Final = {("or", "more"): ">=", ("or", "above"): ">=", ("or", "over"): ">=", ("or", "higher"): ">=", ("or", "later"): ">=", ("+",): ">=",
                  ("or", "less"): "<=", ("or", "fewer"): "<=", ("or", "below"): "<=", ("or", "under"): "<=", ("or", "earlier"): "<="}
_LONGEST_QUALIFIER: Final = 3


@dataclass(frozen=True, slots=True)
class Quantity:
    """The values from `low` to `high`, None for no bound; an open end is not a value itself.

    `place` is the value of the last digit that counts. A date is the number of its day, a day without a year 100 times its month and its day.
    """

    kind: Kind
    low: Fraction | None
    high: Fraction | None
    place: Fraction = Fraction(1)
    open_low: bool = False
    open_high: bool = False
    vague: bool = False


def read(words: Sequence[str], at: int) -> tuple[Quantity, int] | None:
    """Read the number, with what qualifies it, that begins at a word; return it and the place behind it."""
    for length in range(_LONGEST_QUALIFIER, 0, -1):
        qualifier = tuple(words[at:at + length])
        if qualifier in _QUALIFIERS and (found := _amount(words, at + len(qualifier))):
            return _qualified(found[0], _QUALIFIERS[qualifier]), found[1]
    if words[at] in _OF_TIMES and (found := _amount(words, at + 1)) and _is_time(words, at + 1, found[0]):
        return _qualified(found[0], _OF_TIMES[words[at]]), found[1]
    return _amount(words, at)


def relation(claim: Quantity, said: Quantity) -> Relation:
    """Say how what a claim says of a number stands to what a text says of it."""
    if replace(claim, place=said.place) == said:
        return "same"
    if claim.kind != said.kind or claim.vague or said.vague or not (_is_below(claim, said) or _is_below(said, claim)):
        return "unknown"
    return "unknown" if _is_rounded(claim, said) or _is_rounded(said, claim) else "differs"


def _is_time(words: Sequence[str], at: int, quantity: Quantity) -> bool:
    return quantity.kind in ("date", "day") or _YEAR.fullmatch(words[at]) is not None


def _is_below(one: Quantity, other: Quantity) -> bool:
    if one.high is None or other.low is None:
        return False
    return one.high < other.low or (one.high == other.low and (one.open_high or other.open_low))


def _is_rounded(one: Quantity, other: Quantity) -> bool:
    """Tell whether one number is the other one, rounded to the last digit that counts in it."""
    if one.kind != "number" or one.low is None or other.low is None or (one.low, other.low) != (one.high, other.high):
        return False
    return abs(one.low - other.low) * 2 <= one.place and one.place > other.place


def _qualified(quantity: Quantity, sign: str) -> Quantity:
    if sign == "~":
        return replace(quantity, vague=True)
    if sign.startswith(">"):
        return replace(quantity, low=quantity.high if sign == ">" else quantity.low, high=None, open_low=sign == ">")
    if sign.startswith("<"):
        return replace(quantity, high=quantity.low if sign == "<" else quantity.high, low=None, open_high=sign == "<")
    return quantity


def _amount(words: Sequence[str], at: int) -> tuple[Quantity, int] | None:
    """Read a date, a range or a number."""
    found = _date(words, at) or _range(words, at) or _single(words, at)
    if found is None:
        return None
    for length in (2, 1):
        behind = tuple(words[found[1]:found[1] + length])
        if behind in _BEHIND:
            return _qualified(found[0], _BEHIND[behind]), found[1] + len(behind)
    return found


def _range(words: Sequence[str], at: int) -> tuple[Quantity, int] | None:
    opening = words[at] if at < len(words) and words[at] in ("between", "from") else ""
    low = _single(words, at + bool(opening))
    if low is None or words[low[1]:low[1] + 1] not in ({"between": (["and"],), "from": (["to"], ["-"]), "": (["to"], ["-"])}[opening]):
        return None
    high = _single(words, low[1] + 1)
    if high is None or low[0].kind != "number" or high[0].kind != "number" or low[0].low is None or high[0].low is None or low[0].low >= high[0].low:
        return None
    return Quantity("number", low[0].low, high[0].high, max(low[0].place, high[0].place)), high[1]


def _single(words: Sequence[str], at: int) -> tuple[Quantity, int] | None:
    if at >= len(words):
        return None
    if words[at] in _ORDINALS:
        value = Fraction(_ORDINALS[words[at]])
        return Quantity("ordinal", value, value), at + 1
    negative = words[at] == "-"
    found = _numeral(words, at + negative) or (None if negative else _spelt(words, at))
    if found is None:
        return None
    value, place, behind = found
    if words[behind:behind + 1] and words[behind] in ("st", "nd", "rd", "th"):
        return Quantity("ordinal", value, value), behind + 1
    return Quantity("number", -value if negative else value, -value if negative else value, place), behind


def _numeral(words: Sequence[str], at: int) -> tuple[Fraction, Fraction, int] | None:
    written = words[at] if at < len(words) else ""
    if len(written) > _LONGEST or not any(form.fullmatch(written) for form in (_WHOLE, _GROUPS, _DECIMAL)):
        return None
    bare = written.replace(",", "")
    value = Fraction(bare)
    zeros = len(bare) - len(bare.rstrip("0"))
    place = Fraction(1, 10 ** len(bare.partition(".")[2])) if "." in bare else Fraction(10 ** zeros if value and zeros >= _ROUND else 1)
    at += 1
    while at < len(words) and words[at] in _SCALES and value < _MOST:
        value, place, at = value * _SCALES[words[at]], place * _SCALES[words[at]], at + 1
    return value, place, at


def _spelt(words: Sequence[str], at: int) -> tuple[Fraction, Fraction, int] | None:
    """Read a number in words: "two hundred and five", "twenty-one", "a million"."""
    total, current, begun, behind = 0, 0, at, at
    while at < len(words) and total + current < _MOST:
        word = words[at]
        if word in _TENS and current % 100 == 0:
            current += _TENS[word]
        elif word in _SMALL and (current % 10 == 0 if _SMALL[word] < 10 else current % 100 == 0) and (current % 100 != 10):  # noqa: PLR2004 - tens
            current += _SMALL[word]
        elif word in _SCALES:
            scale = _SCALES[word]
            total, current = (total, (current or 1) * scale) if scale <= 100 else (total + (current or 1) * scale, 0)  # noqa: PLR2004 - a hundred
        elif word in ("and", "-") and behind > begun and words[at + 1:at + 2] and (words[at + 1] in _SMALL or words[at + 1] in _TENS) and (
                word == "-" or words[at - 1] in _SCALES):
            at += 1
            continue
        else:
            break
        at += 1
        behind = at
    if behind == begun:
        return None
    value = total + current
    zeros = len(str(value)) - len(str(value).rstrip("0"))
    return Fraction(value), Fraction(10 ** zeros if value and zeros >= _ROUND else 1), behind


def _date(words: Sequence[str], at: int) -> tuple[Quantity, int] | None:
    """Read a date: "5 May 2011", "5th of May", "May 5, 2011", "May 2011", "2011-05-05"."""
    iso = words[at:at + 5]
    if iso[1:2] == iso[3:4] == ["-"] and _YEAR.fullmatch(iso[0]) and all(_WHOLE.fullmatch(part) and len(part) == 2 for part in iso[2::2]):  # noqa: PLR2004
        return _dated(int(iso[0]), int(iso[2]), int(iso[4]), at + 5)
    day, behind = _day(words, at)
    month = _MONTHS.get(words[behind]) if behind < len(words) else None
    if month is None:
        return None
    behind += 1
    if day is None:
        day, behind = _day(words, behind)
    year = int(words[behind]) if behind < len(words) and _YEAR.fullmatch(words[behind]) else None
    return _dated(year, month, day, behind + (year is not None))


def _day(words: Sequence[str], at: int) -> tuple[int | None, int]:
    """Read a day of a month; None and the same place where there is none."""
    if at >= len(words) or not _WHOLE.fullmatch(words[at]) or len(words[at]) > 2:  # noqa: PLR2004 - digits of a day
        return None, at
    behind = at + 1
    behind += bool(words[behind:behind + 1]) and words[behind] in ("st", "nd", "rd", "th")
    behind += words[behind:behind + 1] == ["of"]
    return int(words[at]), behind


def _dated(year: int | None, month: int, day: int | None, behind: int) -> tuple[Quantity, int] | None:
    if year is None:
        value = Fraction(100 * month + (day or 0))
        return None if day is None else (Quantity("day", value, value), behind)
    try:
        first = date(year, month, day or 1)
    except ValueError:  # no such day
        return None
    last = first if day else first.replace(day=calendar.monthrange(year, month)[1])
    return Quantity("date", Fraction(first.toordinal()), Fraction(last.toordinal())), behind
