"""When to repeat a request: backoff with jitter, the provider's Retry-After, and one deadline over everything (R97, R98).

Clock, sleep and randomness are injected, so that tests wait for nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

from rag_stdlib.embed.faults import Fault

T = TypeVar("T")

# The least share of the whole time that a repeat is started with.
_LAST_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Pacing:
    """How repeats are spaced: seconds `base_s`, doubled each time up to `cap_s`; `jitter` gives numbers in [0, 1)."""

    base_s: float = 0.5
    cap_s: float = 20.0
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def pause(self, repeat: int, asked_s: float | None) -> float:
        """Say how long to wait before the repeat (1, 2, …): half to all of the backoff, never less than was asked for.

        What was asked for gets jitter on top, as all clients that were refused together were told the same moment.
        """
        backoff = min(self.base_s * 2.0 ** (repeat - 1), self.cap_s)
        waited = backoff * (0.5 + 0.5 * self.jitter())
        return waited if asked_s is None else max(waited, asked_s + 0.5 * self.base_s * self.jitter())


class Deadline:
    """The end of one embed() call."""

    def __init__(self, seconds: float, pacing: Pacing) -> None:
        """Start now."""
        self._pacing = pacing
        self._seconds = seconds
        self._end = pacing.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, 0 when it has passed."""
        return max(self._end - self._pacing.monotonic(), 0.0)

    def run(self, attempt: Callable[[float], T | Fault]) -> T | Fault:
        """Call `attempt(seconds)` until it succeeds, its fault forbids a repeat, or too little time is left for one.

        An attempt gets at most half of the whole time: a connection that hangs leaves the other half for a second one.
        """
        repeat = 0
        while True:
            outcome = attempt(min(self.left(), self._seconds / 2))
            if not isinstance(outcome, Fault):
                return outcome
            repeat += 1
            if outcome.retries is not None and repeat > outcome.retries:
                return outcome
            pause = self._pacing.pause(repeat, outcome.pause_s)
            if pause + self._seconds * _LAST_SHARE >= self.left():
                return outcome  # an attempt cut short would replace what the provider said by "timeout"
            self._pacing.sleep(pause)


def asked_pause(headers: Mapping[str, str], wall: Callable[[], float] = time.time) -> float | None:
    """Read Retry-After (RFC 9110 §10.2.3), in seconds or as a date; None when absent or malformed.

    A date is compared with the reply's own Date header where it has one, as the two clocks may differ.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return float(value)
    until = _timestamp(value)
    if until is None:
        return None
    sent = _timestamp(headers.get("date", ""))
    return max(until - (wall() if sent is None else sent), 0.0)


def _timestamp(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
