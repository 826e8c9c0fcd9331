r"""Secrets that are known by their looks: vendors' tokens, credentials in headers and URLs, private keys, values under telling keys.

All of it works on UTF-8 bytes, and is written so that one pattern serves the text itself and the JSON that holds the text: no
token has a character that JSON escapes, and the edge before a token may be the letter of an escape (``\nsk-…`` in a text that
is JSON inside). So what is not found in the JSON is not in the text either. Every pattern takes linear time: what follows a
head is scanned once, or its scan is bounded.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Final, TypeAlias

Span: TypeAlias = tuple[int, int]
Check: TypeAlias = Callable[[bytes, int], bool]  # is there something at the place where a literal was found?

EDGE: Final = rb"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-Fa-f]{2}))"
_KEYLIKE: Final = rb"(?=[A-Za-z0-9_-]{0,64}[0-9]|[A-Za-z0-9]{16}|[A-Za-z0-9_-]{0,32}[A-Za-z0-9]{24})"  # and no hyphened words
_BREAK: Final = rb"(?:\s|\\+[nrt])"
_PRIVATE: Final = rb"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"


def _anything(_found: bytes) -> bool:
    return True


class Pattern:
    """One look: literals of which every occurrence has one, how far into the match they stand, and what to take out (group 1)."""

    def __init__(self, literals: tuple[bytes, ...], source: bytes, offset: int = 0, accept: Callable[[bytes], bool] = _anything) -> None:
        """Take the parts; `accept` has the last word on what was found."""
        self.literals = literals
        self._source = source
        self._offset = offset
        self._accept = accept

    @cached_property
    def _regex(self) -> re.Pattern[bytes]:  # compiled when it is needed: most processes never see a secret
        return re.compile(self._source)

    def at(self, data: bytes, start: int) -> bool:
        """Say whether the literal found at `start` is part of a secret."""
        match = self._regex.match(data, start - self._offset) if start >= self._offset else None
        return match is not None and self._accept(match[1])

    def spans(self, data: bytes) -> Iterator[Span]:
        """Yield where the secrets are."""
        if any(literal in data for literal in self.literals):
            yield from (match.span(1) for match in self._regex.finditer(data) if self._accept(match[1]))


def _user_and_password(token: bytes) -> bool:
    """Tell Basic credentials, base64 of ``user:password``, from an English word."""
    bare = token.rstrip(b"=")
    try:
        text = base64.b64decode(bare + b"=" * (-len(bare) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return ":" in text and text.isprintable()


def _token(regex: bytes, *literals: bytes) -> Pattern:
    return Pattern(literals, EDGE + b"(" + regex + b")")


PATTERNS: Final = (
    # A block without its end, cut off, is taken as far as its lines of base64 go.
    Pattern((b"BEGIN ",), rb"(-----BEGIN " + _PRIVATE + rb"(?:[^-]*(?:-(?!----)[^-]*)*-----END " + _PRIVATE
            + rb"|(?:" + _BREAK + rb"{1,8}[A-Za-z0-9+/=]{16,})+))", 5),
    # An image of a container is named like that, too: docker://name:tag@sha256:…
    Pattern((b"://",), rb"""://[^\x00-\x20/:@?#"'<>\\]*:((?:<redacted>|[^\x00-\x20/?#"'<>\\])+)@(?!sha256:)"""),
    Pattern((b"earer ", b"EARER "), EDGE + rb"(?i:bearer) {1,4}((?=[A-Za-z0-9._~+/=-]{0,64}[0-9]|[A-Za-z0-9._~+/=-]{0,32}[A-Za-z0-9]{24})"
            rb"[A-Za-z0-9._~+/=-]{10,})", 1),
    Pattern((b"asic ", b"ASIC "), EDGE + rb"(?i:basic) {1,4}([A-Za-z0-9+/]{6,}={0,2})", 1, _user_and_password),
    _token(rb"eyJ[A-Za-z0-9_-]{8,1024}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*", b"eyJ"),
    _token(rb"sk-" + _KEYLIKE + rb"[A-Za-z0-9_-]{16,}", b"sk-"),
    _token(rb"gh[pousr]_[A-Za-z0-9]{20,}", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
    _token(rb"github_pat_[A-Za-z0-9_]{20,}", b"github_pat_"),
    _token(rb"A(?:KI|SI)A[0-9A-Z]{16}[A-Za-z0-9]*", b"AKIA", b"ASIA"),
    _token(rb"AIza[A-Za-z0-9_-]{30,}", b"AIza"),
    _token(rb"xox[a-z]-" + _KEYLIKE + rb"[A-Za-z0-9-]{10,}", b"xox"),
    _token(rb"hf_[A-Za-z0-9]{20,}", b"hf_"),
    _token(rb"glpat-" + _KEYLIKE + rb"[A-Za-z0-9_-]{16,}", b"glpat-"),
    _token(rb"npm_[A-Za-z0-9]{30,}", b"npm_"),
    _token(rb"pypi-" + _KEYLIKE + rb"[A-Za-z0-9_-]{32,}", b"pypi-"),
)


