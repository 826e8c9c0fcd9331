"""What an index adds to the statistics of the collection that it is a part of, for one query (see `rag_stdlib.index.collection`).

First each part counts; under the sums of those counts each sums up its scores by words; under both sums together a hybrid search of each
part gives the scores that one index over everything gives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rag_stdlib.index import bm25
from rag_stdlib.index.collection import Collection, Moments, Wider
from rag_stdlib.index.filters import NO_FILTERS
from rag_stdlib.index.ranking import Question, rankings
from rag_stdlib.index.resident.cache import RESIDENTS, Limits, Wanted
from rag_stdlib.index.resident.words import chunks_and_terms
from rag_stdlib.index.snapshot import Snapshot

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Terms = tuple[tuple[str, bool], ...]
    Vector = npt.NDArray[np.float32]


def counts(snapshot: Snapshot, terms: Terms, limits: Limits | None) -> Collection:
    """Count chunks and terms, and the chunks that hold each term of a query."""
    state = RESIDENTS.state(snapshot, Wanted(0, words=True), limits, several=True) if limits is not None else None
    if state is not None and state.words is not None:
        holding = state.words.holding(snapshot.connection, terms)
    else:
        holding = tuple(bm25.holding(snapshot.connection, term) for term in terms)
    return Collection(*chunks_and_terms(snapshot.connection), holding)


def vector_moments(snapshot: Snapshot, unit: Vector, limits: Limits | None) -> Moments:
    """Sum up the scores of all chunks against a query's unit vector, as a hybrid search does; the index holds vectors of that dimension."""
    if not snapshot.facts.vectors:
        return Moments(0, 0, 0)
    (found,) = (ranking.vector_moments for ranking in rankings(snapshot, [Question((), unit)], "hybrid", NO_FILTERS, limits))
    return found


def word_moments(snapshot: Snapshot, terms: Terms, collection: Collection, limits: Limits | None) -> Moments:
    """Sum up BM25 of all chunks, as it is in the collection."""
    asked = [Question(terms, None)]
    (found,) = (ranking.word_moments for ranking in rankings(snapshot, asked, "lexical", NO_FILTERS, limits, wider=Wider(collection)))
    return replace(found, count=snapshot.facts.chunks)
