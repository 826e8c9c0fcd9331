"""Putting a finished trace in the place of another, with the bodies that belong to it."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from replay.errors import TraceError
from replay.tracefile.bodies import folder_of


def replace_trace(source: str, target: str) -> None:
    """Move a trace to `target` in one step, replacing the one that may be there.

    The bodies come first, so that at no time a trace stands without its own; those that only the old one used go last.

    Raises:
        TraceError: trace_io; what stood at `target` is still there, or its successor is.
    """
    ours, theirs = Path(folder_of(source)), Path(folder_of(target))
    try:
        kept = {body.name for body in ours.iterdir()} if ours.is_dir() else set()
        if kept:
            theirs.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in sorted(kept):
            (ours / name).replace(theirs / name)
        Path(source).replace(target)
        _remove_others(theirs, kept)
        with suppress(FileNotFoundError):
            ours.rmdir()
    except OSError as error:
        raise TraceError("trace_io", f"cannot be replaced by {source!r}: {error.strerror or error}", path=target) from None


def _remove_others(folder: Path, kept: set[str]) -> None:
    if not folder.is_dir():
        return
    for body in folder.iterdir():
        if body.name not in kept:
            body.unlink()
    if not kept:
        folder.rmdir()


def discard_trace(path: str) -> None:
    """Delete a trace and its bodies, as far as they are there."""
    with suppress(FileNotFoundError):
        Path(path).unlink()
    shutil.rmtree(folder_of(path), ignore_errors=True)
