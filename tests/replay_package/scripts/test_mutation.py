"""Mutation: one recorded result is replaced; what the program does next is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import replay


@replay.tool
def plan(customer: str) -> str:
    return "std" if LIVE else pytest.fail(customer)


@replay.tool
def price(of: str) -> int:
    return {"std": 8, "vip": 107}[of] if LIVE else pytest.fail(of)


@replay.tool(kind="approval")
def approve(what: str) -> bool:
    return bool(what) if LIVE else pytest.fail(what)


LIVE: list[bool] = []


def agent() -> str:
    found = plan("ann")
    total = price(found)
    return f"{found} {total} {approve('charge')}"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    LIVE.append(True)
    with replay.record(tmp_path / "t.jsonl"):
        assert agent() == "std 8 True"
    LIVE.clear()
    return tmp_path / "t.jsonl"


def test_the_replaced_result_changes_the_output_and_nothing_before_it(trace: Path) -> None:
    """Row 39."""
    with replay.mutation(trace, 2, 9) as session:
        assert agent() == "std 9 True"
    assert session.report.faithful, "the program asked what it asked before"
    assert (session.report.recorded, session.report.replacement, session.report.calls_after) == ("8", "9", 1)


def test_what_follows_is_shown_and_still_gets_the_recorded_results(trace: Path) -> None:
    with replay.mutation(trace, 1, "vip") as session:
        assert agent() == "vip 8 True"
    assert session.report.findings == [{"step": 5, "kind": "arguments", "recorded": 'price("std")', "got": 'price("vip")'}]
    assert 'price("vip")' in session.report.table(80)


def test_an_approval_can_be_turned_down(trace: Path) -> None:
    """Bug 27."""
    with replay.mutation(trace, 3, False) as session:
        assert agent() == "std 8 False"
    assert session.report.faithful


@pytest.mark.parametrize(("step", "value", "says"), [
    (0, "x", "step indices are 1-based"), (-1, "x", "step indices are 1-based"), (99, "x", "trace only has 3 substitutable steps"),
    (1, 3, "plan returned a string, the replacement is a number"), (2, "x", "price returned a number, the replacement is a string"),
    (3, 1, "approve returned a boolean, the replacement is a number"), (1, None, "the replacement is null"),
    (1, [], "the replacement is an array"), (1, {}, "the replacement is an object"),
])
def test_a_mutation_that_cannot_be_made_is_refused_before_anything_runs(trace: Path, step: int, value: Any, says: str) -> None:
    with pytest.raises(replay.InvalidMutation, match=f"invalid replay mutation at substitutable step {step}: .*{says}"), \
            replay.mutation(trace, step, value):
        pytest.fail("the block was entered")


def test_a_call_that_raised_has_no_result_to_replace(tmp_path: Path) -> None:
    @replay.tool
    def fail() -> None:
        raise ValueError("no")

    with replay.record(tmp_path / "t.jsonl"), pytest.raises(ValueError, match="no"):
        fail()
    with pytest.raises(replay.InvalidMutation, match="returned nothing"), replay.mutation(tmp_path / "t.jsonl", 1, None):
        pass


def test_a_replacement_that_the_tool_cannot_read_is_refused(tmp_path: Path) -> None:
    @replay.tool(encode=lambda path: {"path": str(path)}, decode=lambda found: Path(found["path"]))
    def where() -> Path:
        return Path("a")

    with replay.record(tmp_path / "t.jsonl"):
        where()
    says = r"step 1: where cannot read the replacement: KeyError: 'path'; recorded was an object with path$"
    with pytest.raises(replay.InvalidMutation, match=says) as caught, replay.mutation(tmp_path / "t.jsonl", 1, {}):
        where()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(("result", "form"), [
    ([{"id": 1, "score": 2}], "an array whose first item is an object with id, score"), ([], "an array"), ([[1]], "an array whose first item is an array"),
    ({f"k{n:02}": n for n in range(15)}, "an object with k00, k01, k02, k03, k04, k05, k06, k07, k08, k09, k10, k11 and 3 more"), ({}, "an object"), (7, "a number"),
])
def test_what_was_recorded_is_said_where_the_replacement_cannot_be_read(tmp_path: Path, result: Any, form: str) -> None:
    def unreadable(found: Any) -> Any:
        raise ValueError(f"no {hidden} in it: {found!r}")

    hidden = "canary-4711-canary"
    tool = replay.tool(name="get", encode=lambda value: value, decode=unreadable)(lambda: result)
    with replay.record(tmp_path / "t.jsonl"):
        tool()
    with pytest.raises(replay.InvalidMutation, match=rf"ValueError: no <redacted> in it: .*; recorded was {form}$"), \
            replay.mutation(tmp_path / "t.jsonl", 1, result, secrets=[hidden]):
        tool()


def test_each_who_asks_gets_a_replacement_of_its_own(tmp_path: Path) -> None:
    """C23: what the program does to it changes nothing else."""
    tool = replay.tool(name="get")(lambda: {"items": [1]})
    with replay.record(tmp_path / "t.jsonl"):
        tool()
    value = {"items": [2]}
    with replay.mutation(tmp_path / "t.jsonl", 1, value):
        tool()["items"].append(3)
    assert value == {"items": [2]}


def test_before_the_step_everything_must_match(trace: Path) -> None:
    with pytest.raises(replay.Divergence, match="another call came"), replay.mutation(trace, 2, 9):
        plan("bob")


def test_behind_the_step_a_call_that_nothing_answers_ends_the_run(trace: Path) -> None:
    with pytest.raises(replay.Divergence) as caught, replay.mutation(trace, 1, "vip"):
        plan("ann")
        approve("all")
    assert (caught.value.code, caught.value.step) == ("other_call", 5)


def test_calls_that_are_no_longer_made_are_shown(trace: Path) -> None:
    with replay.mutation(trace, 1, "none") as session:
        assert plan("ann") == "none"
    assert [(finding["kind"], finding["recorded"]) for finding in session.report.findings] == [
        ("not_asked", 'price("std")'), ("not_asked", 'approve("charge")')]


def test_a_step_that_is_never_reached_is_no_mutation(trace: Path) -> None:
    with pytest.raises(replay.Divergence, match="ended before the mutated step 3 was asked"), replay.mutation(trace, 3, False):
        plan("ann")


def test_another_end_is_shown(trace: Path) -> None:
    with replay.mutation(trace, 2, 9) as session:
        session.complete(agent())
    assert session.report.completion is not None
    assert not session.report.faithful


def test_keyed_matching_finds_the_step_wherever_it_is_asked(trace: Path) -> None:
    with replay.mutation(trace, 2, 9, matching="keyed") as session:
        assert (price("std"), approve("charge"), plan("ann")) == (9, True, "std")
    assert session.report.calls_after == 2
