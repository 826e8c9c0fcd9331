"""What is counted on from an earlier state is what counting everything gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from embedder_double import EmbedderDouble

from rag_stdlib import Config, Runtime, rag_delete, rag_ingest
from rag_stdlib.index.facts import Facts

PATH = "index.db"


@pytest.mark.parametrize("embedder", [None, EmbedderDouble()], ids=["lexical", "vectors"])
def test_counting_on_gives_what_counting_gives(tmp_path: Path, embedder: EmbedderDouble | None) -> None:
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        for name in "abc":
            rag_ingest(PATH, name, "s", "one. two. three.", 5).unwrap()
        with runtime.store.reading(PATH) as connection:
            before = Facts.of(connection)
        rag_delete(PATH, "a").unwrap()
        rag_ingest(PATH, "b", "s", "four.", 5).unwrap()
        with runtime.store.reading(PATH) as connection:
            assert Facts.of(connection, before) == Facts.of(connection)
            assert Facts.of(connection).vectors in (0, Facts.of(connection).chunks)
