"""`rag delete`, `stats`, `check`, `compact` and `reembed`."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_stdlib.cli.frame import AsJson, CommandError, Index, command, note, runtime_of, show_json, tell_error, value_of
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.progress import bar
from rag_stdlib.cli.terminal import clean, plural, show, size
from rag_stdlib.records import CheckReport, IndexStats
from rag_stdlib.result import Err
from rag_stdlib.tools import rag_check, rag_compact, rag_delete, rag_reembed, rag_stats


def _row(name: str, value: str) -> None:
    show(f"{name:<12}{clean(value)}")


def held(found: IndexStats | CheckReport) -> str:
    """Say what an index holds."""
    return ", ".join((plural(found.documents, "documents"), plural(found.chunks, "chunks"), plural(found.vectors, "vectors")))


@command("delete", "Delete documents.")
def delete(context: typer.Context, index: Index,
           doc_ids: Annotated[list[str], typer.Argument(metavar="DOC_ID...", help="Documents to delete.")],
           as_json: AsJson = False) -> None:
    """Delete documents; their bytes go with the next compact. An id that is not stored does not stop the others."""
    deleted: dict[str, int] = {}
    missing = False
    with runtime_of(context) as runtime:
        name = below_root(runtime, index)
        for doc_id in dict.fromkeys(doc_ids):
            result = rag_delete(name, doc_id)
            if not isinstance(result, Err):
                deleted[doc_id] = result.value
            elif result.error.code in ("not_found", "invalid_doc_id", "invalid_text"):
                tell_error(result.error)
                missing = True
            else:
                raise CommandError(result.error)
            if doc_id in deleted and not as_json:
                show(f"deleted {clean(doc_id)} ({plural(deleted[doc_id], 'chunks')})")
    if as_json:
        show_json(deleted)
    if missing:
        raise typer.Exit(1)


@command("stats", "Show what an index holds.")
def stats(context: typer.Context, index: Index, as_json: AsJson = False) -> None:
    """Show what an index holds, and what state it is in."""
    with runtime_of(context) as runtime:
        found = value_of(rag_stats(below_root(runtime, index)))
    if as_json:
        show_json(found.to_dict())
        return
    _row("documents", f"{found.documents:,}")
    _row("chunks", f"{found.chunks:,}")
    _row("vectors", f"{found.vectors:,}" + (f" ({found.embedder})" if found.embedder else ""))
    _row("text", size(found.text_bytes))
    _row("file", size(found.file_bytes) + (f" + {size(found.log_bytes)} log" if found.log_bytes else ""))
    _row("content", f"{found.content[:16]}\u2026" if found.content else "not known before the next change")
    _row("schema", f"version {found.schema_version}, generation {found.generation:,}")
    _row("SQLite", f"{found.sqlite_version}, {found.journal_mode} journal")
    for notice in found.notices:
        note(notice)


@command("check", "Verify every row of an index.")
def check(context: typer.Context, index: Index, as_json: AsJson = False) -> None:
    """Walk every row of an index; exit 1 if anything does not hold together."""
    with runtime_of(context) as runtime:
        found = value_of(rag_check(below_root(runtime, index)))
    if as_json:
        show_json(found.to_dict())
    else:
        for problem in found.problems:
            show(f"problem: {clean(problem)}")
        for notice in found.notices:
            note(notice)
        show(f"{'clean' if found.clean else plural(len(found.problems), 'problems')}: {held(found)}")
    if not found.clean:
        raise typer.Exit(1)


@command("compact", "Give back the bytes of what was deleted.")
def compact(context: typer.Context, index: Index, as_json: AsJson = False) -> None:
    """Give back the bytes of deleted documents and leave nothing of their texts in the file."""
    with runtime_of(context) as runtime:
        found = value_of(rag_compact(below_root(runtime, index)))
    if as_json:
        show_json(found.to_dict())
        return
    freed = found.bytes_before - found.bytes_after
    show(f"{size(found.bytes_before)} -> {size(found.bytes_after)} ({f'{size(freed)} given back' if freed > 0 else 'nothing to give back'})")


@command("reembed", "Give every chunk a vector anew.")
def reembed(context: typer.Context, index: Index, as_json: AsJson = False) -> None:
    """Give every chunk a vector of the configured embedder; an interrupted run goes on where it stopped."""
    with bar("embedding", "texts") as shown, runtime_of(context, progress=shown.update) as runtime:
        found = value_of(rag_reembed(below_root(runtime, index)))
    if as_json:
        show_json(found.to_dict())
    else:
        show(f"{plural(found.chunks, 'chunks')} with vectors; {plural(found.embedded, 'texts')} embedded")
