"""Traces that are written beside the one whose place they will take, and what is left of those whose run was killed.

The staged trace of ``run.jsonl`` is ``.run.<12 hex>.jsonl``. As long as its run lives, the run holds a lock on a file beside it, which is
there before the trace and goes after it: what nobody holds is nobody's, and the next staged run of the same name removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from replay.tracefile.bodies import folder_of

_NAME: Final = re.compile(r"\.(.+)\.[0-9a-f]{12}\.jsonl", re.DOTALL)
_LOCK: Final = ".lock"

_held: dict[str, int] = {}  # descriptors, by the path of the trace


def hold(path: str) -> None:
    """Say that a staged trace, which is not there yet, is in use by this process, until `release`; nothing for other names.

    Raises:
        OSError: the lock cannot be made.
    """
    if _NAME.fullmatch(os.path.basename(path)) is None:  # noqa: PTH119 - the name is not normalised
        return
    while path not in _held:
        descriptor = os.open(path + _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.fstat(descriptor).st_nlink:
            _held[path] = descriptor
        else:  # somebody swept here between the two
            os.close(descriptor)


def release(path: str) -> None:
    """Say that a staged trace has taken its place, or was thrown away."""
    descriptor = _held.pop(path, None)
    if descriptor is not None:
        with suppress(FileNotFoundError):
            Path(path + _LOCK).unlink()
        os.close(descriptor)


def sweep(target: str) -> None:
    """Remove the staged traces of a trace that were left by runs that are no more. What cannot be removed stays."""
    place = Path(target)
    with suppress(OSError):
        for lock in list(place.parent.glob(".*.jsonl" + _LOCK)):
            found = _NAME.fullmatch(lock.name.removesuffix(_LOCK))
            if found is not None and found[1] == place.stem:
                with suppress(OSError):
                    _remove(lock)


def _remove(lock: Path) -> None:
    descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        trace = Path(str(lock).removesuffix(_LOCK))
        shutil.rmtree(folder_of(str(trace)), ignore_errors=True)
        trace.unlink(missing_ok=True)
        lock.unlink()
    finally:
        os.close(descriptor)
