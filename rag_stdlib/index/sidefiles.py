"""Whether the files beside an index are SQLite's to take.

SQLite takes whatever is called ``INDEX-journal``, ``INDEX-wal`` or ``INDEX-shm`` for its own and empties or deletes it, be it
a user's ``travel-journal`` next to an index called ``travel``. So their beginnings are read first, or only their sizes: no
descriptor of the index itself or of its ``-shm`` may be opened here, since closing it would drop SQLite's locks on the file.
Formats: https://sqlite.org/fileformat.html, sections 3 (journal) and 4.1 (log).
"""

from __future__ import annotations

from typing import Final

from rag_stdlib.errors import fail
from rag_stdlib.root import SIDE_FILES, Place

_ZEROS: Final = bytes(8)  # a header that is not yet, or no longer, in force
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_LOG_MAGICS: Final = (bytes.fromhex("377f0682"), bytes.fromhex("377f0683"))
_SHM_STEP: Final = 4096
_SHM_START: Final = 3  # bytes, while nothing is in it


def refuse_alien_side_files(place: Place) -> None:
    """Refuse a place beside which lies a file that SQLite would take for its own, and that it did not write.

    Raises:
        Failure: `not_an_index`, naming the file; `path_permission` where it may not be read.
    """
    # The index is looked at last: SQLite makes it before its side files, so what is seen beside a missing one is not its.
    sizes = {suffix: status.st_size for suffix in SIDE_FILES if (status := place.stat(suffix)) is not None}
    index = place.stat()
    for suffix, size in sizes.items():
        # An empty index has a journal while its first page is written, and keeps it if the writer is killed.
        expected = index is not None and (index.st_size > 0 or suffix == "-journal")
        if size and not (expected and _is_sqlites(place, suffix, size)):
            beside = repr(place.name + suffix)
            raise fail("not_an_index", path=place.shown,
                       detail=f"SQLite would take the file {beside} beside it for its own and empty it; "
                              "choose another name for the index, or move that file")


def _is_sqlites(place: Place, suffix: str, size: int) -> bool:
    if suffix == "-shm":
        return size == _SHM_START or size % _SHM_STEP == 0
    start = place.read_start(suffix, len(_ZEROS))
    if start in (b"", _ZEROS):  # emptied meanwhile, or not in force
        return True
    return start == _JOURNAL_MAGIC if suffix == "-journal" else start.startswith(_LOG_MAGICS)
