"""Recording again: what was recorded before is kept where nothing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import replay
from replay.tracefile.seal import load_public, make_key

VALUES = {"one": 1}


@replay.tool
def get(name: str) -> Any:
    return VALUES[name]


def record(path: Path, mode: Any = "all", **options: Any) -> bytes:
    with replay.use_trace(mode, path, recording=replay.RecordOptions(**options)):
        get("one")
    assert [entry for entry in path.parent.iterdir() if entry.name.startswith(".")] == []
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.jsonl"


def test_recording_the_same_run_again_leaves_the_trace_as_it_is(path: Path) -> None:
    """R2-7: byte for byte, so that version control shows what changed."""
    first = record(path)
    assert record(path) == first


def test_recording_with_bodies_again_leaves_them_as_well(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VALUES, "one", "x" * 5000)  # type: ignore[arg-type]
    first = record(path, body_bytes=1000)
    assert record(path, body_bytes=1000) == first
    assert replay.verify_trace(path).ok
    bodies = [body for body in path.parent.rglob("*.json") if body.is_file()]
    assert len(bodies) == 1


def test_another_result_takes_the_place_of_the_old_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = record(path)
    monkeypatch.setitem(VALUES, "one", 2)
    assert record(path) != first
    with replay.use_trace("none", path):
        assert get("one") == 2


@pytest.mark.parametrize("damage", [lambda text: text.replace(b'"result":1', b'"result":2'), lambda text: text.replace(b'"ts_ms":1', b'"ts_ms":2', 1),
                                    lambda text: text[:-30], lambda _text: b"", lambda _text: b"no trace"])
def test_a_damaged_trace_is_replaced(path: Path, damage: Any) -> None:
    path.write_bytes(damage(record(path)))
    record(path)
    assert replay.verify_trace(path).ok
    with replay.use_trace("none", path):
        assert get("one") == 1


def test_a_trace_without_the_seal_that_is_asked_for_is_replaced(path: Path) -> None:
    plain = record(path)
    for name in ("a", "b"):
        make_key(path.parent / f"{name}.pem")
    sealed = record(path, seal_key=path.parent / "a.pem")
    assert sealed != plain
    assert record(path, seal_key=str(path.parent / "a.pem")) == sealed
    assert record(path) == sealed, "a seal that nobody asks for is no harm"
    record(path, seal_key=path.parent / "b.pem")
    assert replay.verify_trace(path, load_public(path.parent / "b.pem.pub")).seal == "valid"


def test_what_a_killed_run_left_is_removed_even_where_nothing_changed(path: Path) -> None:
    """D28."""
    first = record(path)
    for name in (".t.0123456789ab.jsonl", ".t.0123456789ab.jsonl.lock"):
        (path.parent / name).touch()
    assert record(path) == first


@pytest.mark.parametrize("mode", ["all", "new_episodes"])
def test_a_link_is_refused_before_anything_runs(path: Path, mode: Any) -> None:
    """D28: it would be lost, and what it points to would stay as it was."""
    record(path)
    (path.parent / "link.jsonl").symlink_to(path)
    with pytest.raises(replay.TraceError, match="symbolic link"), replay.use_trace(mode, path.parent / "link.jsonl"):
        pytest.fail("the block was entered")


def test_new_episodes_adds_without_looking_for_what_is_nearest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(path)
    monkeypatch.setitem(VALUES, "two", 2)
    monkeypatch.setattr("replay.matching.Matcher._nearest", lambda *_: pytest.fail("nobody reads it"))
    with replay.use_trace("new_episodes", path) as session:
        assert [get("two"), get("one")] == [2, 1]
    assert (session.ran, session.answered) == (1, 1)
