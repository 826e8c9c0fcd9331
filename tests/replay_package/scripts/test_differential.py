"""Differential: everything runs, the program gets what was recorded, and the report says what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import replay


class Shop:
    """A world that can change between two runs."""

    def __init__(self) -> None:
        self.prices = {"std": 8, "vip": 107}
        self.runs: list[str] = []


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def price(shop: Shop) -> Any:
    @replay.tool
    def price(plan: str) -> int:
        shop.runs.append(plan)
        if plan not in shop.prices:
            raise KeyError(plan)
        return shop.prices[plan]

    return price


@replay.tool(ranking=lambda hits: [(hit["id"], hit["score"]) for hit in hits])
def search(words: str) -> list[dict[str, Any]]:
    return [{"id": name, "score": score} for name, score in RANKED[words]]


RANKED: dict[str, list[tuple[str, float]]] = {}


def record(path: Path, price: Any, plans: tuple[str, ...] = ("std", "vip")) -> Path:
    with replay.record(path):
        for plan in plans:
            price(plan)
    return path


def test_an_unchanged_run_is_faithful(tmp_path: Path, shop: Shop, price: Any) -> None:
    path = record(tmp_path / "t.jsonl", price)
    with replay.differential(path) as session:
        assert [price("std"), price("vip")] == [8, 107]
    assert session.report.faithful
    assert shop.runs == ["std", "vip"] * 2, "everything ran again"
    assert (session.ran, session.answered) == (2, 0)


def test_a_changed_result_is_reported_and_the_recorded_one_returned(tmp_path: Path, shop: Shop, price: Any) -> None:
    """Row 38."""
    path = record(tmp_path / "t.jsonl", price)
    shop.prices["vip"] = 99
    with replay.differential(path) as session:
        assert [price("std"), price("vip")] == [8, 107]
    report = session.report
    assert [call.same for call in report.calls] == [True, False]
    changed = report.calls[1]
    assert (changed.number, changed.step, changed.was, changed.now, changed.cause) == (2, 5, "107", "99", ("unexplained",))
    assert not report.faithful


def test_other_arguments_are_a_finding_and_get_the_recorded_result(tmp_path: Path, price: Any) -> None:
    """The table of §6.8: drift from std to vip."""
    path = record(tmp_path / "t.jsonl", price, ("std",))
    with replay.differential(path) as session:
        session.complete(price("vip"))
    assert session.report.calls[0].cause == ("arguments",)
    assert session.report.completion is not None, "no result was recorded, and one is given now"


def test_another_tool_cannot_be_placed_in_order(tmp_path: Path, price: Any) -> None:
    path = record(tmp_path / "t.jsonl", price)
    RANKED["x"] = []
    with pytest.raises(replay.Divergence) as caught, replay.differential(path):
        search("x")
    assert (caught.value.code, caught.value.step) == ("other_call", 3)


def test_calls_beyond_the_trace_and_calls_not_made_are_reported(tmp_path: Path, price: Any, shop: Shop) -> None:
    path = record(tmp_path / "t.jsonl", price, ("std",))
    shop.prices["new"] = 1
    with replay.differential(path) as session:
        assert price("std") == 8
        assert price("new") == 1, "what was never recorded gives its live result"
    assert session.report.unmatched == [{"code": "exhausted", "kind": "tool", "tool": "price", "args": ["new"]}]
    with replay.differential(path) as session:
        pass
    assert [missing["args"] for missing in session.report.missing] == [["std"]]


def test_keyed_matching_places_calls_by_what_they_ask(tmp_path: Path, price: Any, shop: Shop) -> None:
    path = record(tmp_path / "t.jsonl", price)
    shop.prices["vip"] = 99
    with replay.differential(path, matching="keyed") as session:
        assert [price("vip"), price("std")] == [107, 8]
        with pytest.raises(KeyError):
            price("gold")
    assert [(call.number, call.same) for call in session.report.calls] == [(2, False), (1, True)]
    assert [call["code"] for call in session.report.unmatched] == ["never_recorded"]


def test_an_exception_against_a_result_is_a_change(tmp_path: Path, price: Any, shop: Shop) -> None:
    path = record(tmp_path / "t.jsonl", price, ("std",))
    del shop.prices["std"]
    with replay.differential(path) as session:
        assert price("std") == 8
    assert "KeyError" in session.report.calls[0].now
    del shop.prices["vip"]
    failing = tmp_path / "f.jsonl"
    with replay.record(failing), pytest.raises(KeyError):
        price("vip")
    shop.prices["vip"] = 5
    with replay.differential(failing) as session, pytest.raises(KeyError):
        price("vip")
    assert session.report.calls[0].now == "5"


def test_ranks_are_compared_where_the_tool_says_how(tmp_path: Path) -> None:
    RANKED["x"] = [("a", 3.0), ("b", 2.0), ("c", 1.0)]
    with replay.record(tmp_path / "t.jsonl"):
        search("x")
    RANKED["x"] = [("b", 2.5), ("a", 2.0), ("d", 0.5)]
    with replay.differential(tmp_path / "t.jsonl") as session:
        search("x")
    call = session.report.calls[0]
    assert (call.gone, call.new) == (("c",), ("d",))
    assert [(move.item, move.was, move.now) for move in call.moved] == [("b", 2, 1), ("a", 1, 2)]
    totals = session.report.totals()
    assert (totals["moved"], totals["gone"], totals["new"]) == (2, 1, 1)


def test_secrets_are_compared_as_they_were_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "canary-4711-canary")

    @replay.tool
    def whoami(fail: bool) -> str:
        if fail:
            raise ValueError("token canary-4711-canary is stale")
        return "token canary-4711-canary"

    with replay.record(tmp_path / "t.jsonl"):
        whoami(False)
        with pytest.raises(ValueError, match="canary"):
            whoami(True)
    with replay.differential(tmp_path / "t.jsonl") as session:
        assert whoami(False) == "token <redacted>"
        with pytest.raises(ValueError, match="<redacted>"):
            whoami(True)
    assert session.report.faithful


def test_an_interrupt_is_never_replaced_by_a_recorded_result(tmp_path: Path) -> None:
    stop = [False]

    @replay.tool
    def work() -> int:
        if stop[0]:
            raise KeyboardInterrupt
        return 1

    with replay.record(tmp_path / "t.jsonl"):
        work()
    stop[0] = True
    with pytest.raises(KeyboardInterrupt), replay.differential(tmp_path / "t.jsonl"):
        work()


def test_the_async_driver_compares_too(tmp_path: Path) -> None:
    import asyncio

    value = [1]

    @replay.tool
    async def read() -> int:
        if value[0] < 0:
            raise ValueError("negative")
        return value[0]

    async def program() -> int:
        return await read()

    with replay.record(tmp_path / "t.jsonl"):
        asyncio.run(program())
    for live in (2, -1):
        value[0] = live
        with replay.differential(tmp_path / "t.jsonl") as session:
            assert asyncio.run(program()) == 1
        assert not session.report.faithful
