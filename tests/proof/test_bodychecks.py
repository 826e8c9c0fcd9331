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
    (("retrieval", "failed"), [{"node_id": "1" * 64, "reason": "timed_out"}], "retrieval", "/retrieval/merged_by"),
    (("retrieval", "not_asked"), [{"node_id": "1" * 64, "reason": "circuit_open"}], "retrieval", "/retrieval/merged_by"),
    (("retrieval", "merged_by"), "score", "retrieval", "/retrieval/indexes/0/node_id"), (("methods", "decomposition"), "whole", "claim", "/claims"),
    (("retrieval", "items", 0, "provenance", "start_line"), 2, "retrieval", "/retrieval/items/0/provenance"),
    (("retrieval", "items", 0, "provenance", "start_line"), None, "retrieval", "/retrieval/items/0/provenance"),
    (("retrieval", "items", 0, "provenance", "end_line"), None, "retrieval", "/retrieval/items/0/provenance"),
    (("retrieval", "items", 0, "provenance", "end_line"), 0, "retrieval", "/retrieval/items/0/provenance"),
    (("retrieval", "items", 0, "provenance", "end_line"), 2, "", ""), (("methods", "alignment"), "none", "span", "/claims/0/spans/0"),
    (("judge", "name"), "none", "decision", "/claims/0/judgement/label"),
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
    (("expires_at",), "2027-12-02T12:00:00Z", "", ""), (("expires_at",), "2027-12-02T12:00:01Z", "time", "/expires_at"), (("expires_at",), "9999-12-31T23:59:59Z", "time", "/expires_at"),
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


NODES = (SearchedIndex("e" * 64, "1" * 64), SearchedIndex("f" * 64, "2" * 64))


def of_shards(*scores: float, indexes: tuple[int, ...], merged_by: str) -> dict[str, Any]:
    """A body over items with these scores, of these indexes."""
    texts = (REFUNDS, SHIPPING, ANSWER)
    items = tuple(Item(f"{place}", "d", "s", 0, len(texts[place]), texts[place], score, indexes[place]) for place, score in enumerate(scores))
    retrieval = Retrieval("lexical", 10, (), NODES, merged_by=merged_by)
    made = certified.body(retrieval=retrieval, answer="", claims=())
    found = certified.body(retrieval=Retrieval("lexical", 10, items[:1], NODES, merged_by=merged_by), answer="", claims=())["retrieval"]["items"]
    made["retrieval"]["items"] = [{**found[0], "chunk_id": item.chunk_id, "end": item.end, "text": item.text, "index": item.index, "score": f"{item.score:.9f}"}
                                  for item in items]
    return rehashed(made)


@pytest.mark.parametrize(("merged_by", "one_index", "two_indexes"), [
    ("rank", "/retrieval/items/1/score", ""), ("statistics and rank", "/retrieval/items/1/score", ""), ("of our own", "", ""),
    ("score", "/retrieval/items/1/score", "/retrieval/items/1/score"), ("statistics", "/retrieval/items/1/score", "/retrieval/items/1/score")])
def test_scores_fall_as_far_as_the_strategy_goes_by_them(merged_by: str, one_index: str, two_indexes: str) -> None:
    for indexes, expected in (((0, 0), one_index), ((0, 1), two_indexes)):
        assert first(of_shards(1.0, 2.0, indexes=indexes, merged_by=merged_by)) == (("retrieval", expected) if expected else None)
    assert first(of_shards(1.0, 2.0, 1.5, indexes=(0, 1, 0), merged_by="rank")) == ("retrieval", "/retrieval/items/2/score")
    assert first(of_shards(2.0, 2.0, 1.0, indexes=(0, 0, 0), merged_by=merged_by)) is None


def test_a_node_stands_at_one_place() -> None:
    def body(indexes: tuple[SearchedIndex, ...], failed: tuple[tuple[str, str], ...] = (), not_asked: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
        made = certified.body(retrieval=Retrieval("lexical", 10, (), NODES, merged_by="score"), answer="", claims=())
        made["retrieval"]["indexes"] = [{"node_id": each.node_id, "shard_id": each.shard_id, "content": each.content} for each in indexes]
        made["retrieval"]["failed"] = [{"node_id": node, "reason": why} for node, why in failed]
        made["retrieval"]["not_asked"] = [{"node_id": node, "reason": why} for node, why in not_asked]
        return rehashed(made)

    one, other, third = "1" * 64, "2" * 64, "3" * 64
    assert first(body(NODES, ((third, "timed_out"),), (("4" * 64, "circuit_open"),))) is None
    for wrong in (body((*NODES, NODES[0])), body(NODES, ((one, "refused"),)), body(NODES, (), ((other, "refused"),)),
                  body(NODES, ((third, "refused"), (third, "timed_out"))), body(NODES, ((third, "refused"),), ((third, "circuit_open"),))):
        assert first(wrong) == ("retrieval", "/retrieval/indexes")
    assert first(body((NODES[0], SearchedIndex("f" * 64)))) == ("retrieval", "/retrieval/indexes/1/node_id")


@pytest.mark.parametrize(("path", "new"), [
    (("retrieval", "limit"), 11), (("retrieval", "mode"), "vector"), (("retrieval", "merged_by"), "rank"), (("retrieval", "topics"), ["law"]),
    (("generator", "model"), "another"), (("judge", "version"), "2"), (("methods", "alignment"), "embedder"), (("policy", "minimum_confidence"), "0.100000")])
def test_answers_that_were_made_in_other_ways_have_other_setups(path: Step, new: Any) -> None:
    assert fmt.answer_setup(edited(certified.body(), path, new)) != fmt.answer_setup(certified.body())
    assert fmt.answer_setup(edited(certified.body(), ("answer", "text"), "another")) == fmt.answer_setup(certified.body())


def test_a_state_that_is_not_known_is_no_other_s() -> None:
    """So no two answers over it are two answers over one state."""
    def state(content: str | None, salt: str) -> Any:
        retrieval = Retrieval("lexical", 10, (), (SearchedIndex(content),))
        return certified.make_body(certified.draft(retrieval=retrieval, answer="", claims=()), "acme", certified.PUBLIC, now=certified.NOW, salt=salt)["retrieval"]["state"]

    assert state("e" * 64, "1" * 64) == state("e" * 64, "2" * 64)
    assert state(None, "1" * 64) != state(None, "2" * 64)
    salted = certified.body(retrieval=Retrieval("lexical", 10, (), (SearchedIndex(None),)), answer="", claims=())
    assert first(edited(salted, ("query", "salt"), "0" * 64)) == ("hash", "/retrieval/state")


def test_one_chunk_of_two_indexes_is_two_items() -> None:
    item = Item("a", "a", "a", 0, 68, REFUNDS, 1.0)
    twice = Retrieval("lexical", 10, (item, Item("a", "a", "a", 0, 68, REFUNDS, 1.0, 1)), (SearchedIndex(None, "1" * 64), SearchedIndex(None, "2" * 64)), merged_by="rank")
    body = certified.body(retrieval=twice, answer="", claims=())
    assert first(body) is None
