"""`rag import`: an index of ours from one with std/rag's original schema."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_stdlib.cli.frame import AsJson, command, require, runtime_of
from rag_stdlib.cli.ingest import ChunkChars
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.progress import bar
from rag_stdlib.cli.tally import Intake, Tally, told
from rag_stdlib.effects import RAG_READ
from rag_stdlib.records import SourceDocument


@command("import", "Make an index from another std/rag's.")
def import_index(
    context: typer.Context,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The other implementation's index file; it is only read.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The index file to put its documents into.")],
    chunk_chars: ChunkChars = 1000,
    as_json: AsJson = False,
) -> None:
    """Make an index from one that another std/rag implementation made: its documents are cut and embedded anew.

    A run that was stopped is resumed by running it again.
    """
    from rag_stdlib.index.foreign import foreign_index

    tally = Tally()
    with runtime_of(context) as runtime:
        require(runtime, RAG_READ, "rag import")
        target = below_root(runtime, new)
        with (foreign_index(runtime.root, below_root(runtime, old)) as found,
              told(tally, as_json=as_json, resumed=lambda: "what is counted is stored, and the same command goes on from there"),
              bar("importing", "documents") as shown):
            done = 0

            def advance(count: int) -> None:
                nonlocal done
                done += count
                shown.update(done, found.count)

            intake = Intake(tally, target, chunk_chars, advance, slow=runtime.has_embedder)
            for document in found.documents:
                if isinstance(document, SourceDocument):
                    shown.describe(document.doc_id)
                    intake.add(document, weight=1)
                else:
                    tally.failed.append(document)
                    intake.pass_by(1)
            intake.flush()