# Names of keys, without - and _, in lower case; and parts of them in their usual spellings, one of which a name must have. These
# are short and few, since what a scan for many literals costs depends on it.
_NAMES: Final = frozenset(
    b"password passwd passphrase secret clientsecret secretkey secretaccesskey awssecretaccesskey privatekey token accesstoken refreshtoken"
    b" idtoken authtoken xauthtoken apitoken bearertoken sessiontoken apikey xapikey authorization proxyauthorization cookie setcookie".split())
_NAME_LITERALS: Final = (b"assw", b"assW", b"ASSW", b"assph", b"ASSPH", b"ecret", b"ECRET", b"rivate", b"RIVATE", b"oken", b"OKEN",
                         b"uthoriz", b"UTHORIZ", b"ookie", b"OOKIE", b"api", b"Api", b"API")
_LONGEST_NAME: Final = 32  # with its separators


def names_a_secret(key: bytes) -> bool:
    """Say whether a value under this key of an object is a secret whatever it looks like: ``api_key``, X-API-Key, apiKey."""
    return (len(key) <= _LONGEST_NAME and key.replace(b"-", b"").replace(b"_", b"").lower() in _NAMES
            and any(literal in key for literal in _NAME_LITERALS))


@cache
def _rest_of_name() -> re.Pattern[bytes]:
    """Match from a literal to the value of a string or list; group 1 is the name's rest."""
    return re.compile(rb"""([A-Za-z_-]{2,32})\\{0,16}["'] {0,4}: {0,4}(?:\\{0,16}["']|\[)""")


@cache
def _member() -> re.Pattern[bytes]:
    """Match the key of a member of an object, up to its value's opening quote, with as many backslashes before each quote."""
    return re.compile(rb"""(\\{0,7})(["'])([A-Za-z_-]{5,32})\1\2 {0,4}: {0,4}\1\2""")


@cache
def _quotes(quote: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"(?<!\\)\\*" + quote)


def _named_at(data: bytes, start: int) -> bool:
    rest = _rest_of_name().match(data, start)
    if rest is None:
        return False
    lowest = max(0, start - _LONGEST_NAME)
    begin = 1 + max(data.rfind(b'"', lowest, start), data.rfind(b"'", lowest, start))
    return names_a_secret(data[begin:rest.end(1)])


def named_spans(data: bytes) -> Iterator[Span]:
    """Yield the values of telling keys in a JSON document, or a printed dict, inside a text; one that never ends reaches to the end."""
    place = 0
    while (member := _member().search(data, place)) is not None:
        begin = place = member.end()
        if names_a_secret(member[3]):
            place = _closing(data, begin, len(member[1]), member[2])
            if place > begin:
                yield begin, place


def _closing(data: bytes, begin: int, slashes: int, quote: bytes) -> int:
    """Find the end of a string whose quotes have so many backslashes: a quote inside it, or after a backslash, has others."""
    for found in _quotes(quote).finditer(data, begin):
        more = len(found.group()) - 1 - slashes
        if more >= 0 and more % (2 * slashes + 2) == 0:
            return found.end() - 1 - slashes
    return len(data)


LITERALS: Final[tuple[tuple[bytes, Check], ...]] = (
    *((literal, pattern.at) for pattern in PATTERNS for literal in pattern.literals),
    *((literal, _named_at) for literal in _NAME_LITERALS),
)


def overlap(literal: bytes, other: bytes) -> bool:
    """Say whether a match of `literal` may hide one of `other`, which begins within it, or at its start without being it."""
    return any(other.startswith(literal[at:]) or literal.startswith(other, at) for at in range(len(literal)) if at or literal != other)
