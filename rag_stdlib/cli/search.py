"""`rag search` and `rag get`."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import Annotated, Any, cast

import typer

from rag_stdlib.cli.frame import app, index_name, runtime_of, value_of
from rag_stdlib.cli.terminal import clean, clean_block, plural, snippet, styled
from rag_stdlib.options import QueryOptions
from rag_stdlib.records import FrozenDict, Mode, RagChunkEnvelope, RagDocumentEnvelope, Scalar
from rag_stdlib.tools import rag_get, rag_query

Index = Annotated[str, typer.Argument(metavar="INDEX", help="The index file, below the [io] root.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@app.command()
def search(
    context: typer.Context,
    index: Index,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Any words; nothing in them is syntax.")],
    limit: Annotated[int, typer.Option("-n", "--limit", help="At most so many hits.")] = 10,
    mode: Annotated[str | None, typer.Option(help="hybrid, vector or lexical; otherwise as configured.")] = None,
    doc_id: Annotated[list[str] | None, typer.Option("--doc-id", help="Only this document; may be repeated.")] = None,
    source: Annotated[list[str] | None, typer.Option("--source", help="Only this source; may be repeated.")] = None,
    under: Annotated[str | None, typer.Option("--under", metavar="PREFIX", help="Only ids that begin so.")] = None,
    where: Annotated[list[str] | None, typer.Option("--where", metavar="KEY=VALUE",
                                                    help="Only documents with this metadata; may be repeated.")] = None,
    min_score: Annotated[float | None, typer.Option(help="Only hits that score at least this.")] = None,
    per_document: Annotated[int | None, typer.Option(help="At most so many hits of one document.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search an index: the best chunks, where they stand, and how well they match."""
    options = QueryOptions(
        mode=cast("Mode | None", mode),  # the tool refuses a wrong word
        doc_id=tuple(doc_id) if doc_id else None, doc_id_prefix=under, source=tuple(source) if source else None,
        metadata=_conditions(where or []), min_score=min_score, per_document=per_document)
    with runtime_of(context) as runtime:
        chunks = value_of(rag_query(index_name(runtime, index), query, limit, options))
    if as_json:
        print_json([chunk.to_dict() for chunk in chunks])
    else:
        _print_hits(chunks, query)


def print_json(value: Any) -> None:  # noqa: ANN401 - JSON
    """Print JSON in ASCII, so that nothing of a document reaches the terminal raw."""
    print(json.dumps(value, ensure_ascii=True, allow_nan=False, indent=2))  # noqa: T201 - the result


def _conditions(pairs: list[str]) -> FrozenDict:
    """Read KEY=VALUE pairs: a value that is a JSON scalar counts as such, any other as a string."""
    conditions: dict[str, tuple[Scalar, ...]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--where")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        conditions[key] = (*conditions.get(key, ()), text if isinstance(value, (dict, list)) else value)
    return FrozenDict(conditions)


def _place(chunk: RagChunkEnvelope) -> str:
    lines = f"{chunk.start_line}" if chunk.start_line == chunk.end_line else f"{chunk.start_line}-{chunk.end_line}"
    page = f" page {chunk.page}" if chunk.page is not None else ""
    return f"{clean(chunk.source) or clean(chunk.doc_id)}{page}:{lines}"


def _print_hits(chunks: list[RagChunkEnvelope], query: str) -> None:
    if not chunks:
        print("no hits", file=sys.stderr)  # noqa: T201 - no result, so not on standard output
        return
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    for rank, chunk in enumerate(chunks, 1):
        head = f"{rank}. {styled(_place(chunk), 1)}  {styled(_scores(chunk), 2)}"
        body = textwrap.fill(snippet(chunk.text, query), width, initial_indent="   ", subsequent_indent="   ",
                             break_on_hyphens=False)
        print(f"{head}\n{body}\n" if rank < len(chunks) else f"{head}\n{body}")  # noqa: T201 - the result


def _scores(chunk: RagChunkEnvelope) -> str:
    parts = [f"{name} {value:.3f}" for name, value in (("words", chunk.lexical_score), ("vector", chunk.vector_score))
             if value is not None]
    inside = f" ({', '.join(parts)})" if chunk.mode == "hybrid" else ""
    return f"{chunk.mode} {chunk.score:.3f}{inside}"


@app.command()
def get(context: typer.Context, index: Index,
        item: Annotated[str, typer.Argument(metavar="ID", help="A document id, or a chunk id (DOC_ID:NUMBER).")],
        as_json: AsJson = False) -> None:
    """Print a stored document or chunk."""
    with runtime_of(context) as runtime:
        found = value_of(rag_get(index_name(runtime, index), item))
    if as_json:
        print_json(found.to_dict())
        return
    if isinstance(found, RagDocumentEnvelope):
        head = f"{clean(found.id)}  {clean(found.media_type)}, {plural(found.chunks, 'chunks')}, from {clean(found.source)}"
    else:
        head = f"{clean(found.chunk_id)}  {_place(found)}  {found.provenance_key}"
    print(styled(head, 1), file=sys.stderr)  # noqa: T201 - about the result, not of it
    print(clean_block(found.text))  # noqa: T201 - the result
