"""The page of results and the table of aims, from figures made up here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import checks
import pytest
import run
from harness import figures, page
from harness.peers import PEERS
from harness.protocol import KINDS


def latencies(p50: float) -> dict[str, float]:
    return {"p50": p50, "p95": 2 * p50, "p99": 3 * p50, "max": 4 * p50, "queries": 200, "cores": 1.0}


def results() -> dict[str, Any]:
    """Make results in which the library at place n takes n times as long as the first."""
    sets: dict[str, Any] = {}
    for rows in (10_000, 100_000):
        found: dict[str, Any] = {}
        for place, peer in enumerate(PEERS, start=1):
            scale = place * rows / 10_000
            searches = {name: latencies(scale) for name in ("vector", "lexical five first", "lexical five", "lexical stop first", "lexical stop",
                                                            "hybrid five", "hybrid question") if name.split()[0] in peer.kinds}
            if "vector" in searches:
                searches["vector"]["recall"] = 1.0
            found[peer.name] = {
                "run": "1", "build_s": scale, "chunks_s": rows / scale, "file_mb": scale, "build_peak_mb": 9, "search_mb": 100 * place, "search_peak_mb": 10,
                "before_mb": 1, "load_ms": 2, "open_ms": 3, "open_first_ms": 4 * place, "searches": searches,
                "threads": {kind: {"one": 100.0, "two": 170.0 + place, "ratio": 1.7 + place / 100} for kind in peer.kinds}}
            if peer.replaces:
                found[peer.name]["writing"] = {"kind": peer.kinds[-1], "idle": latencies(1.0), "busy": latencies(2.0),
                                               "writer": {"chunks_s": 1_000}, "wal_mb": 5.0}
        sets[f"{rows} real"] = {"rows": rows, "vectors": "real", "peers": found, "limits": {"float_ms": 0.5, "int8_ms": 0.1, "read_gb_s": 30.0},
                                "manifest": {"descriptions": 7, "squad": True, "real_rows": 5, "text_mb": 3.0}}
    sets["10000 real"]["peers"]["faiss"] = {"failed": "build: killed"}
    return {"sets": sets, "absent": {"chroma": "no | wheel"}, "versions": {"ours": {"rag-stdlib": "1"}},
            "machine": {"cpu": "C", "family": "f", "flags": ["avx2"], "cores": 2, "caches": [], "memory_gb": 8, "kernel": "k", "file_system": "ext4",
                        "python": "3", "libc": "c"}}


def section(text: str, *names: str) -> str:
    for name in names:
        text = text.partition(f" {name}\n")[2]
    return re.split(r"^##", text, maxsplit=1, flags=re.MULTILINE)[0]


def test_the_page_has_every_figure_in_its_table(tmp_path: Path) -> None:
    page.write_page(results(), tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")
    vector = section(text, "100,000 chunks, real vectors", "Vector search")
    assert "| **rag-stdlib** | 10.0 | 20.0 | 30.0 | 1.0 x | 20 x | 1.0000 | 1.0 |" in vector
    assert "| sqlite-vec + FTS5 | 30.0 | 60.0 | 90.0 | 3.0 x | 60 x |" in vector
    assert "| *plain read of the vectors as float32* | 0.500 |" in vector
    titles = [peer.title for peer in PEERS if "vector" in peer.kinds]
    assert all(title in vector for title in titles)
    assert "tantivy" not in vector
    assert "Not measured: FAISS flat (build: killed)." in section(text, "10,000 chunks, real vectors", "Searching while another process replaces documents")
    assert "| Chroma (HNSW) | left out: no \\| wheel |" in text
    writing = section(text, "100,000 chunks, real vectors", "Searching while another process replaces documents")
    assert "| **rag-stdlib**, hybrid | 1.00 | 2.00 | 2.00 | 4.00 | 2.0 x | 8.00 | 1,000 | 5.00 |" in writing


def test_libraries_of_another_run_are_named(tmp_path: Path) -> None:
    found = results()
    page.write_page(found, tmp_path)
    assert "another run" not in (tmp_path / "README.md").read_text(encoding="utf-8")
    found["sets"]["100000 real"]["peers"]["vec0"]["run"] = "2"
    page.write_page(found, tmp_path)
    assert "Measured in another run: sqlite-vec + FTS5 (2)." in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_every_plot_the_page_shows_is_written(tmp_path: Path) -> None:
    page.write_page(results(), tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert {"scale.svg", "search-10000.svg", "resources-100000.svg"} <= set(shown)
    for name in shown:
        assert "rag-stdlib" in (tmp_path / name).read_text(encoding="utf-8")


def test_one_size_of_one_library_is_a_page_too(tmp_path: Path) -> None:
    found = results()
    only = found["sets"]["10000 real"]
    only["peers"] = {"fts5": only["peers"]["fts5"]}
    found["sets"] = {"10000 real": only}
    page.write_page(found, tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "### Lexical search" in text
    assert "### Vector search" not in text
    assert "scale.svg" not in text
    assert figures.draw([{**only, "vectors": "random"}], {}) == {}


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {check.name: check.verdict for check in checks.speed(found)}


def test_aims_are_met_or_missed_by_so_much() -> None:
    said = verdicts(results())
    assert said["vector search, 10,000 chunks, p50"] == "**missed** by 1.67 x"
    assert said["vector search, 1,000,000 chunks, p50"] == "not measured"
    assert said["vector search, 100,000 chunks: sqlite-vec + FTS5 to rag-stdlib, p50"] == "**missed** by 2.67 x"
    assert said["vector search, 100,000 chunks: numpy float32 to rag-stdlib, p50"] == "met"
    assert said["building, 100,000 chunks"] == "**missed** by 3.00 x"
    assert said["memory of the search process, 100,000 chunks"] == "met"
    assert said["two threads to one, hybrid search, 100,000 chunks"] == "met"
    assert said["p95 of searches while another process writes, to idle"] == "met"
    assert said["the WAL's largest size meanwhile"] == "met"


def test_without_results_nothing_is_met() -> None:
    assert set(verdicts({}).values()) == {"not measured"}


def test_a_count_of_wrong_answers_is_met_by_none_only() -> None:
    assert checks.Check(1, "wrong", 0, 0).verdict == "met"
    assert checks.Check(1, "wrong", 3, 0).verdict == "**missed**"
    assert checks.Check(1, "rate", 0.0, 5, least=True).verdict == "**missed**"


def test_checks_are_written_in_the_order_of_their_items(tmp_path: Path) -> None:
    checks.write([checks.Check(2, "later", 1.0, 2, "ms"), checks.Check(1, "first | of all", None, 1)], tmp_path)
    lines = [line for line in (tmp_path / "checks.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert lines[1:] == ["| 1 | first \\| of all | <= 1 | - | not measured |  |", "| 2 | later | <= 2 ms | 1.00 ms | met |  |"]
    read = json.loads((tmp_path / "checks.json").read_text(encoding="utf-8"))
    assert [each["verdict"] for each in read] == ["not measured", "met"]


@pytest.mark.parametrize("words", [["--sizes", "5k"], ["--peers", "ours,nobody"], ["--vectors", "imaginary"], ["--kinds", "exact"]])
def test_an_unknown_part_is_refused(words: list[str]) -> None:
    done = subprocess.run([sys.executable, run.__file__, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is none of" in done.stderr


def test_all_parts_are_run_without_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py"])
    given = run.arguments()
    assert given.peers == [peer.name for peer in PEERS]
    assert (given.sizes, given.kinds) == (["10k", "100k", "1m"], list(KINDS))
