"""A data set of 300 rows for the tests of the benchmark's harness: real text of the installed packages, vectors of word hashes."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))  # behind the tests' own helpers, of which some share a name with a bench

from harness import data  # noqa: E402
from harness.corpus import Corpus, read_corpus  # noqa: E402
from harness.protocol import DIM, Vectors  # noqa: E402

ROWS = 300


class Hashed:
    """Gives each text a direction of its own, as an embedder would."""

    def vectors(self, texts: Sequence[str], role: str) -> Vectors:
        return data.unit(np.stack([np.random.default_rng(zlib.crc32(f"{role}{text}".encode())).standard_normal(DIM) for text in texts]))


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    read = read_corpus((), shared=Path("nowhere"))
    read.documents = read.documents[:40]
    read.questions = read.questions[:250]
    return read


@pytest.fixture(scope="session")
def data_folder(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / str(ROWS)
    data.make(folder, corpus, ROWS, Hashed())  # type: ignore[arg-type]
    return folder
