"""The hash chain: what a line looks like, and which line does not hold."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracing import START, chained

from replay.tracefile import chain
from replay.tracefile.chain import Chain, read_end, stamp, unseal

EVENTS: list[dict[str, Any]] = [{"kind": "host_event", "name": f"n{number}", "payload": "é\n"} for number in range(6)]
VALUES = st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8)


def check(lines: list[bytes]) -> tuple[int | None, str]:
    """Return the 0-based number of the first line that does not hold, and why."""
    follower = Chain()
    for number, line in enumerate(lines):
        problem = follower.problem(line, json.loads(line))
        if problem:
            return number, problem
    return None, ""


def test_a_line_has_its_number_the_digest_before_it_and_its_own() -> None:
    line, digest = stamp(b'{"a":1}', 5, "ab" * 32)
    front = b'{"a":1,"seq":5,"prev":"' + b"ab" * 32 + b'"'
    assert digest == hashlib.sha256(front).hexdigest()
    assert line == front + b',"sha256":"' + digest.encode() + b'"}'
    assert list(json.loads(line)) == ["a", "seq", "prev", "sha256"]


def test_a_seal_stands_in_front_of_the_digest_and_is_hashed_too() -> None:
    line, digest = stamp(b'{"a":1}', 0, START, b'{"alg":"x"}')
    assert list(json.loads(line)) == ["a", "seq", "prev", "seal", "sha256"]
    assert digest == hashlib.sha256(line[:line.index(b',"sha256"')]).hexdigest()
    assert unseal(line) == (line[:line.index(b',"seal"')], b'{"alg":"x"}')
    plain, _ = stamp(b'{"a":1}', 0, START)
    assert unseal(plain) == (line[:line.index(b',"seal"')], None)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=5), VALUES, min_size=1, max_size=3), min_size=1, max_size=5))
def test_what_is_stamped_holds_and_equals_the_chain_made_from_the_description(bodies: list[dict[str, Any]]) -> None:
    bodies = [{"x": body} for body in bodies]  # no names of the line's own
    lines, head = [], START
    for seq, body in enumerate(bodies):
        line, head = stamp(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(), seq, head)
        lines.append(line)
    assert lines == list(chained(bodies))
    assert check(lines) == (None, "")
    assert read_end(lines[-1]) == (len(lines) - 1, head)


@settings(deadline=None)
@given(st.data())
def test_every_flipped_byte_is_named_at_its_own_line(data: st.DataObject) -> None:
    lines = list(chained(EVENTS))
    number = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.integers(0, len(lines[number]) - 1))
    changed = bytearray(lines[number])
    changed[place] ^= data.draw(st.integers(1, 255))
    try:
        json.loads(bytes(changed))
    except ValueError:
        return  # the reader refuses it before the chain is asked
    assert check([*lines[:number], bytes(changed), *lines[number + 1:]])[0] == number


def test_dropped_doubled_moved_and_inserted_lines_are_named() -> None:
    """Row 46."""
    lines = list(chained(EVENTS))
    assert check(lines[:2] + lines[3:]) == (2, "a line is missing, doubled or out of place: this one is number 3, number 2 is due here")
    assert check(lines[:3] + lines[2:])[0] == 3
    assert check([*lines[:2], lines[3], lines[2], *lines[4:]])[0] == 2
    assert check([*lines[:2], lines[0], *lines[2:]])[0] == 2
    assert check(lines[1:])[0] == 0
    assert check(lines[:-1]) == (None, ""), "a front of a chain is a chain"


def test_a_line_chained_anew_is_named_where_the_old_ones_go_on() -> None:
    lines = list(chained(EVENTS))
    head = json.loads(lines[1])["sha256"]
    [forged] = chained([{"kind": "host_event", "name": "forged", "payload": 1}], head, 2)
    assert check([*lines[:2], forged, *lines[3:]]) == (3, "the line before this one is not the one that it was written after")


def test_lines_with_and_without_a_chain_do_not_mix() -> None:
    lines, bare = list(chained(EVENTS)), [json.dumps(event).encode() for event in EVENTS]
    assert check([*lines[:2], *bare[2:]]) == (2, "the line carries no hash chain, those before it do")
    assert check([*bare[:2], *lines[2:]]) == (2, "the line carries a hash chain, those before it do not")
    assert check(bare) == (None, "")


def test_a_chain_without_its_digest_at_the_end_does_not_hold() -> None:
    line = next(chained(EVENTS))
    moved = json.loads(line)
    assert check([json.dumps({"sha256": moved.pop("sha256"), **moved}).encode()]) == (0, "the line does not end with its digest")
    assert check([json.dumps({**moved, "x": 1}).encode()])[0] == 0
    assert check([b'{"seq":0}'])[0] == 0


@pytest.mark.parametrize("seq", [True, 0.0, "0", None, -1])
def test_a_number_that_is_none_does_not_hold(seq: Any) -> None:
    front = json.dumps({"kind": "k", "seq": seq, "prev": START}).encode()[:-1]
    assert check([front + chain.end(front)[0]])[0] == 0


@pytest.mark.parametrize("line", [b"", b"{}", b'{"seq":1}', b'{"seq":1,"prev":"0","sha256":"0"}', b'{"a":1,"seq":1,"prev":"' + b"0" * 64 + b'"}'])
def test_an_end_that_is_none_is_not_read(line: bytes) -> None:
    assert read_end(line) is None


def test_text_that_looks_like_an_end_is_not_taken_for_one() -> None:
    real, digest = stamp(json.dumps({"a": stamp(b'{"b":1}', 99, START)[0].decode()}).encode(), 3, START)
    assert read_end(real) == (3, digest)
