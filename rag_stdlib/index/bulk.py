"""Many rows in few statements.

SQLite lets go of the interpreter for the length of a statement, so that another thread can prepare what is written next; a
statement for each row would have the two wait for each other at every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import apsw

# Of the list of rows in a statement: apsw keeps none prepared that is longer, and reading one costs more than writing its rows.
_MOST_BYTES: Final = 16_000
_SMALL: Final = (8, 1)  # rows of the statements that take few rows, or the rest; few forms, so that they stay prepared
_FEW: Final = 64


def insert(connection: apsw.Connection, into: str, width: int, values: Sequence[Any]) -> None:
    """Insert rows given as one flat sequence of values, `width` a row, into ``TABLE(COLUMNS)``, in order."""
    at, left = 0, len(values) // width
    for size in _sizes(left, _MOST_BYTES // (2 * width + 2)):
        count = left // size
        step = size * width
        parts = [values[start:start + step] for start in range(at, at + count * step, step)]
        if len(parts) == 1:
            connection.execute(_statement(into, width, size), parts[0])
        elif parts:
            connection.executemany(_statement(into, width, size), parts)
        at, left = at + count * step, left - count * size


def _sizes(rows: int, most: int) -> tuple[int, ...]:
    """Say of how many rows the statements are: of a few for few rows, else of as many as go into one, and of the rest."""
    if rows < _FEW:
        return _SMALL
    return (most, rows % most or most) if rows > most else (rows,)


@lru_cache(maxsize=64)
def _statement(into: str, width: int, rows: int) -> str:
    row = f"({','.join('?' * width)})"
    return f"INSERT INTO {into} VALUES {','.join([row] * rows)}"
