"""Rankings under filters and bounds, long ones, approximate ones: from memory and from the file alike."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from embedder_double import EmbedderDouble
from search_oracle import MODES, PATH, Hit, Stored, both, hits

from rag_stdlib import (
    Config,
    QueryOptions,
    Runtime,
    SourceDocument,
    carry,
    rag_delete,
    rag_ingest_document,
    rag_ingest_many,
    rag_query,
    rag_search_many,
)
from rag_stdlib.index import fusion, ranking, vecread
from rag_stdlib.index.resident import codes, signs
from rag_stdlib.index.resident.cache import RESIDENTS
from rag_stdlib.index.resident.signs import Signs
from rag_stdlib.index.scratch import Pool

WORDS = [f"w{number}" for number in range(40)]
DIM = 8
QUERIES = ["w1 w2 w3", "w5", "w39 absent", "absent"]


def document(number: int, rng: random.Random) -> SourceDocument:
    kind = "rare" if number % 25 == 0 else "common"
    return SourceDocument(f"{kind}/{number}", f"src/{number % 4}", " ".join(rng.choices(WORDS, k=rng.randint(1, 30))),
                          metadata={"n": number % 7, "even": number % 2 == 0, "kind": kind})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, rng = tmp_path_factory.mktemp("ranking"), random.Random(1)
    with Runtime(Config(), root=root, embedder=EmbedderDouble(dim=DIM)):
        assert rag_ingest_many(PATH, [document(number, rng) for number in range(300)], 24).is_ok
        for number in (4, 25, 77, 299):  # rows that are gone, in memory and in the file's blocks
            hits("w1", "hybrid", 1)
            assert rag_delete(PATH, document(number, rng).doc_id).is_ok
        changed = SourceDocument("common/5", "src/3", "w1 w1 w2", metadata={"n": 0, "kind": "rare"})
        assert rag_ingest_document(PATH, changed, 24).is_ok
    return root


@pytest.fixture(scope="module")
def stored(folder: Path) -> Stored:
    return Stored(folder / PATH, EmbedderDouble(dim=DIM))


@pytest.fixture(params=["memory", "memory without floats", "file"])
def runtime(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    if request.param == "memory without floats":
        RESIDENTS.clear()
        monkeypatch.setattr(codes, "FLOAT_BYTES", 0)
    with Runtime(Config(), root=folder, embedder=EmbedderDouble(dim=DIM), resident=request.param != "file") as made:
        yield made
    if request.param == "memory without floats":
        RESIDENTS.clear()


FILTERS: list[tuple[dict[str, Any], Any]] = [
    ({"doc_id_prefix": "rare/"}, lambda key, _source, _metadata: key.startswith("rare/")),
    ({"doc_id_prefix": "common/"}, lambda key, _source, _metadata: key.startswith("common/")),
    ({"doc_id": "common/6"}, lambda key, _source, _metadata: key == "common/6"),
    ({"doc_id": ("common/5", "rare/50", "no such", "common/4")}, lambda key, _source, _metadata: key in ("common/5", "rare/50")),
    ({"source": "src/3"}, lambda _key, source, _metadata: source == "src/3"),
    ({"source_prefix": "src/"}, lambda _key, _source, _metadata: True),
    ({"source_prefix": "src/9"}, lambda _key, _source, _metadata: False),
    ({"metadata": {"kind": "rare"}}, lambda _key, _source, metadata: metadata["kind"] == "rare"),
    ({"metadata": {"n": (1, 2, 3, 4, 5)}}, lambda _key, _source, metadata: metadata["n"] in (1, 2, 3, 4, 5)),
    ({"metadata": {"even": True, "n": 3.0}, "source": ("src/0", "src/2")},
     lambda _key, source, metadata: metadata.get("even") is True and metadata["n"] == 3 and source in ("src/0", "src/2")),
]


def filtered(stored: Stored, passes: Any) -> list[bool]:
    return [bool(passes(key[0], source, metadata))
            for key, source, metadata in zip(stored.keys, stored.sources, stored.metadata, strict=True)]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("options", "passes"), FILTERS)
def test_filters_cut_before_the_best_are_chosen(stored: Stored, mode: Any, options: dict[str, Any], passes: Any) -> None:
    allowed = filtered(stored, passes)
    for query in QUERIES:
        best = stored.best(mode, query, 5_000, allowed)
        for limit in (1, 7, 5_000):
            assert hits(query, mode, limit, QueryOptions(mode=mode, **options)) == best[:limit], limit


def bounded(whole: Sequence[Hit], limit: int, per_document: int | None, least: float | None) -> list[Hit]:
    taken: dict[str, int] = {}
    kept = []
    for hit in whole:
        name = hit[0].rpartition(":")[0]
        taken[name] = taken.get(name, 0) + 1
        if (least is None or hit[1] >= least) and (per_document is None or taken[name] <= per_document):
            kept.append(hit)
    return kept[:limit]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("per_document", "least"), [(1, None), (2, 0.2), (None, 0.5), (1, 9.0)])
@pytest.mark.parametrize("options", [{}, {"doc_id_prefix": "rare/"}])
def test_bounds_on_score_and_hits_per_document(stored: Stored, mode: Any, per_document: int | None, least: float | None,
                                               options: dict[str, Any]) -> None:
    allowed = filtered(stored, lambda key, _source, _metadata: key.startswith(options.get("doc_id_prefix", "")))
    for query in QUERIES:
        whole = stored.best(mode, query, 10_000, allowed)
        for limit in (1, 5, 400):
            found = hits(query, mode, limit, QueryOptions(mode=mode, per_document=per_document, min_score=least, **options))
            assert found == bounded(whole, limit, per_document, least)


def test_five_thousand_hits_are_exact(tmp_path: Path) -> None:
    embedder, rng = EmbedderDouble(dim=DIM), random.Random(6)
    with Runtime(Config(), root=tmp_path, embedder=embedder):
        documents = [SourceDocument(f"d{number}", "s", " ".join(rng.choices(WORDS, k=1_500))) for number in range(12)]
        assert sum(rag_ingest_many(PATH, documents, 12).unwrap()) > 6_000
    stored = Stored(tmp_path / PATH, embedder)
    for runtime in both(tmp_path, embedder):
        with runtime:
            for mode in MODES:
                found = hits("w1 w2 w3 w4", mode, 5_000)
                assert found == stored.best(mode, "w1 w2 w3 w4", 5_000)
                assert mode == "lexical" or len(found) == 5_000


@pytest.mark.usefixtures("runtime")
def test_an_index_without_chunks_or_vectors_answers_nothing(folder: Path) -> None:
    assert rag_ingest_document("empty.db", SourceDocument("d", "s", ""), 24).is_ok
    for mode in MODES:
        assert rag_query("empty.db", "w1", 5, QueryOptions(mode=mode)).unwrap() == []  # type: ignore[arg-type]
        assert rag_query("empty.db", "w1", 5, QueryOptions(mode=mode, doc_id="d")).unwrap() == []  # type: ignore[arg-type]
    assert (folder / "empty.db").exists()


# --- approximate ---

def approximate(query: str, limit: int, **options: Any) -> list[Hit]:
    return hits(query, "vector", limit, QueryOptions(mode="vector", approximate=True, **options))


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(("options", "passes"), [({}, lambda *_: True), *FILTERS])
def test_an_approximate_search_of_a_small_index_is_exact(stored: Stored, options: dict[str, Any], passes: Any,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Where as many rows are picked as there are."""
    monkeypatch.setattr(signs, "_LEAST", 100_000)
    allowed = filtered(stored, passes)
    for query in QUERIES:
        assert approximate(query, 20, **options) == stored.best("vector", query, 20, allowed)
        whole = stored.best("vector", query, 10_000, allowed)
        assert approximate(query, 20, per_document=1, **options) == bounded(whole, 20, 1, None)


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(("options", "passes"), [({}, lambda *_: True), FILTERS[0], FILTERS[8]])
def test_what_an_approximate_search_finds_has_its_exact_score_and_order(stored: Stored, options: dict[str, Any], passes: Any,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signs, "_LEAST", 30)
    monkeypatch.setattr(signs, "_PER_HIT", 1)
    exact = {hit[0]: hit for hit in stored.best("vector", QUERIES[0], 100_000, filtered(stored, passes))}
    found = approximate(QUERIES[0], 20, **options)
    assert len(found) == min(20, len(exact))
    assert [exact[hit[0]] for hit in found] == found
    keys = dict(zip(stored.ids, stored.keys, strict=True))
    assert found == sorted(found, key=lambda hit: (-hit[1], keys[hit[0]]))


