"""The log: an append-only Merkle tree in one SQLite file, which many processes share.

An append reads the right edge of the tree, holds it against the last checkpoint that was signed, writes the entries and the hashes of
the subtrees that they complete, and signs the new checkpoint, all in one transaction: O(log n) work, and never a checkpoint that does
not continue the last one. A checkpoint that was not committed was never told to anyone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import apsw

from rag_stdlib.index.connect import Synchronous
from rag_stdlib.proof.log import merkle, signing
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.database import BUSY_SECONDS, Database, only_row
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.frontier import Frontier
from rag_stdlib.proof.log.logkeys import LogKeys
from rag_stdlib.proof.log.notes import Note, NoteSigner, VerifierKey, open_note, sign_note
from rag_stdlib.proof.log.places import Appended, Hashes, Placed, places
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.log.tables import LOG, Stored, problems, read_entries, write_entries

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_ENTRY_BYTES: Final = 65_535  # what a bundle of entries can hold (C2SP tlog-tiles)

_AT_ONCE: Final = 256  # entries that are read in one transaction


class Log:
    """A log in a file. Safe to use from many threads and processes; what is read is one state of the file and waits for no writer."""

    def __init__(self, path: str | os.PathLike[str], keys: LogKeys | None = None, *, synchronous: Synchronous = "full",
                 busy_seconds: float = BUSY_SECONDS, clock: Callable[[], float] = time.time) -> None:
        """Open a log; without keys, to read it only.

        With keys, the last checkpoint is verified, and the hashes at the right edge of the tree are held against it.

        Args:
            path: The file that `create` made.
            keys: Those of the log.
            synchronous: ``full``: what is acknowledged survives a power cut. With ``normal`` it survives the end of the process only,
                and the log could be found to have gone back behind what it signed.
            busy_seconds: How long to wait for other writers.
            clock: The time in seconds since 1970, which keys of kind 6 state.

        Raises:
            LogError: ``missing``, ``file_unsafe``, ``file_foreign``, ``file_io``; ``key_unknown`` where the log is another's, or signs
                with keys that are not at hand; ``damaged`` where the file contradicts its last checkpoint.
            ProofError: ``keys_unfit`` for keys of a witness.
        """
        signing.check_kinds(keys)
        self._database = Database(path, LOG, synchronous=synchronous, busy_seconds=busy_seconds)
        self._keys = keys
        self._clock = clock
        self._trusted: tuple[bytes, Checkpoint] | None = None  # the last checkpoint that the tree was held against
        try:
            with self._database.reading() as connection:
                self.origin = self._origin(connection)
                self._edge(connection)
                if keys is not None:
                    signing.agreement(connection, keys)
        except BaseException:
            self._database.close()
            raise

    @classmethod
    def create(cls, path: str | os.PathLike[str], keys: LogKeys, *, synchronous: Synchronous = "full", busy_seconds: float = BUSY_SECONDS,
               clock: Callable[[], float] = time.time) -> Log:
        """Make a new log, whose origin is the name of its keys, with a signed checkpoint of the empty tree; the rest is as for `Log`.

        Raises:
            LogError: ``exists`` where there is a log already; ``missing`` where there is no such folder; as `Log`.
            ProofError: As `Log`.
        """
        signing.check_kinds(keys)
        note = sign_note(Checkpoint(keys.name, 0, merkle.EMPTY_ROOT).text(), keys.signers, int(clock()))

        def fill(connection: apsw.Connection) -> None:
            connection.execute("INSERT INTO log_state VALUES (0, ?, ?)", (keys.name, note))
            connection.executemany("INSERT INTO log_keys(key, signs) VALUES (?, 1)", [(key.text(),) for key in keys.signing])

        database = Database(path, LOG, synchronous=synchronous, busy_seconds=busy_seconds)
        try:
            database.create(fill)
        finally:
            database.close()
        return cls(path, keys, synchronous=synchronous, busy_seconds=busy_seconds, clock=clock)

    def append(self, entry: bytes) -> Receipt:
        """Append an entry, and return the receipt of it.

        Raises:
            LogError: ``entry_too_large``; ``readonly``, ``busy``, ``disk_full``, ``file_io`` and the log is unchanged; ``file_moved``,
                ``damaged``, ``key_unknown`` and nothing is signed.
        """
        before, appended = self._append(lambda *_: [entry])
        return Receipt(appended.positions.start, before[::-1], appended.checkpoint)

    def append_many(self, entries: Iterable[bytes]) -> Appended:
        """Append entries in one step, all or none, under one checkpoint; their receipts are had from `receipt`.

        Raises:
            LogError: As `append`.
        """
        return self._append(lambda *_: entries)[1]

    def append_missing(self, entries: Sequence[bytes]) -> Placed:
        """Append those entries that the log has not, each once, in one step, all or none; it reads the hashes of all that it has.

        Most of them are read before others have to wait; what came meanwhile is looked at in the transaction that writes.

        Raises:
            LogError: As `append`.
        """
        given = {merkle.leaf_hash(entry): entry for entry in entries}
        size = self.size if given else 0
        found, new = places(self.hashes, given, 0, size), range(0)

        def missing(hashes: Hashes, end: int) -> Collection[bytes]:
            found.update(places(hashes, given.keys() - found, size, end))
            fresh = [leaf for leaf in given if leaf not in found]
            found.update(zip(fresh, range(end, end + len(fresh)), strict=True))
            return [given[leaf] for leaf in fresh]

        if len(found) < len(given):
            new = self._append(missing)[1].positions
        return Placed(tuple(found[merkle.leaf_hash(entry)] for entry in entries), new)

    def _append(self, entries: Callable[[Hashes, int], Iterable[bytes]]) -> tuple[tuple[bytes, ...], Appended]:
        """Append what is chosen in the transaction, by the hashes of the entries and their number."""
        keys = self._signing_keys()
        with self._database.writing() as connection:
            edge = self._edge(connection)
            before, start = edge.hashes, edge.size
            signers = self._signers(connection, keys)
            write_entries(connection, edge, map(_fit, entries(Stored(connection).hashes, start)))
            head = Checkpoint(self.origin, edge.size, edge.root())
            note = self._sign(connection, head, signers)
        self._trusted = note, head  # it is committed
        return before, Appended(range(start, edge.size), note)

    def sign_again(self, checkpoint: bytes | None = None) -> bytes:
        """Sign the present checkpoint with the present keys, as after an exchange of keys, and return the note; and so the last one that was cosigned.

        Args:
            checkpoint: The note of another one of this log, to be signed and returned instead, with the cosignatures that are on it.

        Raises:
            LogError: As `append`; ``forked`` where the checkpoint is none of this log.
            ProofError: ``note_malformed``, ``checkpoint_malformed``.
        """
        keys = self._signing_keys()
        with self._database.writing() as connection:
            edge = self._edge(connection)
            signers = self._signers(connection, keys, again=True)
            if checkpoint is not None:
                return self._signed_again(connection, keys, signers, checkpoint)
            return self._sign(connection, Checkpoint(self.origin, edge.size, edge.root()), signers)

    @property
    def size(self) -> int:
        """How many entries there are."""
        with self._database.reading() as connection:
            return self._head(connection)[1].size

    def checkpoint(self) -> bytes:
        """Return the signed note of the last checkpoint."""
        with self._database.reading() as connection:
            return self._head(connection)[0]

    def cosigned(self) -> bytes | None:
        """Return the note of the last checkpoint that witnesses cosigned, with their cosignatures; None if none was, or it is none that `is_trusted`."""
        with self._database.reading() as connection:
            kept = signing.read_cosigned(connection)[1]
            return kept if kept is not None and signing.is_signed(Note.parse(kept), signing.trusted_keys(connection, self._keys)) else None

    def is_trusted(self, checkpoint: bytes) -> bool:
        """Tell whether a key signed a checkpoint that clients may pin: `LogKeys.trusted`, or without keys at hand, those that sign by now.

        Raises:
            ProofError: ``note_malformed``.
        """
        with self._database.reading() as connection:
            return signing.is_signed(Note.parse(checkpoint), signing.trusted_keys(connection, self._keys))

    def receipt(self, position: int, checkpoint: bytes | None = None) -> Receipt:
        """Make a receipt of an entry, under a checkpoint of this log: the last one, or the one whose note is given.

        Raises:
            LogError: ``out_of_range`` where there is no such entry under the checkpoint; ``forked`` where the checkpoint is none of
                this log.
            ProofError: ``note_malformed``, ``checkpoint_malformed``.
        """
        with self._database.reading() as connection:
            note, head = self._head(connection)
            if checkpoint is not None:
                note, head = checkpoint, self._own(connection, Note.parse(checkpoint))
            if not 0 <= position < head.size:
                raise LogError("out_of_range", f"the checkpoint of {head.size} entries covers none at {position}")
            return Receipt(position, tuple(merkle.inclusion_path(position, head.size, Stored(connection))), note)

    def own(self, checkpoint: bytes) -> Checkpoint:
        """Read the note of a checkpoint that must be one of this log as it is here, whoever signed it.

        Raises:
            LogError: ``forked`` where it is none of this log.
            ProofError: ``note_malformed``, ``checkpoint_malformed``.
        """
        with self._database.reading() as connection:
            return self._own(connection, Note.parse(checkpoint))

    def consistency_path(self, old_size: int, new_size: int) -> list[bytes]:
        """Prove that the tree of `old_size` entries is the beginning of the tree of `new_size`.

        Raises:
            LogError: ``out_of_range``.
        """
        with self._database.reading() as connection:
            if not 0 <= old_size <= new_size <= self._head(connection)[1].size:
                raise LogError("out_of_range", f"the log cannot lead from {old_size} to {new_size} entries")
            return merkle.consistency_path(old_size, new_size, Stored(connection))

    def comparison_path(self, old_size: int, new_size: int) -> list[bytes]:
        """Return what leads to the roots of both trees (`merkle.comparison_path`).

        Raises:
            LogError: ``out_of_range``.
        """
        with self._database.reading() as connection:
            if not 0 <= old_size <= new_size <= self._head(connection)[1].size:
                raise LogError("out_of_range", f"the log cannot lead from {old_size} to {new_size} entries")
            return merkle.comparison_path(old_size, new_size, Stored(connection))

    def entry(self, position: int) -> bytes:
        """Return an entry.

        Raises:
            LogError: ``out_of_range``.
        """
        return next(self.entries(position, position + 1))

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Iterate over entries from `start` to before `stop`, or to the end as it is now.

        Raises:
            LogError: ``out_of_range``.
        """
        size = self.size
        stop = size if stop is None else stop
        if not 0 <= start <= stop <= size:
            raise LogError("out_of_range", f"the log has {size} entries, and none from {start} to {stop}")
        for begin in range(start, stop, _AT_ONCE):
            with self._database.reading() as connection:
                found = read_entries(connection, begin, min(stop, begin + _AT_ONCE))
            yield from found

    def hashes(self, level: int, start: int, count: int) -> list[bytes]:
        """Return neighbouring hashes of complete subtrees of 2^`level` entries, from the subtree `start` on.

        Raises:
            LogError: ``out_of_range``.
        """
        with self._database.reading() as connection:
            if min(level, start, count) < 0 or start + count > self._head(connection)[1].size >> level:
                raise LogError("out_of_range", f"the log has no {count} complete subtrees from {start} on at level {level}")
            return Stored(connection).hashes(level, start, count)

    def add_cosignatures(self, checkpoint: bytes, lines: bytes, witnesses: Sequence[VerifierKey]) -> bytes:
        """Keep the cosignatures that witnesses gave for a checkpoint of this log, and return its note with all of them; of two by one key, the earlier.

        Args:
            checkpoint: The note that was cosigned.
            lines: Signature lines, as a witness answers; those of unknown keys are left out.
            witnesses: The keys to accept.

        Raises:
            ProofError: ``note_malformed``, ``checkpoint_malformed``; ``cosignature_invalid``; ``signature_missing`` where no line is by a
                known witness.
            LogError: ``forked`` where the checkpoint is none of this log; as `append`.
        """
        note = Note.parse(checkpoint)
        known = signing.cosigning(note.text, lines, witnesses)
        with self._database.writing() as connection:
            head = self._own(connection, note)
            size, kept = signing.read_cosigned(connection)
            of_log = [one for one in note.signatures if one.name == self.origin]
            earlier = Note.parse(kept).signatures if kept is not None and size == head.size else ()
            merged = signing.signed_by(note.text, (*of_log, *earlier, *known))
            if size <= head.size:
                signing.write_cosigned(connection, head.size, merged)
        return merged

    def check(self) -> list[str]:
        """Compute the whole tree again and name every contradiction in the file; none, if all is well. It reads all entries."""
        with self._database.reading() as connection:
            found = [line for (line,) in connection.execute("PRAGMA quick_check").fetchall() if line != "ok"]
            return [*map(str, found), *problems(connection, self._head(connection)[1].size)]

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        """Return the log, which the block closes."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _signing_keys(self) -> LogKeys:
        if self._keys is None:
            raise LogError("key_unknown", f"the log {self.origin} was opened without its keys, to be read only")
        return self._keys

    def _origin(self, connection: apsw.Connection) -> str:
        origin, = only_row(connection, "SELECT origin FROM log_state", str)
        if self._keys is not None and origin != self._keys.name:
            raise LogError("key_unknown", f"the log in {self._database.path!r} is not that of the keys, {self._keys.name}")
        return str(origin)

    def _head(self, connection: apsw.Connection) -> tuple[bytes, Checkpoint]:
        """Read the last checkpoint; with keys, verified."""
        note, = only_row(connection, "SELECT checkpoint FROM log_state", bytes)
        trusted = self._trusted
        if trusted is not None and trusted[0] == note:
            return trusted
        try:
            text = open_note(note, self._keys.verifiers).text if self._keys is not None else Note.parse(note).text
            head = Checkpoint.parse(text)
        except ProofError as error:
            code = "key_unknown" if error.code == "signature_missing" else "damaged"
            raise LogError(code, f"the last checkpoint of the log {self.origin}: {error.words}") from None
        if head.origin != self.origin:
            raise LogError("damaged", f"the last checkpoint of the log {self.origin} is one of {head.origin}")
        return note, head

    def _edge(self, connection: apsw.Connection) -> Frontier:
        """Read the right edge of the tree, and hold it against the last checkpoint, and that against the one that was last seen here."""
        seen, (note, head), source = self._trusted, self._head(connection), Stored(connection)
        edge = Frontier.of(head.size, source)
        if edge.root() != head.root:
            raise LogError("damaged", f"the tree of the log {self.origin} is not the one that its last checkpoint signs")
        if seen is not None and seen[0] != note:
            if head.size < seen[1].size:
                raise LogError("rolled_back", f"the log {self.origin} had {seen[1].size} entries and has {head.size}")
            if merkle.root(seen[1].size, source) != seen[1].root:
                raise LogError("forked", f"the log {self.origin} does not continue the tree of {seen[1].size} entries that it was")
        self._trusted = note, head
        return edge

    def _own(self, connection: apsw.Connection, note: Note) -> Checkpoint:
        """Read a checkpoint that must be one of this log's."""
        head = Checkpoint.parse(note.text)
        if head.origin != self.origin or head.size > self._head(connection)[1].size or head.root != merkle.root(head.size, Stored(connection)):
            raise LogError("forked", f"the checkpoint of {head.origin} with {head.size} entries is none of the log {self.origin} as it is here")
        return head

    def _sign(self, connection: apsw.Connection, head: Checkpoint, signers: Sequence[NoteSigner]) -> bytes:
        note = sign_note(head.text(), signers, int(self._clock()))
        connection.execute("UPDATE log_state SET checkpoint = ?", (note,))
        return note

    def _signers(self, connection: apsw.Connection, keys: LogKeys, *, again: bool = False) -> list[NoteSigner]:
        """Return the keys to sign with. Where they are new, they sign the cosigned checkpoint too: cosignatures are worth nothing under keys that nobody trusts."""
        signers, are_new = signing.agreed(connection, keys)
        size, kept = signing.read_cosigned(connection) if are_new or again else (0, None)
        if kept is not None:
            with suppress(ProofError):  # there is no room for more signatures
                signing.write_cosigned(connection, size, self._signed_again(connection, keys, signers, kept))
        return signers

    def _signed_again(self, connection: apsw.Connection, keys: LogKeys, signers: Sequence[NoteSigner], checkpoint: bytes) -> bytes:
        note = Note.parse(checkpoint)
        self._own(connection, note)
        return signing.signed_again(note, keys, signers, int(self._clock()))


def _fit(entry: bytes) -> bytes:
    if len(entry) > MAX_ENTRY_BYTES:
        raise LogError("entry_too_large", f"an entry has at most {MAX_ENTRY_BYTES:,} bytes; this has {len(entry):,}")
    return bytes(entry)
