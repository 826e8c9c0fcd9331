"""Writing a corpus: one transaction takes an index from one commit of a repository to another, so that no answer straddles both.

What a switch needs is made ready before: texts are embedded and their vectors staged in the index, a batch at a time, so that a
sync that was interrupted goes on where it stopped. The switch itself embeds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import apsw
import orjson

from rag_stdlib.contract.provenance import content_sha256
from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.errors import fail
from rag_stdlib.index import content, corpora, lexical, multiset, schema, vectors, writer
from rag_stdlib.index.prepare import Prepared, metadata_json
from rag_stdlib.index.sql import rows
from rag_stdlib.index.store import Store
from rag_stdlib.text.chunker import embedded_text
from rag_stdlib.values import shown

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix


_SLICE: Final = 1_000  # documents


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file ready to be stored: its document, its blob's id, its chunks' sections, and its bytes where the text does not give them."""

    prepared: Prepared
    blob: str
    sections: tuple[corpora.Section, ...]
    original: bytes | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """From which state of a repository to which. `files` gives the new and changed ones, in groups, each time it is called.

    `went` are the ids of the documents that the new state does not have, or has otherwise.
    """

    before: corpora.State
    after: corpora.ServedRepo
    rules: str
    position: int
    went: Sequence[str]
    files: Callable[[], Iterable[Sequence[NewFile]]] = field(default=lambda: ())


def switch(store: Store, path: str, plan: Switch, identity: EmbedderIdentity | None) -> bool:
    """Store a switch in one transaction; False where vectors that it needs are not staged (yet, or any more), and nothing is stored.

    Raises:
        Failure: `corpus_changed` where the repository is not served as the plan was made for, `corpus_conflict` for an id that a
            document of another origin has, `embedding_mismatch`, and what `Store.writing` raises.
    """
    try:
        with store.writing(path, create=True) as connection:
            schema.create_corpus(connection)
            _check_before(connection, path, plan)
            gone = _lanes(connection, plan.went)
            _, texts = writer.remove(connection, list(plan.went))
            _put_repo(connection, plan)
            came = multiset.EMPTY
            for group in plan.files():
                came = multiset.plus(came, _put_files(connection, path, plan.after, group, texts, identity))
                texts = {}
            lexical.remove(connection, texts.items())
            changed = _carry(connection, plan.after)
            content.advance(connection, gone=multiset.plus(gone, changed[0]), come=multiset.plus(came, changed[1]))
    except _NotStaged:
        return False
    return True


class _NotStaged(Exception):  # noqa: N818 - it ends the transaction and is no error
    pass


def _check_before(connection: apsw.Connection, path: str, plan: Switch) -> None:
    present = corpora.state(connection, plan.after.id)
    if (present.served, present.rules, present.blobs) != (plan.before.served, plan.before.rules, plan.before.blobs):
        raise fail("corpus_changed", path=path)


def _put_repo(connection: apsw.Connection, plan: Switch) -> None:
    repo = plan.after
    connection.execute("INSERT INTO rag_corpora(id, position, url, branch, commit_id, rules) VALUES (?, ?, ?, ?, ?, ?) "
                       "ON CONFLICT(id) DO UPDATE SET position = excluded.position, url = excluded.url, branch = excluded.branch, "
                       "commit_id = excluded.commit_id, rules = excluded.rules",
                       (repo.id, plan.position, repo.url, repo.branch, repo.commit, plan.rules))


