"""Signed notes (C2SP signed-note): a text, an empty line, and a line for each signature, ``— NAME BASE64(key id ‖ signature)``.

The text ends in a line feed and is signed with it. The last empty line ends it, so it may hold empty lines of its own. Kind 1 of keys
is Ed25519 over the text; cosignatures (`rag_stdlib.proof.log.cosignatures`) are two more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from rag_stdlib.proof.log.cosignatures import COSIGNATURE_ED25519, COSIGNATURE_ML_DSA_44, joined, message, taken_apart
from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.keytext import (
    ID_BYTES,
    check_name,
    decoded,
    encoded,
    key_id,
    key_text,
    private_key_text,
    read_key_text,
    read_private_key_text,
)
from replay import ed25519

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey, MLDSA44PublicKey

ED25519: Final = 0x01
MAX_NOTE_BYTES: Final = 512 * 1024
ML_DSA_44_PUBLIC: Final = 1_312  # bytes (FIPS 204, table 2)
MAX_SIGNATURES: Final = 64  # C2SP asks for 16 at least

_DASH: Final = "— "
_UNFIT: Final = re.compile("[\x00-\x09\x0b-\x1f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key under a name.

    Attributes:
        name: Of the key; a log's is its origin.
        public: 32 bytes, a point that is not of small order in its one encoding; or 1,312 bytes of ML-DSA-44 (kind 6).
        kind: 1 for Ed25519 over notes, 4 and 6 for cosignatures.
        key_id: Four bytes.
    """

    name: str
    public: bytes = field(repr=False)
    kind: int = ED25519
    key_id: bytes = field(init=False)
    _key: Ed25519PublicKey | MLDSA44PublicKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the key, once; a `ProofError` (``key_malformed``) where it is none."""
        check_name(self.name)
        object.__setattr__(self, "_key", _public_key(self.name, self.kind, self.public))
        object.__setattr__(self, "key_id", key_id(self.name, self.kind, self.public))

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Read ``NAME+ID+BASE64``; the id is computed again.

        Raises:
            ProofError: ``key_malformed``.
        """
        name, kind, public = read_key_text(text)
        return cls(name, public, kind)

    def text(self) -> str:
        """Write ``NAME+ID+BASE64``."""
        return key_text(self.name, self.kind, self.public)

    def verify(self, text: str, signature: bytes) -> bool:
        """Tell whether this key made the signature (of a cosignature, with its time) over the text of a note."""
        if self.kind == ED25519:
            return self._holds(signature, text.encode())
        try:
            time, proper = taken_apart(signature)
            return self._holds(proper, message(self.kind, self.name, time, text))
        except ProofError:
            return False

    def _holds(self, signature: bytes, signed: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if isinstance(self._key, Ed25519PublicKey):
            return ed25519.verify(self._key, signature, signed)
        try:
            self._key.verify(signature, signed)
        except InvalidSignature:
            return False
        return True


def _public_key(name: str, kind: int, public: bytes) -> Ed25519PublicKey | MLDSA44PublicKey:
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

    if kind == COSIGNATURE_ML_DSA_44:
        if len(public) != ML_DSA_44_PUBLIC:
            raise ProofError("key_malformed", f"the key of {name}: an ML-DSA-44 key has {ML_DSA_44_PUBLIC:,} bytes; this has {len(public):,}")
        return MLDSA44PublicKey.from_public_bytes(public)
    if kind not in (ED25519, COSIGNATURE_ED25519):
        raise ProofError("key_malformed", f"the key of {name} is of kind {kind}; known are {ED25519}, {COSIGNATURE_ED25519} and {COSIGNATURE_ML_DSA_44}")
    try:
        return ed25519.public_key(public)
    except ed25519.KeyRefused as error:
        raise ProofError("key_malformed", f"the key of {name}: {error}") from None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class NoteSigner:
    """A secret key under a name, of any of the three kinds. It shows its public half only, and cannot be pickled.

    Attributes:
        verifier: The public half.
    """

    name: str
    _seed: bytes
    kind: int = ED25519
    verifier: VerifierKey = field(init=False)
    _key: Ed25519PrivateKey | MLDSA44PrivateKey = field(init=False)

    def __post_init__(self) -> None:
        """Work out the public half from the seed of 32 random bytes; a `ProofError` (``key_malformed``) for a name or a kind that is none."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

        ml_dsa = self.kind == COSIGNATURE_ML_DSA_44
        key = MLDSA44PrivateKey.from_seed_bytes(self._seed) if ml_dsa else Ed25519PrivateKey.from_private_bytes(self._seed)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "verifier", VerifierKey(self.name, key.public_key().public_bytes_raw(), self.kind))

    @classmethod
    def parse(cls, text: str) -> NoteSigner:
        """Read ``PRIVATE+KEY+NAME+ID+BASE64``; the id must be that of the key. No message names the secret.

        Raises:
            ProofError: ``key_malformed``.
        """
        name, kind, seed, written = read_private_key_text(text)
        signer = cls(name, seed, kind)
        if signer.verifier.key_id != written:
            raise ProofError("key_malformed", f"the secret key of {name} has another id than is written")
        return signer

    def private_text(self) -> str:
        """Write ``PRIVATE+KEY+NAME+ID+BASE64``, the secret with it."""
        return private_key_text(self.name, self.kind, self.verifier.key_id, self._seed)

    def sign(self, text: str, now: int) -> Signature:
        """Sign the text of a note; a cosigner's states the time `now`, in seconds since 1970.

        Raises:
            ProofError: ``checkpoint_malformed``: a cosigner signs checkpoints only.
            ValueError: The time cannot be stated.
        """
        if self.kind == ED25519:
            value = self._key.sign(text.encode())
        else:
            value = joined(now, self._key.sign(message(self.kind, self.name, now, text)))
        return Signature(self.name, self.verifier.key_id, value)

    def __repr__(self) -> str:
        """Show the public half."""
        return f"NoteSigner({self.name}, kind {self.kind}, {self.verifier.key_id.hex()})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled: a secret must not go where nobody looks for one."""
        raise TypeError("a signing key holds a secret and cannot be pickled; private_text() writes it out on purpose")


@dataclass(frozen=True, slots=True)
class Signature:
    """One line below a note.

    Attributes:
        name: Of the key.
        key_id: Four bytes.
        value: The signature itself, at least one byte.
    """

    name: str
    key_id: bytes
    value: bytes

    @property
    def line(self) -> str:
        """The line, without the line feed."""
        return f"{_DASH}{self.name} {encoded(self.key_id + self.value)}"

    @classmethod
    def parse(cls, line: str) -> Signature:
        """Read a line.

        Raises:
            ProofError: ``note_malformed``.
        """
        name, space, blob = line[len(_DASH):].partition(" ")
        if not line.startswith(_DASH) or not space:
            raise ProofError("note_malformed", "a signature is a dash, a name and base64, with a space between them")
        try:
            check_name(name)
        except ProofError as error:
            raise ProofError("note_malformed", error.words) from None
        data = decoded(blob, "note_malformed")
        if len(data) <= ID_BYTES:
            raise ProofError("note_malformed", "a signature has a key id and a value")
        return cls(name, data[:ID_BYTES], data[ID_BYTES:])


@dataclass(frozen=True, slots=True)
class Note:
    """A note taken apart; nothing of it is verified, and its text is not to be believed.

    Attributes:
        text: With its last line feed.
        signatures: 1 to 64.
    """

    text: str
    signatures: tuple[Signature, ...]

    @classmethod
    def parse(cls, data: bytes) -> Note:
        """Read a note; what was read writes itself as the same bytes again.

        Raises:
            ProofError: ``note_malformed``.
        """
        if type(data) is not bytes or len(data) > MAX_NOTE_BYTES:
            raise ProofError("note_malformed", f"a note is at most {MAX_NOTE_BYTES:,} bytes")
        try:
            whole = data.decode()
        except UnicodeDecodeError as error:
            raise ProofError("note_malformed", f"byte {error.start} is not UTF-8") from None
        end = whole.rfind("\n\n")
        if end < 0 or _UNFIT.search(whole):
            raise ProofError("note_malformed", "a note has an empty line before its signatures, and no control characters")
        return cls(whole[:end + 1], read_signatures(whole[end + 2:]))

    def to_bytes(self) -> bytes:
        """Write the note."""
        return "".join([self.text, "\n", *(f"{signature.line}\n" for signature in self.signatures)]).encode()


def read_signatures(lines: str) -> tuple[Signature, ...]:
    """Read signature lines, each with its line feed.

    Raises:
        ProofError: ``note_malformed``.
    """
    if not lines.endswith("\n") or lines.count("\n") > MAX_SIGNATURES:
        raise ProofError("note_malformed", f"there are 1 to {MAX_SIGNATURES} signatures, each on its line")
    return tuple(Signature.parse(line) for line in lines[:-1].split("\n"))


@dataclass(frozen=True, slots=True)
class OpenedNote:
    """A note that known keys signed; made by `open_note`.

    Attributes:
        note: What was opened.
        signed: The signatures that hold, each with the key that made it, in the order of the note.
    """

    note: Note
    signed: tuple[tuple[VerifierKey, Signature], ...]

    @property
    def text(self) -> str:
        """What was signed."""
        return self.note.text


def open_note(data: bytes, known: Iterable[VerifierKey]) -> OpenedNote:
    """Read a note and check the signatures of the known keys on it; those of others are ignored.

    Raises:
        ProofError: ``note_malformed``; ``signature_invalid`` if any signature of a known key does not hold; ``signature_missing`` if no
            known key signed; ``keys_unfit`` if two known keys have the same name and id.
    """
    note = Note.parse(data)
    signed = checked(note, known)
    if not signed:
        raise ProofError("signature_missing", "none of the known keys signed the note")
    return OpenedNote(note, signed)


def checked(note: Note, known: Iterable[VerifierKey], code: str = "signature_invalid") -> tuple[tuple[VerifierKey, Signature], ...]:
    """Return the signatures that known keys made, each with its key; there may be none.

    Raises:
        ProofError: `code` if any signature of a known key does not hold; ``keys_unfit`` if two known keys have the same name and id.
    """
    keys, signed = by_name(known), []
    for signature in note.signatures:
        key = keys.get((signature.name, signature.key_id))
        if key is None:
            continue
        if not key.verify(note.text, signature.value):
            raise ProofError(code, f"the signature of {signature.name} does not hold")
        signed.append((key, signature))
    return tuple(signed)


def by_name(known: Iterable[VerifierKey]) -> dict[tuple[str, bytes], VerifierKey]:
    """Order keys by name and id; the same key twice is one.

    Raises:
        ProofError: ``keys_unfit``: two keys have the same name and id.
    """
    keys: dict[tuple[str, bytes], VerifierKey] = {}
    for key in known:
        if keys.setdefault((key.name, key.key_id), key) != key:
            raise ProofError("keys_unfit", f"two keys of {key.name} have the same id; one of them has to be made anew")
    return keys


def sign_note(text: str, signers: Iterable[NoteSigner], now: int) -> bytes:
    """Sign a text with every key at the time `now`, in seconds since 1970, which cosigners state.

    Raises:
        ProofError: ``note_malformed``: the text does not end in a line feed, holds what no note may hold, or nobody signs it;
            ``checkpoint_malformed`` where a cosigner is to sign what is no checkpoint.
    """
    if not text.endswith("\n") or _UNFIT.search(text):
        raise ProofError("note_malformed", "the text of a note ends in a line feed, and holds no control characters and no surrogates")
    data = Note(text, tuple(signer.sign(text, now) for signer in signers)).to_bytes()
    Note.parse(data)  # too long, or signed by nobody
    return data
