"""`rag delete`, `stats`, `check`, `compact` and `reembed`."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_stdlib.cli.frame import CommandError, app, index_name, note, runtime_of, value_of
from rag_stdlib.cli.progress import counted
from rag_stdlib.cli.search import AsJson, Index, print_json
from rag_stdlib.cli.terminal import clean, plural, size
from rag_stdlib.result import Err
from rag_stdlib.tools import rag_check, rag_compact, rag_delete, rag_reembed, rag_stats


def _row(name: str, value: object) -> None:
    print(f"{name:<16}{clean(str(value))}")  # noqa: T201 - the result


@app.command()
def delete(context: typer.Context, index: Index,
           doc_ids: Annotated[list[str], typer.Argument(metavar="DOC_ID...", help="Documents to delete.")]) -> None:
    """Delete documents; their bytes go with the next compact."""
    failed: CommandError | None = None
    with runtime_of(context) as runtime:
        name = index_name(runtime, index)
        for doc_id in doc_ids:
            result = rag_delete(name, doc_id)
            if isinstance(result, Err):
                if failed is not None:
                    note(str(failed.error))
                failed = CommandError(result.error)
            else:
                print(f"deleted {clean(doc_id)} ({plural(result.value, 'chunks')})")  # noqa: T201 - the result
    if failed is not None:
        raise failed


@app.command()
def stats(context: typer.Context, index: Index, as_json: AsJson = False) -> None:
    """Show what an index holds."""
    with runtime_of(context) as runtime:
        found = value_of(rag_stats(index_name(runtime, index)))
    if as_json:
        print_json(found.to_dict())
        return
    _row("documents", f"{found.documents:,}")
    _row("chunks", f"{found.chunks:,}")
    _row("vectors", f"{found.vectors:,}" + (f" ({found.embedder})" if found.embedder else ""))
    _row("text", size(found.text_bytes))
    _row("file", size(found.file_bytes) + (f" + {size(found.log_bytes)} log" if found.log_bytes else ""))
    _row("schema", f"version {found.schema_version}, generation {found.generation:,}")
    _row("SQLite", f"{found.sqlite_version}, {found.journal_mode} journal")
    for notice in found.notices:
        note(notice)


@app.command()
def check(context: typer.Context, index: Index, as_json: AsJson = False) -> None:
    """Walk every row of an index; exit 1 if anything does not hold together."""
    with runtime_of(context) as runtime:
        found = value_of(rag_check(index_name(runtime, index)))
    if as_json:
        print_json(found.to_dict())
    else:
        for problem in found.problems:
            print(f"problem: {clean(problem)}")  # noqa: T201 - the result
        for notice in found.notices:
            note(notice)
        verdict = "clean" if found.clean else plural(len(found.problems), "problems")
        counts = (plural(found.documents, "documents"), plural(found.chunks, "chunks"), plural(found.vectors, "vectors"))
        print(f"{verdict}: {', '.join(counts)}")  # noqa: T201 - the result
    if not found.clean:
        raise typer.Exit(1)


@app.command()
def compact(context: typer.Context, index: Index) -> None:
    """Give back the bytes of deleted documents and leave nothing of their texts in the file."""
    with runtime_of(context) as runtime:
        found = value_of(rag_compact(index_name(runtime, index)))
    print(f"{size(found.bytes_before)} -> {size(found.bytes_after)}")  # noqa: T201 - the result


@app.command()
def reembed(context: typer.Context, index: Index) -> None:
    """Give every chunk a vector of the configured embedder; an interrupted run goes on where it stopped."""
    with counted("embedding", "texts") as progress, runtime_of(context, progress=progress) as runtime:
        found = value_of(rag_reembed(index_name(runtime, index)))
    print(f"{plural(found.chunks, 'chunks')} with vectors; {plural(found.embedded, 'texts')} embedded")  # noqa: T201 - the result
