"""What many tests share: a runtime over a temporary root, with and without an embedder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside this file, in either of pytest's import modes
from embedder_double import EmbedderDouble

from rag_stdlib import Config, Runtime


@pytest.fixture
def embedder() -> EmbedderDouble:
    return EmbedderDouble()


@pytest.fixture
def lexical(tmp_path: Path) -> Iterator[Runtime]:
    """A runtime without an embedder, ambient for the test."""
    with Runtime(Config(), root=tmp_path) as runtime:
        yield runtime


@pytest.fixture
def hybrid(tmp_path: Path, embedder: EmbedderDouble) -> Iterator[Runtime]:
    """A runtime with the embedder double, ambient for the test."""
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        yield runtime
