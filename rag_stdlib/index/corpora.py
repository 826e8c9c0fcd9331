"""Which documents of an index come from repositories, and at which commit: the corpus that a provider can describe.

`rag_corpora` holds a row for each repository that the index serves whole, in the order of the corpus list; `rag_corpus_files` a
row for each of its files, with the id of the blob that it was made from and what is known of its chunks (`Section`, by ordinal).
Both tables are made by the first sync. Only a sync writes documents that stand in them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import apsw
import orjson

from rag_stdlib.errors import fail
from rag_stdlib.index import schema
from rag_stdlib.index.sql import number, rows
from rag_stdlib.records import NOTHING
from rag_stdlib.values import shown

PREFIX: Final = "corpus:"  # of the ids of a corpus's documents


@dataclass(frozen=True, slots=True)
class ServedRepo:
    """A repository as the index serves it: every file of its commit that can be ingested is there, and no other."""

    id: str
    url: str
    branch: str
    commit: str


class Section(NamedTuple):
    """What is known of a chunk of a corpus: the titles above it, joined with ``" > "``, and whether it is prose or code."""

    header_path: str
    kind: str


@dataclass(frozen=True, slots=True)
class State:
    """What a sync has to know of a repository: how it is served (None: not yet), by which rules, and the blob of each document."""

    served: ServedRepo | None = None
    rules: str = ""
    blobs: Mapping[str, str] = field(default_factory=lambda: NOTHING)


def exists(connection: apsw.Connection) -> bool:
    """Tell whether the index has ever held a corpus."""
    return schema.has_table(connection, "rag_corpora")


def document_id(repo_id: str, path: str) -> str:
    """Name the document of a file: ``corpus:REPO/PATH``, which no other document may be called once it is there."""
    return f"{PREFIX}{repo_id}/{path}"


def repos(connection: apsw.Connection) -> list[ServedRepo]:
    """Return the repositories that are served, in the order of the corpus list."""
    if not exists(connection):
        return []
    return [ServedRepo(*row) for row in rows(connection, "SELECT id, url, branch, commit_id FROM rag_corpora ORDER BY position, id")]


def positions(connection: apsw.Connection) -> dict[str, int]:
    """Return the place of each repository that is served in the list."""
    return dict(rows(connection, "SELECT id, position FROM rag_corpora")) if exists(connection) else {}


def state(connection: apsw.Connection, repo_id: str) -> State:
    """Look up how a repository is served."""
    if exists(connection):
        for url, branch, commit, rules in rows(
                connection, "SELECT url, branch, commit_id, rules FROM rag_corpora WHERE id = ?", (repo_id,)):
            blobs = dict(rows(connection, "SELECT doc_id, blob FROM rag_corpus_files WHERE repo_id = ?", (repo_id,)))
            return State(ServedRepo(repo_id, url, branch, commit), rules, blobs)
    return State()


def files_by_repo(connection: apsw.Connection) -> dict[str, int]:
    """Count the files of each repository that is served."""
    if not exists(connection):
        return {}
    return dict(rows(connection, "SELECT repo_id, count(*) FROM rag_corpus_files GROUP BY repo_id"))


def owned(connection: apsw.Connection, doc_ids: Sequence[str]) -> set[str]:
    """Return those of the documents that belong to a corpus."""
    if not exists(connection):
        return set()
    return {doc_id for (doc_id,) in rows(connection, "SELECT doc_id FROM rag_corpus_files WHERE doc_id IN "
                                         "(SELECT value FROM json_each(?))", (json.dumps(doc_ids),))}


def refuse_owned(connection: apsw.Connection, doc_ids: Sequence[str]) -> None:
    """Refuse to touch documents that belong to a corpus.

    Raises:
        Failure: `corpus_document`.
    """
    for doc_id in sorted(owned(connection, doc_ids)):
        raise fail("corpus_document", id=shown(doc_id))


def forget(connection: apsw.Connection, given: tuple[str]) -> None:
    """Drop what is kept beside documents that are about to go, given as a JSON list of their ids."""
    for table in ("rag_corpus_files", "rag_originals"):
        if schema.has_table(connection, table):
            connection.execute(f"DELETE FROM {table} WHERE doc_id IN (SELECT value FROM json_each(?))", given)


def sections(connection: apsw.Connection, doc_ids: Sequence[str]) -> dict[str, list[Section]]:
    """Return what is known of the chunks of those of the documents that belong to a corpus, by ordinal."""
    if not doc_ids or not exists(connection):
        return {}
    return {doc_id: [Section(*section) for section in orjson.loads(stored)] for doc_id, stored in rows(
        connection, "SELECT doc_id, sections FROM rag_corpus_files WHERE doc_id IN (SELECT value FROM json_each(?))",
        (json.dumps(doc_ids),))}


def keep_original(connection: apsw.Connection, doc_id: str, data: bytes) -> None:
    """Keep the bytes of a document that its text does not give back."""
    schema.create_originals(connection)
    connection.execute("INSERT OR REPLACE INTO rag_originals(doc_id, sha256, bytes) VALUES (?, ?, ?)",
                       (doc_id, hashlib.sha256(data).hexdigest(), data))


def original(connection: apsw.Connection, doc_id: str) -> bytes | None:
    """Return the bytes that were kept of a document; None where they are those of its text."""
    if schema.has_table(connection, "rag_originals"):
        for (data,) in rows(connection, "SELECT bytes FROM rag_originals WHERE doc_id = ?", (doc_id,)):
            return bytes(data)
    return None


def original_digests(connection: apsw.Connection, doc_ids: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of the bytes of those of the documents whose bytes were kept."""
    if not schema.has_table(connection, "rag_originals"):
        return {}
    return dict(rows(connection, "SELECT doc_id, sha256 FROM rag_originals WHERE doc_id IN (SELECT value FROM json_each(?))",
                     (json.dumps(doc_ids),)))


def problems(connection: apsw.Connection) -> Iterator[str]:
    """Hold the corpus against the documents: each file is stored whole, at the commit of its repository."""
    yield from _problems_of_originals(connection)
    if not exists(connection):
        return
    for doc_id, repo_id, commit, metadata, chunks, stored in rows(connection, (
            "SELECT f.doc_id, f.repo_id, r.commit_id, d.metadata, d.chunks, f.sections FROM rag_corpus_files f "
            "LEFT JOIN rag_corpora r ON r.id = f.repo_id LEFT JOIN rag_documents d ON d.id = f.doc_id ORDER BY f.doc_id")):
        named = f"corpus: document {shown(doc_id)!r}"
        if commit is None:
            yield f"{named} is of the repository {repo_id!r}, which is not served"
        elif metadata is None:
            yield f"{named} is not stored"
        else:
            facts = orjson.loads(metadata)
            if (facts.get("kind"), facts.get("repo_id"), facts.get("commit")) != ("corpus", repo_id, commit):
                yield f"{named} does not name its repository and the commit that is served"
            if len(orjson.loads(stored)) != chunks:
                yield f"{named} has {chunks} chunks, but not as many sections"


def _problems_of_originals(connection: apsw.Connection) -> Iterator[str]:
    if not schema.has_table(connection, "rag_originals"):
        return
    lost = number(connection, "SELECT count(*) FROM rag_originals WHERE doc_id NOT IN (SELECT id FROM rag_documents)")
    if lost:
        yield f"corpus: {lost} originals are kept of documents that are gone"
    for doc_id, digest, data in rows(connection, "SELECT doc_id, sha256, bytes FROM rag_originals"):
        if hashlib.sha256(data).hexdigest() != digest:
            yield f"corpus: the original of document {shown(doc_id)!r} does not have the stored digest"
