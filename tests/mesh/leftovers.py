"""What this process holds of a mesh, counted so that a test can show that it gives all of it back."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from pathlib import Path

import pytest

_HANDLES = "/proc/self/fd"
_POOLS = ("mesh-", "shard")  # how the pools of threads are called that handlers run in
_LIBRARY = "macula-py"

countable = pytest.mark.skipif(not Path(_HANDLES).exists(), reason="there is no /proc to count handles by")


def held(*, pools: bool = True) -> Counter[str]:
    """Count the threads that are ours or the library's, and the handles of this process, by kind: sockets, pipes and the like.

    Without `pools`, the threads of handlers are left out: a pool makes the next one when all that it has are busy, up to its bound.
    """
    gc.collect()
    names = (_POOLS if pools else ()) + (_LIBRARY,)
    found = Counter(thread.name.rpartition("_")[0] or thread.name for thread in threading.enumerate() if thread.name.startswith(names))
    for number in os.listdir(_HANDLES):  # noqa: PTH208 - names suffice
        try:
            target = os.readlink(f"{_HANDLES}/{number}")  # noqa: PTH115 - it leads to no path
        except FileNotFoundError:  # the one that listed them
            continue
        if not target.startswith("/") or target.startswith("/memfd:"):
            found[target.partition(":")[0]] += 1
    return found


def system_threads() -> int:
    """Count all threads of this process, those of the native library among them."""
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names suffice
