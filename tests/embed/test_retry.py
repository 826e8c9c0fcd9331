"""Repeats are spaced, honour Retry-After and end at one deadline; the clock is a fake, so nothing here waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rag_stdlib.embed.faults import Fault
from rag_stdlib.embed.retry import Deadline, Pacing, asked_pause

NOON = "Sun, 06 Nov 1994 12:00:00 GMT"
HALF_PAST = "Sun, 06 Nov 1994 12:30:00 GMT"


class Clock:
    """A clock that moves by sleeping only."""

    def __init__(self) -> None:
        """Start at a time that is not zero."""
        self.now = 1000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Note the sleep and move on."""
        self.slept.append(seconds)
        self.now += seconds

    def pacing(self, jitter: float = 1.0) -> Pacing:
        """Pace by this clock."""
        return Pacing(base_s=0.5, cap_s=4.0, monotonic=lambda: self.now, sleep=self.sleep, jitter=lambda: jitter)


def outcomes(clock: Clock, *results: Any, cost: float = 0.0) -> tuple[Callable[[float], Any], list[float]]:
    given: list[float] = []
    queue: Iterator[Any] = iter(results)

    def attempt(seconds: float) -> Any:
        given.append(seconds)
        clock.now += cost
        return next(queue)

    return attempt, given


def busy(pause_s: float | None = None, retries: int | None = None) -> Fault:
    return Fault("embedder_rate_limit", {}, retries=retries, pause_s=pause_s)


def test_r97_a_refusal_is_repeated_with_doubling_pauses_until_it_succeeds() -> None:
    clock = Clock()
    attempt, _ = outcomes(clock, *[busy() for _ in range(5)], "done")
    assert Deadline(60, clock.pacing()).run(attempt) == "done"
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 4.0]


def test_jitter_takes_up_to_half_of_a_pause() -> None:
    clock = Clock()
    attempt, _ = outcomes(clock, busy(), busy(), "done")
    Deadline(60, clock.pacing(jitter=0.0)).run(attempt)
    assert clock.slept == [0.25, 0.5]


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_r98_what_was_asked_for_is_never_undercut(jitter: float) -> None:
    clock = Clock()
    attempt, _ = outcomes(clock, busy(7.0), "done")
    assert Deadline(60, clock.pacing(jitter)).run(attempt) == "done"
    assert 7.0 <= clock.slept[0] <= 7.25


def test_a_request_to_come_back_at_once_still_backs_off() -> None:
    clock = Clock()
    attempt, _ = outcomes(clock, busy(0.0), busy(0.0), "done")
    Deadline(60, clock.pacing()).run(attempt)
    assert clock.slept == [0.5, 1.0]


def test_r98_a_wait_beyond_the_deadline_is_given_up_at_once() -> None:
    clock = Clock()
    fault = busy(120.0)
    attempt, given = outcomes(clock, fault)
    assert Deadline(60, clock.pacing()).run(attempt) is fault
    assert (clock.slept, len(given)) == ([], 1)


def test_r97_repeats_end_before_the_deadline() -> None:
    clock = Clock()
    attempt, given = outcomes(clock, *[busy() for _ in range(99)])
    outcome = Deadline(20, clock.pacing()).run(attempt)
    assert isinstance(outcome, Fault)
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]  # 4.5 s are left, and an attempt needs 2 of them
    assert clock.now < 1020
    assert len(given) == 7


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (3, 4)])
def test_a_fault_is_repeated_as_often_as_it_may_help(retries: int, attempts: int) -> None:
    clock = Clock()
    attempt, given = outcomes(clock, *[busy(retries=retries) for _ in range(9)])
    assert isinstance(Deadline(60, clock.pacing()).run(attempt), Fault)
    assert len(given) == attempts


def test_an_attempt_gets_at_most_half_of_the_whole_time() -> None:
    clock = Clock()
    attempt, given = outcomes(clock, busy(), busy(), "done", cost=22.0)
    deadline = Deadline(60, clock.pacing())
    assert deadline.run(attempt) == "done"
    assert given == [30, 30, pytest.approx(14.5)]
    assert deadline.left() == 0.0


@pytest.mark.parametrize(("headers", "seconds"), [
    ({}, None),
    ({"retry-after": "3"}, 3.0),
    ({"retry-after": " 2.5 "}, 2.5),
    ({"retry-after": "0"}, 0.0),
    ({"retry-after": "-5"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": "1e9"}, None),
    ({"retry-after": "."}, None),
    ({"retry-after": "٣"}, None),
    ({"retry-after": HALF_PAST, "date": NOON}, 1800.0),
    ({"retry-after": NOON, "date": HALF_PAST}, 0.0),
    ({"retry-after": HALF_PAST}, 1790.0),
    ({"retry-after": HALF_PAST, "date": "yesterday"}, 1790.0),
    ({"retry-after": "Sun, 99 Nov 1994 12:30:00 GMT"}, None),
])
def test_r98_retry_after_is_read_in_both_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_pause(headers, wall=lambda: 784123200.0 + 10) == seconds  # ten seconds past NOON
