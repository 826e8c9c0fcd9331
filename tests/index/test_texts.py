"""A document's text comes out as it went in, although no table holds it whole."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib import ChunkOptions, Config, Err, Runtime, SourceDocument, rag_get, rag_ingest_document, rag_stats
from rag_stdlib.errors import Failure
from rag_stdlib.index import texts
from rag_stdlib.text.chunker import chunk_text

PATH = "index.db"
written = st.text(st.sampled_from("ab. \n\t\u3000é步🙂#`-|\r"), max_size=400)
options = st.builds(ChunkOptions, end_boundary=st.booleans(), graphemes=st.booleans(), cjk_stops=st.booleans(), markdown=st.booleans())


@settings(max_examples=120, deadline=None)
@given(written, st.integers(1, 60), options)
def test_chunks_and_rest_make_the_text(text: str, chunk_chars: int, how: ChunkOptions) -> None:
    chunks = chunk_text(text, chunk_chars, options=how)
    rest = texts.rest_of(text, chunks)
    assert texts._joined(rest, [(chunk.start_char, chunk.end_char, chunk.text) for chunk in chunks]) == text
    assert rest.strip() == "", "every character that is no blank is in a chunk"


@settings(max_examples=40, deadline=None)
@given(st.lists(written, min_size=1, max_size=4))
def test_a_stored_document_is_got_back(tmp_path_factory: pytest.TempPathFactory, several: list[str]) -> None:
    with Runtime(Config(), root=tmp_path_factory.mktemp("texts")):
        for number, text in enumerate(several):
            rag_ingest_document(PATH, SourceDocument(f"d{number}", "s", text), 20).unwrap()
        for number, text in enumerate(several):
            assert rag_get(PATH, f"d{number}").unwrap().text == text
        assert rag_stats(PATH).unwrap().text_bytes == sum(len(text.encode()) for text in several)


@pytest.mark.parametrize("damage", [
    "UPDATE rag_documents SET rest = 'x'", "UPDATE rag_documents SET content_sha256 = 'x'", "UPDATE rag_chunks SET text = 'x' WHERE ordinal = 1",
    "UPDATE rag_chunks SET start_char = 0 WHERE ordinal = 1", "DELETE FROM rag_chunks WHERE ordinal = 1"])
def test_a_text_that_is_not_the_stored_one_is_not_given(tmp_path: Path, damage: str) -> None:
    with Runtime(Config(), root=tmp_path) as runtime:
        rag_ingest_document(PATH, SourceDocument("d", "s", "One sentence.\n\nAnother one. A third.  "), 16).unwrap()
        with runtime.store.writing(PATH) as connection:
            connection.execute(damage)
        found = rag_get(PATH, "d")
        assert isinstance(found, Err)
        assert found.error.code == "index_corrupt"
        with pytest.raises(Failure), runtime.store.reading(PATH) as connection:
            texts.stored_text(connection, "d")


def test_what_is_not_stored_has_no_text() -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE rag_documents(id, rest, content_sha256)")
    assert texts.stored_text(connection, "d") is None
