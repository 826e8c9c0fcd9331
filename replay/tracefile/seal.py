"""The seal: an Ed25519 signature over the last line of a complete trace, and so, through the chain, over all of it.

The chain alone shows damage and careless edits: whoever can rewrite the file can compute it anew. The seal shows that too, to a
reader who has the public key from elsewhere. Signed is ``rag-stdlib/trace-seal/v1``, a zero byte, and the hex SHA-256 of the line as
it stands without the seal. The seal does not say when the run was, nor that the recording program told the truth.
"""

from __future__ import annotations

import base64
import os
import shlex
import stat
import threading
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from replay import ed25519
from replay.errors import ReplayError, TraceError
from replay.jsontext import decode, encode
from replay.tracefile import chain
from replay.tracefile.files import open_regular, reason_of
from replay.tracefile.reader import EventReader, open_trace

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ALGORITHM: Final = "ed25519"
_CONTEXT: Final = b"rag-stdlib/trace-seal/v1\0"
_COPY_BYTES: Final = 1 << 20


# --- keys ---

def make_key(path: str | os.PathLike[str]) -> str:
    """Write a new key pair: `path` (PKCS #8, for its owner only) and `path`.pub; return the key's id. Nothing is overwritten."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    _write_new(Path(path), secret, 0o600)
    try:
        _write_new(Path(f"{os.fspath(path)}.pub"), public, 0o644)
    except ReplayError:
        Path(path).unlink()
        raise
    return key_id(key.public_key())


def load_private(path: str | os.PathLike[str]) -> Ed25519PrivateKey:
    """Read a private key that `make_key` wrote."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = _read_key(path, f"; make one with: rag trace seal TRACE --key {shlex.quote(os.fspath(path))} --make-key")
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # what they say is for those who program with keys
        raise ReplayError(f"key {os.fspath(path)!r}: this is no unencrypted private key in PEM form") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ReplayError(f"key {os.fspath(path)!r}: traces are sealed with Ed25519 keys; this is another kind")
    return key


