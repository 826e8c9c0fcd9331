"""`rag ingest`: files and folders into an index, resumable, with the bad files listed at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Final

import typer

from rag_stdlib.cli.frame import CommandError, app, index_name, note, runtime_of
from rag_stdlib.cli.progress import bar
from rag_stdlib.cli.search import Index
from rag_stdlib.cli.terminal import clean, plural
from rag_stdlib.cli.walk import Picked, Walk, pick
from rag_stdlib.errors import Failure
from rag_stdlib.records import FrozenDict, SourceDocument
from rag_stdlib.result import Err, Ok, RagError
from rag_stdlib.runtime import Runtime
from rag_stdlib.text import loaders
from rag_stdlib.text.chunker import ChunkOptions
from rag_stdlib.tools import UNCHANGED, rag_delete, rag_ingest_document

_TEXT: Final = ChunkOptions(end_boundary=True, graphemes=True, cjk_stops=True)
_MARKDOWN: Final = ChunkOptions(end_boundary=True, graphemes=True, cjk_stops=True, markdown=True)
_FATAL: Final = frozenset({
    "root_unconfigured", "root_unusable", "effect_not_granted", "embedding_mismatch", "embedder_not_installed",
    "embedder_auth", "embedder_model", "embedder_rate_limit", "embedder_timeout", "embedder_unreachable", "disk_full",
    "index_readonly", "index_corrupt", "index_too_new", "index_foreign_schema", "not_an_index", "sqlite_unfit",
    "path_folder_missing", "path_permission", "path_form", "key_missing", "config_invalid", "invalid_chunk_chars",
})  # what would fail for every further file too


@dataclass(slots=True)
class _Tally:
    documents: int = 0
    chunks: int = 0
    unchanged: int = 0
    pruned: int = 0
    failed: list[tuple[str, RagError]] = field(default_factory=list)


@app.command()
def ingest(
    context: typer.Context,
    index: Index,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files and folders below the [io] root.")],
    include: Annotated[list[str] | None, typer.Option(help="In folders: only names like this, e.g. '*.md'.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="In folders: no names like this.")] = None,
    chunk_chars: Annotated[int, typer.Option(help="Characters in a chunk.")] = 1000,
    prune: Annotated[bool, typer.Option("--prune", help="Delete documents whose file is gone from the folders.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and do nothing.")] = False,
) -> None:
    """Put files into an index. Unchanged ones cost a look, so a run that was stopped is resumed by running it again."""
    with runtime_of(context) as runtime:
        name = index_name(runtime, index)
        walk = pick(runtime.root, [_relative(runtime, path) for path in paths], include or [], exclude or [])
        tally = _Tally(failed=list(walk.errors))
        gone = _gone(runtime, name, walk) if prune else []
        if dry_run:
            _print_plan(walk, gone)
            return
        try:
            _ingest_all(runtime, name, list(walk.files.values()), chunk_chars, tally)
            _prune(name, gone, tally)
        except KeyboardInterrupt:
            _print_tally(tally, walk)
            note("stopped; what is counted above is stored, and the same command goes on from there")
            raise
    _print_tally(tally, walk)
    if tally.failed:
        raise typer.Exit(1)


def _relative(runtime: Runtime, path: str) -> str:
    """Name a file or folder by its path below the root; the root itself is ``.``."""
    root = runtime.root.path
    named = index_name(runtime, path.rstrip("/") or path)
    if named.startswith(root.rstrip("/") + "/"):
        named = named[len(root.rstrip("/")) + 1:]
    parts = [part for part in named.split("/") if part != "."]
    return "." if named == root or not parts else "/".join(parts)


def _ingest_all(runtime: Runtime, index: str, files: Sequence[Picked], chunk_chars: int, tally: _Tally) -> None:
    total, done = sum(file.size for file in files), 0
    with _shown(total) as (update, describe):
        for file in files:
            describe(file.path)
            error = _ingest_one(runtime, index, file.path, chunk_chars, tally)
            if error is not None:
                if _is_fatal(error, index):
                    raise CommandError(error)
                tally.failed.append((file.path, error))
            done += file.size
            update(done, max(total, 1))


def _is_fatal(error: RagError, index: str) -> bool:
    """Tell whether every further file would fail alike; an error about a path counts only if it is the index's path."""
    return error.code in _FATAL and (not error.code.startswith("path_") or repr(index) in error)


