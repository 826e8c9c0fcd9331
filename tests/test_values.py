"""Which values a tool takes, and the code that names each other one."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from rag_stdlib import values
from rag_stdlib.errors import Failure
from rag_stdlib.records import FrozenDict, SourceDocument
from rag_stdlib.values import (
    MAX_ID_BYTES,
    MAX_METADATA_BYTES,
    MAX_TEXT_BYTES,
    check_chunk_chars,
    check_doc_id,
    check_document,
    check_limit,
    check_metadata,
    check_text,
    shown,
)

GOOD = SourceDocument("d", "s", "text")


def refused(check: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(Failure) as caught:
        check(*arguments, **options)
    return f"{caught.value.error.code}: {caught.value.error}"


@pytest.mark.parametrize("text", ["", "a", "ü😀", "\x01\x7f\u200b\ufeff\uffff", "\r\n"])
def test_unicode_text_is_taken(text: str) -> None:
    check_text("text", text)
    check_text("text", text, len(text.encode()))
    assert refused(check_text, "text", text + "\0") == f"text_nul: text holds U+0000 at character {len(text)}; remove or replace it first"
    assert refused(check_text, "text", text + "\ud800").startswith(f"invalid_text: text holds a lone surrogate at character {len(text)};")


@pytest.mark.parametrize(("text", "offset"), [("a\x00b", 1), ("\x00", 0), ("left\x00right", 4), ("speci\x00cation", 5), ("ü\x00\x00", 1)])
def test_r56_r86_nul_is_refused_where_it_stands(text: str, offset: int) -> None:
    assert refused(check_text, "text", text) == f"text_nul: text holds U+0000 at character {offset}; remove or replace it first"


@pytest.mark.parametrize(("text", "offset"), [("\ud83d", 0), ("ab\udfff", 2), ("😀\ud800x", 1), ("\ude00\ud83d", 0)])
def test_r57_a_lone_surrogate_is_refused_where_it_stands(text: str, offset: int) -> None:
    assert refused(check_text, "query", text).startswith(f"invalid_text: query holds a lone surrogate at character {offset};")


@pytest.mark.parametrize(("text", "cap", "size"), [("x" * 11, 10, "11"), ("é" * 6, 10, "12"), ("😀" * 3, 11, "12"), ("é" * 11, 10, "11")])
def test_r89_text_is_capped_in_utf8_bytes(text: str, cap: int, size: str) -> None:
    assert refused(check_text, "text", text, cap) == f"text_too_large: text is {size} bytes; the most is {cap}"
    check_text("text", text, cap=4 * len(text))


def test_r89_the_cap_of_a_document_is_64_mebibytes() -> None:
    assert MAX_TEXT_BYTES == 64 * 1024 * 1024
    text = "x" * MAX_TEXT_BYTES
    check_text("text", text)
    assert "is 67,108,865 bytes; the most is 67,108,864" in refused(check_text, "text", text + "x")


@pytest.mark.parametrize("doc_id", ["d", "a:b", " d ", "x" * MAX_ID_BYTES, "é" * (MAX_ID_BYTES // 2), "\u200b"])
def test_document_ids(doc_id: str) -> None:
    check_doc_id(doc_id)
    room = MAX_ID_BYTES - len(doc_id.encode())
    check_doc_id(doc_id + "x" * room)
    assert refused(check_doc_id, doc_id + "x" * (room + 1)) == "invalid_doc_id: doc_id is 1,025 bytes; the most is 1,024"


@pytest.mark.parametrize("length", [0, 1, 99, 100])
def test_a_message_shows_a_short_id_whole_and_cuts_a_long_one(length: int) -> None:
    assert shown("é" * length) == "é" * length
    assert shown("é" * 101) == shown("é" * 60_000) == "é" * 99 + "…"


@pytest.mark.parametrize(("doc_id", "words"), [
    ("", "invalid_doc_id: doc_id must not be blank"), (" \t\u3000", "invalid_doc_id: doc_id must not be blank"),
    ("x" * 1025, "invalid_doc_id: doc_id is 1,025 bytes; the most is 1,024"), ("é" * 513, "invalid_doc_id: doc_id is 1,026 bytes"),
    ("a\0", "text_nul: doc_id"), ("\ud800", "invalid_text: doc_id"),
])
def test_document_ids_refused(doc_id: str, words: str) -> None:
    assert refused(check_doc_id, doc_id).startswith(words)


@pytest.mark.parametrize("number", [0, -1, -(2**63)])
def test_r9_limits_and_sizes_begin_at_one(number: int) -> None:
    assert refused(check_limit, number) == "invalid_limit: limit must be at least 1"
    assert refused(check_chunk_chars, number) == "invalid_chunk_chars: chunk_chars must be at least 1"
    check_limit(1)
    check_chunk_chars(2**63 - 1)


def test_metadata_is_copied_and_frozen() -> None:
    given: dict[str, Any] = {"s": "x", "i": 2**63 - 1, "f": 1.5, "b": False, "n": None, "": ""}
    kept = check_metadata(given)
    given["s"] = "y"
    assert kept == {"s": "x", "i": 2**63 - 1, "f": 1.5, "b": False, "n": None, "": ""}
    assert isinstance(kept, FrozenDict)


@pytest.mark.parametrize(("metadata", "words"), [
    ({1: "x"}, "has the key 1, which is no string"), ({"a": [1]}, "'a' is no string"), ({"a": {}}, "'a' is no string"), ({"a": math.nan}, "'a' is"),
    ({"a": math.inf}, "'a' is"), ({"a": 2**63}, "'a' is"), ({"a": -(2**70)}, "'a' is"), ({"a": b"x"}, "'a' is"), ({"a": ("x",)}, "'a' is"),
    ({"k": "x" * 40_000, "l": "y" * 30_000}, "is 70,002 bytes; the most is 65,536"), ([("a", 1)], "no mapping"), (None, "no mapping"),
    ("text", "no mapping"),
])
def test_metadata_refused(metadata: Any, words: str) -> None:
    message = refused(check_metadata, metadata)
    assert message.startswith("invalid_metadata: metadata ")
    assert words in message


@pytest.mark.parametrize(("metadata", "code"), [
    ({"a\0": 1}, "text_nul: a metadata key"), ({"a": "x\0"}, "text_nul: metadata 'a'"), ({"a": "\ud800"}, "invalid_text: metadata 'a'"),
    ({"\udcff": 1}, "invalid_text: a metadata key"), ({"a": "x" * (MAX_METADATA_BYTES + 1)}, "text_too_large: metadata 'a'"),
    ({"k" * 5000: "\0"}, f"text_nul: metadata '{'k' * 99}…' holds"), ({"k" * 5000: []}, f"invalid_metadata: metadata '{'k' * 99}…' is no"),
])
def test_text_in_metadata_is_text(metadata: Any, code: str) -> None:
    assert refused(check_metadata, metadata).startswith(code)


def test_a_good_document_passes() -> None:
    check_document(GOOD)
    assert refused(check_document, dataclasses.replace(GOOD, text="a\0")).startswith("text_nul: text holds U+0000 at character 1")
    check_document(dataclasses.replace(GOOD, text="", lines=((0, 1), (0, 2), (5, 3)), pages=((0, 1),), metadata={"a": 1}))


@pytest.mark.parametrize(("change", "words"), [
    ({"doc_id": ""}, "invalid_doc_id"), ({"source": "\0"}, "text_nul: source"), ({"media_type": "x" * 1025}, "text_too_large: media_type"),
    ({"text": "\ud800"}, "invalid_text: text"), ({"metadata": {"a": []}}, "invalid_metadata"),
    ({"lines": ((5, 1), (0, 2))}, "invalid_option: lines must be"), ({"pages": ((-1, 1),)}, "invalid_option: pages"),
    ({"pages": ((0,),)}, "invalid_option: pages"), ({"lines": ((0, "1"),)}, "invalid_option: lines"), ({"lines": ((True, 1),)}, "invalid_option: lines"),
    ({"lines": 5}, "invalid_option: lines"), ({"pages": ("ab",)}, "invalid_option: pages"), ({"pages": ((0, 2**70),)}, "invalid_option: pages"),
])
def test_every_part_of_a_document_is_checked(change: dict[str, Any], words: str) -> None:
    assert refused(check_document, dataclasses.replace(GOOD, **change)).startswith(words)


def test_the_caps_are_ordered() -> None:
    assert values.MAX_ID_BYTES < values.MAX_QUERY_BYTES <= values.MAX_METADATA_BYTES < values.MAX_TEXT_BYTES
