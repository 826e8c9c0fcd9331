"""Checks of a body by itself: everything that can be computed is computed again."""

from __future__ import annotations

from typing import Any

import certified
import pytest
from certified import ANSWER, REFUNDS, SHIPPING, edited, rehashed

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.bodychecks import CHECKS, times
from rag_stdlib.proof.certificate import Item, Retrieval, SearchedIndex
from rag_stdlib.proof.forms import pointer

Step = tuple[str | int, ...]


def first(body: dict[str, Any]) -> tuple[str, str] | None:
    """The first check of the format's table that fails, and where."""
    for code, check in (("time", times), *CHECKS):
        path = check(body)
        if path is not None:
            return code, pointer(path)
    return None


def test_what_is_issued_passes() -> None:
    assert first(certified.body()) is None


@pytest.mark.parametrize("path", [
    ("retrieval", "state"), ("retrieval", "items", 1, "content_sha256"), ("answer", "sha256"), ("claims", 2, "sha256"),
    ("claims", 1, "spans", 0, "sha256"), ("claims", 0, "judgement", "inputs_sha256"), ("policy", "sha256")])
def test_another_digest_is_found(path: Step) -> None:
    assert first(edited(certified.body(), path, "0" * 64)) == ("hash", pointer(path))


@pytest.mark.parametrize(("path", "new", "at"), [
    (("retrieval", "items", 0, "text"), REFUNDS.replace("ten", "six"), "/retrieval/items/0/content_sha256"),
    (("answer", "text"), ANSWER.replace("ten", "six"), "/answer/sha256"), (("claims", 0, "text"), "x" * 47, "/claims/0/sha256"),
    (("claims", 0, "spans", 0, "text"), "x", "/claims/0/spans/0/sha256"), (("judge", "digest"), "9" * 64, "/claims/0/judgement/inputs_sha256"),
    (("policy", "minimum_confidence"), "0.000000", "/policy/sha256"), (("retrieval", "corpus_hash"), "9" * 64, "/retrieval/state"),
    (("retrieval", "indexes", 0, "content"), None, "/retrieval/state"), (("retrieval", "embedder", "dim"), 25, "/retrieval/state"),
])
def test_what_a_digest_is_of_is_bound(path: Step, new: Any, at: str) -> None:
    assert first(edited(certified.body(), path, new)) == ("hash", at)


@pytest.mark.parametrize(("path", "new", "code", "at"), [
    (("retrieval", "embedder"), None, "retrieval", "/retrieval/embedder"), (("retrieval", "mode"), "lexical", "retrieval", "/retrieval/embedder"),
    (("retrieval", "limit"), 1, "retrieval", "/retrieval/items"), (("retrieval", "items", 1, "index"), 1, "retrieval", "/retrieval/items/1/index"),
    (("retrieval", "items", 0, "end"), 5, "retrieval", "/retrieval/items/0/end"), (("retrieval", "items", 1, "score"), "2.500000001", "retrieval", "/retrieval/items/1/score"),
    (("retrieval", "items", 1, "chunk_id"), "policy#1", "retrieval", "/retrieval/items/1/chunk_id"), (("retrieval", "indexes"), [], "retrieval", "/retrieval/items/0/index"),
    (("claims", 0, "start"), 1, "claim", "/claims/0/text"), (("claims", 1, "start"), 46, "claim", "/claims/1/start"), (("claims", 1, "end"), 48, "claim", "/claims/1/start"),
    (("claims", 2, "end"), 200, "claim", "/claims/2/start"), (("claims", 1, "text"), "No refund is paid for opened good.", "claim", "/claims/1/text"),
    (("claims",), [], "no_claims", "/claims"), (("answer", "abstained"), True, "no_claims", "/answer/abstained"),
    (("claims", 0, "spans", 0, "item"), 2, "span", "/claims/0/spans/0/item"), (("claims", 0, "spans", 0, "end"), 46, "span", "/claims/0/spans/0/text"),
    (("claims", 0, "spans", 0, "start"), 47, "span", "/claims/0/spans/0/start"), (("claims", 0, "spans", 0, "end"), 500, "span", "/claims/0/spans/0/start"),
    (("claims", 0, "spans", 0, "item"), 1, "span", "/claims/0/spans/0/text"), (("claims", 2, "judgement", "label"), "quoted", "quotation", "/claims/2/judgement/label"),
    (("claims", 2, "judgement", "label"), "entailed", "decision", "/claims/2/decision"), (("claims", 2, "decision", "shown"), True, "decision", "/claims/2/decision"),
    (("claims", 2, "decision", "reason"), None, "decision", "/claims/2/decision"), (("claims", 0, "decision"), {"shown": False, "reason": "no_span"}, "decision", "/claims/0/decision"),
    (("claims", 1, "judgement", "confidence"), "0.499999", "decision", "/claims/1/decision"), (("policy", "labels"), ["entailed"], "decision", "/claims/0/decision"),
    (("policy", "minimum_confidence"), "1.000000", "", ""), (("not_proven",), [], "not_proven", "/not_proven"),
    (("not_proven",), list(reversed(fmt.NOT_PROVEN)), "not_proven", "/not_proven"), (("expires_at",), "2026-12-01T12:00:00Z", "time", "/expires_at"),
])
def test_an_issuer_that_lies_and_hashes_everything_anew_is_found(path: Step, new: Any, code: str, at: str) -> None:
    assert first(rehashed(edited(certified.body(), path, new))) == ((code, at) if code else None)


