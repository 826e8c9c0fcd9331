"""A value is made once per process, also when a fork falls into its making."""

from __future__ import annotations

import os
import threading
import warnings

import pytest

from rag_stdlib.embed.process import PerProcess


def test_threads_that_ask_together_get_one_value() -> None:
    made: list[object] = []
    gate = threading.Barrier(8)
    value: PerProcess[object] = PerProcess(lambda: made.append(object()) or made[-1])
    got: list[object] = []

    def ask() -> None:
        gate.wait()
        got.append(value.get())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert got == made * 8


def test_a_failure_is_raised_and_the_next_call_tries_again() -> None:
    answers = iter([ValueError("no"), 7])

    def make() -> int:
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    value = PerProcess(make)
    with pytest.raises(ValueError, match="no"):
        value.get()
    assert value.get() == 7


def test_what_is_taken_is_made_anew() -> None:
    numbers = iter(range(9))
    value = PerProcess(lambda: next(numbers))
    assert value.take() is None
    assert (value.get(), value.take(), value.take(), value.get()) == (0, 0, None, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_child_makes_its_own_while_the_parent_is_in_the_making() -> None:
    entered, leave = threading.Event(), threading.Event()
    parent = os.getpid()

    def make() -> int:
        if os.getpid() == parent:
            entered.set()
            leave.wait(10)
        return os.getpid()

    value = PerProcess(make)
    thread = threading.Thread(target=value.get)
    thread.start()
    entered.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the very case
        child = os.fork()
    if child == 0:
        os._exit(0 if value.get() == os.getpid() else 1)
    assert os.waitpid(child, 0)[1] == 0
    leave.set()
    thread.join()
    assert value.get() == parent
