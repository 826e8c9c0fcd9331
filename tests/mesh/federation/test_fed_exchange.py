"""The map of a question to a part of a collection, and the statistics of its answer, over the wire and back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.contract import loose
from rag_stdlib.index.collection import Collection, Moments
from rag_stdlib.mesh.federation.exchange import (
    MOST_DIGESTS,
    Asked,
    Exchange,
    Malformed,
    Share,
    read_asked,
    read_copies,
    read_share,
)
from rag_stdlib.mesh.wire import pack, unpack
from rag_stdlib.records import MODES

SHARE_BOUND, SUM_BOUND = 2**44, 2**63 - 1
DIGEST = "0a" * 32
WORDS = {"chunks": 9, "terms": 40, "holding": [3, 0]}
MOMENTS = {"count": 2, "total": "3", "squares": "5"}

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def counts(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, 200) | st.integers(0, most)


@st.composite
def collections(draw: st.DrawFn, most: int) -> Collection:
    chunks = draw(counts(most))
    return Collection(chunks, draw(counts(most)), tuple(draw(st.lists(st.integers(0, chunks), max_size=5))))


@st.composite
def moments(draw: st.DrawFn, times: int) -> Moments:
    """The sums of some scores, each of which comes so many times at most."""
    scores = draw(st.lists(st.integers(-10**10, 10**10), max_size=6))
    often = draw(st.integers(1, times))
    return Moments(often * len(scores), often * sum(scores), often * sum(score * score for score in scores))


def shares(most: int) -> st.SearchStrategy[Share]:
    some = st.none() | moments(most // 6)
    return st.builds(Share, st.none() | collections(most), some, some)


EXCHANGES = st.one_of(
    st.builds(lambda share: Exchange("count", share.words, share.by_vector, share.by_words), shares(SUM_BOUND)),
    st.builds(lambda kind, words, share: Exchange(kind, words, share.by_vector, share.by_words), st.sampled_from(["words", "hits"]),
              collections(SUM_BOUND), shares(SUM_BOUND)),
    st.builds(lambda digests: Exchange("copies", digests=tuple(digests)), st.lists(st.binary(min_size=32, max_size=32).map(bytes.hex), min_size=1, max_size=4)))
QUESTIONS = st.builds(Asked, TEXTS.filter(bool), st.none() | st.sampled_from(MODES), st.none() | st.lists(FLOATS, max_size=5).map(tuple),
                      st.lists(TEXTS, max_size=3).map(tuple), st.none() | EXCHANGES)

WIRE = st.recursive(st.none() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXTS | st.binary(max_size=8),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12)


def travelled(value: Any) -> dict[str, Any]:
    """What a node makes of a map that came over the mesh."""
    found = loose.loosened(unpack(pack(value)))
    assert isinstance(found, dict)
    return found


def as_erlang(value: Any) -> Any:
    """The value as a peer writes it that has byte strings for text, keys included."""
    if isinstance(value, Mapping):
        return {key.encode(): as_erlang(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_erlang(part) for part in value]
    return value.encode() if isinstance(value, str) else value


@given(QUESTIONS)
def test_a_question_comes_back_from_the_wire_as_it_was(asked: Asked) -> None:
    assert read_asked(travelled(asked.query())) == asked


@given(QUESTIONS)
def test_a_question_in_byte_strings_is_the_same_question(asked: Asked) -> None:
    loosened = loose.loosened(as_erlang(asked.query()))
    assert isinstance(loosened, dict)
    assert read_asked(loosened) == asked


@given(shares(SHARE_BOUND))
def test_statistics_come_back_from_the_wire_as_they_were(share: Share) -> None:
    assert read_share(travelled(share.statistics())) == share
    loosened = loose.loosened(as_erlang(share.statistics()))
    assert isinstance(loosened, dict)
    assert read_share(loosened) == share


@given(st.lists(shares(SHARE_BOUND), min_size=1, max_size=8))
def test_whatever_shards_answer_their_sums_can_be_sent_and_are_read(given_: list[Share]) -> None:
    by_words = Moments(0, 0, 0)
    chunks = terms = 0
    for share in given_:
        by_words += share.by_words or Moments(0, 0, 0)
        chunks, terms = chunks + (share.words.chunks if share.words else 0), terms + (share.words.terms if share.words else 0)
    asked = Asked("raven", "hybrid", exchange=Exchange("hits", Collection(chunks, terms, ()), by_words, by_words))
    assert read_asked(travelled(asked.query())) == asked


def test_half_a_million_of_the_largest_shares_add_up_to_what_can_be_sent() -> None:
    largest = Share(Collection(SHARE_BOUND, SHARE_BOUND, (SHARE_BOUND,)), Moments(SHARE_BOUND, SHARE_BOUND * 10**10, SHARE_BOUND * 10**20))
    assert read_share(largest.statistics(), 1) == largest
    many = 2**19 - 1
    assert largest.words is not None
    assert largest.by_vector is not None
    words = Collection(many * largest.words.chunks, many * largest.words.terms, (many * SHARE_BOUND,))
    summed = Moments(many * largest.by_vector.count, many * largest.by_vector.total, many * largest.by_vector.squares)
    asked = Asked("raven", exchange=Exchange("hits", words, summed, summed))
    assert read_asked(travelled(asked.query())) == asked


@given(WIRE)
def test_nothing_but_malformed_is_raised_for_any_value_of_the_wire(value: Any) -> None:
    for place in ("text", "mode", "vector", "topics", "exchange"):
        reads(partial(read_asked, {"text": "raven", place: value}))
    for kind in ("count", "words", "hits", "copies", value):
        for place in ("words", "by_vector", "by_words", "digests"):
            exchange = {"v": 1, "round": kind, "words": WORDS, place: value}
            reads(partial(read_asked, {"text": "raven", "exchange": exchange}))
    for statistics in ({"v": value}, {"v": 1, "words": value}, {"v": 1, "by_words": value}, {"v": 1, "words": {**WORDS, "holding": value}},
                       {"v": 1, "words": {**WORDS, "chunks": value}}, {"v": 1, "by_vector": {**MOMENTS, "total": value}},
                       {"v": 1, "by_vector": {**MOMENTS, "count": value}}):
        reads(partial(read_share, statistics, 2))
    for listed in (value, [value], [{"digest": DIGEST, "paths": value, "left_out": value}], [{"digest": value, "paths": [value]}]):
        for digest, (paths, more) in read_copies({"copies": listed}).items():
            assert all(isinstance(path, str) for path in [digest, *paths])
            assert 0 <= more <= SHARE_BOUND


def reads(read: Callable[[], object]) -> None:
    with suppress(Malformed):
        assert isinstance(read(), (Asked, Share))


@pytest.mark.parametrize("query", [{}, {"text": ""}, {"text": None}, {"text": 7}, {"text": b"\xff"}, {"text": ["raven"]}, {"text": "\ud800"}])
def test_a_question_without_text_is_told_from_a_wrong_one(query: dict[str, object]) -> None:
    with pytest.raises(Malformed, match="text is missing") as caught:
        read_asked(query)
    assert caught.value.refusal == "missing_text"


def test_text_alone_is_a_question_of_a_peer_that_knows_no_more() -> None:
    assert read_asked({"text": b"raven", "lang": b"en"}) == Asked("raven")


@pytest.mark.parametrize(("more", "words"), [
    ({"mode": "fuzzy"}, "mode is one of"), ({"mode": 7}, "mode is one of"), ({"mode": b"\xff"}, "mode is one of"),
    ({"vector": "raven"}, "vector"), ({"vector": [1.0, "2"]}, "vector"), ({"vector": [True]}, "vector"), ({"vector": {"0": 1.0}}, "vector"),
    ({"vector": [float("nan")]}, "finite"), ({"vector": [float("inf")]}, "finite"), ({"vector": [10**400]}, "finite"),
    ({"topics": "coast"}, "topics"), ({"topics": ["coast", 7]}, "topics"), ({"topics": [b"\xff"]}, "topics"), ({"topics": {"coast": 1}}, "topics"),
    ({"exchange": "count"}, "exchange is a map"), ({"exchange": []}, "exchange is a map"), ({"exchange": {}}, "round"),
    ({"exchange": {"v": 1, "round": "all"}}, "round"), ({"exchange": {"v": 1, "round": 1}}, "round"),
    ({"exchange": {"v": 2, "round": "count"}}, "version"), ({"exchange": {"round": "count"}}, "version"), ({"exchange": {"v": "1", "round": "count"}}, "version"),
    ({"exchange": {"v": 1, "round": "words"}}, "words are missing"), ({"exchange": {"v": 1, "round": "hits"}}, "words are missing"),
    ({"exchange": {"v": 1, "round": "copies"}}, "digests"), ({"exchange": {"v": 1, "round": "copies", "digests": []}}, "digests"),
    ({"exchange": {"v": 1, "round": "copies", "digests": DIGEST}}, "digests"), ({"exchange": {"v": 1, "round": "copies", "digests": [DIGEST[:-1]]}}, "digests"),
    ({"exchange": {"v": 1, "round": "copies", "digests": [DIGEST.upper()]}}, "digests"), ({"exchange": {"v": 1, "round": "copies", "digests": [DIGEST + "\n"]}}, "digests"),
    ({"exchange": {"v": 1, "round": "copies", "digests": [7]}}, "digests"),
    ({"exchange": {"v": 1, "round": "copies", "digests": [DIGEST] * (MOST_DIGESTS + 1)}}, "1 to 1,000"),
])
def test_what_is_there_and_not_of_its_form_is_malformed(more: dict[str, object], words: str) -> None:
    with pytest.raises(Malformed, match=words) as caught:
        read_asked({"text": "raven", **more})
    assert caught.value.refusal == "bad_params"


def words(**more: object) -> dict[str, object]:
    return {"words": {**WORDS, **more}}


def by_vector(**more: object) -> dict[str, object]:
    return {"by_vector": {**MOMENTS, **more}}


@pytest.mark.parametrize("wrong", [
    {"words": []}, {"words": {}}, words(chunks=-1), words(chunks=9.0), words(chunks=True), words(chunks="9"), words(chunks=None), words(terms=-1),
    words(terms=None), words(holding=None), words(holding="30"), words(holding=[3]), words(holding=[3, 0, 0]), words(holding=[10, 0]), words(holding=[-1, 0]),
    words(holding=[3, 0.0]), words(chunks=SHARE_BOUND + 1), words(terms=SHARE_BOUND + 1),
    {"by_vector": 7}, {"by_vector": {}}, by_vector(count=-1), by_vector(count=2.0), by_vector(count=SHARE_BOUND + 1), by_vector(total=3), by_vector(total=None),
    by_vector(total="3.0"), by_vector(total="+3"), by_vector(total=" 3"), by_vector(total="3\n"), by_vector(total=""), by_vector(total="-"), by_vector(total="٣"),
    by_vector(total="9" * 61), by_vector(squares="9" * 61), by_vector(squares="-5"), by_vector(squares="4"), by_vector(total="4"),
    by_vector(count=0, total="0"), by_vector(count=0, squares="0"), by_vector(squares=str(2 * 10**20 + 1)), {"by_words": {**MOMENTS, "squares": "4"}},
])
def test_statistics_that_no_index_has_are_malformed(wrong: dict[str, object]) -> None:
    read_share({"v": 1, "words": WORDS, "by_vector": MOMENTS, "by_words": MOMENTS}, 2)
    with pytest.raises(Malformed):
        read_share({"v": 1, "words": WORDS, "by_vector": MOMENTS, "by_words": MOMENTS, **wrong}, 2)


@pytest.mark.parametrize("version", [None, 0, 2, "1", b"1", [1]])
def test_statistics_of_another_version_are_none(version: object) -> None:
    with pytest.raises(Malformed, match="version"):
        read_share({"v": version, "words": WORDS})


def test_an_empty_index_is_a_share_like_any_other() -> None:
    empty = Share(Collection(0, 0, (0, 0)), Moments(0, 0, 0))
    assert read_share(travelled(empty.statistics()), 2) == empty


def test_moments_stay_exact_beyond_64_bits() -> None:
    share = Share(by_words=Moments(2**43, -(2**43) * 10**9 - 1, 2**43 * 10**18 + 10**12))
    assert read_share(travelled(share.statistics())) == share


def test_copies_are_read_as_far_as_they_are_of_the_form() -> None:
    rows = [{"digest": "a", "paths": ["x", b"y", b"\xff", 7]}, {b"digest": b"b", b"paths": [b"z"], b"left_out": 5}, {"digest": "c", "paths": "x"},
            {"digest": 7, "paths": ["x"]}, {"digest": "d", "paths": [], "left_out": -1}, {"digest": "e", "paths": [], "left_out": 2**60}, "f", None]
    assert read_copies({"v": 1, "copies": rows}) == {"a": (["x", "y"], 0), "b": (["z"], 5), "d": ([], 0), "e": ([], 0)}
    assert [read_copies(given_) for given_ in ({}, {"copies": None}, {"copies": {"a": ["x"]}}, {"copies": "a"})] == [{}] * 4


def test_as_many_digests_as_a_search_has_hits_can_be_asked() -> None:
    digests = tuple(hashlib.sha256(b"%d" % number).hexdigest() for number in range(MOST_DIGESTS))
    asked = Asked("raven", "lexical", exchange=Exchange("copies", digests=digests))
    assert read_asked(travelled(asked.query())) == asked
