"""Documents of made-up text, groups of so few chunks that they make several, and the threads that write those."""

from __future__ import annotations

import threading

import pytest

from rag_stdlib import SourceDocument
from rag_stdlib.index import pipeline

PATH = "index.db"
SMALL = 40


def text_of(number: int, words: int = 30) -> str:
    return " ".join(f"word{number}x{place} of document {number}." for place in range(words))


def documents(count: int, words: int = 30) -> list[SourceDocument]:
    return [SourceDocument(f"d{number}", f"s{number}", text_of(number, words)) for number in range(count)]


def make_groups_small(patch: pytest.MonkeyPatch, size: int = SMALL) -> None:
    for name in ("FIRST_CHUNKS", "LEAST_CHUNKS", "MOST_CHUNKS"):
        patch.setattr(pipeline, name, size)


def writers() -> list[str]:
    """Name the threads that write."""
    return [thread.name for thread in threading.enumerate() if thread.name == "rag-write"]
