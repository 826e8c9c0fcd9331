"""What a run over many documents did: counted while it goes, told at its end, also where it ends early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import typer

from rag_stdlib.cli.frame import INT_MAX, CommandError, Stopped, note, show_json
from rag_stdlib.cli.terminal import plural, say, show
from rag_stdlib.records import SourceDocument
from rag_stdlib.result import Err, RagError
from rag_stdlib.text.chunker import ChunkOptions
from rag_stdlib.tools import UNCHANGED, rag_ingest_document

_TEXT: Final = ChunkOptions(end_boundary=True, graphemes=True, cjk_stops=True)
_MARKDOWN: Final = ChunkOptions(end_boundary=True, graphemes=True, cjk_stops=True, markdown=True)
_OF_ONE_DOCUMENT: Final = frozenset({
    "invalid_doc_id", "invalid_text", "text_nul", "text_too_large", "too_many_chunks", "invalid_metadata", "not_found",
    "embedder_rejected", "embedder_failed", "embedder_reply", "embedder_input_too_long", "internal",
})  # any other error of a tool would come back for every further document


@dataclass(slots=True)
class Tally:
    """Documents and chunks stored, documents found unchanged, deleted, entries passed over, and failures by name."""

    documents: int = 0
    chunks: int = 0
    unchanged: int = 0
    deleted: int = 0
    passed_over: int = 0
    failed: list[tuple[str, RagError]] = field(default_factory=list)

    def store(self, index: str, document: SourceDocument, chunk_chars: int, remarks: tuple[str, ...] = ()) -> None:
        """Ingest a document and count it; an error that is not the document's own ends the command."""
        options = _MARKDOWN if document.media_type == "text/markdown" else _TEXT
        result = rag_ingest_document(index, document, min(chunk_chars, INT_MAX), options)
        if isinstance(result, Err):
            self.fail(document.doc_id, result.error)
        elif UNCHANGED in result.notes:
            self.unchanged += 1
        else:
            self.documents += 1
            self.chunks += result.value
            for remark in (*remarks, *result.notes):
                note(f"{document.doc_id}: {remark}")

    def fail(self, name: str, error: RagError) -> None:
        """Note a tool's failure, or end the command with it where every further document would fail alike."""
        if error.code not in _OF_ONE_DOCUMENT:
            raise CommandError(error)
        self.failed.append((name, error))

    def to_dict(self) -> dict[str, Any]:
        """Give the counts as JSON."""
        return {
            "documents": self.documents, "chunks": self.chunks, "unchanged": self.unchanged, "deleted": self.deleted,
            "passed_over": self.passed_over, "failed": failures(self.failed),
        }

    def tell(self, *, as_json: bool) -> None:
        """Print the counts, and the failures behind them on standard error."""
        if as_json:
            show_json(self.to_dict())
        else:
            parts = [f"{plural(self.documents, 'documents')} ingested ({plural(self.chunks, 'chunks')})",
                     f"{self.unchanged:,} unchanged"]
            counts = (self.deleted, "deleted"), (self.passed_over, "passed over"), (len(self.failed), "failed")
            show(", ".join([*parts, *(f"{count:,} {word}" for count, word in counts if count)]))
        tell_failures(self.failed)


def failures(failed: list[tuple[str, RagError]]) -> list[dict[str, str]]:
    """Give failures as JSON."""
    return [{"name": name, "code": error.code, "message": str(error)} for name, error in failed]


def tell_failures(failed: list[tuple[str, RagError]]) -> None:
    """List failures on standard error, a line each, each with the name it is about."""
    for name, error in failed:
        say(f"rag: failed [{error.code}]: {'' if repr(name) in error else f'{name!r}: '}{error}")


@contextmanager
def told(tally: Tally, *, as_json: bool, resumed: Callable[[], str]) -> Iterator[None]:
    """Tell the tally at the end of the block, however it ends; exit 1 if anything failed.

    `resumed` says, after Ctrl-C, how the run is taken up again.
    """
    try:
        yield
    except KeyboardInterrupt:
        tally.tell(as_json=as_json)
        raise Stopped(resumed()) from None
    except CommandError:
        if tally.documents or tally.unchanged or tally.deleted or tally.failed:
            tally.tell(as_json=as_json)
        raise
    tally.tell(as_json=as_json)
    if tally.failed:
        raise typer.Exit(1)