def _put_files(connection: apsw.Connection, path: str, repo: corpora.ServedRepo, group: Sequence[NewFile], gone_texts: dict[int, str],
               identity: EmbedderIdentity | None) -> int:
    prepared = [file.prepared for file in group]
    doc_ids = [document.doc_id for document in prepared]
    for (taken,) in rows(connection, "SELECT id FROM rag_documents WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(doc_ids),)):
        raise fail("corpus_conflict", path=path, id=shown(taken))
    digests = [digest for document in prepared for digest in document.digests]
    writer.add(connection, path, prepared, gone_texts, identity, _staged_rows(connection, digests, identity) if identity and digests else None)
    connection.executemany("INSERT INTO rag_corpus_files(doc_id, repo_id, blob, sections) VALUES (?, ?, ?, ?)", (
        (file.prepared.doc_id, repo.id, file.blob, orjson.dumps([list(section) for section in file.sections]).decode()) for file in group))
    for file in group:
        if file.original is not None:
            corpora.keep_original(connection, file.prepared.doc_id, file.original)
    return writer.total(document.lanes for document in prepared)


def _carry(connection: apsw.Connection, repo: corpora.ServedRepo) -> tuple[int, int]:
    """Have the files that did not change name the new commit; return the lanes of how they were and how they are."""
    late: list[str] = []
    carried: list[tuple[str, str]] = []
    for doc_id, metadata in rows(connection, "SELECT d.id, d.metadata FROM rag_corpus_files f JOIN rag_documents d ON d.id = f.doc_id "
                                 "WHERE f.repo_id = ?", (repo.id,)):
        facts = orjson.loads(metadata)
        if facts.get("commit") != repo.commit:
            late.append(doc_id)
            carried.append((metadata_json({**facts, "commit": repo.commit}), doc_id))
    gone = _lanes(connection, late)
    connection.executemany("UPDATE rag_documents SET metadata = ? WHERE id = ?", carried)
    return gone, _lanes(connection, late)


def _lanes(connection: apsw.Connection, doc_ids: Sequence[str]) -> int:
    """Add up the lanes of those of the documents that are stored: some at a time, since those of each take 2 KB."""
    summed = multiset.EMPTY
    for start in range(0, len(doc_ids), _SLICE):
        summed = multiset.plus(summed, writer.total(content.stored_members(connection, doc_ids[start:start + _SLICE])))
    return summed


def remove_repo(store: Store, path: str, repo_id: str) -> int:
    """Take a repository out with all its documents, in one transaction; return how many those were."""
    with store.writing(path) as connection:
        state = corpora.state(connection, repo_id)
        doc_ids = list(state.blobs)
        gone = _lanes(connection, doc_ids)
        _, texts = writer.remove(connection, doc_ids)
        lexical.remove(connection, texts.items())
        connection.execute("DELETE FROM rag_corpora WHERE id = ?", (repo_id,))
        content.advance(connection, gone=gone)
    return len(doc_ids)


def arrange(store: Store, path: str, order: Sequence[str]) -> None:
    """Put the repositories that are served into this order; nothing is written where they are in it."""
    with store.reading(path) as connection:
        present = corpora.positions(connection)
    wanted = {repo_id: position for position, repo_id in enumerate(order) if repo_id in present}
    if wanted != present:
        with store.writing(path) as connection:
            connection.executemany("UPDATE rag_corpora SET position = ? WHERE id = ?", ((at, repo_id) for repo_id, at in wanted.items()))


# --- vectors that wait for their switch ---

def missing_vectors(store: Store, path: str, identity: EmbedderIdentity, digests: Iterable[str]) -> set[str]:
    """Return those of the texts, by digest, that have no staged vector of this embedder."""
    wanted = set(digests)
    with store.reading_if_any(path) as connection:
        if connection is None or not _is_staging(connection, identity):
            return wanted
        return wanted - {digest for (digest,) in rows(connection, "SELECT digest FROM rag_corpus_staging WHERE digest IN "
                                                      "(SELECT value FROM json_each(?))", (json.dumps(list(wanted)),))}


def lendable(store: Store, path: str, identity: EmbedderIdentity, doc_ids: Sequence[str]) -> dict[str, int]:
    """Return the texts of some documents, by digest, each with the seq of a chunk; none where the vectors are of another embedder."""
    with store.reading_if_any(path) as connection:
        if connection is None or schema.stored_identity(connection) != identity:
            return {}
        return {content_sha256(embedded_text(context, text)): seq for context, text, seq in rows(
            connection, "SELECT context, text, seq FROM rag_chunks WHERE doc_id IN (SELECT value FROM json_each(?))", (json.dumps(doc_ids),))}


def lent(store: Store, path: str, identity: EmbedderIdentity, seqs: Mapping[str, int]) -> writer.Vectors:
    """Return the vectors of chunks by the digests of their texts, given by the same; those that are there."""
    with store.reading(path) as connection:
        found = vectors.load_some(connection, list(seqs.values()), identity.dim)
        return {digest: found[seq] for digest, seq in seqs.items() if seq in found}


def stage(store: Store, path: str, identity: EmbedderIdentity, digests: Sequence[str], given: Matrix | Sequence[Any]) -> None:
    """Keep the vectors of some texts until a switch takes them; those of another embedder are thrown away."""
    with store.writing(path, create=True) as connection:
        if not _is_staging(connection, identity):
            clear_staging(connection)
            schema.create_corpus_staging(connection)
            schema.set_fact(connection, "corpus_staging", identity.to_json())
        connection.executemany("INSERT OR REPLACE INTO rag_corpus_staging(digest, vector) VALUES (?, ?)",
                               ((digest, row.astype("<f4").tobytes()) for digest, row in zip(digests, given, strict=True)))


def unstage(store: Store, path: str) -> None:
    """Throw away what is staged, once every repository is served as the list says."""
    with store.reading_if_any(path) as connection:
        if connection is None or not schema.has_table(connection, "rag_corpus_staging"):
            return
    with store.writing(path) as connection:
        clear_staging(connection)


def clear_staging(connection: apsw.Connection) -> None:
    """Throw away what is staged, inside the caller's transaction."""
    connection.execute("DROP TABLE IF EXISTS rag_corpus_staging")
    schema.drop_fact(connection, "corpus_staging")


def _is_staging(connection: apsw.Connection, identity: EmbedderIdentity) -> bool:
    return schema.get_fact(connection, "corpus_staging") == identity.to_json() and schema.has_table(connection, "rag_corpus_staging")


def _staged_rows(connection: apsw.Connection, digests: Sequence[str], identity: EmbedderIdentity) -> Matrix:
    import numpy as np

    if not _is_staging(connection, identity):
        raise _NotStaged
    found: dict[str, bytes] = dict(rows(connection, "SELECT digest, vector FROM rag_corpus_staging WHERE digest IN "
                                        "(SELECT value FROM json_each(?))", (json.dumps(list(set(digests))),)))
    if not found.keys() >= set(digests):
        raise _NotStaged
    return np.frombuffer(b"".join(found[digest] for digest in digests), "<f4").reshape(-1, identity.dim)
