"""An index that is one of several: which document goes to which shard, and what a shard says of itself.

The rule needs nothing but the document's id and the number of shards, so that whoever ingests a document again finds its shard. The fact
`shard` is ``NUMBER/SHARDS``, counted from 0. A shard holds a part of each repository of a corpus, and hits of it name their repository
and commit as before; but it can vouch for no repository, and no sync may make it whole.
"""

from __future__ import annotations

import hashlib
from typing import Final

import apsw

from rag_stdlib.errors import fail
from rag_stdlib.index import schema
from rag_stdlib.values import check_doc_id

LEAST: Final = 2
MOST: Final = 1_024

_FACT: Final = "shard"
_HASHED_BYTES: Final = 8


def shard_of(doc_id: str, shards: int) -> int:
    """Return the number of the shard, from 0, that a document belongs to, of so many (2 to 1,024).

    It is the first 8 bytes of the SHA-256 of the id in UTF-8, read as a big-endian number, modulo the number of shards.

    Raises:
        Failure: `invalid_option`; `invalid_doc_id`, `invalid_text`, `text_nul` for what no document is called.
    """
    check_count(shards)
    check_doc_id(doc_id)
    return number_of(doc_id, shards)


def check_count(shards: int) -> None:
    """Refuse a number of shards that no index is cut into.

    Raises:
        Failure: `invalid_option`.
    """
    if not LEAST <= shards <= MOST:
        raise fail("invalid_option", name="shards", reason=f"is {shards}; an index is cut into {LEAST} to {MOST:,}")


def number_of(doc_id: str, shards: int) -> int:
    """Do what `shard_of` does for an id that is stored."""
    return int.from_bytes(hashlib.sha256(doc_id.encode()).digest()[:_HASHED_BYTES], "big") % shards


def mark(connection: apsw.Connection, number: int, shards: int) -> None:
    """Have the index say which shard it is, inside the caller's transaction."""
    schema.set_fact(connection, _FACT, name(number, shards))


def name(number: int, shards: int) -> str:
    """Write which shard of how many."""
    return f"{number}/{shards}"


def shard(connection: apsw.Connection) -> str | None:
    """Return which shard the index says that it is, as ``NUMBER/SHARDS``; None for a whole index."""
    fact = schema.get_fact(connection, _FACT)
    return None if fact is None else str(fact)


def refuse_shard(connection: apsw.Connection, path: str, why: str) -> None:
    """Refuse a shard where only a whole index will do.

    Raises:
        Failure: `index_is_shard`.
    """
    found = shard(connection)
    if found is not None:
        raise fail("index_is_shard", path=path, shard=found, why=why)
