"""Arrays that are lent again and again: to one at a time, whole or zero as promised, in threads and after a fork."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.index import scratch
from rag_stdlib.index.scratch import ROOM, ZEROS, Pool


def lent(pool: Pool, *sizes: int) -> list[np.ndarray]:
    """Borrow so many arrays at once, and give them back."""
    with ExitStack() as stack:
        return [stack.enter_context(pool.floats(size)) for size in sizes]


@pytest.mark.parametrize("zeros", [False, True])
def test_an_array_given_back_is_lent_again_where_it_is_long_enough(zeros: bool) -> None:
    pool = Pool(zeros=zeros)
    (first,) = lent(pool, 1_000)
    assert (first.dtype, first.shape) == (np.float64, (1_000,))
    for size in (1_000, 3, 0, 1_125):  # an eighth more than was asked for: an index grows
        (again,) = lent(pool, size)
        assert again.shape == (size,)
        assert size == 0 or again.ctypes.data == first.ctypes.data
    (longer,) = lent(pool, 1_126)
    assert not np.shares_memory(longer, first)
    assert lent(pool, 2_000)[0].shape == (2_000,)


def test_those_who_have_one_at_the_same_time_share_nothing() -> None:
    pool = Pool()
    lent(pool, 100, 100)
    with pool.floats(100) as outer:
        outer[:] = 1.0
        with pool.floats(50) as inner, pool.floats(100) as third:
            inner[:] = 2.0
            third[:] = 3.0
            assert (set(outer.tolist()), set(inner.tolist()), set(third.tolist())) == ({1.0}, {2.0}, {3.0})
        assert set(outer.tolist()) == {1.0}


@settings(max_examples=100, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans()), max_size=30))
def test_zeros_are_zeros_whoever_had_them_before(users: list[tuple[int, bool, bool]]) -> None:
    pool = Pool(zeros=True)
    with ExitStack() as stack:
        for size, stays, fails in users:
            with ExitStack() as own:
                array = (stack if stays else own).enter_context(pool.floats(size))
                assert array.tolist() == [0.0] * size
                if fails and not stays:
                    with pytest.raises(KeyboardInterrupt), own.pop_all():
                        array[:] = 9.0
                        raise KeyboardInterrupt
                elif not stays:
                    array[::2] = 5.0
                    array[:] = 0.0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError, GeneratorExit])
def test_an_array_left_by_an_exception_is_not_lent_again(error: type[BaseException]) -> None:
    pool = Pool(zeros=True)
    with pytest.raises(error), pool.floats(10) as left:
        left[3] = 1.0
        raise error
    for array in lent(pool, 10, 10, 10, 10, 10):
        assert not np.shares_memory(array, left)
        assert not array.any()


def test_an_array_of_a_generator_that_is_closed_half_way_is_not_lent_again() -> None:
    """What was asked of it may still be looked at."""
    pool = Pool()

    def pieces() -> Iterator[np.ndarray]:
        with pool.floats(10) as array:
            yield array
            yield array

    half, whole = pieces(), pieces()
    left = next(half)
    half.close()
    assert not any(np.shares_memory(array, left) for array in lent(pool, 10, 10))
    given_back, _ = whole
    assert any(np.shares_memory(array, given_back) for array in lent(pool, 10, 10, 10))


def test_at_most_four_are_kept_the_latest() -> None:
    pool = Pool()
    arrays = lent(pool, *range(10, 17))
    # given back in the opposite order of borrowing: the first four borrowed are the last to come back
    again = lent(pool, 10, 10, 10, 10, 10, 10)
    kept = [[place for place, array in enumerate(arrays) if np.shares_memory(array, other)] for other in again]
    assert sorted(kept, reverse=True) == [[3], [2], [1], [0], [], []]
    assert len(pool._free) == scratch._KEPT == 4


def test_threads_that_borrow_at_once_never_have_the_same_array() -> None:
    pool, zeros = Pool(), Pool(zeros=True)
    together = threading.Barrier(4)

    def work(number: int) -> bool:
        together.wait(20)
        for turn in range(300):
            with pool.floats(20 + turn % 5) as mine, zeros.floats(20) as sums:
                if sums.any():
                    return False
                mine[:] = number
                sums[number] += number + 1.0
                if not (mine == number).all() or sums.sum() != number + 1.0:
                    return False
                sums[number] = 0.0
        return True

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as executor:
            assert list(executor.map(work, range(4))) == [True] * 4
    finally:
        sys.setswitchinterval(interval)
    assert 1 <= len(pool._free) <= 4
    assert not any(array.any() for array in zeros._free)


def test_an_array_is_lent_in_one_thread_and_again_in_another() -> None:
    pool = Pool()
    (first,) = lent(pool, 10)
    with ThreadPoolExecutor(1) as executor:
        (second,) = executor.submit(lent, pool, 10).result(20)
    assert np.shares_memory(first, second)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_child_begins_anew_whatever_threads_of_the_parent_were_at() -> None:
    """One that holds the locks, and one that is in the middle of its sums."""
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with ZEROS.floats(10) as sums, ROOM.floats(10), ROOM._lock, ZEROS._lock:
            sums[:] = 1.0
            inside.set()
            leave.wait(20)
            sums[:] = 0.0

    lent(ROOM, 10, 10)
    lent(ZEROS, 10, 10)
    thread = threading.Thread(target=stay)
    thread.start()
    try:
        assert inside.wait(20)
        assert in_child() == 0
    finally:
        leave.set()
        thread.join()
    assert not lent(ZEROS, 10)[0].any()


def in_child() -> int:
    """Fork, borrow in the child, and return its exit status: 0 where all is as it should be."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            signal.alarm(20)  # one that hangs is ended
            empty = not ROOM._free and not ZEROS._free
            with ROOM.floats(10), ZEROS.floats(10) as sums:
                code = 0 if empty and not sums.any() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
