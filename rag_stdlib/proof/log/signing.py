"""Who signs a log, as its file notes it for all processes that append, and checkpoints that are signed again after an exchange of keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from rag_stdlib.proof.log.cosignatures import COSIGNATURE_ED25519, taken_apart
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.logkeys import LogKeys
from rag_stdlib.proof.log.notes import Note, NoteSigner, Signature, VerifierKey, checked, read_signatures


def check_kinds(keys: LogKeys | None) -> None:
    """Refuse keys of a witness; a `ProofError` (``keys_unfit``)."""
    if keys is not None and any(key.kind == COSIGNATURE_ED25519 for key in keys.verifiers):
        raise ProofError("keys_unfit", f"a key of {keys.name} is of kind {COSIGNATURE_ED25519}, by which a witness cosigns and no log signs")


def agreement(connection: apsw.Connection, keys: LogKeys) -> tuple[list[NoteSigner], set[str], set[str]]:
    """Return who signs by now, the keys that are to sign from now on, and those that sign no more.

    Raises:
        LogError: ``key_unknown``: a key that signs is not at hand, or none.
    """
    rows: Any = connection.execute("SELECT key, signs FROM log_keys").fetchall()
    signing, retired = ({key for key, signs in rows if bool(signs) is which} for which in (True, False))
    signers = [signer for signer in keys.signers if signer.verifier.text() not in retired]
    mine = {signer.verifier.text() for signer in signers}
    if not signers or not signing <= {key.text() for key in keys.verifiers}:
        raise LogError("key_unknown", f"the log {keys.name} signs with keys that are not at hand; load its key file again")
    return signers, mine - signing, signing - mine


def agreed(connection: apsw.Connection, keys: LogKeys) -> tuple[list[NoteSigner], bool]:
    """Return the keys to sign with, and whether they are others than before; the same in all processes, since a key that one of them learnt or forgot is
    noted in the file.

    Raises:
        LogError: as `agreement`.
    """  # noqa: D205 - one sentence
    signers, new, old = agreement(connection, keys)
    connection.executemany("INSERT INTO log_keys(key, signs) VALUES (?, 1)", [(key,) for key in sorted(new)])
    connection.executemany("UPDATE log_keys SET signs = 0 WHERE key = ?", [(key,) for key in sorted(old)])
    return signers, bool(new or old)


def trusted_keys(connection: apsw.Connection, keys: LogKeys | None) -> Sequence[VerifierKey]:
    """Return the keys that clients may pin; of a log without its keys at hand, those that sign by now."""
    if keys is not None:
        return keys.trusted
    rows: Any = connection.execute("SELECT key FROM log_keys WHERE signs = 1").fetchall()
    return [VerifierKey.parse(key) for (key,) in rows]


def is_signed(note: Note, keys: Sequence[VerifierKey]) -> bool:
    """Tell whether any of the keys signed a note, and none of them another one."""
    try:
        return bool(checked(note, keys))
    except ProofError:
        return False


def cosigning(text: str, lines: bytes, witnesses: Sequence[VerifierKey]) -> list[Signature]:
    """Read the lines that a witness answers to the text of a checkpoint, and return those by known witnesses; there is one at least.

    Raises:
        ProofError: ``note_malformed``, ``cosignature_invalid``, ``signature_missing``.
    """
    try:
        given = Note(text, read_signatures(lines.decode()))
    except UnicodeDecodeError:
        raise ProofError("note_malformed", "the lines of a witness are UTF-8") from None
    known = [signature for _, signature in checked(given, witnesses, "cosignature_invalid")]
    if not known:
        raise ProofError("signature_missing", "no known witness cosigned")
    return known


def signed_again(note: Note, keys: LogKeys, signers: Sequence[NoteSigner], now: int) -> bytes:
    """Sign a checkpoint once more. The lines of others stay, and of those in the log's name the ones that hold and may be trusted.

    Raises:
        ProofError: as `signed_by`.
    """
    trusted = {(key.name, key.key_id): key for key in keys.trusted}
    stay = [one for one in note.signatures if one.name != keys.name
            or ((key := trusted.get((one.name, one.key_id))) is not None and key.verify(note.text, one.value))]
    return signed_by(note.text, (*stay, *(signer.sign(note.text, now) for signer in signers)))


def signed_by(text: str, signatures: Iterable[Signature]) -> bytes:
    """Write a note of this text with all these signatures; of two by one key, the one of the earlier time stays, where 0 is none.

    An early cosignature shows more than a late one: that what it covers was there by then.

    Raises:
        ProofError: ``note_malformed``: they are more than a note may bear, or none.
    """
    lines: dict[tuple[str, bytes], Signature] = {}
    for one in signatures:
        key = one.name, one.key_id
        lines[key] = min(lines.get(key, one), one, key=_time)
    note = Note(text, tuple(lines.values())).to_bytes()
    Note.parse(note)  # within the bounds of a note
    return note


def _time(signature: Signature) -> float:
    """Return the time that a cosignature states; signatures of another kind, by one key on one text, are equal."""
    try:
        return taken_apart(signature.value)[0] or math.inf
    except ProofError:
        return math.inf


def read_cosigned(connection: apsw.Connection) -> tuple[int, bytes | None]:
    """Read the size of the checkpoint that witnesses cosigned last, and its note with their cosignatures; 0 and None if none was."""
    rows: Any = connection.execute("SELECT size, checkpoint FROM log_cosigned").fetchall()
    return rows[0] if rows else (0, None)


def write_cosigned(connection: apsw.Connection, size: int, note: bytes) -> None:
    """Keep a note as that one."""
    connection.execute("INSERT OR REPLACE INTO log_cosigned VALUES (0, ?, ?)", (size, note))