def load_public(path: str | os.PathLike[str]) -> Ed25519PublicKey:
    """Read a public key that `make_key` wrote.

    Raises:
        ReplayError: there is no such file, or it holds no Ed25519 key, or one under which a seal would say nothing.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = _read_key(path, "")
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise ReplayError(f"key {os.fspath(path)!r}: this is no public key in PEM form") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ReplayError(f"key {os.fspath(path)!r}: traces are sealed with Ed25519 keys; this is another kind")
    try:
        return ed25519.public_key(key.public_bytes_raw())
    except ed25519.KeyRefused as refused:
        raise ReplayError(f"key {os.fspath(path)!r}: {refused}") from None


def key_id(key: Ed25519PublicKey) -> str:
    """Return the first 16 hex digits of the SHA-256 of the raw public key."""
    return sha256(key.public_bytes_raw()).hexdigest()[:16]


def _read_key(path: str | os.PathLike[str], advice: str) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(1 << 16)
    except FileNotFoundError:
        raise ReplayError(f"key {os.fspath(path)!r}: there is no such file{advice}") from None
    except (OSError, ValueError) as error:
        raise ReplayError(f"key {os.fspath(path)!r}: it cannot be read: {reason_of(error)}") from None


def _write_new(path: Path, data: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except FileExistsError:
        raise ReplayError(f"key {str(path)!r}: there is a file already; a key is never overwritten") from None
    except (OSError, ValueError) as error:
        raise ReplayError(f"key {str(path)!r}: it cannot be written: {reason_of(error)}") from None


# --- sealing ---

def make_seal(key: Ed25519PrivateKey, digest: str) -> bytes:
    """Return the seal (a JSON object) over the digest of the last line as it stands without one."""
    signature = base64.b64encode(key.sign(_CONTEXT + digest.encode())).decode()
    return encode({"alg": ALGORITHM, "key_id": key_id(key.public_key()), "signature": signature})


def problem_of_seal(key: Ed25519PublicKey, seal: dict[str, Any], line: bytes) -> str:
    """Say why the seal on a whole line is not one that `key` made over it, or ""."""
    if seal.get("alg") != ALGORITHM:
        return f"the seal is of the unknown kind {seal.get('alg')!r}"
    if seal.get("key_id") != key_id(key):
        return f"the trace was sealed with the key {seal.get('key_id')!r}, not with {key_id(key)!r}"
    try:
        ed25519.public_key(key.public_bytes_raw())
    except ed25519.KeyRefused as refused:
        return f"the key {key_id(key)!r} cannot vouch for a trace: {refused}"
    hashed, _ = chain.unseal(line)
    if not ed25519.verify(key, _signature(seal), _CONTEXT + sha256(hashed).hexdigest().encode()):
        return "the seal does not fit: the trace was changed after it was sealed"
    return ""


def _signature(seal: dict[str, Any]) -> bytes:
    """Return the signature of a seal; where none can be read, one that never fits."""
    text = seal.get("signature")
    try:
        return ed25519.strict_base64(text) if isinstance(text, str) else b""
    except ValueError:
        return b""


def check_sealable(path: str | os.PathLike[str]) -> None:
    """Raise what `seal_trace` would raise whatever the key: before one is made for nothing.

    Raises:
        TraceError: trace_incomplete, trace_tampered, trace_missing, …
    """
    _last_line(os.fspath(path))


def seal_trace(path: str | os.PathLike[str], key: Ed25519PrivateKey, *, force: bool = False) -> bool:
    """Seal a complete, intact trace in place; return False where this key's seal stands there already.

    The sealed copy takes the trace's place in one step. A seal by another key is replaced only with `force`.

    Raises:
        TraceError: the trace is incomplete (trace_incomplete), changed (trace_tampered), sealed otherwise (trace_exists), …
    """
    line, offset = _last_line(os.fspath(path))
    target = os.path.realpath(path)
    hashed, present = chain.unseal(line)
    if present is not None and not force:
        if not problem_of_seal(key.public_key(), decode(present), line):
            return False
        raise TraceError("trace_exists", "it carries a seal already, which this key did not make; force replaces it", path=target)
    seal = make_seal(key, sha256(hashed).hexdigest())
    sealed = chain.with_seal(hashed, seal)
    rest, _ = chain.end(sealed)
    try:
        _replace(target, offset, sealed + rest + b"\n")
    except OSError as error:
        raise TraceError("trace_io", f"it cannot be sealed: {error.strerror}", path=target) from error
    return True


def _last_line(path: str) -> tuple[bytes, int]:
    """Read the whole trace; return the line of its run_completed and where that begins (bytes)."""
    reader = EventReader(path, chain="check", bodies="leave")
    kind = ""
    for event in reader:
        if kind == "run_completed":
            raise TraceError("trace_order", "events follow run_completed", path=path, line=event.line)
        kind = event.kind
    if not reader.chain.chained:
        raise TraceError("trace_tampered", "it carries no hash chain, so a seal would say nothing", path=path)
    if kind != "run_completed" or reader.torn:
        raise TraceError("trace_incomplete", "the run did not complete; only a complete trace is sealed", path=path)
    return reader.text, reader.offset


def _replace(path: str, offset: int, last: bytes) -> None:
    """Put a copy of the file, up to `offset` and with another last line, in its place."""
    temporary = Path(path).with_name(f".{Path(path).name}.sealing-{os.getpid()}-{threading.get_ident()}")
    temporary.unlink(missing_ok=True)  # of a process of the same number that was killed here
    with open_trace(path) as source:
        mode = stat.S_IMODE(os.fstat(source.fileno()).st_mode)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(descriptor, "wb") as copy:
                _copy(source, copy, offset)
                copy.write(last)
                copy.flush()
                os.fsync(copy.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _copy(source: BinaryIO, copy: BinaryIO, length: int) -> None:
    while length > 0:
        block = source.read(min(length, _COPY_BYTES))
        if not block:
            raise OSError("the trace became shorter while it was read")
        copy.write(block)
        length -= len(block)
