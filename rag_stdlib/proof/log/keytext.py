"""Keys of notes as they are named and written (C2SP signed-note): ``NAME+HEX8(key id)+BASE64(kind ‖ public key)``.

A key is known by its name and its id, the first four bytes of SHA-256(name ‖ 0A ‖ kind ‖ public key). A secret key is written
``PRIVATE+KEY+NAME+HEX8(key id)+BASE64(kind ‖ seed)``, as Go's sumdb/note keeps it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

from rag_stdlib.proof.log.errors import ProofError
from replay import ed25519

ID_BYTES: Final = 4
MAX_NAME_BYTES: Final = 255  # what a cosignature of kind 6 can commit to
MAX_KEY_TEXT: Final = 4_096

_SEED_BYTES: Final = 32
_PRIVATE: Final = "PRIVATE+KEY+"
_HEX_ID: Final = re.compile(r"[0-9a-f]{8}")


def check_name(name: str) -> str:
    """Return a name that a key can have: 1 to 255 bytes of UTF-8, without white space, control characters and ``+``.

    Raises:
        ProofError: ``key_malformed``.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= MAX_NAME_BYTES:
        raise ProofError("key_malformed", f"a key's name is 1 to {MAX_NAME_BYTES} bytes of UTF-8")
    if "+" in name or any(sign.isspace() or sign < " " for sign in name):
        raise ProofError("key_malformed", "a key's name holds no white space, no control characters and no +")
    return name


def key_id(name: str, kind: int, public: bytes) -> bytes:
    """Compute the id of a key."""
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:ID_BYTES]


def key_text(name: str, kind: int, public: bytes) -> str:
    """Write a public key."""
    return f"{name}+{key_id(name, kind, public).hex()}+{encoded(bytes([kind]) + public)}"


def read_key_text(text: str) -> tuple[str, int, bytes]:
    """Take a public key's text apart into name, kind and raw key; its id is computed again, and must be the one written.

    Raises:
        ProofError: ``key_malformed``.
    """
    name, kind, public, written = _parts(text)
    if key_id(name, kind, public) != written:
        raise ProofError("key_malformed", f"the key of {name!r} has another id than is written")
    return name, kind, public


def private_key_text(name: str, kind: int, identifier: bytes, seed: bytes) -> str:
    """Write a secret key; `identifier` is the id of its public half."""
    return f"{_PRIVATE}{name}+{identifier.hex()}+{encoded(bytes([kind]) + seed)}"


def read_private_key_text(text: str) -> tuple[str, int, bytes, bytes]:
    """Take a secret key's text apart into name, kind, seed and the id that is written; no message names the secret.

    Raises:
        ProofError: ``key_malformed``.
    """
    if not text.startswith(_PRIVATE):
        raise ProofError("key_malformed", f"a secret key begins with {_PRIVATE}")
    name, kind, seed, written = _parts(text[len(_PRIVATE):])
    if len(seed) != _SEED_BYTES:
        raise ProofError("key_malformed", f"the secret key of {name!r} is no seed of {_SEED_BYTES} bytes")
    return name, kind, seed, written


def _parts(text: str) -> tuple[str, int, bytes, bytes]:
    pieces = text.split("+", 2) if len(text) <= MAX_KEY_TEXT else []
    if len(pieces) != 3 or not _HEX_ID.fullmatch(pieces[1]):  # noqa: PLR2004 - name, id, key
        raise ProofError("key_malformed", "a key is written NAME+ID+BASE64, with an id of eight hex digits")
    data = decoded(pieces[2], "key_malformed")
    if not data:
        raise ProofError("key_malformed", "the key is empty")
    return check_name(pieces[0]), data[0], data[1:], bytes.fromhex(pieces[1])


def encoded(data: bytes) -> str:
    """Write bytes as notes have them: standard base64 with padding."""
    return base64.b64encode(data).decode()


def decoded(text: str, code: str) -> bytes:
    """Read base64 that is written the one way an encoder writes it.

    Raises:
        ProofError: `code`, for anything else.
    """
    try:
        return ed25519.strict_base64(text)
    except ValueError:
        raise ProofError(code, "this is no base64 as an encoder writes it") from None
