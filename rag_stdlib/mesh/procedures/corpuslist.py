"""The corpus list as a provider looks at it: a broken one refuses every description, so that it never passes for an empty corpus.

What is served is what the index holds; the list itself is read to know that it is whole, and which repositories still have to come.
"""

from __future__ import annotations

import time
from typing import Final, TypeAlias

from rag_stdlib.config import Regime
from rag_stdlib.corpus import listfile
from rag_stdlib.corpus.listfile import ListedRepo, ListRefused
from rag_stdlib.errors import Failure
from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.runtime import Runtime

_GONE: Final = frozenset({"file_missing", "path_folder_missing"})
_SETTLED_NS: Final = 2_000_000_000  # a younger file may change once more without a change of its times, so what was read is not kept

_Read: TypeAlias = tuple[ListedRepo, ...] | ListRefused | None
_Stamp: TypeAlias = tuple[int, int, int, int, int]  # its two times first


class CorpusList:
    """A list file below the runtime's root; it is read again when it may have changed. Safe to use from many threads."""

    def __init__(self, runtime: Runtime, path: str | None, regime: Regime) -> None:
        """Name the file, or None for a provider without a list."""
        self._runtime, self._path, self._regime = runtime, path, regime
        self._seen: tuple[_Stamp, _Read] | None = None

    def repos(self) -> tuple[ListedRepo, ...] | None:
        """Return the list's entries, None where there is no list.

        Raises:
            Refusal: `corpus_list_refused` with the rule that is broken, in the contract's form (§3.3).
        """
        read = self._read(self._path) if self._path is not None else None
        if isinstance(read, ListRefused):
            raise Refusal("corpus_list_refused", read.term)
        return read

    def _read(self, path: str) -> _Read:
        now, seen = time.time_ns(), self._seen
        try:
            stamp = self._stamp(path)
            if stamp is None:
                return None
            if seen is None or seen[0] != stamp:
                seen = stamp, self._parsed(path)
        except Failure as failure:
            if failure.error.code in _GONE:
                return None
            return ListRefused("config_read_failed", failure.error.code)
        self._seen = seen if now - max(stamp[:2]) > _SETTLED_NS else None
        return seen[1]

    def _stamp(self, path: str) -> _Stamp | None:
        with self._runtime.root.place(path) as place:
            found = place.stat()
        return found and (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_dev, found.st_ino)

    def _parsed(self, path: str) -> _Read:
        try:
            return listfile.parse(self._runtime.root.read_file(path, listfile.MAX_BYTES), self._regime)
        except ListRefused as refused:
            return refused
        except Failure as failure:
            if failure.error.code == "file_too_large":
                return ListRefused("invalid_json")
            raise
