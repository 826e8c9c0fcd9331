"""How a sync stands: counted while it goes, kept in a small file for whoever asks meanwhile and afterwards (RAG service contract, ingest_status)."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.result import RagError

_WRITE_SECONDS: Final = 0.5  # between two writes of the file while files are counted
_MAX_BYTES: Final = 4_000_000  # of the file, which names at most an error for each repository of a list
_READING: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

Told = Callable[[str, str, int, int], None]  # repository, file, bytes done, bytes in all


@dataclass(slots=True)
class Counts:
    """What was seen and done, over all repositories of a sync."""

    repos_total: int = 0
    repos_done: int = 0
    files_total: int = 0
    files_seen: int = 0
    files_changed: int = 0
    files_unchanged: int = 0
    files_embedded: int = 0
    files_failed: int = 0
    chunks_written: int = 0


@dataclass(slots=True)
class Watch:
    """Keeps the counts of one sync, and the file with them. Times are Unix milliseconds of `clock`, which gives seconds.

    `failed` holds, by repository, why it was not switched.
    """

    path: Path
    clock: Callable[[], float] = time.time
    told: Told = field(default=lambda _repo, _file, _done, _total: None)
    counts: Counts = field(default_factory=Counts)
    started_at: int = 0
    last_ingest_at: int | None = None
    current: tuple[str, str] | None = None
    failed: dict[str, RagError] = field(default_factory=dict)
    _written: float = 0.0

    def begin(self, repos: int) -> None:
        """Begin with a list of so many repositories."""
        self.started_at = self._now()
        self.counts.repos_total = repos
        self.last_ingest_at = _read(self.path).get("last_ingest_at")
        self._write("scanning")

    def found(self, files: int, *, unchanged: int) -> None:
        """Say how many files a repository holds for the index, and how many of them it has already."""
        self.counts.files_total += files
        self.counts.files_seen += unchanged

    def at(self, repo_id: str, file: str, done: int, total: int) -> None:
        """Say which file is being worked on, and how many bytes of the repository's new files are done."""
        self.current = (repo_id, file)
        self.told(repo_id, file, done, total)
        if abs(self.clock() - self._written) >= _WRITE_SECONDS:  # a clock may be set back
            self._write("scanning")

    def stored(self) -> None:
        """Say that something was written into the index."""
        self.last_ingest_at = self._now()

    def end(self) -> None:
        """Say that the sync is over."""
        self.current = None
        self._write("idle")

    def _now(self) -> int:
        return int(self.clock() * 1000)

    def _write(self, state: str) -> None:
        self._written = self.clock()
        finished = self._now() if state == "idle" else None
        told = {
            "state": state, "started_at": self.started_at, "finished_at": finished,
            "duration_ms": max(0, finished - self.started_at) if finished is not None else None,
            "current": {"repo": self.current[0], "path": self.current[1]} if self.current else None,
            **{name: getattr(self.counts, name) for name in self.counts.__slots__}, "last_ingest_at": self.last_ingest_at,
            "failed": {repo_id: {"code": error.code, "error": str(error)} for repo_id, error in self.failed.items()},
        }
        with suppress(OSError):  # a status that cannot be kept stops no sync
            _replace(self.path, json.dumps(told))


def last_scan(place: SyncPlace) -> dict[str, Any]:
    """Return what is known of the last sync: its counts, and `state` scanning, idle, or unknown where it ended untold or never was."""
    told = _read(place.status)
    if told.get("state") == "scanning" and not place.is_locked():
        told["state"] = "unknown"
    return told


def _replace(path: Path, text: str) -> None:
    """Write a file in one step. Whatever stands under the name that is written first is let go, and not written through."""
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
        os.replace(beside, path)  # noqa: PTH105 - the word for it: in one step
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        handle = os.open(path, _READING)
        try:
            told = json.loads(os.read(handle, _MAX_BYTES)) if stat.S_ISREG(os.fstat(handle).st_mode) else None
        finally:
            os.close(handle)
        if isinstance(told, dict):
            return told
    return {"state": "unknown"}
