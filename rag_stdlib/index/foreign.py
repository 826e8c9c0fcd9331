"""Reading an index that another std/rag implementation made: its documents, from which ours is made anew.

Its tables (std/rag, the schema of `rag_documents`) carry no version; what is read is `id, source, media_type, text`. The
file is opened confined and read-only, and chunks, keys and vectors are not taken over.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import apsw

from rag_stdlib import audit
from rag_stdlib.errors import Failure, fail, rag_error
from rag_stdlib.index.folders import FOLDERS
from rag_stdlib.index.forks import unforked
from rag_stdlib.index.schema import APPLICATION_ID
from rag_stdlib.index.sidefiles import refuse_alien_side_files
from rag_stdlib.index.sql import number, rows
from rag_stdlib.index.sqlerrors import BUSY_SECONDS, translated
from rag_stdlib.index.vfs import confined_vfs
from rag_stdlib.records import SourceDocument
from rag_stdlib.result import RagError
from rag_stdlib.root import Place, Root

_COLUMNS: Final = ("id", "source", "media_type", "text")
_HEADER: Final = 100  # bytes
_KIND: Final = "an index of another std/rag implementation"


@dataclass(frozen=True, slots=True)
class ForeignIndex:
    """The number of documents of such an index, and an iterator over them, by id; a document that is no text is an error."""

    count: int
    documents: Iterator[SourceDocument | tuple[str, RagError]]


@contextmanager
def foreign_index(root: Root, path: str) -> Iterator[ForeignIndex]:
    """Open such an index for the length of the block, in one read transaction; nothing is written to it.

    Raises:
        Failure: `file_missing`, `file_unreadable` where it is something else, a refusal of the path, what SQLite meets.
    """
    sys.audit(audit.INDEX, path)
    with unforked(path), root.place(path) as place:
        if place.check_regular(writing=False) is None:
            raise fail("file_missing", path=path)
        refuse_alien_side_files(place)
        with _as_foreign(path), translated(path), _connected(place) as connection:
            root.recheck(place)
            connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
            connection.execute("BEGIN")
            _check_schema(connection, path)
            yield ForeignIndex(number(connection, "SELECT count(*) FROM rag_documents"), _documents(connection))


@contextmanager
def _connected(place: Place) -> Iterator[apsw.Connection]:
    """Connect without leaving a trace: in log mode even a reader would make a log, so a file with none is read as it stands."""
    FOLDERS.adopt(place)
    try:
        name, flags = place.path, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW
        log = place.stat("-wal")
        if _is_in_log_mode(place) and not (log and log.st_size):
            name, flags = f"file:{quote(place.path)}?immutable=1", flags | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(name, flags=flags, vfs=confined_vfs())
        try:
            yield connection
        finally:
            with suppress(apsw.Error):  # closing a log needs a lock that a read-only file does not give
                connection.close(True)
    finally:
        FOLDERS.release(place)


def _is_in_log_mode(place: Place) -> bool:
    """Look at the version numbers of the file format (https://sqlite.org/fileformat.html, section 1.3.3).

    Through SQLite's own file, since closing any other descriptor would drop the locks this process holds on the file.
    """
    file = apsw.VFSFile(confined_vfs(), place.path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        return file.xFileSize() > _HEADER and file.xRead(2, 18) == b"\x02\x02"
    finally:
        file.xClose()


@contextmanager
def _as_foreign(path: str) -> Iterator[None]:
    """Word the refusal of a file that is no SQLite file for what was asked."""
    try:
        yield
    except Failure as failure:
        if failure.error.code == "not_an_index":
            raise fail("file_unreadable", name=path, kind=_KIND, detail="it is no SQLite file") from None
        raise


def _check_schema(connection: apsw.Connection, path: str) -> None:
    if connection.pragma("application_id") == APPLICATION_ID:
        detail = "it has the schema of rag-stdlib already, so it can be used as it is"
        raise fail("file_unreadable", name=path, kind=_KIND, detail=detail)
    columns = {name for (name,) in rows(connection, "SELECT name FROM pragma_table_info('rag_documents')")}
    if not columns.issuperset(_COLUMNS):
        raise fail("file_unreadable", name=path, kind=_KIND, detail="it has no table rag_documents with their columns")


def _documents(connection: apsw.Connection) -> Iterator[SourceDocument | tuple[str, RagError]]:
    as_bytes = ", ".join(f"CAST({column} AS BLOB)" for column in _COLUMNS)
    for row in rows(connection, f"SELECT {as_bytes} FROM rag_documents ORDER BY id"):
        name = (row[0] or b"").decode(errors="replace")
        try:
            doc_id, source, media_type, text = ((value or b"").decode() for value in row)
        except UnicodeDecodeError as error:
            yield name, rag_error("not_utf8", name=name, offset=error.start, byte=error.object[error.start])
        else:
            yield SourceDocument(doc_id, source, text, media_type)
