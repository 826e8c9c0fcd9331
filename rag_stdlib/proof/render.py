"""A verified certificate for people: the claims that may be shown, each with its quotations, and nothing that was not verified.

`render` takes a `Verified` and nothing else, so that text which nobody checked cannot reach a page by it. What it shows is escaped for where
it goes: no character of it moves a cursor, turns the direction of writing, or begins markup.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, get_args

from rag_stdlib.proof.verdicts import ShownClaim, Verified

Medium: TypeAlias = Literal["text", "markdown", "html"]

_BLANKS: Final = re.compile(r"\s+")
_HIDDEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
# What is not seen though its category says otherwise: Unicode's Default_Ignorable_Code_Point, and the blank of Braille.
_BLANK_SIGNS: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_RIGHT_TO_LEFT: Final = frozenset(("R", "AL", "AN"))
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&$:@/])")
_WORDS: Final[Mapping[str, str]] = {"quoted": "quoted", "entailed": "follows from the text", "contradicted": "contradicted", "not_supported": "not supported"}


def render(verified: Verified, medium: Medium = "text") -> str:
    """Write a verified certificate for a medium: plain text (also for a terminal), Markdown, or a fragment of HTML.

    Claims that may not be shown are counted by their reasons, and their texts stay out.

    Raises:
        TypeError: it is no `Verified`.
        ValueError: there is no such medium.
    """
    if type(verified) is not Verified:
        raise TypeError(f"only what was verified is rendered, not {type(verified).__name__}")
    if medium not in get_args(Medium):
        raise ValueError(f"a medium is one of {', '.join(get_args(Medium))}")
    return {"text": _text, "markdown": _markdown, "html": _html}[medium](verified)


def visible(text: str) -> str:
    """Write a text on one line, with every character that is not seen, or that acts on others, as an escape."""
    squeezed = _BLANKS.sub(" ", text)
    return "".join(_escape(mark) if unicodedata.category(mark) in _HIDDEN or _BLANK_SIGNS.match(mark) else mark for mark in squeezed)


def _isolated(text: str) -> str:
    """Keep a text that is written from right to left from reordering what stands around it (Unicode UAX #9: first strong isolate)."""
    return f"\u2068{text}\u2069" if any(unicodedata.bidirectional(mark) in _RIGHT_TO_LEFT for mark in text) else text


def _escape(mark: str) -> str:
    point = ord(mark)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"  # noqa: PLR2004 - the end of the basic plane


def _text(verified: Verified) -> str:
    lines = [_heading(verified, _plain)]
    for claim in _shown(verified):
        lines += ["", _plain(claim.text), *(f"    {_WORDS[claim.label]}, {_plain(source)}: “{_plain(quote)}”" for source, quote in _evidence(claim))]
    return "\n".join([*lines, "", *_remarks(verified)]) + "\n"


def _markdown(verified: Verified) -> str:
    lines = [_heading(verified, _marked)]
    for claim in _shown(verified):
        lines += ["", f"- {_marked(claim.text)}", *(f"  > {_WORDS[claim.label]}, {_marked(source)}: “{_marked(quote)}”" for source, quote in _evidence(claim))]
    return "\n".join([*lines, "", *_remarks(verified)]) + "\n"


def _html(verified: Verified) -> str:
    lines = [f"<p>{_heading(verified, _element)}</p>", "<ol>"]
    for claim in _shown(verified):
        quotes = "".join(f"<blockquote>{_element(quote)} <cite>{_WORDS[claim.label]}, {_element(source)}</cite></blockquote>"
                         for source, quote in _evidence(claim))
        lines.append(f"<li><p>{_element(claim.text)}</p>{quotes}</li>")
    return "\n".join([*lines, "</ol>", *(f"<p>{html.escape(remark)}</p>" for remark in _remarks(verified))]) + "\n"


def _plain(text: str) -> str:
    return _isolated(visible(text))


def _marked(text: str) -> str:
    return _isolated(_MARKUP.sub(r"\\\1", visible(text)))


def _element(text: str) -> str:
    return f"<bdi>{html.escape(visible(text))}</bdi>"


def _shown(verified: Verified) -> list[ShownClaim]:
    return [claim for claim in verified.claims if claim.blocked is None]


def _evidence(claim: ShownClaim) -> list[tuple[str, str]]:
    return list(dict.fromkeys(zip(claim.sources, claim.quotes, strict=True)))


def _heading(verified: Verified, safe: Callable[[str], str]) -> str:
    logged = verified.logged
    where = "in no log that was asked for" if logged is None else \
        f"entry {logged.index} of the log {safe(logged.origin)}, seen by {len(logged.witnesses)} of its witnesses"
    what = "No answer" if verified.abstained else "An answer"
    return f"{what} by {safe(verified.issuer)}, {safe(verified.issued_at)}; {where}."


def _remarks(verified: Verified) -> list[str]:
    reasons: dict[str, int] = {}
    for claim in verified.claims:
        if claim.blocked is not None:
            reasons[claim.blocked] = reasons.get(claim.blocked, 0) + 1
    hidden = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
    return [*([f"Not shown: {hidden}."] if hidden else []), f"Not proven: {', '.join(verified.not_proven)}."]
