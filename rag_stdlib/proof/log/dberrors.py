"""What SQLite, the file system and the opening of a file refuse, in the words of a log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import apsw

from rag_stdlib.errors import Failure
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.privatefile import os_refusal

_OF_SQLITE: Final[tuple[tuple[type[apsw.Error], str], ...]] = (
    (apsw.BusyError, "busy"), (apsw.LockedError, "busy"), (apsw.ProtocolError, "busy"), (apsw.FullError, "disk_full"),
    (apsw.ReadOnlyError, "readonly"), (apsw.NotADBError, "file_foreign"),
    # Our statements are constants: where one does not fit, a table is not what its version says.
    (apsw.CorruptError, "damaged"), (apsw.SQLError, "damaged"), (apsw.ConstraintError, "damaged"), (apsw.MismatchError, "damaged"),
)
_OF_FILES: Final = {
    "path_folder_missing": "missing", "root_unusable": "missing", "path_symlink": "file_unsafe", "path_special": "file_unsafe",
    "path_hard_link": "file_unsafe", "not_an_index": "file_unsafe", "index_readonly": "readonly", "busy": "busy",
}
_NO_ROOM: Final = (apsw.SQLITE_IOERR_SHMSIZE,)  # where a full disk is told as a failure to read or write
_AFTER_DAMAGE: Final[Mapping[str, str]] = {
    "log": "nothing more may be signed over it, and a copy that is put back is a fork: keep the newest copy for reading, and begin a new log under a new name",
    "witness": "a witness without its state is a new one, which needs a new name and new keys",
}


@contextmanager
def told(what: str, path: str, seconds: float) -> Iterator[None]:
    """Turn what fails inside the block below our own code into a `LogError`."""
    try:
        yield
    except apsw.Error as error:
        raise _of_sqlite(error, what, path, seconds) from error
    except Failure as failure:
        code, folder = _OF_FILES.get(failure.error.code, "file_io"), os.path.dirname(path)  # noqa: PTH120 - it keeps the operator's links
        if code == "missing" and not os.path.isdir(folder):  # noqa: PTH112 - the same
            raise LogError(code, f"there is no folder {folder!r} for the {what} {path!r}; make it, or name another one") from None
        raise LogError(code, f"the {what} {path!r} cannot be used: {failure.error}") from None
    except LogError as error:
        if error.code != "damaged" or what not in _AFTER_DAMAGE or _AFTER_DAMAGE[what] in error.words:
            raise
        raise type(error)(error.code, f"{error.words}; {_AFTER_DAMAGE[what]}") from None
    except OSError as error:
        raise os_refusal(path, error) from None


def _of_sqlite(error: apsw.Error, what: str, path: str, seconds: float) -> LogError:
    """Say in our words what SQLite refused, with its own ones only where we know no better."""
    number = getattr(error, "extendedresult", 0)
    code = "disk_full" if number in _NO_ROOM else next((code for kind, code in _OF_SQLITE if isinstance(error, kind)), "file_io")
    if code == "busy":
        return LogError(code, f"the {what} {path!r} was in use by another process for {seconds:g} s; try again later")
    if code == "disk_full":
        return LogError(code, f"there is no room left on the disk of the {what} {path!r}, and nothing was changed; make room there, and try again")
    words = f"the {what} {path!r} failed: {' '.join(str(error).split())} {apsw.mapping_extended_result_codes.get(number, '')}".rstrip()
    return LogError(code, f"{words}; {_AFTER_DAMAGE[what]}" if code == "damaged" and what in _AFTER_DAMAGE else words)


@contextmanager
def blamed(connection: apsw.Connection, what: str, path: str) -> Iterator[None]:
    """Stored values of a wrong type break the code that reads them: an unexpected error is a damaged file's, if it is one."""
    try:
        yield
    except LogError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        found = connection.execute("PRAGMA quick_check(1)").fetchall()[0][0]
        if found != "ok":
            raise LogError("damaged", f"the {what} {path!r} is damaged: {found}") from error
        raise
