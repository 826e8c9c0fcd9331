"""A finished trace takes the place of another: what goes with it, what stays, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracing import call, create, record, small_bodies

from replay.errors import TraceError
from replay.recorder import Returned
from replay.tracefile.exchange import check_target, discard_trace, replace_trace
from replay.tracefile.trace import load_trace

OLD, NEW, BOTH = "o" * 300, "n" * 300, "b" * 300


def with_bodies(path: Path, *results: str) -> Path:
    return record(path, [("t", [number], result) for number, result in enumerate(results)], options=small_bodies(200))


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_trace_takes_anothers_place_with_its_bodies_and_touches_no_other_file(tmp_path: Path) -> None:
    target = with_bodies(tmp_path / "run.jsonl", OLD, BOTH)
    folder = tmp_path / "run.jsonl.bodies"
    other = f"{'f' * 64}.json"
    for name in ("notes.txt", other, "0.json"):
        (folder / name).write_text("mine")
    source = with_bodies(tmp_path / "new.jsonl", NEW, BOTH)
    replace_trace(str(source), str(target))
    assert [one.ending() for one in load_trace(target).calls] == [Returned(NEW), Returned(BOTH)]
    assert names(tmp_path) == ["run.jsonl", "run.jsonl.bodies"]
    assert len(names(folder)) == 2 + 3
    assert {"notes.txt", other, "0.json"} < set(names(folder))


def test_a_trace_without_bodies_leaves_no_folder_of_the_old_one(tmp_path: Path) -> None:
    target = with_bodies(tmp_path / "run.jsonl", OLD)
    source = record(tmp_path / "new.jsonl")
    replace_trace(str(source), str(target))
    assert names(tmp_path) == ["run.jsonl"]
    replace_trace(str(with_bodies(tmp_path / "new.jsonl", NEW)), str(tmp_path / "first.jsonl"))
    assert load_trace(tmp_path / "first.jsonl").calls[0].ending() == Returned(NEW)
    assert names(tmp_path) == ["first.jsonl", "first.jsonl.bodies", "run.jsonl"]


def test_of_an_old_trace_that_cannot_be_read_only_what_can_be_is_removed(tmp_path: Path) -> None:
    target = with_bodies(tmp_path / "run.jsonl", OLD, BOTH)
    lines = target.read_bytes().splitlines(keepends=True)
    target.write_bytes(b"".join([*lines[:5], b"broken\n", *lines[5:]]))
    replace_trace(str(record(tmp_path / "new.jsonl")), str(target))
    assert len(names(tmp_path / "run.jsonl.bodies")) == 1


def test_a_links_place_is_not_taken(tmp_path: Path) -> None:
    real = record(tmp_path / "real.jsonl")
    before = real.read_bytes()
    (tmp_path / "link.jsonl").symlink_to(real)
    source = record(tmp_path / "new.jsonl")
    for refused in (lambda: replace_trace(str(source), str(tmp_path / "link.jsonl")), lambda: check_target(str(tmp_path / "link.jsonl"))):
        with pytest.raises(TraceError, match="is a symbolic link") as caught:
            refused()
        assert caught.value.code == "trace_io"
    assert (real.read_bytes(), source.exists(), (tmp_path / "link.jsonl").is_symlink()) == (before, True, True)
    check_target(str(real))
    check_target(str(tmp_path / "none.jsonl"))


@pytest.mark.parametrize("target", ["a\0b", "n" * 300, "none/t.jsonl", "folder"])
def test_where_nothing_can_be_put_the_new_trace_stays(tmp_path: Path, target: str) -> None:
    (tmp_path / "folder").mkdir()
    source = record(tmp_path / "new.jsonl")
    with pytest.raises(TraceError) as caught:
        replace_trace(str(source), str(tmp_path / target))
    assert caught.value.code == "trace_io"
    assert load_trace(source).calls


def test_discarding_takes_a_trace_and_its_bodies_alone(tmp_path: Path) -> None:
    path = with_bodies(tmp_path / "run.jsonl", OLD)
    (tmp_path / "run.jsonl.bodies" / "notes.txt").write_text("mine")
    discard_trace(str(path))
    assert names(tmp_path) == ["run.jsonl.bodies"]
    assert names(tmp_path / "run.jsonl.bodies") == ["notes.txt"]
    discard_trace(str(path))
    (tmp_path / "run.jsonl.bodies" / "notes.txt").unlink()
    discard_trace(str(path))
    assert names(tmp_path) == []


def test_a_discarded_run_may_still_be_open(tmp_path: Path) -> None:
    writer = create(tmp_path / ".run.0123456789ab.jsonl")
    call(writer, "t", [], 1)
    discard_trace(writer.path)
    writer.close()
    assert names(tmp_path) == []
