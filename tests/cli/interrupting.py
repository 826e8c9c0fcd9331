"""Ctrl-C in the middle of a run over documents, at a moment that is known."""

from __future__ import annotations

from typing import Any

import pytest

from rag_stdlib.cli import tally
from rag_stdlib.index import pipeline


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every batch of a run hold one document."""
    monkeypatch.setattr(pipeline, "FIRST_CHUNKS", 0)
    monkeypatch.setattr(pipeline, "LEAST_CHUNKS", 0)


def interrupt_second_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first document of a run be ingested, and press Ctrl-C at the second."""
    one_by_one(monkeypatch)
    ingested = tally.rag_ingest_document
    seen = []

    def stopping(*arguments: Any) -> Any:
        seen.append(arguments)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return ingested(*arguments)

    monkeypatch.setattr(tally, "rag_ingest_document", stopping)
