"""The shape of a provenance and the digest of a hit's content (RAG service contract §2.3, §2.4)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from described_corpora import GARBAGE, as_bytes, cyclic, damaged, deep
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.contract.hits import valid_provenance, verify_hit
from rag_stdlib.contract.verdicts import HitVerdict

CONTENT = "Zahlbar in zehn Tagen. 灯\r\n"
DIGEST = hashlib.sha256(CONTENT.encode()).hexdigest()
CORPUS: dict[str, Any] = {
    "kind": "corpus", "path": "alpha/a.md", "repo_id": "alpha", "commit": "a" * 40, "start_line": 1, "end_line": 2, "content_sha256": DIGEST}
DEPOSIT: dict[str, Any] = {"kind": "deposit", "path": "conversational", "content_sha256": DIGEST, "deposited_by": "b" * 64}
HIT: dict[str, Any] = {"chunk_id": "c", "score": 1, "content": CONTENT, "provenance": CORPUS}
NOT_TEXT = (None, 7, True, 1.5, ["a"], {"a": 1}, b"\xff", "\ud800")
NOT_HEX_40 = ("", "a" * 39, "a" * 41, "A" * 40, "g" * 40, "a" * 40 + "\n", " " + "a" * 39, "a" * 64, "\uff41" * 40, "\u0660" * 40)
NOT_HEX_64 = ("", DIGEST[1:], DIGEST + "0", DIGEST.upper(), "g" * 64, DIGEST + "\n", DIGEST[:40], "\u0660" * 64)


def without(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key != name}


@pytest.mark.parametrize("provenance", [
    CORPUS, without(without(CORPUS, "start_line"), "end_line"), {**CORPUS, "path": ""}, {**CORPUS, "path": "other/a.md"},
    {**CORPUS, "repo_id": " "}, {**CORPUS, "repo_id": "../Not An Id"}, {**CORPUS, "commit": "0123456789abcdef" * 2 + "01234567"},
    {**CORPUS, "start_line": "x", "end_line": -7}, {**CORPUS, "deposited_by": 7}, {**CORPUS, "extra": {1: 2}, b"\xff": 1},
    DEPOSIT, {**DEPOSIT, "path": ""}, without(DEPOSIT, "deposited_by"), {**DEPOSIT, "extra": None, "Commit": "a" * 40},
    as_bytes(CORPUS), as_bytes(DEPOSIT), {**as_bytes(CORPUS), b"start_line": 1}, {**CORPUS, "kind": b"corpus", "commit": b"a" * 40},
], ids=str)
def test_what_is_a_provenance(provenance: Any) -> None:
    assert valid_provenance(provenance)


@pytest.mark.parametrize("provenance", [
    None, "corpus", [CORPUS], list(CORPUS.items()), {},
    *(without(CORPUS, name) for name in ("kind", "path", "repo_id", "commit", "content_sha256")),
    *({**CORPUS, name: value} for name in ("kind", "path", "repo_id", "commit", "content_sha256") for value in NOT_TEXT),
    *({**CORPUS, "commit": text} for text in NOT_HEX_40), *({**CORPUS, "content_sha256": text} for text in NOT_HEX_64),
    {**CORPUS, "repo_id": ""}, {**CORPUS, "repo_id": b""},
    *({**CORPUS, "kind": kind} for kind in ("", "Corpus", "corpus ", "corpus\n", "deposit", "upload")),
    *(without(DEPOSIT, name) for name in ("kind", "path", "content_sha256")),
    *({**DEPOSIT, name: value} for name in ("kind", "path", "content_sha256") for value in NOT_TEXT),
    *({**DEPOSIT, "content_sha256": text} for text in NOT_HEX_64), *({**DEPOSIT, "kind": kind} for kind in ("", "corpus", "Deposit")),
    *({**DEPOSIT, name: value} for name in ("repo_id", "commit", b"repo_id", b"commit") for value in ("alpha", "", None, "a" * 40)),
], ids=ascii)
def test_what_is_none(provenance: Any) -> None:
    assert not valid_provenance(provenance)


@pytest.mark.parametrize("hit", [
    HIT, {**HIT, "content": CONTENT.encode()}, {**HIT, "content": bytearray(CONTENT.encode())}, {**HIT, "provenance": DEPOSIT},
    {b"content": CONTENT, b"provenance": as_bytes(DEPOSIT)}, {"content": CONTENT, "provenance": CORPUS},
    {"content": "", "provenance": {**DEPOSIT, "content_sha256": hashlib.sha256(b"").hexdigest()}},
    {"content": b"\xff\x00", "provenance": {**DEPOSIT, "content_sha256": hashlib.sha256(b"\xff\x00").hexdigest()}},
], ids=str)
def test_content_that_is_what_its_provenance_names(hit: Any) -> None:
    assert verify_hit(hit) is HitVerdict.OK
    assert verify_hit(hit)


@pytest.mark.parametrize("content", ["", CONTENT[:-1], CONTENT + " ", CONTENT.replace("\r\n", "\n"), CONTENT.upper(), b"\xff", "e\u0301"], ids=ascii)
def test_any_other_content_is_a_mismatch(content: Any) -> None:
    assert verify_hit({**HIT, "content": content}) is HitVerdict.CONTENT_MISMATCH
    assert not verify_hit({**HIT, "content": content})


@pytest.mark.parametrize("hit", [
    None, CONTENT, [HIT], {}, without(HIT, "content"), without(HIT, "provenance"), {**HIT, "provenance": None}, {**HIT, "provenance": DIGEST},
    *({**HIT, "content": content} for content in (None, 7, ["x"], {"a": 1}, "\ud800")),
], ids=ascii)
def test_1_without_content_or_provenance_it_is_malformed(hit: Any) -> None:
    assert verify_hit(hit) is HitVerdict.MALFORMED_PROVENANCE
    assert not verify_hit(hit)


def test_1_before_3_no_content_although_the_digest_is_another_too() -> None:
    assert verify_hit({"content": 7, "provenance": {**CORPUS, "content_sha256": "0" * 64}}) is HitVerdict.MALFORMED_PROVENANCE


def test_2_before_3_a_malformed_provenance_although_the_content_is_altered_too() -> None:
    assert verify_hit({**HIT, "content": "altered", "provenance": {**CORPUS, "commit": "A" * 40}}) is HitVerdict.MALFORMED_PROVENANCE


def test_2_a_malformed_provenance_although_the_digest_is_right() -> None:
    assert verify_hit({**HIT, "provenance": {**DEPOSIT, "repo_id": None}}) is HitVerdict.MALFORMED_PROVENANCE


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_digest_fits_one_text_alone(content: str, other: str) -> None:
    provenance = {**DEPOSIT, "content_sha256": hashlib.sha256(content.encode()).hexdigest()}
    assert verify_hit({"content": content, "provenance": provenance})
    assert verify_hit({"content": other.encode(), "provenance": provenance}) == ("ok" if other == content else "content_mismatch")


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.one_of(GARBAGE, damaged(HIT), damaged(CORPUS).map(lambda provenance: {**HIT, "provenance": provenance})))
def test_nothing_that_a_stranger_sends_raises(hit: Any) -> None:
    assert isinstance(verify_hit(hit), HitVerdict)
    if isinstance(hit, dict):
        assert bool(verify_hit(hit)) <= valid_provenance(hit.get("provenance", hit.get(b"provenance")))


@pytest.mark.parametrize("hit", [cyclic(), deep(50_000), {**HIT, "content": deep(50_000)}, {**HIT, "provenance": cyclic()}],
                         ids=["cyclic", "deep", "deep content", "cyclic provenance"])
def test_depth_and_cycles_are_malformed(hit: Any) -> None:
    assert verify_hit(hit) is HitVerdict.MALFORMED_PROVENANCE
