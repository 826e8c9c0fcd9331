"""Two short forms for reading with apsw, whose rows are typed as unions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw


def rows(connection: apsw.Connection, statement: str, bindings: Sequence[Any] = ()) -> Any:  # noqa: ANN401 - a cursor of rows of any values
    """Run a statement; iterate over its rows, or fetch them."""
    return connection.execute(statement, bindings)


def number(connection: apsw.Connection, statement: str, bindings: Sequence[Any] = ()) -> int:
    """Run a statement whose one row is one whole number."""
    found: Any = connection.execute(statement, bindings).fetchall()[0][0]
    return int(found)
