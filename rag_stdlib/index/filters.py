"""Filters over documents, applied before the best k are chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import apsw

from rag_stdlib.index.sql import numbers, rows
from rag_stdlib.records import FrozenDict, Scalar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Wanted: TypeAlias = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which documents may answer; every part that is set must hold, and a tuple means *any of these*.

    `metadata` compares by JSON type: ``True`` is not ``1``, but ``1`` equals ``1.0``; None matches null, not a missing key.
    Numbers are finite and fit 64 bits; `QueryOptions.check` has seen to it.
    """

    doc_ids: tuple[str, ...] | None = None
    doc_id_prefix: str | None = None
    sources: tuple[str, ...] | None = None
    source_prefix: str | None = None
    metadata: Mapping[str, Wanted] = field(default_factory=FrozenDict)

    @property
    def empty(self) -> bool:
        """Whether nothing is filtered."""
        return self == NO_FILTERS


NO_FILTERS: Final = Filters()


def allowed_chunks(connection: apsw.Connection, filters: Filters, after: int = 0) -> npt.NDArray[np.int64]:
    """Return the seqs above `after` of the chunks whose document passes filters that are not empty, ascending."""
    conditions: list[str] = ["c.seq > ?"] if after else []
    values: list[Any] = [after] if after else []
    for column, exact, prefix in (("d.id", filters.doc_ids, filters.doc_id_prefix),
                                  ("d.source", filters.sources, filters.source_prefix)):
        if exact is not None:
            conditions.append(f"{column} IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(exact))
        if prefix is not None:
            conditions.append(f"substr({column}, 1, ?) = ?")
            values += [len(prefix), prefix]
    for key, wanted in filters.metadata.items():
        choices = wanted if isinstance(wanted, tuple) else (wanted,)
        tests = [_metadata_test(choice) for choice in choices]
        either = " OR ".join(test for test, _ in tests) or "0"
        conditions.append(f"EXISTS (SELECT 1 FROM json_each(d.metadata) m WHERE m.key = ? AND ({either}))")
        values.append(key)
        values += [value for _, bound in tests for value in bound]
    ((listed,),) = rows(connection, "SELECT group_concat(c.seq) FROM rag_chunks c JOIN rag_documents d ON d.id = c.doc_id WHERE "
                        + " AND ".join(conditions), values)
    seqs = numbers(listed)
    seqs.sort()
    return seqs


def _metadata_test(wanted: Scalar) -> tuple[str, tuple[Any, ...]]:
    """Write one comparison as SQL over a row of json_each."""
    if wanted is None:
        return "m.type = 'null'", ()
    if isinstance(wanted, bool):
        return "m.type = ?", ("true" if wanted else "false",)
    if isinstance(wanted, str):
        return "m.type = 'text' AND m.atom = ?", (wanted,)
    return "m.type IN ('integer', 'real') AND m.atom = ?", (wanted,)
