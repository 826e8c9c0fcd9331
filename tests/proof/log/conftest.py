"""A monitor that has seen nothing yet, for tests of what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from signed import NOW, ORIGIN, PINNED

from rag_stdlib.proof.log.monitor import Monitor


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    Monitor.create(tmp_path / "monitor.db", ORIGIN)
    with Monitor(tmp_path / "monitor.db", PINNED, synchronous="normal", clock=lambda: NOW) as made:
        yield made
