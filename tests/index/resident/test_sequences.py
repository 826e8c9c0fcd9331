"""Random sequences of changes, by this process and by another: after each, both ways of a search answer what the chunks say."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from embedder_double import EmbedderDouble
from search_oracle import PATH, Stored, agree, both, hits, in_memory

import rag_stdlib
from rag_stdlib import Runtime, SourceDocument, rag_ingest_many
from rag_stdlib.index import changes
from rag_stdlib.index.resident import cache, codes, words
from rag_stdlib.index.resident.codes import ResidentCodes

CHILD = Path(__file__).parents[2] / "told_child.py"
WORDS = ["refund", "order", "invoice", "返金", "注文番号", "c++", "parcel", "common", "common"]
QUERIES = ["refund order", "返", "common", "common 注文 refund c++", "unheard", "invoice invoice parcel", "返金 注"]
DIM = 6
Told = Callable[..., None]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Told]:
    """Another process that changes the index below the test's folder."""
    child = subprocess.Popen([sys.executable, str(CHILD), str(tmp_path), str(DIM)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)

    def tell(*step: Any) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(step) + "\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"

    yield tell
    child.communicate(timeout=60)
    assert child.returncode == 0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything that a large index would reach small."""
    monkeypatch.setattr(codes, "SEGMENT", 16)
    monkeypatch.setattr(ResidentCodes.parts, "__defaults__", (16,))
    monkeypatch.setattr(codes, "FLOAT_BYTES", 60 * DIM * 4)
    monkeypatch.setattr(words, "RECENT_ROWS", 30)
    monkeypatch.setattr(cache, "_LEAST_GONE", 8)


def text_of(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.choice([1, 2, 9, 30])))


def step_of(rng: random.Random, names: set[str]) -> list[Any]:
    action = rng.random()
    if action < 0.15 and len(names) > 1:
        name = rng.choice(sorted(names))
        names.discard(name)
        return ["rag_delete", PATH, name]
    if action < 0.2 and names:
        return ["rag_compact", PATH]
    if action < 0.24 and names:
        return ["rag_reembed", PATH]
    name = f"d{rng.randrange(14)}"
    names.add(name)
    return ["rag_ingest", PATH, name, f"s{rng.randrange(3)}", text_of(rng), 24]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(5))
def test_both_ways_answer_what_the_chunks_say_after_every_change(tmp_path: Path, other: Told, seed: int) -> None:
    rng = random.Random(seed)
    embedder = EmbedderDouble(dim=DIM)
    runtimes = both(tmp_path, embedder)
    names: set[str] = set()
    for _ in range(30):
        for _ in range(rng.choice([1, 1, 1, 4])):
            step = step_of(rng, names)
            if rng.random() < 0.5:
                other(*step)
            else:
                with runtimes[0]:
                    assert getattr(rag_stdlib, step[0])(*step[1:]).is_ok
        agree(runtimes, tmp_path, embedder, rng.sample(QUERIES, 2), rng.choice([1, 5, 1_000]))


def test_every_way_of_bringing_a_state_up_to_date_is_taken(tmp_path: Path, other: Told, monkeypatch: pytest.MonkeyPatch,
                                                           small: None) -> None:  # noqa: ARG001 - patches
    """Floats are dropped on growth, rows tidied, recent rows overflow, a gap in the journal is met: each at its step."""
    embedder = EmbedderDouble(dim=DIM)
    runtimes = both(tmp_path, embedder)

    def state() -> cache.State:
        agree(runtimes, tmp_path, embedder, QUERIES[:4])
        return in_memory()[-1]

    for number in range(20):
        other("rag_ingest", PATH, f"d{number}", "s", f"refund 返金 common order{number}", 100)
    first = state()
    assert (len(first.rows), first.rows.alive) == (20, None)
    assert first.codes is not None
    assert first.words is not None
    assert first.codes.floats is not None
    other("rag_ingest", PATH, "many", "s", "invoice " * 100, 16)
    grown = state()
    assert grown.codes is not None
    assert len(grown.rows) > 60
    assert grown.codes.floats is None, "more vectors than may be kept as floats"
    assert len(grown.codes.segments) == -(-len(grown.rows) // 16)
    assert grown.words is not None
    assert grown.words.postings is not first.words.postings, "more recent rows than are kept"
    other("rag_delete", PATH, "d3")
    gone = state()
    assert gone.rows.alive is not None
    assert gone.words is not None
    assert gone.words.postings is grown.words.postings
    other("rag_delete", PATH, "many")
    tidied = state()
    assert (tidied.rows.alive, len(tidied.rows)) == (None, 19)
    other("rag_compact", PATH)
    assert state().codes is tidied.codes, "the chunks are the same"
    other("rag_ingest", PATH, "e", "s", "refund again", 100)
    with monkeypatch.context() as patch:
        patch.setattr(ResidentCodes, "appended", None)
        patch.setattr(changes, "since", lambda *_: None)
        assert len(state().rows) == 20


@pytest.mark.usefixtures("small")
def test_a_step_that_the_journal_does_not_keep_any_more_has_all_read_anew(tmp_path: Path,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = EmbedderDouble(dim=DIM)
    runtimes = both(tmp_path, embedder)
    monkeypatch.setattr(changes, "KEPT", 2)
    with runtimes[0]:
        for number in range(12):
            rag_stdlib.rag_ingest(PATH, f"d{number}", "s", f"refund order{number}", 100)
            if number in (3, 5, 11):
                seen = [len(state.rows) for state in in_memory()]
                agree(runtimes, tmp_path, embedder, QUERIES[:2])
                assert [len(state.rows) for state in in_memory()][-1:] == [number + 1]
                assert number == 3 or seen[-1:] == [{5: 4, 11: 6}[number]]


@pytest.mark.usefixtures("small")
def test_words_alone_and_vectors_alone_join_and_part(tmp_path: Path) -> None:
    embedder = EmbedderDouble(dim=DIM)
    runtimes = both(tmp_path, embedder)

    def asked(mode: str) -> cache.State:
        wanted = Stored(tmp_path / PATH, embedder).best(mode, "refund 返 common", 50)
        for runtime in runtimes:
            with runtime:
                assert hits("refund 返 common", mode, 50) == wanted
        return in_memory()[-1]

    with runtimes[0]:
        for number in range(12):
            rag_stdlib.rag_ingest(PATH, f"d{number}", "s", f"refund 返金 common order{number}", 100)
    one = asked("vector")
    assert (one.words, one.codes is not None) == (None, True)
    two = asked("lexical")
    assert two.words is not None
    assert two.codes is one.codes
    with runtimes[0]:
        rag_stdlib.rag_ingest(PATH, "d3", "s", "refund once more", 100)
        rag_stdlib.rag_delete(PATH, "d0")
    three = asked("lexical")
    assert three.rows.alive is not None
    assert three.codes is not None
    assert three.codes.count == len(three.rows)
    cache.RESIDENTS.clear()
    four = asked("lexical")
    assert (four.codes, four.rows.alive) == (None, None)
    with runtimes[0]:
        rag_stdlib.rag_delete(PATH, "d5")
    assert asked("lexical").rows.alive is not None
    five = asked("hybrid")  # codes are read for rows none of which is gone
    assert five.codes is not None
    assert five.rows.alive is None


@pytest.mark.slow
def test_several_segments_of_their_true_size(tmp_path: Path) -> None:
    """More rows than a segment holds, with deletions and additions at its edge."""
    embedder = EmbedderDouble(dim=4)
    runtimes = both(tmp_path, embedder)
    rng = random.Random(8)
    names = [f"w{number}" for number in range(300)]
    documents = [SourceDocument(f"d{number}", "s", " ".join(rng.choices(names, k=2_000)), media_type="text/plain")
                 for number in range(19)]
    with runtimes[0]:
        counts = rag_ingest_many(PATH, documents[:18], 10).unwrap()
    assert sum(counts) > codes.SEGMENT
    agree(runtimes, tmp_path, embedder, ["w299"], 100)
    with runtimes[0]:
        rag_stdlib.rag_delete(PATH, "d2")
        rag_stdlib.rag_ingest(PATH, "d5", "s", "w1 w2 w3 only", 10)
        rag_stdlib.rag_ingest(PATH, "extra", "s", documents[18].text, 10)
    agree(runtimes, tmp_path, embedder, ["w1 w2"], 5_000)
    state = in_memory()[-1]
    assert state.codes is not None
    assert len(state.codes.segments) == 2
    assert state.rows.alive is not None


def test_an_older_snapshot_than_the_state_is_served_from_the_file(tmp_path: Path) -> None:
    embedder = EmbedderDouble(dim=DIM)
    with Runtime(rag_stdlib.Config(), root=tmp_path, embedder=embedder) as runtime:
        rag_stdlib.rag_ingest(PATH, "a", "s", "refund one", 100)
        wanted = cache.Wanted(DIM, words=True)
        limits = cache.Limits(2**30, 2**30)
        with runtime.store.snapshot(PATH) as old:
            assert old.facts.chunks == 1
            rag_stdlib.rag_ingest(PATH, "b", "s", "refund two", 100)
            assert len(hits("refund", "hybrid", 5)) == 2
            assert cache.RESIDENTS.state(old, wanted, limits) is None
        assert len(hits("refund", "hybrid", 5)) == 2
        with runtime.store.snapshot(PATH) as new:
            assert cache.RESIDENTS.state(new, wanted, limits) is in_memory()[-1]
