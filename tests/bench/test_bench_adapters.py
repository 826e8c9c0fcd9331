"""The adapters that need nothing beyond this environment, on 300 rows: in this process, and as the harness runs them."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from adapters import ours
from harness import peers, worker
from harness.peers import BY_NAME, PEERS, Peer
from harness.protocol import Adapter, Document, Feed, Query
from harness.runs import Measurement, PhaseError, measure

from rag_stdlib import Runtime
from rag_stdlib.errors import Failure

HERE = [peer for peer in PEERS if not peer.requirements]
NAMES = [peer.name for peer in HERE]


def built(peer: Peer, data_folder: Path, folder: Path) -> Adapter:
    library: Adapter = importlib.import_module(f"adapters.{peer.adapter}").Library(folder)
    library.load()
    library.build(Feed(data_folder, "real"))
    return library


@pytest.mark.parametrize("peer", HERE, ids=NAMES)
def test_an_adapter_finds_the_true_rows_with_text_and_document(peer: Peer, data_folder: Path, tmp_path: Path) -> None:
    library = built(peer, data_folder, tmp_path)
    assert set(library.kinds) == set(peer.kinds)
    asked = worker.Set(data_folder, "real")
    stored = {row: (document.id, text) for document in Feed(data_folder, "real").documents()
              for row, text in zip(document.rows, document.chunks, strict=True)}
    library.open()
    for name, kind, queries in asked.passes(library.kinds):
        done = worker.timed(library, kind, queries[:25], 10.0)
        assert len(done.found) == 25
        if kind == "vector":
            assert asked.recall(done.found) >= (0.8 if peer.name == "approximate" else 1.0), name
        hits = library.hits(getattr(library, kind)(queries[0], 10))
        assert 0 < len(hits) <= 10
        assert all(stored[hit.row] == (hit.document, hit.text) for hit in hits), name
    library.close()


@pytest.mark.parametrize("peer", [peer for peer in HERE if peer.replaces], ids=lambda peer: peer.name)
def test_a_replaced_document_is_found_as_revised_and_only_so(peer: Peer, data_folder: Path, tmp_path: Path) -> None:
    library = built(peer, data_folder, tmp_path)
    pairs = worker.churned({"data": str(data_folder), "vectors": "real"})
    library.open_writer([document for pair in pairs for document in pair])
    old, new = pairs[0]
    words = " ".join(dict.fromkeys(new.chunks[0].split()))

    def found() -> set[str]:
        hits = library.hits(library.lexical(Query(words, np.array(old.vectors[0])), 50))
        return {hit.text for hit in hits if hit.document == old.id}

    assert new.chunks[0] not in found()
    library.replace(new)
    assert new.chunks[0] in found()
    assert old.chunks[0] not in found()
    library.replace(old)
    assert new.chunks[0] not in found()
    library.close()


def test_lexical_hits_of_fts5_and_of_this_library_are_mostly_the_same(data_folder: Path, tmp_path: Path) -> None:
    libraries = []
    for name in ("ours", "fts5"):
        (tmp_path / name).mkdir()
        libraries.append(built(BY_NAME[name], data_folder, tmp_path / name))
    mine, theirs = libraries
    common = total = 0
    for library in libraries:
        library.open()
    for text in worker.Set(data_folder, "real").words["five"][:30]:
        query = Query(text, np.zeros(384, np.float32))
        rows = [{hit.row for hit in library.hits(library.lexical(query, 10))} for library in (mine, theirs)]
        common, total = common + len(rows[0] & rows[1]), total + len(rows[1])
    for library in libraries:
        library.close()
    assert common >= 0.85 * total > 0


@pytest.mark.parametrize("peer", [peer for peer in HERE if peer.name in ("ours", "numpy")], ids=["ours", "numpy"])
def test_the_harness_measures_an_adapter_in_processes_of_its_own(peer: Peer, data_folder: Path, tmp_path: Path) -> None:
    run = Measurement(data_folder, 300, "real", tmp_path, tmp_path / "none", ("vector", "lexical", "hybrid"),
                      0.5 if peer.replaces else 0.1)  # a log is seen only if it is looked at while there is one
    measure(run, [peer], 1, whole=True)
    figures = run.figures[peer.name]
    assert "failed" not in figures
    assert "partly" not in figures, figures
    assert set(figures["threads"]) == set(peer.kinds)
    assert all(found["p50"] > 0 and found["queries"] >= worker.FEWEST for found in figures["searches"].values())
    assert figures["build_s"] > 0
    assert figures["file_mb"] > 0
    assert figures["before_mb"] <= figures["search_mb"] <= figures["search_peak_mb"]
    assert run.limits[0]["float_ms"] > 0
    assert figures["before_mb"] > 1, figures
    assert ("writing" in figures) == peer.replaces
    if peer.replaces:
        assert figures["writing"]["writer"]["documents"] > 0
        assert figures["writing"]["wal_mb"] > 0, figures
    if "vector" in peer.kinds:
        assert figures["searches"]["vector"]["recall"] >= (0.8 if peer.name == "approximate" else 1.0)


def test_a_process_that_fails_is_named_and_the_others_go_on(data_folder: Path, tmp_path: Path) -> None:
    run = Measurement(data_folder, 300, "real", tmp_path, tmp_path / "none", ("vector",), 0.1)
    measure(run, [Peer("broken", "Broken", "no_such_adapter"), BY_NAME["numpy"]], 1, whole=False)
    assert "no_such_adapter" in run.figures["broken"]["failed"]
    assert run.figures["numpy"]["searches"]["vector"]["recall"] == 1.0


def test_a_process_that_hangs_is_ended(data_folder: Path, tmp_path: Path) -> None:
    run = Measurement(data_folder, 300, "real", tmp_path, tmp_path / "none", ("lexical",), 0.1)
    run.build(BY_NAME["fts5"])
    (tmp_path / "words").mkdir()
    job = run.job(BY_NAME["fts5"], "write", words=str(tmp_path / "words"))
    writer = run.start(BY_NAME["fts5"], job)
    with pytest.raises(PhaseError, match="write: more than 1 s"):
        run.finish(writer, job, 1)
    assert writer.poll() is not None


def test_hits_without_text_are_refused(data_folder: Path, tmp_path: Path) -> None:
    library = built(BY_NAME["numpy"], data_folder, tmp_path)
    library.open()
    library.hits = lambda found: [hit._replace(text="") for hit in found]  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="without text"):
        worker.timed(library, "vector", [Query("x", Feed(data_folder, "real").matrix[0])], 1.0)
    library.close()


def test_recall_counts_rows_as_near_as_the_tenth(data_folder: Path) -> None:
    asked = worker.Set(data_folder, "real")
    matrix = Feed(data_folder, "real").matrix
    products = matrix.astype(np.float64) @ asked.query_vectors[0].astype(np.float64)
    order = np.argsort(-products)
    assert asked.recall([order[:10].tolist()]) == 1.0
    assert asked.recall([order[5:15].tolist()]) == 0.5
    assert asked.recall([[int(order[0])] * 10]) == pytest.approx(0.1)  # one row, however often


def test_an_unknown_text_is_no_vector(tmp_path: Path) -> None:
    given = ours.Given()
    given.know([Document("d", 0, "abcd", [(0, 2), (2, 4)], np.eye(2, 384, dtype=np.float32))], only=True)
    assert given.embed(["cd", "ab"], "passage").tolist() == np.eye(2, 384, dtype=np.float32)[::-1].tolist()
    with Runtime(root=tmp_path, embedder=given), pytest.raises((KeyError, Failure)):
        given.embed(["ef"], "passage")


def test_peers_run_here_or_in_an_environment_of_their_own(tmp_path: Path) -> None:
    assert peers.python_of(BY_NAME["ours"], tmp_path) == sys.executable
    assert peers.python_of(BY_NAME["hnsw"], tmp_path) == peers.python_of(BY_NAME["usearch"], tmp_path) == str(
        tmp_path / "usearch" / "bin" / "python")
    assert all("==" in wanted for peer in PEERS for wanted in peer.requirements)
    assert peers.install(BY_NAME["ours"], tmp_path) == ""
    assert set(peers.versions(BY_NAME["vec0"], tmp_path)) == {"sqlite-vec", "apsw", "SQLite"}
    assert peers.environment_of(tmp_path)["OMP_NUM_THREADS"] == "1"


def test_a_library_that_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PIP_NO_INDEX", "1")
    monkeypatch.setitem(os.environ, "PIP_FIND_LINKS", "")

    def bare(folder: Path, **_: object) -> None:
        """Make the environment of this interpreter's own packages: a whole one takes many seconds, and nothing is put into it."""
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin" / "python").unlink(missing_ok=True)
        (folder / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(peers.venv, "create", bare)
    peer = Peer("absent", "Absent", "none", ("no-such-library-here==1.0",), ("no-such-library-here",))
    assert "no-such-library-here" in peers.install(peer, tmp_path)
    assert peers.install(peer, tmp_path)  # and is tried again
    assert not (tmp_path / peer.environment / "requirements.txt").exists()


def test_jobs_are_files_that_name_a_phase(data_folder: Path, tmp_path: Path) -> None:
    job = Measurement(data_folder, 300, "real", tmp_path, tmp_path, ("vector",), 0.5).job(BY_NAME["numpy"], "search", words="here")
    assert json.loads(json.dumps(job, default=str))["words"] == "here"
    assert job["phase"] in worker.PHASES