@contextmanager
def _shown(total: int) -> Iterator[tuple[Callable[[int, int], None], Callable[[str], None]]]:
    if total == 0 or not sys.stderr.isatty():
        yield (lambda _done, _total: None), (lambda _item: None)
        return
    with bar("ingesting", "bytes") as functions:
        yield functions


def _ingest_one(runtime: Runtime, index: str, path: str, chunk_chars: int, tally: _Tally) -> RagError | None:
    try:
        loaded = loaders.load(path, runtime.root.read_file(path))
    except Failure as failure:
        return failure.error
    metadata = FrozenDict({**loaded.metadata, "path": path})
    document = SourceDocument(path, path, loaded.text, loaded.media_type, metadata, loaded.lines, loaded.pages)
    options = _MARKDOWN if loaded.media_type == "text/markdown" else _TEXT
    result = rag_ingest_document(index, document, chunk_chars, options)
    if isinstance(result, Err):
        return result.error
    for remark in loaded.notes:
        note(f"{path}: {remark}")
    _count(result, tally)
    return None


def _count(result: Ok[int], tally: _Tally) -> None:
    if UNCHANGED in result.notes:
        tally.unchanged += 1
    else:
        tally.documents += 1
        tally.chunks += result.value


def _gone(runtime: Runtime, index: str, walk: Walk) -> list[str]:
    """List the documents that came from files below the walked folders and whose file is not there any more."""
    from rag_stdlib.index.reader import documents_by_path

    try:
        stored = documents_by_path(runtime.store, index)
    except Failure as failure:
        if failure.error.code == "index_missing":
            return []
        raise
    gone = []
    for doc_id, path in stored:
        below = any(folder == "." or path.startswith(f"{folder}/") for folder in walk.folders)
        if below and path not in walk.files and _is_gone(runtime, path):
            gone.append(doc_id)
    return gone


def _is_gone(runtime: Runtime, path: str) -> bool:
    try:
        return runtime.root.kind_of(path) is None
    except Failure as failure:
        return failure.error.code == "path_folder_missing"


def _prune(index: str, gone: Sequence[str], tally: _Tally) -> None:
    for doc_id in gone:
        result = rag_delete(index, doc_id)
        if isinstance(result, Err):
            tally.failed.append((doc_id, result.error))
        else:
            tally.pruned += 1


def _print_plan(walk: Walk, gone: Sequence[str]) -> None:
    for path in walk.files:
        print(f"would ingest {clean(path)}")  # noqa: T201 - the result
    for doc_id in gone:
        print(f"would delete {clean(doc_id)}")  # noqa: T201 - the result
    for path, error in walk.errors:
        print(f"cannot read {clean(path)}: {clean(error)}")  # noqa: T201 - the result


def _print_tally(tally: _Tally, walk: Walk) -> None:
    parts = [f"{plural(tally.documents, 'documents')} ingested ({plural(tally.chunks, 'chunks')})", f"{tally.unchanged:,} unchanged"]
    if tally.pruned:
        parts.append(f"{tally.pruned:,} deleted")
    if walk.passed_over:
        parts.append(f"{walk.passed_over:,} passed over")
    if tally.failed:
        parts.append(f"{len(tally.failed):,} failed")
    print(", ".join(parts))  # noqa: T201 - the result
    for path, error in tally.failed:
        print(clean(f"rag: failed {path}: [{error.code}] {error}"), file=sys.stderr)  # noqa: T201 - the list of failures

