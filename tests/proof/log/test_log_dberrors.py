"""What SQLite refuses is told in sentences that say what to do."""

from __future__ import annotations

import apsw
import pytest

from rag_stdlib.proof.log.dberrors import told
from rag_stdlib.proof.log.errors import LogError, ProofError

AFTER = {"log": "nothing more may be signed over it, and a copy that is put back is a fork: keep the newest copy for reading, and begin a new log under a new name",
         "witness": "a witness without its state is a new one, which needs a new name and new keys"}


def said(error: Exception, what: str = "log") -> tuple[str, str]:
    with pytest.raises(LogError) as caught, told(what, "/x/a.db", 10):
        raise error
    return caught.value.code, caught.value.words


@pytest.mark.parametrize("kind", [apsw.BusyError, apsw.LockedError, apsw.ProtocolError])
def test_a_file_that_is_in_use(kind: type[apsw.Error]) -> None:
    assert said(kind("database is locked")) == ("busy", "the log '/x/a.db' was in use by another process for 10 s; try again later")


def test_a_disk_that_is_full() -> None:
    of_the_index = apsw.IOError("disk I/O error")
    of_the_index.extendedresult = apsw.SQLITE_IOERR_SHMSIZE
    for error in (apsw.FullError("database or disk is full"), of_the_index):
        assert said(error, "witness") == ("disk_full", "there is no room left on the disk of the witness '/x/a.db', and nothing was changed; make room there, and try again")


def test_what_fails_otherwise_is_named() -> None:
    error = apsw.IOError("disk I/O error")
    error.extendedresult = apsw.SQLITE_IOERR_FSYNC
    assert said(error) == ("file_io", "the log '/x/a.db' failed: disk I/O error SQLITE_IOERR_FSYNC")


@pytest.mark.parametrize("what", ["log", "witness"])
def test_after_damage_nobody_is_told_to_put_a_copy_back(what: str) -> None:
    assert said(apsw.CorruptError("malformed"), what) == ("damaged", f"the {what} '/x/a.db' failed: malformed; {AFTER[what]}")
    assert said(LogError("damaged", "it is broken"), what) == ("damaged", f"it is broken; {AFTER[what]}")
    assert said(LogError("damaged", f"it is broken; {AFTER[what]}"), what) == ("damaged", f"it is broken; {AFTER[what]}")


def test_of_a_monitor_a_copy_will_do_and_other_errors_stay() -> None:
    assert said(LogError("damaged", "it is broken"), "monitor") == ("damaged", "it is broken")
    assert said(ProofError("forked", "it forked")) == ("forked", "it forked")
