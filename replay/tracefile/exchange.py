"""Putting a finished trace in the place of another, with the bodies that belong to it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from replay.errors import TraceError
from replay.tracefile.bodies import BODY_NAME, digests, folder_of
from replay.tracefile.files import reason_of
from replay.tracefile.reader import EventReader
from replay.tracefile.staged import release, sweep

__all__ = ["check_target", "discard_trace", "replace_trace", "sweep"]

_LINK: Final = "this is a symbolic link, whose place no trace takes; give the file that it points to"


def check_target(target: str) -> None:
    """Refuse at once what `replace_trace` would refuse after the run.

    Raises:
        TraceError: trace_io where a symbolic link is there.
    """
    try:
        link = Path(target).is_symlink()
    except (OSError, ValueError) as error:
        raise TraceError("trace_io", f"it cannot be looked at: {reason_of(error)}", path=target) from None
    if link:
        raise TraceError("trace_io", _LINK, path=target)


def replace_trace(source: str, target: str) -> None:
    """Move a trace to `target` in one step, replacing the one that may be there, and remove what killed runs left beside it.

    The bodies come first, so that at no time a trace stands without its own; those that only the old one used go last. No other file in
    its folder is touched.

    Raises:
        TraceError: trace_io; what stood at `target` is still there, or its successor is.
    """
    check_target(target)
    ours, theirs = Path(folder_of(source)), Path(folder_of(target))
    try:
        old = _bodies_of(target) if theirs.is_dir() else set()
        new = {body.name for body in ours.iterdir() if BODY_NAME.fullmatch(body.name)} if ours.is_dir() else set()
        if new:
            theirs.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in sorted(new):
            (ours / name).replace(theirs / name)
        Path(source).replace(target)
        _remove(theirs, old - new)
        _remove(ours, ())
    except (OSError, ValueError) as error:
        raise TraceError("trace_io", f"it cannot be replaced by {source!r}: {reason_of(error)}", path=target) from None
    release(source)
    sweep(target)


def _bodies_of(path: str) -> set[str]:
    """Return the names of the files to which a trace refers, as far as it can be read."""
    names: set[str] = set()
    with suppress(TraceError):
        for event in EventReader(path, bodies="leave"):
            names.update(f"{digest}.json" for digest in digests(event.fields))
    return names


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove files of a folder, and the folder where nothing is left in it."""
    for name in names:
        with suppress(FileNotFoundError):
            (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()


def discard_trace(path: str) -> None:
    """Delete a trace and its bodies, as far as they are there; nothing else."""
    folder = Path(folder_of(path))
    with suppress(FileNotFoundError):
        Path(path).unlink()
    if folder.is_dir():
        _remove(folder, [body.name for body in folder.iterdir() if BODY_NAME.fullmatch(body.name)])
    release(path)
