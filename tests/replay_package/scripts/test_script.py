"""What the scripts of all modes share."""

from __future__ import annotations

from pathlib import Path

import pytest

import replay
from replay.scripts.script import one_error


class NoSuchCity(Exception):  # noqa: N818 - an error of some program
    """Its class cannot be named on replay."""


@replay.tool
def find(city: str) -> str:
    raise NoSuchCity(city)


def test_an_error_is_written_with_its_class_whatever_its_text() -> None:
    assert one_error(KeyError("k")) == "KeyError: 'k'"
    assert one_error(ValueError("name \udcff")) == "ValueError: name \\udcff"
    assert one_error(replay.RecordedError("shop.NoSuchCity", "Atlantis")) == "NoSuchCity: Atlantis"


def test_a_run_that_ends_by_an_error_of_the_program_ends_so_on_replay(tmp_path: Path) -> None:
    with pytest.raises(NoSuchCity), replay.record(tmp_path / "t.jsonl"):
        find("Atlantis")
    assert replay.load_trace(tmp_path / "t.jsonl").completed["error"] == "NoSuchCity: Atlantis"  # type: ignore[index]
    with pytest.raises(replay.RecordedError, match=r"^Atlantis$"), replay.substitute(tmp_path / "t.jsonl"):
        find("Atlantis")


def test_a_run_that_ends_by_an_unprintable_error_is_recorded_to_its_end(tmp_path: Path) -> None:
    """C16."""
    with pytest.raises(ValueError, match="\udcff"), replay.record(tmp_path / "t.jsonl"):
        raise ValueError("\udcff")
    assert replay.verify_trace(tmp_path / "t.jsonl").complete
