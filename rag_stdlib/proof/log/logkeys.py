"""The keys of a log or of a witness: one file under one name, apart from the keys that issuers sign with, and exchanged with overlap.

The file is text that its owner alone may read, a key on a line, the oldest first::

    rag-stdlib/log-keys/v1
    compromised NAME+ID+BASE64
    retired NAME+ID+BASE64
    signing PRIVATE+KEY+NAME+ID+BASE64

`rotate` adds a key; from then on both sign, so that clients who pin the old one go on while they learn the new one. `retire` ends that:
the old key signs no more and its secret is gone, but what it signed is still known for one's own, and clients may go on trusting it. A key
whose secret others have is compromised: clients are told of it no more. Its public half stays in the file for the log alone, which it signed.
"""

from __future__ import annotations

import codecs
import os
import re
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rag_stdlib.proof.log.cosignatures import COSIGNATURE_ED25519, COSIGNATURE_ML_DSA_44
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.notes import ED25519, NoteSigner, VerifierKey
from rag_stdlib.proof.log.privatefile import changing, create_private, read_private

LOG_KINDS: Final = (ED25519,)
WITNESS_KINDS: Final = (COSIGNATURE_ED25519, COSIGNATURE_ML_DSA_44)

_FIRST: Final = "rag-stdlib/log-keys/v1"
_MAX_KEYS: Final = 64
_MAX_BYTES: Final = 262_144
_SEED_BYTES: Final = 32
BEGINNING: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*rag-stdlib/log-keys/")
_LOOK: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class LogKeys:
    """The keys of one name.

    Attributes:
        name: The origin of the log, or the name of the witness.
        signers: Those that sign, the oldest first; at least one.
        retired: Those that signed before.
        compromised: Those whose secret others have; nobody else is to trust them.
    """

    name: str
    signers: tuple[NoteSigner, ...]
    retired: tuple[VerifierKey, ...] = ()
    compromised: tuple[VerifierKey, ...] = ()

    def __post_init__(self) -> None:
        """Check that they are of one name; a `ProofError` (``keys_unfit``) where they are not, or where none signs."""
        if not self.signers:
            raise ProofError("keys_unfit", f"no key of {self.name} signs")
        texts = [key.text() for key in self.verifiers]
        if any(key.name != self.name for key in self.verifiers) or len(set(texts)) != len(texts):
            raise ProofError("keys_unfit", f"the keys are not all of {self.name}, or one is there twice")

    @property
    def verifiers(self) -> tuple[VerifierKey, ...]:
        """The public halves of all, the retired and the compromised ones too: those by which a log knows its own checkpoints."""
        return (*self.compromised, *self.trusted)

    @property
    def trusted(self) -> tuple[VerifierKey, ...]:
        """The public halves that clients may pin: of those that sign, and of the retired ones, whose secrets are gone."""
        return (*self.retired, *self.signing)

    @property
    def signing(self) -> tuple[VerifierKey, ...]:
        """The public halves of those that sign."""
        return tuple(signer.verifier for signer in self.signers)


def new_keys(path: str | os.PathLike[str], name: str, kinds: Sequence[int] = LOG_KINDS) -> LogKeys:
    """Make a new file with a key of each kind: `LOG_KINDS` for a log (name it as its origin), `WITNESS_KINDS` for a witness.

    Raises:
        ProofError: ``key_malformed`` for a name that no key can have, or a kind that there is not.
        LogError: ``exists``, ``missing`` (the folder), ``disk_full``, ``readonly``, ``file_io``.
    """
    keys = LogKeys(name, tuple(_new_key(name, kind) for kind in kinds))
    create_private(path, _written(keys))
    return keys


def load_keys(path: str | os.PathLike[str]) -> LogKeys:
    """Read the keys of a log or a witness.

    Raises:
        LogError: ``missing``, ``file_unsafe``, ``file_io``; ``file_foreign`` where it is no such file.
    """
    _check_kind(path)
    return _read(read_private(path, _MAX_BYTES), os.fspath(path))


def may_begin_as(path: str | os.PathLike[str], beginning: re.Pattern[bytes]) -> bool:
    """Tell whether a file begins like this, whoever may use it; of what cannot be read, or is no regular file, nothing is known, so it may.

    The rights on a file are complained of after that: to take them from a file that holds no keys would only harm those who share it.
    """
    try:
        handle = os.open(path, _LOOK)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return True
    try:
        return not stat.S_ISREG(os.fstat(handle).st_mode) or beginning.match(os.read(handle, _MAX_BYTES)) is not None
    except OSError:
        return True
    finally:
        os.close(handle)


