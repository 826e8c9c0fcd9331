"""Two short forms for reading with apsw, whose rows are typed as unions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apsw


def rows(connection: apsw.Connection, statement: str, bindings: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
    """Run a statement and iterate over its rows."""
    return connection.execute(statement, bindings)


def number(connection: apsw.Connection, statement: str, bindings: Sequence[Any] = ()) -> int:
    """Run a statement whose one row is one whole number."""
    found: Any = connection.execute(statement, bindings).fetchall()[0][0]
    return int(found)
