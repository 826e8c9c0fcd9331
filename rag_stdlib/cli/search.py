"""`rag search` and `rag get`."""

from __future__ import annotations

import json
import shutil
from typing import Annotated, Final

import typer

from rag_stdlib.cli.frame import INT_MAX, AsJson, Index, command, note, runtime_of, show_json, value_of
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.snippet import snippet
from rag_stdlib.cli.terminal import clean, clean_block, plural, say, show, styled
from rag_stdlib.options import QueryOptions
from rag_stdlib.records import FrozenDict, Mode, RagChunkEnvelope, RagDocumentEnvelope, Scalar
from rag_stdlib.tools import rag_get, rag_query

_INDENT: Final = "   "
_LEAST_COLUMNS: Final = 20
_MOST_COLUMNS: Final = 100


@command("search", "Find the best chunks for some words.")
def search(
    context: typer.Context,
    index: Index,
    query: Annotated[list[str], typer.Argument(
        metavar="QUERY...", help="Any words; nothing in them is syntax. Put -- before words that begin with a dash.")],
    limit: Annotated[int, typer.Option("-n", "--limit", metavar="N", min=1, help="At most so many hits.")] = 10,
    mode: Annotated[Mode | None, typer.Option(metavar="MODE", help="hybrid, vector or lexical; otherwise as configured.")] = None,
    doc_id: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this document; may be repeated.")] = None,
    source: Annotated[list[str] | None, typer.Option(metavar="SOURCE", help="Only this source; may be repeated.")] = None,
    under: Annotated[str | None, typer.Option(metavar="PREFIX", help="Only documents whose id begins so.")] = None,
    where: Annotated[list[str] | None, typer.Option(
        metavar="KEY=VALUE", help="Only documents with this metadata; may be repeated: other keys must hold too, "
                                  "the same key holds with any of its values.")] = None,
    min_score: Annotated[float | None, typer.Option(metavar="X", help="Only hits that score at least this.")] = None,
    per_document: Annotated[int | None, typer.Option(metavar="N", min=1,
                                                     help="At most so many hits of one document.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search an index: the best chunks, where they stand, and how well they match.

    A hit shows its source and lines, its score (higher is better), and its text with the query's words marked.
    """
    asked = " ".join(query)
    options = QueryOptions(
        mode=mode, doc_id=tuple(doc_id) if doc_id else None, doc_id_prefix=under, source=tuple(source) if source else None,
        metadata=_conditions(where or []), min_score=min_score,
        per_document=None if per_document is None else min(per_document, INT_MAX))
    with runtime_of(context) as runtime:
        chunks = value_of(rag_query(below_root(runtime, index), asked, min(limit, INT_MAX), options))
    if as_json:
        show_json([chunk.to_dict() for chunk in chunks])
    elif chunks:
        _show_hits(chunks, asked)
    else:
        note("no hits")


def _conditions(pairs: list[str]) -> FrozenDict:
    """Read KEY=VALUE pairs: a value that is a JSON scalar counts as such, any other as a string."""
    conditions: dict[str, tuple[Scalar, ...]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--where")
        conditions[key] = (*conditions.get(key, ()), _scalar(text))
    return FrozenDict(conditions)


def _scalar(text: str) -> Scalar:
    if text[:1] in ("{", "["):
        return text
    try:
        value: Scalar = json.loads(text, parse_constant=str)
    except ValueError:
        return text
    return float(value) if type(value) is int and abs(value) > INT_MAX else value


def _place(chunk: RagChunkEnvelope) -> str:
    lines = f"{chunk.start_line}" if chunk.start_line == chunk.end_line else f"{chunk.start_line}-{chunk.end_line}"
    page = f" (page {chunk.page})" if chunk.page is not None else ""
    return f"{clean(chunk.source or chunk.doc_id)}:{lines}{page}"


def _show_hits(chunks: list[RagChunkEnvelope], query: str) -> None:
    columns = min(shutil.get_terminal_size((_MOST_COLUMNS, 24)).columns, _MOST_COLUMNS)
    width = max(columns, _LEAST_COLUMNS) - len(_INDENT)
    for rank, chunk in enumerate(chunks, 1):
        show(f"{rank}. {styled(_place(chunk), 1)}  {styled(_scores(chunk), 2)}")
        for line in snippet(chunk.text, query, width):
            show(_INDENT + line)
        if rank < len(chunks):
            show("")


def _scores(chunk: RagChunkEnvelope) -> str:
    parts = [f"{name} {value:.3f}" for name, value in (("words", chunk.lexical_score), ("vector", chunk.vector_score))
             if value is not None]
    inside = f" ({', '.join(parts)})" if chunk.mode == "hybrid" else ""
    return f"{chunk.mode} {chunk.score:.3f}{inside}"


@command("get", "Print a stored document or chunk.")
def get(context: typer.Context, index: Index,
        item: Annotated[str, typer.Argument(metavar="ID", help="A document id, or a chunk id (DOC_ID:NUMBER).")],
        as_json: AsJson = False) -> None:
    """Print a stored document or chunk: its text, with control characters replaced, and about it on standard error."""
    with runtime_of(context) as runtime:
        found = value_of(rag_get(below_root(runtime, index), item))
    if as_json:
        show_json(found.to_dict())
        return
    _tell_head(found)
    text = clean_block(found.text)
    show(text, end="" if text.endswith("\n") else "\n")


def _tell_head(found: RagDocumentEnvelope | RagChunkEnvelope) -> None:
    if isinstance(found, RagDocumentEnvelope):
        origin = f", from {found.source}" if found.source not in ("", found.id) else ""
        head = f"{found.id}  {found.media_type}, {plural(found.chunks, 'chunks')}{origin}"
    else:
        head = f"{found.chunk_id}  {_place(found)}  {found.provenance_key}"
    say(head, 1)
