"""The desk's tests. Once recorded they need no index, no embedder and no model; see README.md."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import agent
import pytest

pytestmark = pytest.mark.rag_trace


@pytest.fixture(autouse=True)
def _desk(tmp_path: Path) -> Iterator[None]:
    """Open a desk; what is called for that stands in the trace of each test, too."""
    with agent.runtime(tmp_path):
        agent.open_desk()
        yield


def test_a_reply_says_what_the_policy_says_and_cites_it() -> None:
    reply = agent.answer("When do I get my money back?")
    assert "within ten days of the return" in reply.text
    assert reply.cites == ("policies/refunds.md:1",)


@pytest.mark.parametrize(("question", "policy"), [
    ("My lamp is broken, what now?", "warranty"),
    ("I ordered this morning. Is it on its way?", "shipping"),
], ids=["broken", "ordered"])
def test_customers_are_understood_in_their_own_words(question: str, policy: str) -> None:
    assert agent.answer(question).cites[0] == f"policies/{policy}.md:1"


def test_what_no_policy_covers_goes_to_a_person() -> None:
    assert agent.answer("Who won the chess championship?") == agent.HANDED_OVER


@pytest.mark.rag_trace(matching="keyed")  # the order of calls differs from run to run
def test_questions_are_answered_at_the_same_time() -> None:
    questions = ["How long is the warranty?", "How long do parcels to islands take?", "Which card is the money refunded to?"]
    replies = asyncio.run(agent.answer_all(questions))
    assert [reply.cites[0] for reply in replies] == ["policies/warranty.md:1", "policies/shipping.md:1", "policies/refunds.md:1"]
