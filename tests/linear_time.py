"""Linear time told from quadratic by the processor time of two lengths, which a loaded machine stretches far less than a clock's."""

from __future__ import annotations

import time
from collections.abc import Callable

from untraced import untraced


def takes_linear_time(work: Callable[[int], object], length: int) -> bool:
    """Do the work at a length and at four times that, which makes it sixteen times as long where its time is quadratic.

    A measurement that something disturbed is taken again.
    """
    with untraced():
        least = min(_seconds(work, length) for _ in range(2))
        return any(_seconds(work, 4 * length) < 10 * least + 0.05 for _ in range(3))


def _seconds(work: Callable[[int], object], length: int) -> float:
    start = time.process_time()
    work(length)
    return time.process_time() - start