def test_signs_are_kept_and_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder, rng = EmbedderDouble(dim=DIM), random.Random(2)
    monkeypatch.setattr(signs, "_LEAST", 100_000)
    with Runtime(Config(), root=tmp_path, embedder=embedder):
        rag_ingest_many(PATH, [document(number, rng) for number in range(40)], 24).unwrap()
        made: list[int] = []
        of = Signs.of
        monkeypatch.setattr(Signs, "of", lambda *arguments: (made.append(1), of(*arguments))[1])
        for turn in range(4):
            for _ in range(2):
                assert approximate("w1 w2", 9) == Stored(tmp_path / PATH, embedder).best("vector", "w1 w2", 9)
            assert len(made) == turn + 1
            rag_ingest_document(PATH, document(100 + turn, rng), 24).unwrap()
            rag_delete(PATH, document(turn + 1, rng).doc_id).unwrap()


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("mode", ["lexical", "hybrid", None])
def test_only_a_search_in_vector_mode_may_be_approximate(mode: Any) -> None:
    result = rag_query(PATH, "w1", 3, QueryOptions(mode=mode, approximate=True))
    assert result.error.code == "invalid_option"  # type: ignore[union-attr]
    assert "approximate" in str(result.error)  # type: ignore[union-attr]


# --- which way is taken ---

