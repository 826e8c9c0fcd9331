"""How large a reply is: what fits by these counts is carried, up to the last value and byte."""

from __future__ import annotations

from typing import Any

import pytest

from rag_stdlib.mesh.errors import PayloadRefused, Refusal
from rag_stdlib.mesh.federation.payloads import Embedding, ShardAnswer
from rag_stdlib.mesh.procedures import replies
from rag_stdlib.mesh.wire import PAYLOAD_ITEMS, outgoing, pack


def test_hits_that_fill_the_bounds_are_carried_with_what_stands_around_them() -> None:
    found = replies.hits_within_bounds([{"id": "a", "score": 1}] * 40_000)
    assert len(found["hits"]) == replies.MAX_HITS_ITEMS // 5
    assert found["left_out"] == 40_000 - len(found["hits"])
    answer = ShardAnswer("shard", Embedding("model", 768), tuple(found["hits"]), {"v": 1})
    assert outgoing(answer.payload()) == answer.payload()


def test_a_reply_of_as_many_values_as_a_payload_holds_is_carried_and_one_more_is_refused_by_name() -> None:
    full: list[Any] = [None] * (PAYLOAD_ITEMS - 1)
    assert outgoing(replies.within_bounds(full)) == full
    with pytest.raises(Refusal, match="payload_too_large: the reply would hold more than 131,008 values"):
        replies.within_bounds([*full, None])
    with pytest.raises(PayloadRefused):
        outgoing([*full, None])


def test_no_hit_is_left_out_for_another_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    hits = [{"id": "a" * 10, "score": 1.0}] * 3
    monkeypatch.setattr(replies, "MAX_HITS_BYTES", 2 * replies.size(hits[0]))
    assert replies.hits_within_bounds(hits[:2]) == {"hits": hits[:2]}
    assert replies.hits_within_bounds(hits) == {"hits": hits[:2], "left_out": 1}
    assert replies.hits_within_bounds([]) == {"hits": []}
    monkeypatch.setattr(replies, "MAX_HITS_BYTES", replies.size(hits[0]) - 1)
    with pytest.raises(Refusal, match="the best hit alone is too large for a reply"):
        replies.hits_within_bounds(hits)


@pytest.mark.parametrize("value", [{}, [], "", b"", 0, -(2**63), 1.5, None, {"é" * 30: ["\U0001f426", {"a": [b"x" * 300, (1, 2)]}]}, ["a"] * 700])
def test_sizes_are_never_below_those_of_the_wire(value: Any) -> None:
    assert replies.size(value) >= len(pack(value))


def test_every_key_and_value_is_an_item() -> None:
    assert [replies.items(value) for value in ({}, {"a": 1}, [1, (2, 3)], {"a": {"b": [None]}}, "text")] == [1, 3, 5, 6, 1]
