"""Publishing a log as a folder of static files, for any web server; the checkpoint comes last, so that all it needs is there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.merkle import verify_consistency
from rag_stdlib.proof.log.notes import MAX_NOTE_BYTES, Note
from rag_stdlib.proof.log.privatefile import os_refusal
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.log.tiles import CHECKPOINT, HEIGHT, WIDTH, Tile, bundle, tiles_of
from rag_stdlib.wholefile import sync_folder, written_beside

_MODE: Final = 0o644  # it is for everyone to read
_TREE: Final = "tile"
_LEFT_BEHIND: Final = re.compile(rf"\.{CHECKPOINT}\.[0-9a-f]+\.tmp")  # by who was killed while it wrote


def publish(log: Log, folder: str | os.PathLike[str], checkpoint: bytes | None = None) -> Checkpoint:
    """Write what a log has to a folder, beside what was written before; who would do so meanwhile waits.

    Partial tiles are taken away once the full one is there.

    Args:
        log: The log.
        folder: Where to; made where it is missing.
        checkpoint: The note to publish: one of this log's, as `Log.cosigned` gives it; else its last.

    Raises:
        LogError: ``rolled_back`` or ``forked`` where the folder shows a larger or another tree already, or the note is none of this log,
            ``origin_mismatch`` where it shows another log, and ``file_foreign`` where it holds what is no part of a published log, and nothing is
            written; ``disk_full``, ``readonly``, ``file_io``; what reading the log raises.
        ProofError: The note, or the one in the folder, is no checkpoint.
    """
    note = log.checkpoint() if checkpoint is None else checkpoint
    head, target = log.own(note), Path(folder)
    try:
        _make(target)
        with _alone(target):
            _write_new(log, target, head, note)
    except OSError as error:
        raise os_refusal(str(target), error) from None
    return head


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise LogError("file_io", f"{str(folder)!r} is a file, or lies below one, and a log is published as a folder; name a folder") from None


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder, so that a smaller checkpoint cannot overtake a larger one."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write_new(log: Log, target: Path, head: Checkpoint, note: bytes) -> None:
    before = _published(target, log.origin)
    _check_for_it_alone(target)
    if before is not None:
        _check_continued(log, before, head)
    folders = set()
    for tile in tiles_of(head.size, before.size if before else 0):
        path = target / tile.path
        _write(path, _content(log, tile))
        folders.add(path.parent)
        if tile.width == WIDTH:
            shutil.rmtree(target / f"{tile.path}.p", ignore_errors=True)
    for touched in sorted(folders):
        sync_folder(touched)
    _write(target / CHECKPOINT, note)
    sync_folder(target)


def _published(folder: Path, origin: str) -> Checkpoint | None:
    """Read the checkpoint that the folder shows."""
    try:
        with (folder / CHECKPOINT).open("rb") as file:
            note = Note.parse(file.read(MAX_NOTE_BYTES + 1))
    except (FileNotFoundError, NotADirectoryError):
        return None
    head = Checkpoint.parse(note.text)
    if head.origin != origin:
        raise LogError("origin_mismatch", f"the folder {str(folder)!r} shows the log {head.origin}, not {origin}")
    return head


def _check_for_it_alone(folder: Path) -> None:
    """Refuse a folder of other things: a web server would show them too."""
    others = sorted(name for name in os.listdir(folder) if name not in (CHECKPOINT, _TREE) and not _LEFT_BEHIND.fullmatch(name))  # noqa: PTH208 - names are enough
    if others:
        raise LogError("file_foreign", f"the folder {str(folder)!r} holds {others[0]!r}, which is no part of a published log; name a new folder, or an empty one")


def _check_continued(log: Log, before: Checkpoint, head: Checkpoint) -> None:
    """Refuse to show a tree that does not continue the one that is shown."""
    if before.size > head.size:
        raise LogError("rolled_back", f"the folder shows {before.size} entries already, and this checkpoint has {head.size}")
    try:
        verify_consistency(before.size, before.root, head.size, head.root, log.consistency_path(before.size, head.size))
    except ProofError as error:
        raise LogError("forked", f"the folder shows another tree: {error.words}") from None


def _content(log: Log, tile: Tile) -> bytes:
    start = tile.index * WIDTH
    if tile.level is None:
        return bundle(list(log.entries(start, start + tile.width)))
    return b"".join(log.hashes(tile.level * HEIGHT, start, tile.width))


def _write(path: Path, data: bytes) -> None:
    """Put a file in its place whole, on the disk before it shows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_beside(path, data, _MODE) as beside:
        beside.replace(path)
