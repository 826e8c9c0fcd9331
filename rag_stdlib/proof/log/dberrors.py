"""What SQLite, the file system and the opening of a file refuse, in the words of a log."""

from __future__ import annotations

from collections.abc import Iterator
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


@contextmanager
def told(what: str, path: str, seconds: float) -> Iterator[None]:
    """Turn what fails inside the block below our own code into a `LogError`."""
    try:
        yield
    except apsw.Error as error:
        code = next((code for kind, code in _OF_SQLITE if isinstance(error, kind)), "file_io")
        waited = f" for {seconds:g} s" if code == "busy" else ""
        name = apsw.mapping_extended_result_codes.get(getattr(error, "extendedresult", 0), "")
        raise LogError(code, f"the {what} {path!r}{waited}: {' '.join(str(error).split())} {name}".rstrip()) from error
    except Failure as failure:
        code = _OF_FILES.get(failure.error.code, "file_io")
        raise LogError(code, f"the {what} {path!r} cannot be used: {failure.error}") from None
    except OSError as error:
        raise os_refusal(path, error) from None


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
