"""An open connection to an index, and what is known of the state of the file that it looked at last."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import apsw

from rag_stdlib.errors import fail
from rag_stdlib.index import content, schema
from rag_stdlib.index.facts import Facts
from rag_stdlib.index.folders import FOLDERS
from rag_stdlib.root import Place

Key: TypeAlias = tuple[int | str, ...]


@dataclass(slots=True)
class Snapshot:
    """A connection inside a read transaction, and what it knows of the state of the file that it last saw.

    `key` names the file among those open in this process. What is known is looked up anew after each change.
    """

    connection: apsw.Connection
    place: Place
    key: Key
    began: float = 0.0  # time.monotonic() when the read transaction was about to begin
    in_log: bool = False  # known to keep a write-ahead log
    _version: int = -1
    _described: dict[str, Any] | None = None
    _facts: Facts | None = None
    _before: Facts | None = None

    def begin(self, path: str) -> None:
        """Begin a read transaction on an index, which is looked at whole if it is not as it was last time.

        Raises:
            Failure: `index_missing`, and what `schema.read_version` refuses.
        """
        self.began = time.monotonic()
        self.connection.execute("BEGIN")
        if self._version >= 0:
            with suppress(apsw.SQLError):  # it may be another program's by now
                self.connection.execute("SELECT 1 FROM rag_meta LIMIT 1").fetchall()  # the snapshot begins with the first look
                if self._version == self.connection.data_version():
                    return
        self._before = self._facts or self._before
        self._version, self._described, self._facts = -1, None, None
        require_index(self.connection, path)
        self._version = self.connection.data_version()
        self.in_log = self.connection.pragma("journal_mode") == "wal"

    def describe(self) -> dict[str, Any]:
        """Describe the state for whoever records calls; see `content.describe`."""
        if self._described is None:
            self._described = content.describe(self.connection)
        return self._described

    @property
    def facts(self) -> Facts:
        """What a search has to know of the index."""
        if self._facts is None:
            self._facts = Facts.of(self.connection, self._before)
        return self._facts

    def close(self) -> None:
        """Close the connection and let go of its place."""
        with suppress(apsw.Error):
            self.connection.close(True)
        FOLDERS.release(self.place)


def require_index(connection: apsw.Connection, path: str) -> None:
    """Refuse a file that is no index of ours; see `schema.read_version`."""
    if schema.read_version(connection, path) == 0:
        raise fail("index_missing", path=path)
