"""The multiset hash: against lanes added one by one, and what does and does not change its digest."""

from __future__ import annotations

import hashlib
import random
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.index import multiset

members = st.lists(st.lists(st.binary(max_size=6), max_size=3), max_size=8)
states = st.integers(0, 2**(8 * multiset.STATE_BYTES) - 1) | st.just(0) | st.just(2**(8 * multiset.STATE_BYTES) - 1)


def lanes(state: int) -> list[int]:
    return list(struct.unpack("<1024H", multiset.to_bytes(state)))


def total(parts: list[list[bytes]]) -> int:
    state = multiset.EMPTY
    for member in parts:
        state = multiset.plus(state, multiset.member(member))
    return state


@settings(deadline=None, max_examples=60)
@given(states, states)
def test_lanes_are_added_and_subtracted_each_by_itself(one: int, other: int) -> None:
    assert lanes(multiset.plus(one, other)) == [(a + b) % 65536 for a, b in zip(lanes(one), lanes(other), strict=True)]
    assert lanes(multiset.minus(one, other)) == [(a - b) % 65536 for a, b in zip(lanes(one), lanes(other), strict=True)]


@settings(deadline=None, max_examples=60)
@given(members, st.randoms(use_true_random=False))
def test_neither_order_nor_what_came_and_went_shows(parts: list[list[bytes]], draw: random.Random) -> None:
    shuffled = draw.sample(parts, len(parts))
    state = total(shuffled)
    assert state == total(parts)
    for member in shuffled:
        state = multiset.minus(multiset.plus(state, multiset.member([b"passing", *member])), multiset.member(member))
        state = multiset.plus(multiset.minus(state, multiset.member([b"passing", *member])), multiset.member(member))
    assert state == total(parts)
    for member in parts:
        state = multiset.minus(state, multiset.member(member))
    assert state == multiset.EMPTY


def test_a_member_is_its_parts_and_not_their_text_together() -> None:
    one, two = multiset.member([b"ab", b"c"]), multiset.member([b"a", b"bc"])
    assert len({one, two, multiset.member([b"abc"]), multiset.member([b"", b"abc"]), multiset.member([])}) == 5


def test_a_member_that_is_there_twice_counts_twice() -> None:
    once = multiset.member([b"x"])
    assert len({multiset.EMPTY, once, multiset.plus(once, once)}) == 3


@settings(deadline=None, max_examples=40)
@given(states)
def test_states_are_stored_in_2048_bytes(state: int) -> None:
    stored = multiset.to_bytes(state)
    assert len(stored) == multiset.STATE_BYTES
    assert multiset.from_bytes(stored) == state


def test_the_bytes_are_those_that_the_page_on_the_index_file_describes() -> None:
    part = struct.pack("<Q", 2) + "é".encode() + struct.pack("<Q", 1) + b"7"
    wanted = hashlib.shake_128(b"rag-stdlib/index-member/v1\0" + part).digest(2048)
    assert multiset.to_bytes(multiset.member(["é".encode(), b"7"])) == wanted
    assert multiset.digest(wanted) == hashlib.sha256(b"rag-stdlib/index-content/v1\0" + wanted).hexdigest()
