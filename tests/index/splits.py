"""Cutting an index in tests, and seeing what that leaves."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rag_stdlib import Failure, Runtime, SourceDocument, rag_ingest_many
from rag_stdlib.index.splitting import Shard, split

WHOLE = "whole.db"


def cut(runtime: Runtime, shards: int, path: str = WHOLE, folder: str | None = None) -> tuple[Shard, ...]:
    return split(runtime.root, runtime.store, path, shards, folder)


def refused(runtime: Runtime, shards: int, path: str = WHOLE, folder: str | None = None) -> str:
    with pytest.raises(Failure) as caught:
        cut(runtime, shards, path, folder)
    return caught.value.error.code


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def ingest(count: int, path: str = WHOLE, words: int = 40) -> None:
    documents = [SourceDocument(f"d{number}", f"s{number % 3}", " ".join(f"word{number * place % 97} of {number}." for place in range(words)),
                                metadata={"n": number}) for number in range(count)]
    rag_ingest_many(path, documents, 80).unwrap()
