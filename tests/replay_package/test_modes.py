"""Opening sessions: options, and the modes that test suites know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import replay
from replay.modes import MODES


@replay.tool
def double(x: int) -> int:
    return 2 * x


def calls(path: Path) -> list[list[Any]]:
    return [call.args for call in replay.load_trace(path).calls]


def test_an_unknown_word_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    for make in (lambda: replay.substitute(tmp_path / "t", matching="loose"), lambda: replay.substitute(tmp_path / "t", leftover="drop"),
                 lambda: replay.use_trace("twice", tmp_path / "t")):  # type: ignore[arg-type]
        with pytest.raises(replay.ReplayError, match="not one of"):
            make()
    with pytest.raises(replay.NotRecordable):
        replay.record(tmp_path / "t", args=[Path("x")])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_takes_a_file_named_after_each_run(tmp_path: Path) -> None:
    paths = []
    for _ in range(2):
        with replay.record(tmp_path) as session:
            double(1)
        paths.append(Path(session.trace_path))
        assert paths[-1].name == f"{session.run_id}.jsonl"
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert len(set(paths)) == 2
    with pytest.raises(replay.TraceError, match="this is a folder"), replay.substitute(tmp_path):
        pass


def test_none_only_replays(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with pytest.raises(replay.TraceError) as caught, replay.use_trace("none", path):
        double(1)
    assert caught.value.code == "trace_missing"
    assert not path.exists()
    with replay.record(path):
        double(1)
    with replay.use_trace("none", path) as session:
        assert double(1) == 2
    assert (session.mode, session.answered, session.ran) == ("none", 1, 0)


def test_once_records_where_there_is_no_trace_and_replays_it_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "t.jsonl"
    with replay.use_trace("once", path) as session:
        assert double(1) == 2
        assert not path.exists(), "the trace comes when the block ends well"
    assert (session.ran, session.trace_path) == (1, str(path))
    before = path.read_bytes()
    with replay.use_trace("once", path) as session:
        assert double(1) == 2
    assert session.answered == 1
    with pytest.raises(replay.Divergence), replay.use_trace("once", path):
        double(2)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", ["once", "all", "new_episodes"])
def test_a_block_that_fails_writes_no_trace(tmp_path: Path, mode: Any) -> None:
    with pytest.raises(ZeroDivisionError), replay.use_trace(mode, tmp_path / "t.jsonl"):
        double(1)
        _ = 1 // 0
    assert list(tmp_path.iterdir()) == []


def test_all_records_anew_and_keeps_the_old_trace_when_the_block_fails(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for number in (1, 2):
        with replay.use_trace("all", path):
            double(number)
        assert calls(path) == [[number]]
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), replay.use_trace("all", path):
        double(3)
        _ = 1 // 0
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_new_episodes_replays_what_is_recorded_and_adds_what_is_not(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with replay.use_trace("new_episodes", path):
        assert [double(1), double(2), double(3)] == [2, 4, 6]
    before = path.read_bytes()
    with replay.use_trace("new_episodes", path) as session:
        assert [double(2), double(1)] == [4, 2]
    assert (session.ran, session.answered, path.read_bytes()) == (0, 2, before)
    with replay.use_trace("new_episodes", path) as session:
        assert [double(2), double(9), double(2)] == [4, 18, 4]
    assert (session.ran, session.answered) == (2, 1)
    assert calls(path) == [[2], [9], [2], [1], [3]], "in the order of this run; what was not asked stays behind it"
    assert replay.verify_trace(path).ok
    with replay.use_trace("none", path, replaying=replay.ReplayOptions(leftover="report")):
        assert [double(2), double(9), double(2)] == [4, 18, 4]


def test_a_seal_key_is_an_object_or_a_file(tmp_path: Path) -> None:
    from replay.tracefile.seal import load_private, load_public, make_key

    make_key(tmp_path / "me.pem")
    for number, key in enumerate((tmp_path / "me.pem", str(tmp_path / "me.pem"), load_private(tmp_path / "me.pem"))):
        path = tmp_path / f"{number}.jsonl"
        with replay.record(path, seal_key=key):
            double(1)
        assert replay.verify_trace(path, load_public(tmp_path / "me.pem.pub")).seal == "valid"
    with pytest.raises(replay.ReplayError, match="key"), replay.record(tmp_path / "x.jsonl", seal_key=tmp_path / "none.pem"):
        pytest.fail("the block was entered")
    assert not (tmp_path / "x.jsonl").exists()


def test_large_results_move_with_the_trace_they_belong_to(tmp_path: Path) -> None:
    @replay.tool
    def text(word: str) -> str:
        return word * 3000

    path = tmp_path / "t.jsonl"
    how = replay.RecordOptions(body_bytes=1000)
    for word in ("ab", "cd"):
        with replay.use_trace("all", path, recording=how):
            assert text(word) == word * 3000
        with replay.use_trace("none", path):
            assert text(word) == word * 3000
    bodies = list((tmp_path / "t.jsonl.bodies").iterdir())
    assert len(bodies) == 1, "the body of the replaced trace is gone"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["t.jsonl", "t.jsonl.bodies"]
    assert replay.verify_trace(path).ok


def test_every_mode_has_a_session(tmp_path: Path) -> None:
    with replay.record(tmp_path / "t.jsonl"):
        double(1)
    for mode in MODES:
        path = tmp_path / ("new.jsonl" if mode == "record" else "t.jsonl")
        with replay.use_trace(mode, path) as session:
            assert double(1) == 2
        assert session.mode == mode


def test_an_option_that_does_not_exist_is_refused_by_the_name_of_the_function(tmp_path: Path) -> None:
    path = tmp_path / "t"
    makers = {"record": replay.record, "substitute": replay.substitute, "differential": replay.differential,
              "mutation": lambda trace, **options: replay.mutation(trace, 1, 0, **options)}
    for name, make in makers.items():
        with pytest.raises(TypeError, match=rf"^replay\.{name} has no option 'bogus'; its options are "):
            make(path, bogus=1)  # type: ignore[operator]
