"""What a run over many documents did: counted while it goes, told at its end, also where it ends early."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import typer

from rag_stdlib.cli.frame import INT_MAX, CommandError, Stopped, note, show_json
from rag_stdlib.cli.terminal import plural, say, show
from rag_stdlib.records import SourceDocument
from rag_stdlib.result import Err, Ok, RagError
from rag_stdlib.text.chunker import ChunkOptions
from rag_stdlib.tools import UNCHANGED, rag_ingest_document, rag_ingest_many, unchanged_positions

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
        result = rag_ingest_document(index, document, min(chunk_chars, INT_MAX), options_for(document))
        if isinstance(result, Err):
            self.fail(document.doc_id, result.error)
        else:
            self._count(document, result.value, (*remarks, *result.notes))

    def store_all(self, index: str, documents: Sequence[tuple[SourceDocument, tuple[str, ...]]], chunk_chars: int) -> None:
        """Ingest documents of one kind, each with its remarks, in one transaction if all is well with them, else one by one."""
        if len(documents) > 1:
            given = [document for document, _ in documents]
            result = rag_ingest_many(index, given, min(chunk_chars, INT_MAX), options_for(given[0]))
            if isinstance(result, Ok):
                unchanged = unchanged_positions(result.notes)
                for position, ((document, remarks), chunks) in enumerate(zip(documents, result.value, strict=True)):
                    self._count(document, chunks, (UNCHANGED,) if position in unchanged else remarks)
                for remark in result.notes:
                    if not remark.startswith(UNCHANGED):
                        note(remark)
                return
            if result.error.code not in _OF_ONE_DOCUMENT:
                raise CommandError(result.error)
        for document, remarks in documents:
            self.store(index, document, chunk_chars, remarks)

    def _count(self, document: SourceDocument, chunks: int, notes: tuple[str, ...]) -> None:
        if UNCHANGED in notes:
            self.unchanged += 1
            return
        self.documents += 1
        self.chunks += chunks
        for remark in notes:
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


class Intake:
    """Documents on their way into an index: stored many at a time, each batch of a size that is stored in one transaction.

    What makes a batch depends on the documents and the configuration alone, so that a recorded run makes the same calls again.
    """

    def __init__(self, tally: Tally, index: str, chunk_chars: int, advance: Callable[[int], None], *, slow: bool) -> None:
        """Store into `index`, count in `tally`, and give `advance` the weight of what is done.

        A `slow` embedder gets small batches, so that progress shows.
        """
        self._tally, self._index, self._chunk_chars, self._slow = tally, index, min(chunk_chars, INT_MAX), slow
        self._advance = advance
        self._pending: dict[ChunkOptions, list[tuple[SourceDocument, tuple[str, ...]]]] = {}
        self._names: set[str] = set()
        self._chunks = self._chars = self._weight = 0

    def add(self, document: SourceDocument, remarks: tuple[str, ...] = (), *, weight: int) -> None:
        """Take a document, and store those before it if there are enough of them or one has its id."""
        from rag_stdlib.index import pipeline

        chunks, chars = pipeline.estimated_chunks(document, self._chunk_chars), len(document.text)
        most = pipeline.LEAST_CHUNKS if self._slow else pipeline.FIRST_CHUNKS
        if self._chunks + chunks > most or self._chars + chars > pipeline.MOST_CHARS or document.doc_id in self._names:
            self.flush()
        self._chunks, self._chars, self._weight = self._chunks + chunks, self._chars + chars, self._weight + weight
        self._names.add(document.doc_id)
        self._pending.setdefault(options_for(document), []).append((document, remarks))

    def pass_by(self, weight: int) -> None:
        """Take note of an entry that holds no document."""
        self._weight += weight

    def flush(self) -> None:
        """Store what is pending."""
        pending, weight, self._pending, self._names = self._pending, self._weight, {}, set()
        self._chunks = self._chars = self._weight = 0
        for documents in pending.values():
            self._tally.store_all(self._index, documents, self._chunk_chars)
        self._advance(weight)


def options_for(document: SourceDocument) -> ChunkOptions:
    """Return how the command line cuts a document of this kind."""
    return _MARKDOWN if document.media_type == "text/markdown" else _TEXT


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
