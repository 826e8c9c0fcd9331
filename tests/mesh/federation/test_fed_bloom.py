"""The filter of topics and terms: its format, what it rules out, and how often it is wrong."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.mesh.federation.bloom import MOST_BITS, Bloom, measured_rate, rules_out

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def by_hand(kind: str, text: str, hashes: int, size: int) -> set[int]:
    """The bits of an entry as the documentation of the format has them."""
    digest = hashlib.sha256(kind.encode() + b"\0" + text.strip().casefold().encode()).digest()
    first, second = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big") | 1
    return {(first + number * second) % size for number in range(hashes)}


def test_the_bytes_are_those_of_the_documented_format() -> None:
    data = Bloom.of(["Birds "], ["raven"]).to_bytes()
    magic, version, hashes, zero, size = struct.unpack(">8sBBHI", data[:16])
    assert (magic, version, zero, hashes, size) == (b"RAGBLOOM", 1, 0, 8, 24)
    ones = {place for place in range(size) if data[16 + place // 8] & 1 << place % 8}
    assert ones == by_hand("topic", "birds", hashes, size) | by_hand("term", "raven", hashes, size)
    assert len(data) == 16 + size // 8


def test_the_bytes_do_not_change_from_one_version_to_the_next() -> None:
    data = Bloom.of(["library/books", "Straße"], ["raven", "owl"]).to_bytes()
    assert hashlib.sha256(data).hexdigest() == "7d95aed4f3ad4f90b168a749a7983c72dbcf2d05075b036704e7b8e0d8b22959"


@given(st.lists(TEXTS, max_size=20), st.lists(TEXTS, max_size=20), st.floats(0.001, 0.5))
def test_what_was_put_in_is_found_after_the_wire(topics: list[str], terms: list[str], rate: float) -> None:
    bloom = Bloom.of(topics, terms, rate=rate)
    read = Bloom.read(bloom.to_bytes())
    assert read == bloom
    assert all(read.may_hold("topic", topic) for topic in topics)
    assert all(read.may_hold("term", f" {term.upper().lower()} ") or term.casefold() != term.upper().lower().casefold() for term in terms)
    assert not any(rules_out(bloom.to_bytes(), [topic]) for topic in topics)


@given(st.binary(max_size=64))
def test_other_bytes_are_no_filter_and_rule_nothing_out(data: bytes) -> None:
    assert Bloom.read(data) is None
    assert not rules_out(data, ["birds"])


GOOD = Bloom.of(["birds"]).to_bytes()


@pytest.mark.parametrize("data", [
    b"", GOOD[:15], GOOD[:-1], GOOD + b"\0", b"ragbloom" + GOOD[8:], GOOD[:8] + b"\2" + GOOD[9:], GOOD[:9] + b"\0" + GOOD[10:],
    GOOD[:9] + b"\x11" + GOOD[10:], GOOD[:11] + b"\1" + GOOD[12:], GOOD[:12] + struct.pack(">I", 0), GOOD[:12] + struct.pack(">I", 9) + b"\0\0",
    GOOD[:12] + struct.pack(">I", MOST_BITS + 8) + bytes(MOST_BITS // 8 + 1), bytes(1_024)])
def test_a_filter_that_is_damaged_or_of_another_version_is_none(data: bytes) -> None:
    assert Bloom.read(data) is None


def test_topics_and_terms_are_kept_apart() -> None:
    bloom = Bloom.of(["birds"], ["ships"], rate=1e-6)
    assert (bloom.may_hold("topic", "birds"), bloom.may_hold("term", "birds")) == (True, False)
    assert (bloom.may_hold("topic", "ships"), bloom.may_hold("term", "ships")) == (False, True)


def test_one_of_several_topics_is_enough() -> None:
    data = Bloom.of(["birds"], rate=1e-6).to_bytes()
    assert not rules_out(data, ["ships", "BIRDS"])
    assert rules_out(data, ["ships", "trains"])


@pytest.mark.parametrize("topics", [[], [""], [" ", "\n"]])
def test_without_topics_nothing_is_ruled_out(topics: list[str]) -> None:
    assert not rules_out(GOOD, topics)


def test_an_empty_filter_holds_nothing() -> None:
    bloom = Bloom.of([])
    assert rules_out(bloom.to_bytes(), ["birds"])
    assert (bloom.expected_rate, measured_rate(bloom, [])) == (0.0, 0.0)


@pytest.mark.parametrize("rate", [0.1, 0.01, 0.001])
def test_the_measured_rate_is_the_one_asked_for(rate: float) -> None:
    topics = [f"topic {number}" for number in range(2_000)]
    bloom = Bloom.of(topics, rate=rate)
    measured = measured_rate(bloom, topics, probes=20_000)
    assert measured == pytest.approx(rate, rel=0.35)
    assert bloom.expected_rate == pytest.approx(rate, rel=0.1)
    assert measured_rate(bloom, topics, "term", probes=20_000) == pytest.approx(rate, rel=0.35)


def test_probes_that_are_held_are_not_counted() -> None:
    probes = [hashlib.sha256(b"probe %d" % number).hexdigest()[:16] for number in range(10)]
    bloom = Bloom.of(probes, rate=1e-6)
    assert measured_rate(bloom, probes, probes=10) == 0.0
    assert measured_rate(bloom, [], probes=10) == 1.0


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0, float("nan")])
def test_a_rate_lies_between_0_and_1(rate: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Bloom.of(["birds"], rate=rate)


def test_a_rate_is_measured_with_a_probe() -> None:
    with pytest.raises(ValueError, match="at least one"):
        measured_rate(Bloom.of([]), [], probes=0)


def test_a_filter_has_a_largest_size() -> None:
    topics: Any = (str(number) for number in range(40_000))
    bloom = Bloom.of(topics, rate=1e-60)
    assert (len(bloom.bits) * 8, bloom.hashes) == (MOST_BITS, 16)
    assert bloom.may_hold("topic", "39999")
