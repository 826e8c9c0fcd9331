"""A witness (C2SP tlog-witness): it cosigns a checkpoint of a log it knows if that continues the last one it cosigned, and never goes back.

The check against the last one and the keeping of the new one are one transaction, which is on the disk before the cosignature is told.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apsw

from rag_stdlib.index.connect import Synchronous
from rag_stdlib.proof.log.checkpoints import Checkpoint, read_number
from rag_stdlib.proof.log.cosignatures import KINDS
from rag_stdlib.proof.log.database import BUSY_SECONDS, Database, Kind
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.keytext import decoded, encoded
from rag_stdlib.proof.log.logkeys import LogKeys
from rag_stdlib.proof.log.merkle import EMPTY_ROOT, HASH_BYTES, compare, verify_consistency
from rag_stdlib.proof.log.notes import MAX_NOTE_BYTES, Note, Signature, checked
from rag_stdlib.proof.log.pinned import PinnedLog

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_PROOF: Final = 63  # lines of hashes in a request
MAX_REQUEST_BYTES: Final = MAX_NOTE_BYTES + 4_096
SIZE_TYPE: Final = "text/x.tlog.size"

_KEPT_REFUSALS: Final = 64  # of each log, of those that prove something the first ones, and of the others, which whoever may ask can make as he likes, the last ones
_STATE: Final = Kind("witness", 0x72616C77, 2, (  # "ralw"
    "CREATE TABLE witness_name(id INTEGER PRIMARY KEY CHECK (id = 0), name TEXT NOT NULL)",
    """CREATE TABLE witness_heads(origin TEXT PRIMARY KEY NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL, time INTEGER NOT NULL,
        checkpoint BLOB NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE witness_refusals(id INTEGER PRIMARY KEY, origin TEXT NOT NULL, proven INTEGER NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL,
        time INTEGER NOT NULL, words TEXT NOT NULL, checkpoint BLOB NOT NULL, cosigned BLOB NOT NULL, proof BLOB NOT NULL, UNIQUE(origin, proven, size, root))""",
))


@dataclass(frozen=True, slots=True)
class Request:
    """That a witness cosign a checkpoint.

    Attributes:
        old_size: Of the tree that the witness cosigned last; 0 for none.
        proof: That the new tree continues that one.
        checkpoint: The note.
    """

    old_size: int
    proof: tuple[bytes, ...]
    checkpoint: bytes

    @classmethod
    def parse(cls, data: bytes) -> Request:
        """Read the body of a request: ``old N``, hashes in base64, an empty line, the checkpoint.

        Raises:
            ProofError: ``request_malformed``.
        """
        if len(data) > MAX_REQUEST_BYTES:
            raise ProofError("request_malformed", f"a request is at most {MAX_REQUEST_BYTES:,} bytes")
        above, empty, checkpoint = data.partition(b"\n\n")
        if not empty or above.count(b"\n") > MAX_PROOF or not above.startswith(b"old "):
            raise ProofError("request_malformed", f"a request is an old size, up to {MAX_PROOF} hashes, an empty line and a checkpoint")
        try:
            old, *hashes = above[4:].decode("ascii").split("\n")
        except UnicodeDecodeError:
            raise ProofError("request_malformed", "what stands before a checkpoint is ASCII") from None
        proof = tuple(decoded(line, "request_malformed") for line in hashes)
        if any(len(value) != HASH_BYTES for value in proof):
            raise ProofError("request_malformed", f"a hash has {HASH_BYTES} bytes")
        return cls(read_number(old, "request_malformed"), proof, checkpoint)

    def to_bytes(self) -> bytes:
        """Write the body."""
        return "\n".join([f"old {self.old_size}", *map(encoded, self.proof), "", ""]).encode() + self.checkpoint


@dataclass(frozen=True, slots=True)
class Answer:
    """What a witness answers, in the terms of HTTP.

    Attributes:
        status: 200 (cosigned), 400, 403, 404, 409 or 422.
        body: Cosignature lines, the size last cosigned for 409, or words.
        content_type: Of the body.
    """

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A checkpoint that a log signed and that was not shown to continue what the witness had cosigned.

    Whoever submits it need not be the log. So it is evidence against the log only where it is `proven` (`merkle.compare`), and otherwise maybe a true checkpoint
    that came with a false proof.

    Attributes:
        time: In seconds since 1970.
        words: Why it was refused.
        checkpoint: The note.
        proven: Whether it is of another tree than the cosigned one: its signed root, that one's, and `proof` show it to anyone.
        cosigned: The note that was cosigned last by then; empty if none was.
        proof: The hashes that came with it.
    """

    time: int
    words: str
    checkpoint: bytes
    proven: bool
    cosigned: bytes
    proof: tuple[bytes, ...]


class Witness:
    """A witness over a file with its state. Safe to use from many threads and processes."""

    def __init__(self, path: str | os.PathLike[str], keys: LogKeys, logs: Iterable[PinnedLog], *, synchronous: Synchronous = "full",
                 busy_seconds: float = BUSY_SECONDS, clock: Callable[[], float] = time.time) -> None:
        """Open the state that `create` made.

        Args:
            path: The file with the state. Without it a witness would cosign anything once more, so it is not made on the way.
            keys: Of the witness, of the kinds 4 and 6; it cosigns with each.
            logs: Whose checkpoints it cosigns: origins and keys; what else is pinned of them is not looked at.
            synchronous: As for `Log`.
            busy_seconds: As for `Log`.
            clock: The time in seconds since 1970.

        Raises:
            LogError: ``missing``, ``file_unsafe``, ``file_foreign``, ``damaged``, ``file_io``; ``key_unknown`` where the state is that of
                a witness with another name.
            ProofError: ``keys_unfit`` for keys that do not cosign, and for a log that is there twice.
        """
        self.name = keys.name
        self._signers = keys.signers
        self._logs = logs_of(keys, logs)
        self.origins = tuple(self._logs)
        self._by_hash = {hashlib.sha256(origin.encode()).hexdigest(): origin for origin in self._logs}
        self._clock = clock
        self._database = Database(path, _STATE, synchronous=synchronous, busy_seconds=busy_seconds)
        try:
            with self._database.reading() as connection:
                if connection.execute("SELECT name FROM witness_name").fetchall() != [(self.name,)]:
                    raise LogError("key_unknown", f"the state in {self._database.path!r} is not that of the witness {self.name}")
        except BaseException:
            self._database.close()
            raise

    @staticmethod
    def create(path: str | os.PathLike[str], name: str) -> None:
        """Make the state of a new witness of this name, which has seen nothing yet.

        Raises:
            LogError: ``exists``, ``missing`` (the folder), ``disk_full``, ``readonly``, ``file_io``.
        """
        def fill(connection: apsw.Connection) -> None:
            connection.execute("INSERT INTO witness_name VALUES (0, ?)", (name,))

        database = Database(path, _STATE)
        try:
            database.create(fill)
        finally:
            database.close()

    def add_checkpoint(self, body: bytes) -> Answer:
        """Cosign the checkpoint of a request, or say why not.

        Raises:
            LogError: ``busy``, ``disk_full``, ``readonly``, ``damaged``, ``file_moved``, ``file_io``: nothing was cosigned.
        """
        try:
            request = Request.parse(body)
            note = Note.parse(request.checkpoint)
            head = Checkpoint.parse(note.text)
        except ProofError as error:
            return _said(400, error.words)
        log = self._logs.get(head.origin)
        if log is None:
            return _said(404, "this log is unknown here")
        try:
            signed = tuple(signature for _, signature in checked(note, log.keys))
        except ProofError:
            signed = ()
        if not signed:
            return _said(403, "no trusted key of the log signed it, or not this")
        if request.old_size > head.size:
            return _said(400, "the old tree is larger than the new one")
        with self._database.writing() as connection:
            return self._decide(connection, request, head, Note(note.text, signed))

    def _decide(self, connection: apsw.Connection, request: Request, head: Checkpoint, note: Note) -> Answer:
        """Do the one step that must not be divided."""
        rows: Any = connection.execute("SELECT size, root, time, checkpoint FROM witness_heads WHERE origin = ?", (head.origin,)).fetchall()
        size, root, last, before = rows[0] if rows else (0, EMPTY_ROOT, 0, b"")
        now = max(int(self._clock()), last)  # a clock that was set back must not make an earlier statement untrue
        if request.old_size != size:
            return Answer(409, f"{size}\n".encode(), SIZE_TYPE)
        try:
            verify_consistency(size, root, head.size, head.root, request.proof)
        except ProofError as error:
            proven = compare(size, root, head.size, head.root, request.proof) == "another"
            self._note_refusal(connection, head, Refusal(now, error.words, note.to_bytes(), proven, before, request.proof))
            return _said(422, error.words)
        cosigned = tuple(signer.sign(note.text, now) for signer in self._signers)
        connection.execute("INSERT OR REPLACE INTO witness_heads VALUES (?, ?, ?, ?, ?)",
                           (head.origin, head.size, head.root, now, Note(note.text, (*note.signatures, *cosigned)).to_bytes()))
        return _cosigned(cosigned)

    def _note_refusal(self, connection: apsw.Connection, head: Checkpoint, refusal: Refusal) -> None:
        kept = "SELECT id FROM witness_refusals WHERE origin = ? AND proven = ?"
        if refusal.proven and len(connection.execute(kept, (head.origin, True)).fetchall()) >= _KEPT_REFUSALS:
            return
        connection.execute(f"INSERT OR {'IGNORE' if refusal.proven else 'REPLACE'} INTO witness_refusals(origin, proven, size, root, time, words, checkpoint, cosigned, proof) "
                           "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                           (head.origin, refusal.proven, head.size, head.root, refusal.time, refusal.words, refusal.checkpoint, refusal.cosigned, b"".join(refusal.proof)))
        connection.execute(f"DELETE FROM witness_refusals WHERE id IN ({kept} ORDER BY id DESC LIMIT -1 OFFSET {_KEPT_REFUSALS})", (head.origin, False))

    def checkpoint(self, origin: str) -> bytes | None:
        """Return the note that was cosigned last of a log, with the cosignatures; None if none was.

        Raises:
            LogError: As `add_checkpoint`.
        """
        with self._database.reading() as connection:
            rows: Any = connection.execute("SELECT checkpoint FROM witness_heads WHERE origin = ?", (origin,)).fetchall()
        return rows[0][0] if rows else None

    def checkpoint_by_hash(self, digest: str) -> bytes | None:
        """Return what `checkpoint` does, for the SHA-256 of the origin in lowercase hex."""
        origin = self._by_hash.get(digest)
        return None if origin is None else self.checkpoint(origin)

    def refusals(self, origin: str) -> list[Refusal]:
        """Return checkpoints that a known log signed and that were refused, each once: the first 64 that prove what it did, and the last 64 that do not."""
        with self._database.reading() as connection:
            rows: Any = connection.execute("SELECT time, words, checkpoint, proven, cosigned, proof FROM witness_refusals WHERE origin = ? ORDER BY id", (origin,)).fetchall()
        return [Refusal(moment, words, checkpoint, bool(proven), cosigned, tuple(proof[at:at + HASH_BYTES] for at in range(0, len(proof), HASH_BYTES)))
                for moment, words, checkpoint, proven, cosigned, proof in rows]

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        """Return the witness, which the block closes."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()


def logs_of(keys: LogKeys, logs: Iterable[PinnedLog]) -> dict[str, PinnedLog]:
    """Return the logs that a witness with these keys serves, by origin; it need not be made yet.

    Raises:
        ProofError: ``keys_unfit``, as `Witness`.
    """
    found: dict[str, PinnedLog] = {}
    for log in logs:
        if found.setdefault(log.origin, log) is not log:
            raise ProofError("keys_unfit", f"the log {log.origin} is there twice; pin all its keys at once")
    if any(key.kind not in KINDS for key in keys.verifiers):
        raise ProofError("keys_unfit", f"a key of {keys.name} does not cosign; keys of the kinds 4 and 6 do")
    return found


def _said(status: int, words: str) -> Answer:
    return Answer(status, f"{words}\n".encode())


def _cosigned(signatures: tuple[Signature, ...]) -> Answer:
    return Answer(200, "".join(f"{signature.line}\n" for signature in signatures).encode())
