"""What an index holds, as one digest, kept up by every transaction that changes a document and never recomputed for a call.

Two indexes with the same documents, cut in the same way, have the same digest, whatever was done to them and in which order.
The fact `content` is ``GENERATION:DIGEST``, `content_state` the state of `multiset` that the digest is of. A fact of an earlier
generation is no fact any more: a release that knows none has written since. The next change makes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import apsw

from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.index import changes, multiset, schema
from rag_stdlib.index.sql import rows

# What makes a stored document answer as it does; its text stands there by its digest.
COLUMNS: Final = ("id", "source", "media_type", "content_sha256", "metadata", "line_anchors", "page_anchors", "chunk_chars",
                  "chunker", "chunks")
_AS_BYTES: Final = ", ".join(f"CAST({column} AS BLOB)" for column in COLUMNS)  # damaged text can be hashed, too


def stored_members(connection: apsw.Connection, doc_ids: Sequence[str]) -> list[int]:
    """Return the lanes of those of the documents that are stored."""
    found = rows(connection, f"SELECT {_AS_BYTES} FROM rag_documents WHERE id IN (SELECT value FROM json_each(?))",
                 (json.dumps(doc_ids),))
    return [multiset.member(row) for row in found]


def member(row: tuple[str | int, ...]) -> int:
    """Return the lanes of a document that is given as its row of `COLUMNS`."""
    return multiset.member(value.encode() if isinstance(value, str) else b"%d" % value for value in row)


def advance(connection: apsw.Connection, *, gone: int = multiset.EMPTY, come: int = multiset.EMPTY,
            steps: Sequence[changes.Step] = ()) -> None:
    """Count up the generation, with the lanes of the documents that went and of those that came in this transaction.

    `steps` are the seqs that went and came, a generation for each; without any it is one step that ranges cannot tell.
    Where the facts are missing, they are made from the documents.
    """
    generation = schema.get_fact(connection, "generation")
    digest, state = _digest(generation, schema.get_fact(connection, "content")), _state(connection)
    schema.next_generation(connection, max(len(steps), 1))
    follows = schema.exchange_mark(connection)
    if isinstance(generation, int) and steps:
        changes.note(connection, generation + 1, steps, follows)
    else:
        changes.clear(connection)
    if state is None or multiset.digest(state) != digest:
        rebuild(connection)
    else:
        _write(connection, multiset.plus(multiset.minus(multiset.from_bytes(state), gone), come))


def rebuild(connection: apsw.Connection) -> None:
    """Make the facts from the documents: one pass over them."""
    _write(connection, _of_documents(connection))


def describe(connection: apsw.Connection) -> dict[str, Any]:
    """Say what of an index decides its answers: ``{"generation": int, "content": hex, "embedder": whose vectors it holds}``.

    `content` is None, not known, until the next change where the fact is missing; `embedder` is empty where there are no vectors.
    """
    facts: dict[str, Any] = {}
    with suppress(UnicodeDecodeError):
        facts = dict(rows(connection, "SELECT key, value FROM rag_meta WHERE key IN ('generation', 'content', 'embedder')"))
    generation, identity = facts.get("generation"), facts.get("embedder")
    return {"generation": generation if isinstance(generation, int) else 0,
            "content": _digest(generation, facts.get("content")) or None,
            "embedder": _described(identity) if isinstance(identity, str) and _holds_vectors(connection) else ""}


def problems(connection: apsw.Connection) -> Iterator[str]:
    """Compare the facts with the documents."""
    generation, fact = schema.get_fact(connection, "generation"), schema.get_fact(connection, "content")
    state = _state(connection)
    if fact is None or _is_earlier(generation, fact):
        return
    wanted = multiset.to_bytes(_of_documents(connection))
    if state != wanted or _digest(generation, fact) != multiset.digest(wanted):
        yield "content: the digest kept of the documents is not theirs; run compact to make it anew"


def _digest(generation: Any, fact: Any) -> str:  # noqa: ANN401 - whatever is stored
    """Take the digest out of a fact of this generation; empty for what is none."""
    stamp, _, digest = fact.partition(":") if isinstance(fact, str) else ("", "", "")
    return digest if isinstance(generation, int) and stamp == str(generation) else ""


def _is_earlier(generation: Any, fact: Any) -> bool:  # noqa: ANN401 - whatever is stored
    stamp = fact.partition(":")[0] if isinstance(fact, str) else ""
    return stamp.isascii() and stamp.isdigit() and isinstance(generation, int) and int(stamp[:20]) < generation


def _state(connection: apsw.Connection) -> bytes | None:
    for (value,) in rows(connection, "SELECT value FROM rag_meta WHERE key = 'content_state' AND typeof(value) = 'blob'"):
        return bytes(value) if len(value) == multiset.STATE_BYTES else None
    return None


def _write(connection: apsw.Connection, state: int) -> None:
    generation, stored = schema.get_fact(connection, "generation"), multiset.to_bytes(state)
    if isinstance(generation, int):  # else there is nothing to count on, and the next count will say so
        schema.set_fact(connection, "content", f"{generation}:{multiset.digest(stored)}")
        schema.set_fact(connection, "content_state", stored)


def _of_documents(connection: apsw.Connection) -> int:
    state = multiset.EMPTY
    for row in rows(connection, f"SELECT {_AS_BYTES} FROM rag_documents"):
        state = multiset.plus(state, multiset.member(row))
    return state


def _holds_vectors(connection: apsw.Connection) -> bool:
    with suppress(apsw.SQLError):  # no such table: damage, that a call which needs the vectors will name
        return connection.execute("SELECT 1 FROM rag_vectors_rowids LIMIT 1").fetchone() is not None
    return False


@lru_cache(maxsize=16)
def _described(identity: str) -> str:
    try:
        return EmbedderIdentity.from_json(identity).describe()
    except (TypeError, ValueError):
        return "unreadable"
