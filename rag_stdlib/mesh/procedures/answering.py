"""describe_corpus and answer_query: what corpus there is, and what of it answers a question (RAG service contract §1, §3).

The description, its hash and the hits of one reply are of one snapshot of the index, so that no answer names a corpus it is not from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rag_stdlib.contract.corpus import corpus_hash
from rag_stdlib.corpus import describe
from rag_stdlib.embed import boundary
from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.errors import Failure, fail
from rag_stdlib.index import corpora, search, served
from rag_stdlib.index.filters import NO_FILTERS, Filters
from rag_stdlib.index.search import Found, Vectors
from rag_stdlib.index.snapshot import Snapshot
from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.procedures import replies, shapes, vectors
from rag_stdlib.mesh.procedures.desk import Desk, content_of
from rag_stdlib.mesh.procedures.params import Params
from rag_stdlib.values import MAX_QUERY_BYTES, check_text


def describe_corpus(desk: Desk, _params: Params, _caller: str | None) -> dict[str, Any]:
    """Answer what corpus is served: `model`, `dim`, `repos` in list order, `corpus_hash`; `signature` and `signed_by` where it is signed.

    Without an index and without a list the corpus is empty, and has a hash all the same.

    Raises:
        Refusal: `corpus_list_refused`.
        Failure: `index_missing` where a list says that something is to come; `no_embed_model`, `embedding_mismatch`.
    """
    listed = desk.corpus_list.repos()
    try:
        with desk.snapshot() as snapshot:
            described = describe.describe(snapshot.connection, _identity(desk, snapshot))
            kept = describe.kept_signature(snapshot.connection, described["corpus_hash"])
            content = content_of(snapshot)
    except Failure as failure:
        if listed is not None or failure.error.code != "index_missing":
            raise
        described, kept, content = _nothing(desk), None, {}
    return {**described, **desk.signer.fields(described["corpus_hash"], kept), **content}


def _identity(desk: Desk, snapshot: Snapshot) -> EmbedderIdentity:
    return describe.identity_of(snapshot.connection, desk.index, desk.runtime.embedder)


def _nothing(desk: Desk) -> dict[str, Any]:
    embedder = desk.runtime.embedder
    if embedder is None:
        raise fail("no_embed_model", path=desk.index)
    identity = boundary.identified(embedder)
    empty: dict[str, Any] = {"model": describe.model_name(identity), "dim": identity.dim, "repos": []}
    return {**empty, "corpus_hash": corpus_hash(empty)}


@dataclass(frozen=True, slots=True)
class _Question:
    """A vector, or else a text; of the documents with one of the topics, or of all."""

    top_k: int
    topics: tuple[str, ...]
    text: str
    vector: list[float] | None


def answer_query(desk: Desk, params: Params, _caller: str | None) -> dict[str, Any]:
    """Answer `query_vector`, or else `query_text`, with the `top_k` best distinct texts: ``{"corpus_hash", "hits"}``, best first.

    Blank text finds nothing. Hits that would make the reply too large are left out from the end; `left_out` says how many.

    Raises:
        Refusal: `corpus_list_refused`, `bad_params`, `query_text_or_vector_required`; `dimension_mismatch`, before the index is touched
            wherever an embedder says what to expect.
        Failure: what a description fails with, then what a search fails with.
    """
    desk.corpus_list.repos()
    question = _asked(params, _dim(desk))
    embedded = _embedded(desk, question)
    with desk.snapshot() as snapshot:
        described = describe.describe(snapshot.connection, _identity(desk, snapshot))
        _refuse_unfit(desk, snapshot, question, embedded, described["dim"])
        found = _found(desk, snapshot, question, embedded)
        sections = corpora.sections(snapshot.connection, list({chunk.doc_id for chunk in found.chunks}))
        content = content_of(snapshot)
    hits = [shapes.hit(chunk, sections.get(chunk.doc_id), copies) for chunk, copies in zip(found.chunks, found.copies, strict=True)]
    return {"corpus_hash": described["corpus_hash"], **replies.hits_within_bounds(hits), **content}


def _dim(desk: Desk) -> int:
    embedder = desk.runtime.embedder
    if embedder is None:  # the index may know its model all the same
        with desk.snapshot() as snapshot:
            return _identity(desk, snapshot).dim
    seen = desk.runtime.store.seen(desk.index)
    return boundary.identified(embedder, seen.embedder if seen is not None else None).dim


def _asked(params: Params, dim: int) -> _Question:
    if not params.is_map:
        raise Refusal("bad_params", "the parameters are no map")
    vector = params.vector("query_vector", dim)
    text = params.text("query_text") if vector is None else ""
    if text is None:
        raise Refusal("query_text_or_vector_required")
    check_text("query_text", text, MAX_QUERY_BYTES)
    return _Question(params.top_k(), params.texts("topics") or (), text, vector)


def _embedded(desk: Desk, question: _Question) -> Vectors:
    """Embed a text, outside any snapshot; a vector is brought to unit length."""
    if question.vector is not None:
        return {"": vectors.unit(question.vector, "query_vector")}
    embedder = desk.runtime.embedder
    if embedder is None:  # the words alone would be found by other rules than the description says
        raise fail("no_embed_model", path=desk.index)
    return search.vectors_of(desk.runtime.store, desk.index, desk.runtime.mode, [question.text], embedder)


def _refuse_unfit(desk: Desk, snapshot: Snapshot, question: _Question, embedded: Vectors, dim: int) -> None:
    """Refuse a snapshot that the vectors, which were made before it, do not belong to."""
    facts, embedder = snapshot.facts, desk.runtime.embedder
    if question.vector is not None and len(question.vector) != dim:
        raise Refusal("dimension_mismatch", f"expected {dim} numbers, got {len(question.vector)}", dim, len(question.vector))
    if embedder is not None and embedded:
        search.refuse_unfit(desk.runtime.store, snapshot, desk.index, embedder)
    elif embedded and facts.vectors < facts.chunks:
        raise fail("vectors_missing", path=desk.index, missing=facts.chunks - facts.vectors, total=facts.chunks, given="the index's own embedder")


def _found(desk: Desk, snapshot: Snapshot, question: _Question, embedded: Vectors) -> Found:
    topics = question.topics
    filters = Filters(doc_ids=served.documents_with_topics(snapshot.connection, topics)) if topics else NO_FILTERS
    mode = desk.runtime.mode if question.vector is None else "vector"
    query = search.Query(question.top_k, mode, filters, limits=desk.runtime.limits, distinct=True)
    if question.vector is not None:
        return search.nearest(snapshot, desk.index, query, embedded[""])
    return search.answers(snapshot, desk.index, query, [question.text], embedded)[0]
