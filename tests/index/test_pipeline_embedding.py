"""What is embedded of many documents at once, and what is stored when an embedder fails or is another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedder_double import EmbedderDouble
from many_documents import PATH, documents, make_groups_small, text_of, writers

from rag_stdlib import (
    ChunkOptions,
    Config,
    Err,
    Runtime,
    SourceDocument,
    rag_check,
    rag_get,
    rag_ingest_many,
    rag_reembed,
)
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import pipeline, writer


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    make_groups_small(monkeypatch)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    yield
    assert writers() == []


def poisoned(code: str = "embedder_rejected") -> Callable[[Sequence[str]], None]:
    def before(texts: Sequence[str]) -> None:
        if any("poison" in text for text in texts):
            raise fail(code, provider="double", status=400, detail="no", where="")

    return before


@pytest.mark.usefixtures("small_groups")
def test_a_text_that_the_embedder_refuses_is_named_with_its_document(tmp_path: Path) -> None:
    given_documents = documents(12)
    given_documents[7] = SourceDocument("bad one", "s", text_of(7, 4) + " poison. " + text_of(8, 4))
    embedder = EmbedderDouble(before=poisoned())
    with Runtime(Config(), root=tmp_path, embedder=embedder):
        refused = rag_ingest_many(PATH, given_documents, 60)
        assert isinstance(refused, Err)
        assert (refused.error.code, str(refused.error)) == (
            "embedder_rejected", "document 'bad one': double rejected the request (HTTP 400): no")
        assert rag_check(PATH).unwrap().clean
        stored = [rag_get(PATH, document.doc_id).is_ok for document in given_documents]
        assert stored == sorted(stored, reverse=True), "the groups before it are stored, and nothing of its own"
        assert stored[0]
        assert not stored[7]
        embedder.before = None
        done = rag_ingest_many(PATH, given_documents, 60)
        assert done.notes == (f"unchanged: {','.join(str(at) for at, was in enumerate(stored) if was)}",)
        assert rag_check(PATH).unwrap().clean


@pytest.mark.usefixtures("small_groups")
def test_an_embedder_that_is_not_to_be_had_names_no_document(tmp_path: Path) -> None:
    embedder = EmbedderDouble(before=poisoned("embedder_auth"))
    with Runtime(Config(), root=tmp_path, embedder=embedder):
        refused = rag_ingest_many(PATH, [*documents(1), SourceDocument("b", "s", "poison")], 60)
        assert isinstance(refused, Err)
        assert refused.error.code == "embedder_auth"
        assert not str(refused.error).startswith("document")
        assert len([texts for _, texts in embedder.calls if "poison" in texts]) == 0


def test_what_happened_to_the_index_meanwhile_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another embedder's vectors come in between the look and the writing: nothing is mixed."""
    other = EmbedderDouble(model="another")
    write = writer.write

    def late(store: Any, path: str, *arguments: Any) -> None:
        with Runtime(Config(), root=tmp_path, embedder=other) as runtime:
            writer.ingest(runtime.store, path, SourceDocument("x", "s", "other words"), 60, embedder=other)
        write(store, path, *arguments)

    monkeypatch.setattr(pipeline, "write", late)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()):
        refused = rag_ingest_many(PATH, documents(2), 60)
        assert isinstance(refused, Err)
        assert refused.error.code == "embedding_mismatch"
        assert not rag_get(PATH, "d0").is_ok
        assert rag_check(PATH).unwrap().clean
        assert rag_reembed(PATH).is_ok


def test_embedding_keeps_what_was_given_before_a_failure() -> None:
    embedder = EmbedderDouble()
    options = ChunkOptions()
    document = SourceDocument("d", "s", text_of(1, 400))
    prepared = pipeline.prepare(document, pipeline.document_row(document, 60, options.name()), pipeline.chunk_text(document.text, 60, options=options))
    embedder.fail_after = 300
    known: dict[str, Any] = {}
    with pytest.raises(Failure):
        writer.embed(embedder, [prepared], known)
    assert len(known) == writer.SLICE
    embedder.fail_after = None
    rows, embedded = writer.embed(embedder, [prepared], known)
    assert embedded == len(prepared.texts) - writer.SLICE
    whole, _ = writer.embed(embedder, [prepared], {})
    assert rows is not None
    assert whole is not None
    assert np.array_equal(rows, whole)


def test_a_table_header_is_embedded_with_each_piece_of_its_table(tmp_path: Path) -> None:
    table = "| colour | paint |\n|---|---|\n" + "".join(f"| green {number} | fence {number} |\n" for number in range(30))
    embedder = EmbedderDouble()
    with Runtime(Config(), root=tmp_path, embedder=embedder):
        options = ChunkOptions(markdown=True)
        rag_ingest_many(PATH, [SourceDocument("d", "s", table, "text/markdown")], 120, options).unwrap()
        texts = [text for _, given in embedder.calls for text in given]
        assert len(texts) > 4
        assert all(text.startswith("| colour | paint |") for text in texts)
        changed = SourceDocument("d", "other", table, "text/markdown")
        rag_ingest_many(PATH, [changed], 120, options).unwrap()
        assert embedder.texts == len(texts), "vectors are lent by the text with its header"
        assert rag_check(PATH).unwrap().clean
