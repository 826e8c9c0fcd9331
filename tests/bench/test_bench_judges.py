"""The bench of the judges: its table and figures over a few pairs, and its one line where there is no data."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import judges
import pytest

PAIRS = [
    {"evidence": "Paris: Paris is in France . It is large .", "claim": "Paris is in France .", "label": "supports"},
    {"evidence": "Paris: Paris has 2 airports .", "claim": "Paris has 3 airports .", "label": "refutes"},
    {"evidence": "No title here", "claim": "Paris is old .", "label": "not_enough_info"},
]


def ran(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["judges.py", *arguments])
    return judges.main()


@pytest.mark.parametrize("packed", [True, False])
def test_judges_are_counted_label_by_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], packed: bool) -> None:
    text = "".join(f"{json.dumps(pair)}\n" for pair in PAIRS).encode()
    file = tmp_path / ("data.jsonl.gz" if packed else "data.jsonl")
    file.write_bytes(gzip.compress(text) if packed else text)
    assert ran(monkeypatch, "--data", str(file)) == 0
    shown = capsys.readouterr().out
    assert "| supports | 1 | 0 | 0 | 0 |\n| refutes | 0 | 0 | 1 | 0 |\n| not_enough_info | 0 | 0 | 0 | 1 |" in shown
    assert "| quotation: refuted claims shown | 0 % | <= 2 % met | 0 of 1 |" in shown
    assert "1 of 1" in shown


def test_a_judge_that_shows_what_is_refuted_misses_the_aim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(json.dumps({"evidence": "T: It is so .", "claim": "It is so .", "label": "refutes"}))
    assert ran(monkeypatch, "--data", str(file), "--first", "1") == 1


def test_without_data_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("VITAMINC", raising=False)
    assert ran(monkeypatch) == 0
    assert capsys.readouterr().out.startswith("no VitaminC data: name its file by --data")
    monkeypatch.setenv("VITAMINC", "nowhere")
    assert ran(monkeypatch) == 0


def test_a_model_is_measured_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("onnxruntime", "tokenizers"):
        pytest.importorskip(package, reason="the extra `local` is not installed")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "proof" / "judges"))
    from nli_models import ORDERS, make_folder

    file = tmp_path / "data.jsonl"
    file.write_text(json.dumps({"evidence": "T: yes text .", "claim": "text", "label": "supports"}))
    assert ran(monkeypatch, "--data", str(file), "--nli", str(make_folder(tmp_path / "model", ORDERS[1]))) == 0
    assert "| nli: recall | 1  |" in capsys.readouterr().out
