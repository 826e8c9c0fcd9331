"""The identity of a described corpus (RAG service contract §3.2): what is in it, what is not, and what has none."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from described_corpora import ALPHA, BETA, CORPUS, DESCRIPTION, GARBAGE, HASH, as_bytes, cyclic, damaged, deep
from fixed_keys import node_key
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_vectors import needs_vectors, vectors

from rag_stdlib.contract.corpus import (
    MAX_DIM,
    MAX_REPOS,
    Corpus,
    MalformedDescription,
    Repo,
    corpus_hash,
    described,
    sign_corpus,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
REPOS = st.fixed_dictionaries(dict.fromkeys(("id", "url", "branch", "commit"), TEXTS))
CORPORA = st.fixed_dictionaries({"model": TEXTS, "dim": st.integers(1, MAX_DIM), "repos": st.lists(REPOS, max_size=4)})


@needs_vectors
def test_the_published_vector() -> None:
    for case in vectors("macula/corpus.json")["corpus_hash"]:
        assert corpus_hash(case["description"]) == case["corpus_hash"]


def test_the_hashes_that_the_contract_prints() -> None:
    alpha, beta = ALPHA, BETA
    published = {"model": "macula/multilingual-e5-small:f16", "dim": 384, "repos": [alpha, beta]}
    assert corpus_hash(published) == "0d5f037bfa41e1bce262d87098576102063fa084f63441a348d2a7648b4b2644"
    assert corpus_hash({**published, "repos": []}) == "04ed59c2f056abb706d9fe88b935e413c5328070a81fbc3540a799d7ffdf3b92"


@settings(max_examples=100, deadline=None, derandomize=True)
@given(CORPORA)
def test_it_is_the_digest_of_the_canonical_json(corpus: dict[str, Any]) -> None:
    canonical = json.dumps(corpus, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert corpus_hash(corpus) == hashlib.sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize("change", [
    {"repos": [BETA, ALPHA]}, {"repos": [ALPHA]}, {"repos": []}, {"repos": [ALPHA, BETA, BETA]}, {"dim": 768}, {"model": "test/words:v2"},
    *({"repos": [ALPHA, {**BETA, name: "other"}]} for name in BETA),
], ids=str)
def test_everything_that_makes_another_corpus_makes_another_hash(change: dict[str, Any]) -> None:
    assert corpus_hash({**CORPUS, **change}) != HASH


@pytest.mark.parametrize("change", [
    {"corpus_hash": "0" * 64}, {"signature": b"x"}, {"signed_by": "x"}, {"topics": ["a"], 7: None, b"\xff": 1},
    {"repos": [{**ALPHA, "depth": 1}, {**BETA, "paths": ["docs"], b"x": {}}]},
], ids=str)
def test_other_keys_do_not_count(change: dict[str, Any]) -> None:
    assert corpus_hash({**CORPUS, **change}) == HASH


@pytest.mark.parametrize("given_as", [
    as_bytes(CORPUS), {**CORPUS, "repos": as_bytes([ALPHA, BETA])}, {**CORPUS, "repos": (ALPHA, BETA)},
    {b"model": "test/words:v1", "dim": 384, b"repos": [as_bytes(ALPHA), BETA]},
    {**CORPUS, "model": bytearray(b"test/words:v1")},
], ids=["bytes", "bytes within", "tuple", "mixed", "bytearray"])
def test_text_and_bytes_are_one_at_any_depth(given_as: Any) -> None:
    assert corpus_hash(given_as) == HASH


def test_where_a_key_stands_in_both_forms_the_text_counts_for_every_reader() -> None:
    both = {**DESCRIPTION, b"model": "other", b"corpus_hash": b"0" * 64}
    assert corpus_hash(both) == HASH
    assert described(both) == described(DESCRIPTION)


MALFORMED: list[tuple[Any, str]] = [
    (None, "it is no map"), ([CORPUS], "it is no map"), ("text", "it is no map"), ({}, "model is missing or no text"),
    ({**CORPUS, "model": None}, "model is missing or no text"), ({**CORPUS, "model": 7}, "model is missing or no text"),
    ({**CORPUS, "model": b"\xff"}, "model is missing or no text"), ({**CORPUS, "model": "\ud800"}, "model is missing or no text"),
    *(({**CORPUS, "dim": dim}, "dim is no integer from 1 to 2^53 - 1")
      for dim in (None, True, 384.0, 0, -1, 2**53, 10**400, "384", b"384", float("nan"), [384])),
    ({**CORPUS, "repos": None}, "repos is no list of at most 131,072 maps"), ({**CORPUS, "repos": {}}, "repos is no list of at most 131,072 maps"),
    ({**CORPUS, "repos": "ab"}, "repos is no list of at most 131,072 maps"),
    ({**CORPUS, "repos": [ALPHA] * (MAX_REPOS + 1)}, "repos is no list of at most 131,072 maps"),
    ({**CORPUS, "repos": [ALPHA, "beta"]}, "repos[1] is no map"), ({**CORPUS, "repos": [ALPHA, None]}, "repos[1] is no map"),
    *(({**CORPUS, "repos": [ALPHA, {**BETA, name: value}]}, f"repos[1].{name} is missing or no text")
      for name in BETA for value in (None, 7, b"\xff", "\udfff", ["a"])),
]


@pytest.mark.parametrize(("description", "words"), MALFORMED, ids=lambda part: part if isinstance(part, str) else "")
def test_what_is_malformed_has_no_hash_and_is_named(description: Any, words: str) -> None:
    with pytest.raises(MalformedDescription) as raised:
        corpus_hash(description)
    assert str(raised.value) == words
    assert described(description) is None


def test_the_largest_numbers_that_every_reader_holds() -> None:
    assert corpus_hash({**CORPUS, "dim": MAX_DIM}) != corpus_hash({**CORPUS, "dim": 1})
    assert len(corpus_hash({**CORPUS, "repos": [ALPHA] * 5_000})) == 64


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.one_of(GARBAGE, damaged(CORPUS)))
def test_of_what_a_stranger_sends_a_hash_is_made_or_it_is_malformed(description: Any) -> None:
    corpus = described(description)
    try:
        made = corpus_hash(description)
    except MalformedDescription:
        assert corpus is None
    else:
        assert len(made) == 64


@pytest.mark.parametrize("description", [deep(100_000), {**CORPUS, "repos": [deep(5_000)]}, cyclic()], ids=["deep", "deep within", "cyclic"])
def test_depth_and_cycles_are_malformed(description: Any) -> None:
    with pytest.raises(MalformedDescription):
        corpus_hash(description)


def test_a_description_is_read_into_what_its_hash_covers_and_no_more() -> None:
    assert described({**DESCRIPTION, "signature": b"s", "signed_by": "x", "extra": 1}) == Corpus(
        "test/words:v1", 384, (Repo(**ALPHA), Repo(**BETA)), HASH, b"s")
    assert described(as_bytes(DESCRIPTION)) == Corpus("test/words:v1", 384, (Repo(**ALPHA), Repo(**BETA)), HASH, None)


@pytest.mark.parametrize("text", [HASH.upper(), HASH[1:], HASH + "\n", "", "g" * 64])
def test_what_is_no_hash_is_not_signed(text: str) -> None:
    with pytest.raises(ValueError, match="64 lowercase hex digits"):
        sign_corpus(text, node_key("pq_pure"))
    with pytest.raises(ValueError, match="64 lowercase hex digits"):
        sign_corpus(text.encode(), node_key("pq_pure"))  # type: ignore[arg-type] # a caller that has it from elsewhere
