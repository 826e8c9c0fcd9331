"""The bench of the mesh, on a small index: its processes serve and end, its calls come to something, and its figures are told."""

from __future__ import annotations

import importlib.util
import sys
import threading

import pytest

pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
if importlib.util.find_spec("aioquic") is None:
    pytest.skip("aioquic is not installed, which the tests' station needs", allow_module_level=True)

import mesh


def test_a_small_run_tells_of_load_and_of_one_shard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(mesh, "PROVIDERS", 1)
    monkeypatch.setattr(sys, "argv", ["mesh.py", "--chunks", "400", "--callers", "2", "--seconds", "0.3", "--turns", "1", "--parts", "load,shard"])
    threads = threading.active_count()
    mesh.main()  # whether a bound is met is the machine's affair
    printed = capsys.readouterr().out
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in printed.splitlines() if line.startswith("| ")}
    assert "<= 0  met" in rows["answer_query, 2 callers for 0 s: errors"]
    assert {"throughput", "p50", "p95", "p99", "listing 1 provider", "bare call with a vector"} < set(rows)
    assert {f"{mode}: {what}" for mode in mesh.MODES for what in ("local search", "one call to the shard", "the whole question")} < set(rows)
    assert threading.active_count() == threads
