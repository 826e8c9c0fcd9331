"""`rag shard split` and `of`: one index into several, by document."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rag_stdlib.cli.frame import AsJson, Index, Stopped, command, group, require, runtime_of, show_json
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.progress import bar
from rag_stdlib.cli.terminal import clean, show
from rag_stdlib.effects import RAG_READ, RAG_WRITE

if TYPE_CHECKING:
    from rag_stdlib.index.splitting import Shard

shards = group("shard", "Cut an index into several.",
               "Shards: indexes that hold a part of the documents of a larger one each, to be searched by several machines at once.")

Count = Annotated[int, typer.Option("-n", "--shards", metavar="N", min=2, max=1024, help="How many shards there are.")]

_COLUMNS: Final = 9  # of a number


@command("split", "Cut an index into shards by document.", group=shards)
def split(
    context: typer.Context,
    index: Index,
    count: Count,
    to: Annotated[str | None, typer.Option("--to", metavar="FOLDER", help="Put the shards there; otherwise beside the index.")] = None,
    as_json: AsJson = False,
) -> None:
    """Cut an index into shards by document: notes.db into notes-0.db, notes-1.db and so on, each an index of its own. The index itself stays as it is.

    Which shard a document goes to depends on its id alone, so rag shard of finds it again. Nothing is embedded anew. No file is written over, and
    the shards appear when all are whole.
    """
    from rag_stdlib.index import splitting

    with bar("splitting", "chunks") as shown, runtime_of(context) as runtime:
        for effect in (RAG_READ, RAG_WRITE):
            require(runtime, effect, "rag shard split")
        folder = None if to is None else below_root(runtime, to)
        try:
            made = splitting.split(runtime.root, runtime.store, below_root(runtime, index), count, folder, shown.update)
        except KeyboardInterrupt:
            raise Stopped("no shard was made") from None
    if as_json:
        show_json([shard.to_dict() for shard in made])
    else:
        _show(PurePosixPath(index).parent if to is None else PurePosixPath(to), made)


def _show(folder: PurePosixPath, made: tuple[Shard, ...]) -> None:
    """Show what was made as a table; the files by the names that they have from here."""
    names = [clean(str(folder / PurePosixPath(shard.index).name)) for shard in made]
    width = max(map(len, names))
    show(f"{'shard':<{width}}  {'documents':>{_COLUMNS}}  {'chunks':>{_COLUMNS}}")
    for name, shard in zip(names, made, strict=True):
        show(f"{name:<{width}}  {shard.documents:>{_COLUMNS},}  {shard.chunks:>{_COLUMNS},}")


@command("of", "Say which shard a document belongs to.", group=shards)
def of(doc_id: Annotated[str, typer.Argument(metavar="DOC_ID", help="The document's id; it need not be stored.")], count: Count) -> None:
    """Print the number of the shard that a document belongs to, from 0: the one to ingest it into, and the one that holds it after a split."""
    from rag_stdlib.index import sharding

    show(str(sharding.shard_of(doc_id, count)))
