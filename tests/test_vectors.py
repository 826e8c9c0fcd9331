"""The project's own vectors: the code agrees, and the keys follow from their definition alone."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib.text.chunker import chunk_text
from rag_stdlib.text.normalize import index_terms

VECTORS = Path(__file__).parents[1] / "vectors"
CHUNKS: list[dict[str, Any]] = json.loads((VECTORS / "chunks.json").read_text(encoding="ascii"))
TERMS: list[dict[str, str]] = json.loads((VECTORS / "terms.json").read_text(encoding="ascii"))


@pytest.mark.parametrize("case", CHUNKS, ids=lambda case: ascii(case["text"][:20]))
def test_chunks(case: dict[str, Any]) -> None:
    made = chunk_text(case["text"], case["max_chars"], case["overlap"])
    fields = ("start_char", "end_char", "start_byte", "end_byte", "text")
    assert [[getattr(chunk, name) for name in fields] for chunk in made] == [
        [chunk[name] for name in fields] for chunk in case["chunks"]]


@pytest.mark.parametrize("case", CHUNKS, ids=lambda case: ascii(case["text"][:20]))
def test_keys_and_digests_follow_from_the_bytes(case: dict[str, Any]) -> None:
    whole = case["text"].encode()
    for chunk in case["chunks"]:
        piece = whole[chunk["start_byte"]:chunk["end_byte"]]
        assert piece.decode() == chunk["text"]
        assert hashlib.sha256(piece).hexdigest() == chunk["content_sha256"]
        span = struct.pack("<QQ", chunk["start_char"], chunk["end_char"])
        assert chunk["provenance_key"] == "rag_" + hashlib.sha256(case["doc_id"].encode() + span + piece).hexdigest()


@pytest.mark.parametrize("case", TERMS, ids=lambda case: ascii(case["text"][:20]))
def test_terms(case: dict[str, str]) -> None:
    assert index_terms(case["text"]) == case["terms"]


def test_the_printed_keys_of_std_rag_are_among_them() -> None:
    keys = {chunk["provenance_key"] for case in CHUNKS for chunk in case["chunks"]}
    assert "rag_20682be0d602db82155a86c250f0a24ebfca08f12678d010c72fa28b53fb1824" in keys
    assert "rag_91692a80bb1c07b2254416c4b0b5bc3b39bf6c134a853839f5c63b9957a47cb7" in keys
    assert len(keys) > 20
