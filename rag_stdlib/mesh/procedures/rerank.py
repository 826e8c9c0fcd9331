"""rerank_results: order hits anew by their score and the words they share with a query (RAG service contract §5.1).

It reads no index: the caller sends the hits that another procedure gave it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rag_stdlib.contract import loose
from rag_stdlib.mesh import wire
from rag_stdlib.mesh.errors import PayloadRefused, Refusal
from rag_stdlib.mesh.procedures.desk import Desk
from rag_stdlib.mesh.procedures.params import Params

_SEMANTIC_WEIGHT: Final = 0.65
_WORD: Final = re.compile(r"[^\W_]+")  # letters and digits
_ADDED: Final = ("rerank_score", "semantic_score", "lexical_score", "reranker_model")


def rerank_results(_desk: Desk, params: Params, _caller: str | None) -> dict[str, Any]:
    """Answer ``{"hits": [...]}``, best first, equal scores in the order they came in.

    Each hit keeps what it holds and gets `rerank_score` = 0.65 · `semantic_score` (its own `score`, 0 without one) + 0.35 ·
    `lexical_score` (the share of the query's distinct words in its `content`, 0 for a query without words) and `reranker_model` as
    it was asked for, or null.

    Raises:
        Refusal: `missing_aggregate_id`, `missing_query_text`, `missing_hits`, `hits_must_be_a_list`; `bad_params` for a hit that is no
            map, holds what no reply can carry, or whose score is no number.
    """
    if params.value("query_id") is None:
        raise Refusal("missing_aggregate_id")
    query = params.text("query_text")
    if query is None:
        raise Refusal("missing_query_text")
    hits = params.value("hits")
    if hits is None:
        raise Refusal("missing_hits")
    if not isinstance(hits, list | tuple):
        raise Refusal("hits_must_be_a_list")
    words, model = _words(query), params.text("reranker_model")
    scored = [_scored(_hit(hit, number), words, model, number) for number, hit in enumerate(hits)]
    return {"hits": sorted(scored, key=lambda hit: -hit["rerank_score"])}


def _hit(given: object, number: int) -> dict[str, Any]:
    hit = loose.loosened(given)
    if not isinstance(hit, Mapping):
        raise Refusal("bad_params", f"hits[{number}] is no map")
    try:  # it goes into the reply as it is
        wire.outgoing(hit)
    except PayloadRefused as refused:
        raise Refusal("bad_params", f"hits[{number}]: {refused.reason}") from None
    return {name: _as_text(value) for name, value in hit.items() if name not in _ADDED}


def _scored(hit: dict[str, Any], words: frozenset[str], model: str | None, number: int) -> dict[str, Any]:
    score, content = hit.get("score"), hit.get("content")
    if score is not None and type(score) not in (int, float):
        raise Refusal("bad_params", f"hits[{number}].score is no number")
    semantic = float(score or 0)
    shared = len(words & _words(content)) if isinstance(content, str) else 0
    lexical = shared / len(words) if words else 0.0
    return {**hit, "rerank_score": _SEMANTIC_WEIGHT * semantic + (1 - _SEMANTIC_WEIGHT) * lexical, "semantic_score": semantic,
            "lexical_score": lexical, "reranker_model": model}


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _as_text(value: Any) -> Any:  # noqa: ANN401 - whatever a payload holds
    """Give every string of a value as text, as a reply has to; bytes that are no UTF-8 stay what they are."""
    if isinstance(value, dict):
        return {name: _as_text(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_text(inner) for inner in value]
    read = loose.text(value)
    return value if read is None else read
