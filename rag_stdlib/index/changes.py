"""Which chunks came and went with each generation, so that a reader can bring up to date what it holds instead of reading all.

A row of `rag_changes` stands for one step of the generation: the seqs of chunks that went and those that came, each one range.
Steps that ranges cannot tell (all vectors exchanged) leave the table empty, and so does a program that steps without a row:
the reader finds the gap and reads everything again. Seqs are never given twice, so a range means the same chunks for good.

Each state of an index has a random mark (`schema.exchange_mark`), and the first step of a transaction names the one it follows: a copy
of the file that was put back and went another way has the same generations, but not the same marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import apsw

from rag_stdlib.index import schema
from rag_stdlib.index.bulk import insert
from rag_stdlib.index.sql import rows

KEPT: Final = 4_096  # generations; who is further behind reads everything
NONE: Final = range(0)

Step: TypeAlias = tuple[range, range]  # the seqs that went, and those that came


def note(connection: apsw.Connection, first: int, steps: Sequence[Step], follows: str) -> None:
    """Note the steps of a transaction, the first of which led to the generation `first` from the state with the mark `follows`."""
    kept = list(zip(range(first, first + len(steps)), steps, [follows] + [""] * (len(steps) - 1), strict=True))[-KEPT:]
    if not _exists(connection):  # the index was made before there was such a table
        schema.create_changes(connection)
    # Nothing is noted ahead of its time; where it is, the index was damaged, and the note is worth nothing.
    connection.execute("DELETE FROM rag_changes WHERE generation <= ? OR generation >= ?", (first + len(steps) - 1 - KEPT, first))
    insert(connection, "rag_changes(generation, gone_first, gone_count, come_first, come_count, follows)", 6,
           [value for generation, (gone, come), mark in kept
            for value in (generation, gone.start, len(gone), come.start, len(come), mark)])


def clear(connection: apsw.Connection) -> None:
    """Forget every step, for a change that ranges cannot tell."""
    if _exists(connection):
        connection.execute("DELETE FROM rag_changes")


def since(connection: apsw.Connection, generation: int, mark: str) -> list[Step] | None:
    """Return what went and what came, a pair a step, from the state of this generation and mark to the snapshot's.

    None where steps are missing, or where the state is none that led here.
    """
    present = schema.get_fact(connection, "generation")
    if generation == present:
        return [] if schema.get_fact(connection, "mark") == mark else None
    if not isinstance(present, int) or generation > present or not _exists(connection):
        return None
    steps = rows(connection, "SELECT gone_first, gone_count, come_first, come_count, follows FROM rag_changes "
                             "WHERE generation > ? AND generation <= ? ORDER BY generation", (generation, present)).fetchall()
    if len(steps) != present - generation or steps[0][-1] != mark:
        return None
    if any(type(number) is not int or number < 0 for step in steps for number in step[:-1]):
        return None
    last = schema.get_fact(connection, "last_seq")
    if not isinstance(last, int) or any(sum(step[count] for step in steps) > last for count in (1, 3)):
        return None  # no seq goes twice, or comes twice
    return [(range(gone, gone + went), range(come, come + came)) for gone, went, come, came, _ in steps]


def problems(connection: apsw.Connection) -> Iterator[str]:
    """Compare the steps with the chunks and the generation: what went must be gone, and nothing is noted ahead of its time."""
    if not _exists(connection):
        return
    behind, = rows(connection, "SELECT count(*) FROM rag_changes WHERE generation > "
                               "(SELECT value FROM rag_meta WHERE key = 'generation')").fetchone()
    if behind:
        yield f"changes: {behind} steps are of generations that are still to come"
    back, = rows(connection, "SELECT count(*) FROM rag_changes WHERE gone_count > 0 AND EXISTS "
                             "(SELECT 1 FROM rag_chunks WHERE seq >= gone_first AND seq < gone_first + gone_count)").fetchone()
    if back:
        yield f"changes: {back} steps say that chunks went which are there"


def _exists(connection: apsw.Connection) -> bool:
    return schema.has_table(connection, "rag_changes")