def may_hold_log_keys(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file begins as one of these, so that what is wrong with it is worth telling."""
    return may_begin_as(path, BEGINNING)


def _check_kind(path: str | os.PathLike[str]) -> None:
    if not may_hold_log_keys(path):
        raise LogError("file_foreign", f"{os.fspath(path)!r} is no file of log keys")


def rotate(path: str | os.PathLike[str]) -> LogKeys:
    """Add a new key of each kind that signs now; old and new ones sign together until the old ones are retired.

    Raises:
        LogError: As `load_keys`; ``disk_full``, ``readonly``.
        ProofError: ``keys_unfit``: the file holds 64 keys already.
    """
    _check_kind(path)
    with changing(path, _MAX_BYTES) as exchange:
        keys = _read(exchange.data, os.fspath(path))
        kinds = dict.fromkeys(signer.kind for signer in keys.signers)
        keys = replace(keys, signers=(*keys.signers, *(_new_key(keys.name, kind) for kind in kinds)))
        exchange.put(_written(keys))
    return keys


def retire(path: str | os.PathLike[str], key_id: str, *, compromised: bool = False) -> LogKeys:
    """End the use of a key, named by its id in eight hex digits, and forget its secret; a newer key of its kind must go on.

    Args:
        path: The file.
        key_id: The key's id.
        compromised: Others have the secret, or had it: `LogKeys.trusted` names the key no more. It may be one that was retired before.

    Raises:
        LogError: As `rotate`; ``key_unknown`` where no key that signs has this id, nor one that is retired and now compromised, or it is the last of its kind,
            or the newest, which has not to go on where it is compromised.
    """
    _check_kind(path)
    with changing(path, _MAX_BYTES) as exchange:
        keys = _read(exchange.data, os.fspath(path))
        ending = [signer for signer in keys.signers if signer.verifier.key_id.hex() == key_id.lower()]
        retired = [key for key in keys.retired if key.key_id.hex() == key_id.lower()]
        stay = tuple(signer for signer in keys.signers if signer not in ending)
        if key_id.lower() in (key.key_id.hex() for key in keys.compromised):
            raise LogError("key_unknown", f"the key {key_id} of {keys.name} is compromised already; it is left as it is")
        if not ending and not retired:
            raise LogError("key_unknown", f"{keys.name} has no key with the id {key_id}; name one of those in its file")
        if not ending and not compromised:
            raise LogError("key_unknown", f"the key {key_id} of {keys.name} is retired already; it is left as it is")
        if any(one.kind not in {signer.kind for signer in stay} for one in ending):
            raise LogError("key_unknown", f"the key {key_id} is the last of its kind that signs for {keys.name}; rotate first")
        if not compromised and any(one == next(signer for signer in reversed(keys.signers) if signer.kind == one.kind) for one in ending):
            raise LogError("key_unknown", f"the key {key_id} of {keys.name} is the newest; retire an older one, or give --compromised")
        ended = tuple(signer.verifier for signer in ending)
        if compromised:
            keys = LogKeys(keys.name, stay, tuple(key for key in keys.retired if key not in retired), (*keys.compromised, *retired, *ended))
        else:
            keys = LogKeys(keys.name, stay, (*keys.retired, *ended), keys.compromised)
        exchange.put(_written(keys))
    return keys


def _new_key(name: str, kind: int) -> NoteSigner:
    return NoteSigner(name, secrets.token_bytes(_SEED_BYTES), kind)


def _written(keys: LogKeys) -> bytes:
    if len(keys.verifiers) > _MAX_KEYS:
        raise ProofError("keys_unfit", f"a file holds {_MAX_KEYS} keys of {keys.name}, the retired ones too; there is no room for more")
    lines = [_FIRST, *(f"compromised {key.text()}" for key in keys.compromised), *(f"retired {key.text()}" for key in keys.retired),
             *(f"signing {signer.private_text()}" for signer in keys.signers)]
    return "".join(f"{line}\n" for line in lines).encode()


def _read(data: bytes, path: str) -> LogKeys:
    try:
        if data.startswith(codecs.BOM_UTF8):
            raise ProofError("key_malformed", "it begins with a byte order mark")
        first, *lines, last = data.decode().split("\n")
        if (first, last) != (_FIRST, "") or not 0 < len(lines) <= _MAX_KEYS:
            raise ProofError("key_malformed", f"it is not {_FIRST} and up to {_MAX_KEYS} lines")
        signers = tuple(NoteSigner.parse(text) for text in _after("signing ", lines))
        compromised, retired = (tuple(VerifierKey.parse(text) for text in _after(word, lines)) for word in ("compromised ", "retired "))
        keys = LogKeys((*compromised, *retired, *(signer.verifier for signer in signers))[0].name, signers, retired, compromised)
        if _written(keys) != data:
            raise ProofError("key_malformed", "a line is of no key, or the lines stand in another order")
    except (ValueError, IndexError) as error:
        words = error.words if isinstance(error, ProofError) else "it is no text of keys"
        raise LogError("file_foreign", f"{path!r} is no file of log keys: {words}; put a good copy in its place") from None
    return keys


def _after(word: str, lines: Sequence[str]) -> list[str]:
    return [line[len(word):] for line in lines if line.startswith(word)]
