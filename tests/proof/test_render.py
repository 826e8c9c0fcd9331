"""What is shown of a certificate: what was verified, escaped for where it goes, and nothing else."""

from __future__ import annotations

import copy
import html.parser
from typing import Any

import certified
import pytest
from certified import NOW, QUESTION
from hypothesis import given, settings
from hypothesis import strategies as st
from logged import logged, trust

from rag_stdlib.proof.certificate import sign
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.render import Medium, render, visible
from rag_stdlib.proof.verdicts import Refuted, Unknown, Verified
from rag_stdlib.proof.verify import verify

MEDIA: list[Medium] = ["text", "markdown", "html"]


def verdict(envelope: dict[str, Any] | None = None, **policy: Any) -> Any:
    return verify(certified.as_bytes(logged(certified.envelope() if envelope is None else envelope)), trust(), Policy(**policy), QUESTION, now=NOW)


def test_what_may_be_shown_is_shown_with_its_evidence() -> None:
    shown = render(verdict())
    assert shown.startswith("An answer by acme, 2026-12-01T12:00:00Z; entry 1 of the log log.example/answers, seen by 2 of its witnesses.\n")
    assert "\nRefunds are paid within ten days of the return.\n    quoted, policy.md: “Refunds are paid within ten days of the return.”\n" in shown
    assert "Not shown: 1 not_supported." in shown
    assert "Not proven: answer_is_complete, answer_is_true" in shown


@pytest.mark.parametrize("medium", MEDIA)
def test_what_may_not_be_shown_is_nowhere(medium: Medium) -> None:
    assert "cash" not in render(verdict(), medium)
    none = render(verdict(labels=("entailed",)), medium)
    assert "ten days" not in none
    assert "2 label_not_allowed" in none.replace("\\", "")


@pytest.mark.parametrize("given", [
    Refuted("signature"), Unknown("no_receipt"), None, "An answer", certified.envelope(), object.__new__(type("Verified", (Verified,), {}))])
def test_only_what_was_verified_is_rendered(given: Any) -> None:
    with pytest.raises(TypeError, match="only what was verified"):
        render(given)


def test_nobody_else_makes_what_is_verified() -> None:
    with pytest.raises(TypeError, match="only verify"):
        Verified(object(), {}, (), None, ())
    with pytest.raises(ValueError, match="a medium is"):
        render(verdict(), "latex")  # type: ignore[arg-type]


def test_an_abstention_says_that_it_is_one() -> None:
    from rag_stdlib.proof.certificate import Retrieval

    nothing = certified.envelope(answer="", claims=(), retrieval=Retrieval("lexical", 10, (), ()))
    assert render(verdict(nothing)).startswith("No answer by acme")


EVIL = "<script>alert(1)</script>\x1b[2J\u202egnp\u200b\u2028& \"'`[x](y)\ud7ff\U000e0041"


@pytest.mark.parametrize("medium", MEDIA)
def test_text_acts_on_nothing(medium: Medium) -> None:
    body = certified.body()
    for item in body["retrieval"]["items"]:
        item["source"] = EVIL
    shown = render(verdict(sign(body, certified.KEY)), medium)
    for sign_ in ("\x1b", "\u202e", "\u200b", "\u2028", "\U000e0041"):
        assert sign_ not in shown
    if medium == "html":
        assert "<script" not in shown
    if medium == "markdown":
        assert "[x](y)" not in shown


def test_text_from_right_to_left_keeps_to_itself() -> None:
    """Isolated where it is, and nowhere else: a terminal that knows no isolates shows nothing of them."""
    body = certified.body()
    body["retrieval"]["items"][0]["source"] = "\u05d0\u05d1 1.md"
    signed = sign(body, certified.KEY)
    assert "quoted, \u2068\u05d0\u05d1 1.md\u2069: “Refunds" in render(verdict(signed))
    assert "quoted, \u2068\u05d0\u05d1 1\\.md\u2069: “Refunds" in render(verdict(signed), "markdown")
    assert "quoted, <bdi>\u05d0\u05d1 1.md</bdi></cite>" in render(verdict(signed), "html")
    assert render(verdict(signed)).count("\u2068") == render(verdict(signed)).count("\u2069") == 1
    assert "An answer by <bdi>acme</bdi>, " in render(verdict(signed), "html")


class Text(html.parser.HTMLParser):
    """Reads the tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        assert not attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_html_has_the_tags_that_we_write_and_no_other(source: str) -> None:
    body = certified.body()
    for item in body["retrieval"]["items"]:
        item["source"] = source
    page = Text()
    page.feed(render(verdict(sign(copy.deepcopy(body), certified.KEY)), "html"))
    page.close()
    assert page.tags == {"p", "ol", "li", "bdi", "blockquote", "cite"}
    assert visible(source).strip() in "".join(page.text)


def test_what_was_verified_cannot_be_changed_before_it_is_shown() -> None:
    shown = verdict()
    with pytest.raises(AttributeError, match="claims"):
        shown.claims = ()


def test_signs_that_are_not_seen_are_written_out() -> None:
    assert visible("a\u3164\u2800\ufe0f\U000e0100\u034f") == "a\\u3164\\u2800\\ufe0f\\U000e0100\\u034f"
    assert visible("a\tb\n c\u00ad\ufeff\x00\U000e0001") == "a b c\\u00ad\\ufeff\\u0000\\U000e0001"
