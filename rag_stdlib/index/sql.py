"""Short forms for reading with apsw, whose rows are typed as unions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


HAS_ARRAYS: Final = "ENABLE_CARRAY" in apsw.compile_options  # as in every wheel on PyPI


def rows(connection: apsw.Connection, statement: str, bindings: Sequence[Any] = ()) -> Any:  # noqa: ANN401 - a cursor of rows of any values
    """Run a statement; iterate over its rows, or fetch them."""
    return connection.execute(statement, bindings)


def number(connection: apsw.Connection, statement: str, bindings: Sequence[Any] = ()) -> int:
    """Run a statement whose one row is one whole number."""
    found: Any = connection.execute(statement, bindings).fetchall()[0][0]
    return int(found)


def numbers(listed: str | None) -> npt.NDArray[np.int64]:
    """Read the whole numbers that group_concat has joined by commas: far quicker than a row for each."""
    import numpy as np

    return np.fromstring(listed, np.int64, sep=",") if listed else np.empty(0, np.int64)


def listed(values: npt.NDArray[np.int64]) -> tuple[str, Any]:
    """Give whole numbers to a statement, in place of a table with the column `value`: (the table, its one binding)."""
    if HAS_ARRAYS and len(values):
        return "carray(?)", apsw.carray(values)
    return "json_each(?)", json.dumps(values.tolist())
