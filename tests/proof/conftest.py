"""An index that is asked and a log that is written, for tests of answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from answering_parts import DIM, ORIGIN, POLICY

from rag_stdlib import Config, Runtime, SourceDocument, rag_ingest_document
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.proof.issuing import LogFile
from rag_stdlib.proof.log.logkeys import new_keys
from rag_stdlib.proof.log.store import Log
from rag_stdlib.result import Ok


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime(Config(), root=tmp_path, embedder=HashingEmbedder(DIM)) as made:
        assert isinstance(rag_ingest_document("a.db", SourceDocument("policy", "policy.md", POLICY), 120), Ok)
        yield made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogFile]:
    keys = new_keys(tmp_path / "log.keys", ORIGIN)
    Log.create(tmp_path / "log.db", keys, synchronous="normal").close()
    with LogFile(tmp_path / "log.db", keys, synchronous="normal") as made:
        yield made
