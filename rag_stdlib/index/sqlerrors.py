"""SQLite's errors made ours: each becomes a failure of the closed table, with the extended code that SQLite gave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import apsw

from rag_stdlib.errors import Failure, fail

BUSY_SECONDS: Final = 10.0

_MEANINGS: Final[tuple[tuple[type[apsw.Error], Callable[[str, str, float], Failure]], ...]] = (
    (apsw.BusyError, lambda path, _detail, seconds: fail("busy", path=path, seconds=seconds)),
    (apsw.LockedError, lambda path, _detail, seconds: fail("busy", path=path, seconds=seconds)),
    (apsw.ProtocolError, lambda path, _detail, seconds: fail("busy", path=path, seconds=seconds)),
    (apsw.FullError, lambda path, _detail, _seconds: fail("disk_full", path=path)),
    (apsw.ReadOnlyError, lambda path, detail, _seconds: fail("index_readonly", path=path, detail=detail)),
    (apsw.PermissionsError, lambda path, detail, _seconds: fail("path_permission", path=path, detail=detail)),
    (apsw.AuthError, lambda path, detail, _seconds: fail("path_permission", path=path, detail=detail)),
    (apsw.NotADBError, lambda path, _detail, _seconds: fail("not_an_index", path=path, detail="it is no SQLite file")),
    *((kind, lambda path, detail, _seconds: fail("index_corrupt", path=path, detail=detail))
      # Our statements are constants: where one does not fit, a table is not what its version says.
      for kind in (apsw.CorruptError, apsw.SQLError, apsw.ConstraintError, apsw.MismatchError)),
)


@contextmanager
def translated(path: str, seconds: float = BUSY_SECONDS) -> Iterator[None]:
    """Turn SQLite's errors inside the block into failures of our table."""
    try:
        yield
    except apsw.Error as error:
        detail = _one_line(error)
        for kind, make in _MEANINGS:
            if isinstance(error, kind):
                raise make(path, detail, seconds) from error
        raise fail("index_io", path=path, detail=detail) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:  # text comes from the caller as str: these are stored bytes
        raise fail("index_corrupt", path=path, detail=_one_line(error)) from error


@contextmanager
def damage_blamed(connection: apsw.Connection, path: str) -> Iterator[None]:
    """Stored values of a wrong type break the code that reads them: an unexpected error is a damaged file's, if it is one."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        found = connection.execute("PRAGMA quick_check(1)").fetchall()[0][0]
        if found != "ok":
            raise fail("index_corrupt", path=path, detail=_one_line(found)) from error
        raise


def _one_line(error: Any) -> str:  # noqa: ANN401 - apsw's errors carry their code as an attribute only sometimes
    name = apsw.mapping_extended_result_codes.get(getattr(error, "extendedresult", 0), "")
    text = " ".join(str(error).split())
    return f"{text} ({name})" if name else text