def test_text_between_claims_is_white_space_or_a_mark_of_a_list() -> None:
    body = certified.body()
    for between in (" ", "\n- ", "\u00a0•\u3000", " # > * "):
        answer = ANSWER[:47] + between + ANSWER[48:]
        shifted = edited(body, ("answer", "text"), answer)
        for place in (1, 2):
            for end in ("start", "end"):
                shifted["claims"][place][end] += len(between) - 1
        assert first(rehashed(shifted)) is None
    for between in (" not ", ".", "1 ", "\u200b", "—", "\x1c"):
        answer = ANSWER[:47] + between + ANSWER[48:]
        shifted = edited(body, ("answer", "text"), answer)
        for place in (1, 2):
            for end in ("start", "end"):
                shifted["claims"][place][end] += len(between) - 1
        assert first(rehashed(shifted)) == ("uncovered", "/answer/text"), between
    assert first(rehashed(edited(body, ("answer", "text"), ANSWER + " In gold."))) == ("uncovered", "/answer/text")
    assert first(rehashed(edited(body, ("answer", "text"), "Never. " + ANSWER))) == ("claim", "/claims/0/text")


def test_an_abstention_has_no_text_and_no_claims() -> None:
    nothing = certified.body(answer="", claims=(), retrieval=Retrieval("lexical", 10, (), ()))
    assert (first(nothing), nothing["answer"]["abstained"]) == (None, True)
    assert first(edited(nothing, ("answer", "abstained"), False)) == ("no_claims", "/answer/abstained")
    assert first(rehashed(edited(nothing, ("answer", "text"), " \n"))) == ("no_claims", "/answer/abstained")


def test_scores_need_not_fall_where_hits_were_merged_by_rank() -> None:
    items = (Item("a", "a", "a", 0, 68, REFUNDS, 1.0), Item("b", "b", "b", 0, 78, SHIPPING, 2.0))
    for merged_by, expected in (("rank", None), ("statistics and rank", None), ("score", "/retrieval/items/1/score"), ("statistics", "/retrieval/items/1/score")):
        body = rehashed(edited(certified.body(), ("retrieval", "merged_by"), merged_by))
        for place, item in enumerate(items):
            body["retrieval"]["items"][place]["score"] = f"{item.score:.9f}"
        assert first(body) == (None if expected is None else ("retrieval", expected))


def test_one_chunk_of_two_indexes_is_two_items() -> None:
    item = Item("a", "a", "a", 0, 68, REFUNDS, 1.0)
    twice = Retrieval("lexical", 10, (item, Item("a", "a", "a", 0, 68, REFUNDS, 1.0, 1)), (SearchedIndex(None, "1" * 64), SearchedIndex(None, "2" * 64)))
    body = certified.body(retrieval=twice, answer="", claims=())
    assert first(body) is None
