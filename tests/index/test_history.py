"""R21, R64: what an index answers depends on what it holds, not on how that came about."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from embedder_double import EmbedderDouble
from index_oracle import corpus, queries

from rag_stdlib import (
    Config,
    QueryOptions,
    Runtime,
    rag_check,
    rag_compact,
    rag_delete,
    rag_ingest,
    rag_query,
)
from rag_stdlib.records import Mode

PATH = "index.db"
DOCUMENTS = corpus(60, seed=8)
MODES: tuple[Mode, ...] = ("lexical", "vector", "hybrid")


def answers(limits: tuple[int, ...] = (1, 10, 3, 10, 25, 7, 2, 10, 1, 5_000)) -> str:
    """80 queries in three modes, as JSON."""
    lines = []
    for number, query in enumerate(queries(80, seed=3)):
        for mode in MODES:
            found = rag_query(PATH, query, limits[number % len(limits)], QueryOptions(mode=mode)).unwrap()
            lines.append(json.dumps([chunk.to_dict() for chunk in found], allow_nan=False))
    return "\n".join(lines)


def tell(root: Path, history: str) -> str:
    root.mkdir()
    rng = random.Random(history)
    documents = list(DOCUMENTS)
    with Runtime(Config(), root=root, embedder=EmbedderDouble()):
        if history != "as given":
            rng.shuffle(documents)
        for number, (doc_id, source, text) in enumerate(documents):
            if history == "eventful" and number % 3 == 0:
                rag_ingest(PATH, doc_id, "another", text[::-1] + " Other words altogether.", 200)
                rag_ingest(PATH, f"gone-{number}", source, text, 90)
            rag_ingest(PATH, doc_id, source, text, 90)
            if history == "eventful" and number % 9 == 8:
                rag_delete(PATH, f"gone-{number - 8}")
                rag_compact(PATH)
        if history == "eventful":
            for number in range(len(documents)):
                rag_delete(PATH, f"gone-{number}")
            rag_compact(PATH)
        assert rag_check(PATH).unwrap().documents == len(DOCUMENTS)
        return answers()


@pytest.mark.slow
def test_r21_r64_four_histories_give_byte_equal_answers(tmp_path: Path) -> None:
    told = {history: tell(tmp_path / history, history)
            for history in ("as given", "shuffled", "shuffled again", "eventful")}
    assert len(set(told.values())) == 1
    assert told["as given"].count('"doc_id"') > 1_000


def test_r21_ties_at_the_cut_are_resolved_by_id_and_ordinal(tmp_path: Path) -> None:
    for history in ([5, 3, 9, 1, 7], [1, 3, 5, 7, 9], [9, 7, 5, 3, 1]):
        root = tmp_path / str(history)
        root.mkdir()
        with Runtime(Config(), root=root, embedder=EmbedderDouble()):
            for number in history:
                rag_ingest(PATH, f"id{number}", "s", "abc.abc.", 4)
            rag_ingest(PATH, "id10", "s", "abc.abc.", 4)
            order = [f"{name}:{ordinal}" for name in ("id1", "id10", "id3", "id5", "id7", "id9") for ordinal in range(2)]
            whole = {}
            for mode in MODES:
                whole[mode] = [chunk.chunk_id for chunk in rag_query(PATH, "abc", 100, QueryOptions(mode=mode)).unwrap()]
                scores = [chunk.score for chunk in rag_query(PATH, "abc", 100, QueryOptions(mode=mode)).unwrap()]
                assert len(whole[mode]) == len(order)
                assert len(set(scores)) == 1
                assert whole[mode] == order
                for limit in range(1, 13):
                    found = rag_query(PATH, "abc", limit, QueryOptions(mode=mode)).unwrap()
                    assert [chunk.chunk_id for chunk in found] == whole[mode][:limit]


def test_r21_the_same_document_in_many_copies_is_cut_by_id(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=4)):
        for number in random.Random(1).sample(range(300), 300):
            rag_ingest(PATH, f"copy-{number:03}", "s", "The very same words.", 40)
        for mode in MODES:
            found = rag_query(PATH, "same words", 5, QueryOptions(mode=mode)).unwrap()
            assert [chunk.doc_id for chunk in found] == [f"copy-{number:03}" for number in range(5)]
            assert len({chunk.score for chunk in found}) == 1
