"""What the tests of the federation share."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from embedder_double import EmbedderDouble
from fed_asked import INDEX
from fed_indexes import DIM, deal, documents, fill

from rag_stdlib import Config, Runtime
from rag_stdlib.index.resident.cache import RESIDENTS
from rag_stdlib.mesh.federation.indexshard import IndexShard


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What slow searches wait for; set in the end, so that no thread is left."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(scope="session")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to copy: some documents in one index, dealt out to three, and those of the first two of these in another."""
    folder = tmp_path_factory.mktemp("birds")
    given = documents(30)
    parts = deal(given, 3)
    with Runtime(Config(), root=folder, embedder=EmbedderDouble(DIM)):
        for index, some in ((INDEX, given), *((f"{number}.db", part) for number, part in enumerate(parts)), ("good.db", {**parts[0], **parts[1]})):
            fill(index, some)
    return folder


@pytest.fixture(params=[True, False], ids=["memory", "file"])
def runtime(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Runtime]:
    RESIDENTS.clear()
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(DIM), resident=request.param) as made:
        yield made
    RESIDENTS.clear()


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Runtime]:
    """A runtime without an embedder."""
    with Runtime(Config(), root=tmp_path) as made:
        yield made


@pytest.fixture
def shard(runtime: Runtime, birds: Path) -> IndexShard:
    shutil.copy(birds / INDEX, str(runtime.root.path))
    return IndexShard(runtime, INDEX)
