"""Single documents and chunks by id, and a chunk held against the index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rag_stdlib import (
    Err,
    Ok,
    RagChunkEnvelope,
    RagDocumentEnvelope,
    Runtime,
    SourceDocument,
    chunk_in_index,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_ingest_document,
    rag_search,
)
from rag_stdlib.contract.provenance import content_sha256, provenance_key
from rag_stdlib.index.reader import documents_by_path, split_chunk_id
from rag_stdlib.records import EffectEnvelope
from rag_stdlib.values import MAX_ID_BYTES

PATH = "index.db"


@pytest.mark.parametrize(("chunk_id", "parts"), [
    ("d:0", ("d", 0)), ("a:b:12", ("a:b", 12)), (":0", ("", 0)), ("d:", None), ("d", None), ("d:-1", None), ("d:01", None), ("d:1.0", None),
    ("d: 1", None), ("d:١", None), ("d:" + "9" * 18, ("d", 10**18 - 1)), ("d:" + "9" * 30, None), ("d:1_0", None)])
def test_chunk_ids_split_at_the_last_colon(chunk_id: str, parts: tuple[str, int] | None) -> None:
    assert split_chunk_id(chunk_id) == parts


def test_get_gives_a_document_or_else_a_chunk(lexical: Runtime) -> None:
    document = SourceDocument("d", "src", "One. Two. Three.", "text/markdown", {"a": 1, "b": None}, lines=((0, 10),), pages=((0, 3),))
    rag_ingest_document(PATH, document, 5)
    rag_ingest(PATH, "d:1", "src", "a document called like a chunk", 100)
    found = rag_get(PATH, "d").unwrap()
    assert isinstance(found, RagDocumentEnvelope)
    assert (found.id, found.source, found.media_type, found.text, dict(found.metadata)) == (
        "d", "src", "text/markdown", "One. Two. Three.", {"a": 1, "b": None})
    assert found.effect_meta.effect_name == "std.rag.get"
    chunk = rag_get(PATH, "d:0").unwrap()
    assert isinstance(chunk, RagChunkEnvelope)
    assert (chunk.chunk_id, chunk.text, chunk.score, chunk.mode, chunk.start_line, chunk.page, dict(chunk.metadata)) == (
        "d:0", "One.", None, None, 10, 3, {"a": 1, "b": None})
    assert chunk.effect_meta == EffectEnvelope("std.rag.get", provenance_key=chunk.provenance_key, replay_key="std.rag.get")
    assert rag_search(PATH, "one", 1).unwrap()[0].effect_meta.effect_name == "std.rag.search"
    assert isinstance(rag_get(PATH, "d:1").unwrap(), RagDocumentEnvelope)
    assert rag_get(PATH, "d:1:0").unwrap().text == "a document called like a chunk"
    for missing in ("e", "d:99", "d:" + "9" * 18, "", ":", "D"):
        result = rag_get(PATH, missing)
        assert isinstance(result, Err)
        assert result.error.code == "not_found"
    assert lexical.mode == "lexical"


def test_an_id_is_capped_and_messages_show_its_beginning(lexical: Runtime) -> None:
    longest = "x" * MAX_ID_BYTES
    rag_ingest(PATH, longest, "s", "text", 10)
    assert rag_get(PATH, f"{longest}:0").unwrap().text == "text"
    for call in (lambda: rag_get(PATH, longest[:-1]), lambda: rag_get(PATH, f"{longest}:{'9' * 18}"), lambda: rag_delete(PATH, longest[:-1])):
        missing = call()
        assert isinstance(missing, Err)
        assert missing.error.code == "not_found"
        assert len(missing.error) < 200
        assert f"'{'x' * 99}…'" in missing.error
    for too_long in (f"{longest}:{'9' * 20}", "é" * 600, "x" * 10_000_000):
        refused = rag_get(PATH, too_long)
        assert isinstance(refused, Err)
        assert (refused.error.code, len(refused.error) < 100) == ("text_too_large", True)
    assert lexical.mode == "lexical"


def rekeyed(chunk: RagChunkEnvelope, **changes: Any) -> RagChunkEnvelope:
    """Change a chunk and forge key, digest and id so that it is grounded in itself."""
    new = replace(chunk, **changes)
    return replace(new, provenance_key=provenance_key(new.doc_id, new.start_char, new.end_char, new.text),
                   content_sha256=content_sha256(new.text), chunk_id=f"{new.doc_id}:{new.ordinal}")


@pytest.mark.parametrize("forge", [
    lambda c: replace(c, text=c.text.upper()), lambda c: replace(c, provenance_key=""), lambda c: replace(c, start_char=-1),
    lambda c: replace(c, text="\ud800" + c.text[1:]), lambda c: replace(c, content_sha256=""), lambda c: replace(c, start_char=2**63 - 1),
    lambda c: rekeyed(c, text=c.text.upper()), lambda c: rekeyed(c, doc_id="e"), lambda c: rekeyed(c, ordinal=c.ordinal + 1),
    lambda c: rekeyed(c, start_char=c.start_char + 1, end_char=c.end_char + 1), lambda c: rekeyed(c, ordinal=2**63 - 1),
    lambda c: replace(c, source="elsewhere"), lambda c: replace(c, start_byte=c.start_byte + 1, end_byte=c.end_byte + 1),
    lambda c: replace(c, start_line=c.start_line + 1), lambda c: replace(c, end_line=c.end_line + 7), lambda c: replace(c, page=3),
    lambda c: replace(c, metadata={"checked": True}), lambda c: replace(c, metadata={**c.metadata, "n": True}),
    lambda c: replace(c, metadata={"n": 1, "who": "x"}), lambda c: replace(c, metadata={"n": {1}}), lambda c: replace(c, source="")])
def test_an_edited_chunk_is_not_in_the_index(lexical: Runtime, forge: Callable[[RagChunkEnvelope], RagChunkEnvelope]) -> None:
    rag_ingest_document(PATH, SourceDocument("d", "src", "Öne sentence. Twö sentences. Three sentences.", metadata={"n": 1}), 20)
    chunk = rag_search(PATH, "two", 1).unwrap()[0]
    assert chunk_in_index(PATH, chunk) == Ok(True)
    assert chunk_in_index(PATH, forge(chunk)) == Ok(False)
    got = rag_get(PATH, chunk.chunk_id).unwrap()
    assert isinstance(got, RagChunkEnvelope)
    assert chunk_in_index(PATH, got) == Ok(True)
    assert chunk_in_index(PATH, replace(got, score=9.0, mode="hybrid", lexical_score=1.0, vector_score=0.5, effect_meta=EffectEnvelope("x"))) == Ok(True)
    rag_ingest(PATH, "d", "src", "Öne sentence! Twö sentences. Three sentences!", 20)
    assert chunk_in_index(PATH, chunk) == Ok(rag_search(PATH, "two", 1).unwrap()[0].text == chunk.text)
    rag_delete(PATH, "d")
    assert chunk_in_index(PATH, chunk) == Ok(False)
    assert lexical.mode == "lexical"


def test_documents_by_path_are_those_whose_id_is_their_file(lexical: Runtime) -> None:
    for doc_id, metadata in (("b.md", {"path": "b.md"}), ("a.md", {"path": "a.md"}), ("c.md", {"path": "other"}), ("d", {}),
                             ("5", {"path": 5})):
        rag_ingest_document(PATH, SourceDocument(doc_id, "s", "text", metadata=metadata), 10)
    assert [doc_id for doc_id, _ in documents_by_path(lexical.store, PATH)] == ["a.md", "b.md"]
