"""The options of `rag_query`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.errors import fail
from rag_stdlib.records import MODES, FrozenDict, Mode, Record, Scalar
from rag_stdlib.values import check_text, is_number_or_null

if TYPE_CHECKING:
    from rag_stdlib.index.filters import Filters



@dataclass(frozen=True)
class QueryOptions(Record):
    """Options of a search; None means *no such restriction*, and all restrictions hold together.

    `doc_id` and `source` take a string, or several of which any may match; `metadata` takes for each key a JSON scalar or
    several, compared by JSON type. Filters cut before the best are chosen. `min_score` is in the unit of the mode's score;
    `per_document` bounds the hits of one document. `mode` None is the configured mode. `approximate` lets a search in vector mode
    miss some of the best chunks, where an index is large and in memory; see docs/searching.md for how many.
    """

    mode: Mode | None = None
    doc_id: str | tuple[str, ...] | None = None
    doc_id_prefix: str | None = None
    source: str | tuple[str, ...] | None = None
    source_prefix: str | None = None
    metadata: Mapping[str, Scalar | tuple[Scalar, ...]] = field(default_factory=FrozenDict)
    min_score: float | None = None
    per_document: int | None = None
    approximate: bool = False

    def check(self) -> None:
        """Refuse values that cannot be served.

        Raises:
            Failure: `invalid_option`, `invalid_filter`, `invalid_text`, `text_nul`.
        """
        if self.mode is not None and self.mode not in MODES:
            raise fail("invalid_option", name="mode", reason=f"must be one of {', '.join(MODES)}, not {self.mode!r}")
        if self.min_score is not None and not _is_finite(self.min_score):
            raise fail("invalid_option", name="min_score", reason="must be a finite number")
        if self.per_document is not None and not (type(self.per_document) is int and self.per_document >= 1):
            raise fail("invalid_option", name="per_document", reason="must be a whole number, at least 1")
        self._check_filters()

    def _check_filters(self) -> None:
        for name in ("doc_id", "source"):
            for value in _several(getattr(self, name)) or ():
                _check_string(name, value)
        for name in ("doc_id_prefix", "source_prefix"):
            if getattr(self, name) is not None:
                _check_string(name, getattr(self, name))
        if not isinstance(self.metadata, Mapping):
            raise fail("invalid_filter", name="metadata", reason="must be a mapping of keys to values")
        for key, wanted in self.metadata.items():
            _check_string("a metadata key", key)
            for value in _several(wanted) or (None,):
                if isinstance(value, str):
                    _check_string(f"metadata.{key}", value)
                elif not is_number_or_null(value):
                    raise fail("invalid_filter", name=f"metadata.{key}",
                               reason=f"{value!r} is no string, finite number of at most 64 bits, boolean or null")

    def filters(self) -> Filters:
        """Give the filters in the index's form."""
        from rag_stdlib.index.filters import Filters

        metadata = FrozenDict({key: tuple(wanted) if isinstance(wanted, list) else wanted
                               for key, wanted in self.metadata.items()})
        return Filters(_several(self.doc_id), self.doc_id_prefix, _several(self.source), self.source_prefix, metadata)


DEFAULT_OPTIONS: Final = QueryOptions()


def _several(value: Any) -> tuple[Any, ...] | None:  # noqa: ANN401 - one value or several
    if value is None:
        return None
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def _check_string(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise fail("invalid_filter", name=name, reason=f"{value!r} is no string")
    check_text(name, value)
