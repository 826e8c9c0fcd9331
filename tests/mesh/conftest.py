"""What the tests of the mesh share: a way to run a coroutine, and keys that are the same on each run."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import cache
from typing import Any, TypeVar

import pytest
from caller_doubles import Handlers, asked

from rag_stdlib.contract.nodekeys import NodeKey

T = TypeVar("T")

LONGEST_S = 60.0  # no test takes as long; one that hangs ends


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, T]], T]:
    """Run a coroutine to its end, on an event loop of its own; it must leave no task behind."""

    def to_end(coroutine: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            result = await asyncio.wait_for(coroutine, LONGEST_S)
            assert asyncio.all_tasks() == {asyncio.current_task()}, "tasks are left behind"
            return result

        return asyncio.run(bounded())

    return to_end


@cache
def _key(number: int) -> NodeKey:
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey

    seed = bytes([number]) * 32
    public = MLDSA87PrivateKey.from_seed_bytes(seed).public_key().public_bytes_raw()
    half = struct.pack(">BI", 1, len(public)) + public + struct.pack(">I", len(seed)) + seed
    return NodeKey.from_seed_form(b"macula-node-key-seed-v1\0" + bytes([1, 1, 1]) + half)


@pytest.fixture(scope="session")
def pure_key() -> Callable[[int], NodeKey]:
    """Give the pq_pure key that is made from a seed of 32 times this byte."""
    return _key


@pytest.fixture(scope="module")
def key(pure_key: Callable[[int], NodeKey]) -> NodeKey:
    """The key of the provider of most tests."""
    return pure_key(1)


@pytest.fixture
def a(pure_key: Callable[[int], NodeKey]) -> NodeKey:
    """The key of the provider that a caller asks."""
    return pure_key(1)


@pytest.fixture
def ask(run: Callable[[Coroutine[Any, Any, Any]], Any], pure_key: Callable[[int], NodeKey]) -> Callable[..., Any]:
    """Ask the provider with the first key a question."""

    def one(handlers: Handlers, *, key: int = 1, profile: str = "pq_pure", pinned: bool = True, **options: Any) -> Any:
        provider = pure_key(key).node_id if pinned else None
        return run(asked(handlers, pure_key(key), lambda caller: caller.ask("what?", provider=provider, **options), profile))

    return one


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """See that a test ends with the threads with which it began."""
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert left == []
