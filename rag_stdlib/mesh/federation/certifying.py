"""What a certificate says of a search over shards: who answered, who did not and why, and what they found (docs/certificate.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rag_stdlib.mesh.federation.judging import Answered
from rag_stdlib.mesh.federation.payloads import Embedding, Hit
from rag_stdlib.mesh.federation.query import FederatedAnswer
from rag_stdlib.proof.certificate import Item, Retrieval, SearchedIndex
from rag_stdlib.proof.format import PROVENANCE
from rag_stdlib.records import Mode

_DIGEST: Final = re.compile("[0-9a-f]{64}")
_PARTS: Final = ("kind", "path", "repo_id", "commit", "start_line", "end_line")
_SHARD_CHARS: Final = 200


def retrieval_of(answer: FederatedAnswer, *, mode: Mode, limit: int, embedding: Embedding) -> Retrieval:
    """Give what is certified of an answer of shards.

    Hits that do not say where in which document they stand, as those of peers of another make, are no evidence and are left out.

    Args:
        answer: What `rag_stdlib.mesh.federation.searching.search` returned.
        mode: How it searched.
        limit: How many hits it was asked for.
        embedding: What the vectors are of.
    """
    places = {answered.node: place for place, answered in enumerate(answer.answered)}
    items = [_item(hit, places) for hit in answer.hits]
    return Retrieval(
        mode, limit, tuple(item for item in items if item is not None), tuple(map(_index, answer.answered)),
        None if mode == "lexical" else (embedding.model, embedding.dim), None, answer.merged_by,
        tuple((failed.node, failed.reason.name) for failed in answer.failed), tuple((passed.node, passed.reason) for passed in answer.not_asked))


def _index(answered: Answered) -> SearchedIndex:
    content = (answered.statistics or {}).get("content")
    known = isinstance(content, str) and _DIGEST.fullmatch(content) is not None
    return SearchedIndex(content if known else None, answered.node, answered.shard_id[:_SHARD_CHARS])


def _item(hit: Hit, places: Mapping[str, int]) -> Item | None:
    text, doc_id, source, start, end = (hit.get(name) for name in ("content", "doc_id", "source_path", "start_char", "end_char"))
    if not (isinstance(text, str) and isinstance(doc_id, str) and isinstance(source, str)) or type(start) is not int or type(end) is not int:
        return None
    if start < 0 or end - start != len(text):
        return None
    return Item(hit["id"], doc_id, source, start, end, text, float(hit["score"]), places[hit["node_id"]], _provenance(hit.get("provenance")))


def _provenance(given: Any) -> dict[str, Any] | None:  # noqa: ANN401 - whatever a shard sent
    made = {name: given.get(name) for name in _PARTS} if isinstance(given, Mapping) else None
    return made if PROVENANCE.departs(made) is None else None