def test_few_allowed_rows_are_scored_alone(folder: Path, stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[int] = []
    best = fusion.best_vector
    monkeypatch.setattr(fusion, "best_vector", lambda scan, allowed, k: (
        scored.append(len(scan.score)), best(scan, allowed, k))[1])
    with Runtime(Config(), root=folder, embedder=EmbedderDouble(dim=DIM)):
        for options, passes in FILTERS:
            allowed = filtered(stored, passes)
            scored.clear()
            found = hits("w1 w2", "vector", 5, QueryOptions(mode="vector", **options))
            assert found == stored.best("vector", "w1 w2", 5, allowed)
            few = sum(allowed) * ranking._FEW <= len(stored.ids)
            assert (scored[0] == sum(allowed)) == few or sum(allowed) == len(stored.ids)


def test_the_file_is_scanned_in_slabs(folder: Path, stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vecread, "_SLAB_BYTES", 3_000)
    with Runtime(Config(), root=folder, embedder=EmbedderDouble(dim=DIM), resident=False):
        for mode in MODES:
            assert hits("w1 w2", mode, 50) == stored.best(mode, "w1 w2", 50)


# --- the room that scores are written to ---

@pytest.fixture
def pool(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """A pool of this test alone, in a runtime that keeps the index in memory."""
    mine = Pool()
    monkeypatch.setattr(ranking, "ROOM", mine)
    with Runtime(Config(), root=folder, embedder=EmbedderDouble(dim=DIM)):
        yield mine


@pytest.mark.parametrize("together", [1, 2, 32])
def test_searches_write_their_scores_to_the_same_room_and_mix_nothing_up(stored: Stored, pool: Pool, together: int,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "_TOGETHER", together)
    several = [*QUERIES, "w2 w3", QUERIES[0]]
    places = set()
    for _ in range(2):
        for options in (QueryOptions(mode="vector"), QueryOptions(mode="hybrid")):
            found = rag_search_many(PATH, several, 9, options).unwrap()
            assert found == [rag_query(PATH, query, 9, options).unwrap() for query in several]
            for query in QUERIES:
                assert hits(query, options.mode, 9) == stored.best(options.mode, query, 9)
            assert len(pool._free) == 1, "every search gives back what it borrowed, and borrows that"
            places.add(pool._free[0].ctypes.data)
    assert len(places) == 1


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_a_search_that_is_broken_off_takes_its_room_along(stored: Stored, pool: Pool, mode: Any,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    hits("w1", mode, 5)
    (kept,) = pool._free
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(fusion, f"best_{mode}", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        hits("w2", mode, 5)
    assert pool._free == []
    assert hits("w1 w2", mode, 5) == stored.best(mode, "w1 w2", 5)
    assert len(pool._free) == 1
    assert pool._free[0] is not kept


def test_searches_in_threads_rank_as_one_after_the_other(folder: Path, stored: Stored) -> None:
    asked = [(mode, query, options, passes) for mode in MODES for query in QUERIES
             for options, passes in (({}, lambda *_: True), FILTERS[0], FILTERS[4])]
    wanted = [stored.best(mode, query, 7, filtered(stored, passes)) for mode, query, _, passes in asked]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with Runtime(Config(), root=folder, embedder=EmbedderDouble(dim=DIM)), ThreadPoolExecutor(4) as executor:
            ask = carry(lambda one: hits(one[1], one[0], 7, QueryOptions(mode=one[0], **one[2])))
            for _ in range(3):
                assert list(executor.map(ask, asked)) == wanted
    finally:
        sys.setswitchinterval(interval)
