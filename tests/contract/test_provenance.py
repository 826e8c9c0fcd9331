"""The provenance key, byte for byte (std/rag §1.2), and what it makes of a chunk that was touched."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_stdlib.contract.provenance import chunk_is_grounded, content_sha256, provenance_key
from rag_stdlib.records import EffectEnvelope, RagChunkEnvelope
from rag_stdlib.text.chunker import chunk_text

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
OFFSETS = st.integers(0, 2**63 - 1)
DOCUMENT = "Ünïcode first. Then 😀 more text. And an end."


def envelope(doc_id: str = "doc:1", ordinal: int = 1) -> RagChunkEnvelope:
    chunk = chunk_text(DOCUMENT, 20)[ordinal]
    key = provenance_key(doc_id, chunk.start_char, chunk.end_char, chunk.text)
    return RagChunkEnvelope(
        doc_id, f"{doc_id}:{ordinal}", "source", chunk.text, chunk.start_char, chunk.end_char, key, EffectEnvelope("std.rag.search", key),
        ordinal, 1, 1, chunk.start_byte, chunk.end_byte, content_sha256(chunk.text), 1.0, "lexical", 1.0, None)


def test_the_byte_example_of_the_specification() -> None:
    raw = bytes.fromhex("64 00 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 61 62 63 64".replace(" ", ""))
    assert provenance_key("d", 0, 4, "abcd") == "rag_" + hashlib.sha256(raw).hexdigest()
    assert len(provenance_key("d", 0, 4, "abcd")) == 68


@settings(deadline=None, max_examples=80, derandomize=True)
@given(TEXTS, OFFSETS, OFFSETS, TEXTS)
def test_the_layout_recomputed_independently(doc_id: str, start: int, end: int, text: str) -> None:
    raw = doc_id.encode() + struct.pack("<Q", start) + struct.pack("<Q", end) + text.encode()
    assert provenance_key(doc_id, start, end, text) == f"rag_{hashlib.sha256(raw).hexdigest()}"
    assert content_sha256(text) == hashlib.sha256(text.encode()).hexdigest()


@settings(deadline=None, max_examples=80, derandomize=True)
@given(TEXTS, OFFSETS, OFFSETS, TEXTS, st.integers(0, 3), st.data())
def test_the_key_changes_with_each_of_its_parts(doc_id: str, start: int, end: int, text: str, part: int, data: st.DataObject) -> None:
    parts: list[Any] = [doc_id, start, end, text]
    parts[part] = data.draw(OFFSETS if part in (1, 2) else TEXTS)
    assume(parts != [doc_id, start, end, text])
    assert provenance_key(*parts) != provenance_key(doc_id, start, end, text)


@pytest.mark.parametrize("change", [
    {"source": "elsewhere"}, {"score": 9.0}, {"mode": "vector"}, {"page": 3}, {"start_line": 7, "end_line": 9}, {"metadata": {"a": 1}},
    {"effect_meta": EffectEnvelope("other")}, {"lexical_score": None},
])
def test_source_place_and_score_are_not_in_the_key(change: dict[str, Any]) -> None:
    assert chunk_is_grounded(dataclasses.replace(envelope(), **change))


@pytest.mark.parametrize("ordinal", [0, 1, 2])
@pytest.mark.parametrize("doc_id", ["d", "a:b:3", "Übung", " "])
def test_what_an_ingest_makes_is_grounded(doc_id: str, ordinal: int) -> None:
    assert chunk_is_grounded(envelope(doc_id, ordinal))


@pytest.mark.parametrize("change", [
    {"provenance_key": ""}, {"provenance_key": "rag_refund_policy_0"}, {"provenance_key": "rag_" + "0" * 64},
    {"provenance_key": envelope().provenance_key.upper()}, {"provenance_key": envelope().provenance_key[4:]},
    {"provenance_key": envelope(ordinal=0).provenance_key},
    {"text": envelope().text + "!"}, {"text": envelope().text[:-1]}, {"text": envelope().text.upper()}, {"text": ""},
    {"start_char": envelope().start_char + 1}, {"end_char": envelope().end_char - 1},
    {"start_char": envelope().start_char + 1, "end_char": envelope().end_char + 1}, {"start_char": -1}, {"end_char": 2**64},
    {"start_byte": 0}, {"end_byte": envelope().end_byte + 1}, {"doc_id": "doc:2"}, {"doc_id": ""},
    {"ordinal": 2}, {"chunk_id": "doc:1:2"}, {"chunk_id": "doc:1"}, {"content_sha256": ""}, {"content_sha256": content_sha256("other")},
    {"text": "\ud800"}, {"doc_id": "\udfff"},
], ids=str)
def test_what_was_touched_or_made_up_is_not_grounded(change: dict[str, Any]) -> None:
    assert not chunk_is_grounded(dataclasses.replace(envelope(), **change))


def test_a_consistent_forgery_of_the_text_needs_a_new_key_and_digest_and_length() -> None:
    genuine = envelope()
    text = "x" * len(genuine.text)
    forged = dataclasses.replace(
        genuine, text=text, content_sha256=content_sha256(text), end_byte=genuine.start_byte + len(text),
        provenance_key=provenance_key(genuine.doc_id, genuine.start_char, genuine.end_char, text))
    assert chunk_is_grounded(forged), "a content address proves that the parts belong together, not who wrote them"
    assert forged.provenance_key != genuine.provenance_key


@pytest.mark.parametrize(("name", "value"), [
    ("start_char", "0"), ("end_char", None), ("text", b"bytes"), ("text", None), ("doc_id", 7), ("start_byte", None),
])
def test_a_field_of_another_type_is_not_grounded_and_raises_nothing(name: str, value: object) -> None:
    assert not chunk_is_grounded(dataclasses.replace(envelope(), **{name: value}))
