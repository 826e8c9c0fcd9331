"""Redaction: no secret gets into a trace, a report or a message.

There is one redactor, and everything that is written passes it: `json` for a line, `value` for live arguments before they are
matched, `text` for messages. Almost all lines hold no secret, so a line's JSON is scanned once for all literals that a secret
can begin with, and is decoded only when one of them is more than a coincidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from operator import is_
from typing import Final, TypeAlias

import orjson
from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from replay.errors import NotRecordable
from replay.jsontext import Json, decode, encode
from replay.redaction.hidden import Environment, forms, hidden, hide, of_environment, usable
from replay.redaction.patterns import EDGE, LITERALS, PATTERNS, Check, Span, named_spans, names_a_secret, overlap

__all__ = ["REDACTED", "Redactor", "hide"]

Hit: TypeAlias = tuple[int, int, int]  # which literal, from, to

REDACTED: Final = "<redacted>"
_MARK: Final = REDACTED.encode()
_CHUNK: Final = 61  # literals in one scan: beyond 64 the scanner falls back to a method ten times slower
# Bytes that UTF-8 never has: a few literals that all begin alike would be scanned for by their first byte, which is slow.
_NEVER: Final = (b"\xff\xff\xff\xff", b"\xfe\xfe\xfe\xfe", b"\xc0\xc0\xc0\xc0")
_PASSES: Final = 8
_SHORTEST_NUMBER: Final = 8  # digits
_ALNUM: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def _scan(literals: list[bytes], kind: MatchKind = MatchKind.LeftmostLongest) -> BytesAhoCorasick:
    return BytesAhoCorasick([*literals, *_NEVER], matchkind=kind, implementation=Implementation.NoncontiguousNFA)


@cache
def _edge() -> re.Pattern[bytes]:
    return re.compile(EDGE)


@cache
def _base64_run() -> re.Pattern[bytes]:
    return re.compile(rb"[A-Za-z0-9+/_-]*={0,2}")


def _stands_alone(data: bytes, start: int, end: int) -> bool:
    """Say whether no letter or digit adjoins a secret that begins or ends with one itself."""
    return ((data[start] not in _ALNUM or _edge().match(data, start) is not None)
            and (data[end - 1] not in _ALNUM or end == len(data) or data[end] not in _ALNUM))


def _word_of(length: int) -> Check:
    return lambda data, start: _stands_alone(data, start, start + length)


class _Scanner:
    """Says, with no false no, whether there may be a secret in some bytes.

    Scans report matches that do not overlap, so a literal that turns out to be a coincidence may hide another one. Whole secrets
    and words are then looked for again; the literals of the known patterns are such that none can hide one that matters.
    """

    def __init__(self, secrets: list[bytes], words: list[bytes], *, patterns: bool) -> None:
        known = LITERALS if patterns else ()
        self._unsure = [*(literal for literal, _check in known), *words]
        self._checks = [*(check for _literal, check in known), *(_word_of(len(word)) for word in words)]
        self._words = words
        room = max(0, _CHUNK - len(self._unsure))
        self._secrets = secrets[:room]
        self._first = _scan(self._unsure + self._secrets)
        self._rest = [_scan(secrets[at:at + _CHUNK]) for at in range(room, len(secrets), _CHUNK)]

    def finds(self, data: bytes) -> bool:
        hits = self._first.find_matches_as_indexes(data)
        return bool(hits and (self._holds(data, hits) or self._hidden(data, hits))) or any(
            scan.find_matches_as_indexes(data) for scan in self._rest)

    def _holds(self, data: bytes, hits: list[Hit]) -> bool:
        checks = self._checks
        return any(which >= len(checks) or checks[which](data, start) for which, start, _end in hits)

    def _hidden(self, data: bytes, hits: list[Hit]) -> bool:
        """Look for what the rejected hits may hide."""
        if self._secrets and self._behind.find_matches_as_indexes(data):
            return True
        return any(which in self._hiding for which, _start, _end in hits) and self._holds(
            data, self._every.find_matches_as_indexes(data, overlapping=True))

    @cached_property
    def _behind(self) -> BytesAhoCorasick:
        return _scan(self._secrets)

    @cached_property
    def _every(self) -> BytesAhoCorasick:
        return _scan(self._unsure, MatchKind.Standard)

    @cached_property
    def _hiding(self) -> frozenset[int]:
        """Which literals may hide a word, or are one that may hide any other."""
        words = range(len(self._unsure) - len(self._words), len(self._unsure))
        return frozenset(which for which, literal in enumerate(self._unsure) for other, behind in enumerate(self._unsure)
                         if (which in words or other in words) and (overlap(literal, behind) or (literal == behind and which != other)))


class _Plan:
    """Everything that is looked for, made once for a set of secrets."""

    def __init__(self, named: object, around: int, secrets: Iterable[str], *, patterns: bool) -> None:
        self.named = named  # what `hidden` gave
        self.around = around  # how many secrets the environment had
        self.patterns = patterns
        found = {form for secret in dict.fromkeys(secrets) for form in forms(secret)}
        self._forms = sorted(found, key=lambda form: (form.word, form.text, form.head))
        self.in_json = self._scanner(_escaped)

    def _scanner(self, write: Callable[[str], bytes]) -> _Scanner:
        literals = [(form.word, write(form.text)) for form in self._forms]
        return _Scanner([*dict.fromkeys(literal for word, literal in literals if literal and not word)],
                        [*dict.fromkeys(literal for word, literal in literals if literal and word)], patterns=self.patterns)

    @cached_property
    def in_text(self) -> _Scanner:
        return self._scanner(_bytes)

    @cached_property
    def _every(self) -> BytesAhoCorasick:
        return _scan([_bytes(form.text) for form in self._forms], MatchKind.Standard)

    def string(self, text: str) -> str:
        """Return a string without its secrets; itself where it has none."""
        data = _bytes(text)
        if not self.in_text.finds(data):
            return text
        cleaned = self._clean(data)
        return text if cleaned == data else cleaned.decode("utf-8", "surrogatepass")

    def in_number(self, text: bytes) -> bool:
        return any(not self._forms[which].word for which, _start, _end in self._every.find_matches_as_indexes(text, overlapping=True))

    def _clean(self, data: bytes) -> bytes:
        """Take secrets out until there are none: what is taken out can leave another one standing alone."""
        for _ in range(_PASSES):
            cleaned = self._pass(data)
            if cleaned == data:
                return data
            data = cleaned
        return _MARK

    def _pass(self, data: bytes) -> bytes:
        data = _MARK.join(_blank(part, self._spans(part)) for part in data.split(_MARK))
        if self.patterns:
            data = _blank(data, named_spans(data))
            for pattern in PATTERNS:
                data = _blank(data, pattern.spans(data))
        return data

    def _spans(self, data: bytes) -> Iterator[Span]:
        for which, start, end in self._every.find_matches_as_indexes(data, overlapping=True):
            form = self._forms[which]
            if form.head:
                run = _base64_run().match(data, end)
                yield start, run.end() if run else end
            elif not form.word or _stands_alone(data, start, end):
                yield start, end


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _escaped(text: str) -> bytes:
    """Write a text as it stands in JSON, character by character; nothing for one that cannot be in it."""
    try:
        return orjson.dumps(text)[1:-1]
    except TypeError:  # a lone surrogate
        return b""


def _blank(data: bytes, spans: Iterable[Span]) -> bytes:
    """Put the mark in place of some spans; those that overlap become one."""
    parts: list[bytes] = []
    last = 0
    for start, end in sorted(spans):
        if parts and start < last:
            last = max(last, end)
            continue
        parts += [data[last:start], _MARK]
        last = end
    return b"".join(parts) + data[last:] if parts else data


class Redactor:
    """Takes secrets out of what is written.

    Secrets are the values of environment variables with telling names, those given here and those given to `hide`, then or later; so is
    what is put into the process's own environment later, where that is the one. Eight characters and more are found within words, four to seven only as a whole word. With `patterns`, so are tokens of known
    looks and strings under keys such as ``password``.
    """

    def __init__(self, *, environ: Mapping[str, str] | None = None, secrets: Iterable[str] = (), patterns: bool = True) -> None:
        """Take the secrets of an environment (None: of this process) and further ones.

        Raises:
            ValueError: for one of `secrets` that has fewer than four characters.
        """
        self._own = (*(() if environ is None else of_environment(environ)), *map(usable, secrets))
        self._environment = Environment() if environ is None else None
        self._around = [] if self._environment is None else self._environment.secrets
        self._patterns = patterns
        self._plan = self._made()

    def _made(self) -> _Plan:
        named = hidden()
        around = tuple(self._around)
        return _Plan(named, len(around), (*self._own, *around, *named[1]), patterns=self._patterns)

    def _current(self) -> _Plan:
        plan = self._plan
        if plan.named is not hidden() or plan.around != len(self._around):
            plan = self._plan = self._made()  # what this thread has hidden is in it, whatever another one puts there now
        return plan

    def json(self, text: bytes) -> bytes:
        """Return encoded JSON without secrets: the very same object where there are none.

        Raises:
            ValueError: where there may be some, and the text is not JSON.
        """
        if not self._current().in_json.finds(text):
            return text
        value = decode(text)
        cleaned = self.value(value)
        return text if cleaned is value else encode(cleaned)

    def value(self, value: Json) -> Json:
        """Return a JSON value without secrets in strings, keys and numbers; the very same object where there are none.

        A number that has a secret of eight characters in its digits becomes the mark, as a string. Of keys that become equal the
        later ones are numbered: ``<redacted>``, ``<redacted>#2``.

        Raises:
            NotRecordable: for a value nested beyond reason.
        """
        try:
            return _value(self._current(), value)
        except RecursionError:
            raise NotRecordable("$ is nested too deep, or holds itself") from None

    def text(self, text: str) -> str:
        """Return a text without secrets; the very same object where there are none."""
        return self._current().string(text)


def _value(plan: _Plan, value: Json, *, telling: bool = False) -> Json:
    """Clean a value; `telling`: it stands under a key that names a secret, so it goes when it is a string or strings in a list."""
    if isinstance(value, str):
        return plan.string(value) if not telling or value in {"", REDACTED} else REDACTED
    if isinstance(value, dict):
        return _members(plan, value)
    if isinstance(value, (list, tuple)):
        cleaned = []
        for item in value:  # no comprehension, which is one more frame for each level
            cleaned.append(_value(plan, item, telling=telling and not isinstance(item, (list, tuple))))  # noqa: PERF401
        return value if all(map(is_, cleaned, value)) else cleaned
    if isinstance(value, (int, float)):
        text = str(value).encode() if isinstance(value, int) else encode(value)
        return REDACTED if len(text) >= _SHORTEST_NUMBER and plan.in_number(text) else value
    return value


def _members(plan: _Plan, members: dict[str, Json]) -> dict[str, Json]:
    keys, items = [], []
    for key, item in members.items():
        keys.append(plan.string(key))
        items.append(_value(plan, item, telling=plan.patterns and names_a_secret(_bytes(key))))
    if all(map(is_, keys, members)):
        return members if all(map(is_, items, members.values())) else dict(zip(keys, items, strict=True))
    return dict(zip(_apart(keys, members), items, strict=True))


def _apart(keys: list[str], before: Iterable[str]) -> Iterator[str]:
    """Number the changed keys that would be equal to another one."""
    taken = {key for key, old in zip(keys, before, strict=True) if key is old}
    counts: dict[str, int] = {}
    for key, old in zip(keys, before, strict=True):
        name = key
        while key is not old and name in taken:
            counts[key] = counts.get(key, 1) + 1
            name = f"{key}#{counts[key]}"
        taken.add(name)
        yield name
