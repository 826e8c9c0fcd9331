"""The write-ahead log stays short while other processes search all the time and one writes at full speed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rag_stdlib import Config, Runtime, SourceDocument, rag_check, rag_ingest_many
from rag_stdlib.embed.protocol import EmbedderIdentity, Role
from rag_stdlib.index import store

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix

CHILD = Path(__file__).with_name("searching_child.py")
MEGABYTE = 1_000_000
LIMIT = 4 * MEGABYTE  # of the log, a quarter of the true one, so that a quarter has to be written
DIM = 384


class Positions:
    """Gives unit vectors along one axis; what matters here is their size."""

    remote = False

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:  # noqa: ARG002 - known
        return EmbedderIdentity("test", "positions", DIM, "1")

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:  # noqa: ARG002 - alike
        return np.eye(DIM, dtype=np.float32)[[len(text) % DIM for text in texts]]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_log_stays_short_under_readers_that_never_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_WAL_LIMIT_BYTES", LIMIT)
    log = tmp_path / "index.db-wal"
    longest, written, over = 0, 0, threading.Event()

    def watch() -> None:
        nonlocal longest, written
        before = 0
        while not over.wait(0.002):
            size = log.stat().st_size if log.exists() else 0
            longest, written, before = max(longest, size), written + max(size - before, 0), size

    def documents(version: int) -> list[SourceDocument]:
        return [SourceDocument(f"d{number}", f"version {version}", f"The words of document {number} are many. " * 160)
                for number in range(40)]

    with Runtime(Config(), root=tmp_path, embedder=Positions()):
        rag_ingest_many("index.db", documents(0), 400).unwrap()
        readers = [subprocess.Popen([sys.executable, str(CHILD), str(tmp_path)], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        watcher = threading.Thread(target=watch)
        try:
            for reader in readers:
                assert reader.stdout is not None
                assert reader.stdout.readline() == "1\n"
            watcher.start()
            version = 0
            while written < 6 * LIMIT and version < 60:
                version += 1
                rag_ingest_many("index.db", documents(version), 400).unwrap()
        finally:
            over.set()
            watcher.join()
            for reader in readers:
                reader.terminate()
        counts = [len(reader.communicate()[0].splitlines()) for reader in readers]
        assert all(reader.returncode == -15 for reader in readers), "no search failed"
        assert min(counts) > version, "the readers went on searching"
        assert written >= 6 * LIMIT, "enough was written to fill the log several times over"
        assert longest < 4 * LIMIT
        assert rag_check("index.db").unwrap().clean
