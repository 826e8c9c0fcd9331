"""`rag ingest`: files and folders into an index, resumable, with the bad files listed at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from rag_stdlib.cli.frame import AsJson, CommandError, Index, command, note, require, runtime_of, show_json
from rag_stdlib.cli.paths import below_root, plain
from rag_stdlib.cli.progress import bar
from rag_stdlib.cli.tally import Intake, Tally, failures, tell_failures, told
from rag_stdlib.cli.terminal import clean, show
from rag_stdlib.cli.walk import Picked, Walk, pick
from rag_stdlib.effects import RAG_READ
from rag_stdlib.errors import Failure
from rag_stdlib.records import FrozenDict, SourceDocument
from rag_stdlib.result import Err
from rag_stdlib.root import SIDE_FILES
from rag_stdlib.runtime import Runtime
from rag_stdlib.text import loaders
from rag_stdlib.text.loaders import Loaded
from rag_stdlib.tools import rag_delete

ChunkChars = Annotated[int, typer.Option(metavar="N", min=1, help="Characters in a chunk.")]


@command("ingest", "Put files and folders into an index.")
def ingest(
    context: typer.Context,
    index: Index,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files and folders below the [io] root.")],
    include: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="In folders: only names like '*.md'; may be repeated.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="In folders: no names like this; may be repeated.")] = None,
    chunk_chars: ChunkChars = 1000,
    prune: Annotated[bool, typer.Option("--prune", help="Delete the documents whose file is gone from the folders.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and do nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put files into an index. Unchanged ones cost a look, so a run that was stopped is resumed by running it again.

    In folders, hidden names, links, kinds of files that no loader reads, and what a .gitignore names are passed over.
    A file that cannot be read does not stop the run; it is listed at the end, and the exit code is 1.
    """
    with runtime_of(context) as runtime:
        name = below_root(runtime, index)
        kept_out = frozenset(plain(name) + suffix for suffix in ("", *SIDE_FILES))
        walk = pick(runtime.root, [plain(below_root(runtime, path)) for path in paths], include or [], exclude or [], kept_out)
        gone = _gone(runtime, name, walk) if prune else []
        if dry_run:
            _tell_plan(walk, gone, as_json=as_json)
            return
        tally = Tally(passed_over=walk.passed_over, failed=walk.errors)
        with told(tally, as_json=as_json, resumed=lambda: "what is counted is stored, and the same command goes on from there"):
            _ingest_all(runtime, name, list(walk.files.values()), chunk_chars, tally)
            _prune(name, gone, tally)
    if not (walk.files or walk.errors or gone):
        note("there is nothing to ingest: every entry is hidden, a link, of a kind that no loader reads, or left out by "
             "--include, --exclude or a .gitignore" if walk.passed_over else "there is nothing to ingest")


def _ingest_all(runtime: Runtime, index: str, files: Sequence[Picked], chunk_chars: int, tally: Tally) -> None:
    total, done = sum(file.size for file in files), 0

    def advance(size: int) -> None:
        nonlocal done
        done += size
        shown.update(done, total)

    intake = Intake(tally, index, chunk_chars, advance, slow=runtime.has_embedder)
    with bar("ingesting", "bytes") as shown:
        for file in files:
            shown.describe(file.path)
            loaded = _load(runtime, file, tally)
            if loaded is None:
                intake.pass_by(file.size)
                continue
            metadata = FrozenDict({**loaded.metadata, "path": file.path})
            document = SourceDocument(file.path, file.path, loaded.text, loaded.media_type, metadata, loaded.lines, loaded.pages)
            intake.add(document, loaded.notes, weight=file.size)
        intake.flush()


def _load(runtime: Runtime, file: Picked, tally: Tally) -> Loaded | None:
    """Read a file; None for one that is passed over or failed, which is counted then."""
    try:
        return loaders.load(file.path, runtime.root.read_file(file.path))
    except Failure as failure:
        if failure.error.code == "root_unusable":
            raise CommandError(failure.error) from None
        if failure.error.code == "file_unsupported" and not file.named:  # a program, say, whose name does not tell its kind
            tally.passed_over += 1
        else:
            tally.failed.append((file.path, failure.error))
        return None


def _gone(runtime: Runtime, index: str, walk: Walk) -> list[str]:
    """List the documents that came from files below the walked folders and whose file is not there any more."""
    require(runtime, RAG_READ, "rag ingest --prune")
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


def _prune(index: str, gone: Sequence[str], tally: Tally) -> None:
    for doc_id in gone:
        result = rag_delete(index, doc_id)
        if isinstance(result, Err):
            tally.fail(doc_id, result.error)
        else:
            tally.deleted += 1


def _tell_plan(walk: Walk, gone: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        show_json({"ingest": list(walk.files), "delete": list(gone), "passed_over": walk.passed_over,
                   "failed": failures(walk.errors)})
    else:
        for path in walk.files:
            show(f"would ingest {clean(path)}")
        for doc_id in gone:
            show(f"would delete {clean(doc_id)}")
        if not (walk.files or gone):
            note("there is nothing to do")
    tell_failures(walk.errors)
    if walk.errors:
        raise typer.Exit(1)
