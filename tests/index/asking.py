"""Short forms for asking an index in tests."""

from __future__ import annotations

from rag_stdlib import Err, Result, rag_check, rag_query
from rag_stdlib.options import QueryOptions

PATH = "index.db"
LONG = " ".join(f"Sentence number {n} speaks of topic {n * 7 % 11}." for n in range(60))


def error_of(result: Result[object]) -> str:
    assert isinstance(result, Err), result
    return result.error.code


def ids(mode: str = "lexical", query: str = "sentence") -> set[str]:
    found = rag_query(PATH, query, 10_000, QueryOptions(mode=mode)).unwrap()  # type: ignore[arg-type]
    return {chunk.chunk_id for chunk in found}


def clean() -> bool:
    report = rag_check(PATH).unwrap()
    return report.problems == () and report.notices == ()
