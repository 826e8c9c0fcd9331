"""The keys of an issuer on disk: one file under one name, which its owner alone may use, and keys exchanged with overlap.

The file is JSON: ``schema``, ``name``, and ``keys``, the oldest first, each with its secret `seed` (base64 of 32 bytes), `not_before` and
`not_after` (null while it signs). Rotating adds a key that signs from now on; the one before stays valid for the overlap, so that certificates
which are on their way are still believed.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.forms import ListOf, Members, OneOf, OrNull, Text
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.privatefile import changing, create_private, read_private
from rag_stdlib.proof.strict import MalformedJson, parse
from replay import ed25519

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

OVERLAP_S: Final = 7 * 86_400

_SCHEMA: Final = "rag-stdlib/issuer-keys/v1"
_SEED_BYTES: Final = 32
_MAX_KEYS: Final = 64
_MAX_BYTES: Final = 65_536
_TIME: Final = Text(pattern=r"[0-9TZ:-]{20}", is_fit=lambda text: fmt.read_time(text) is not None)
_FORM: Final = Members({
    "schema": OneOf((_SCHEMA,)), "name": Text(1, 200),
    "keys": ListOf(Members({"seed": Text(44, 44), "not_before": _TIME, "not_after": OrNull(_TIME)}), _MAX_KEYS, 1)})


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """One key, and when certificates by it are valid: issued from `not_before` to before `not_after` (None: no end yet)."""

    seed: bytes = field(repr=False)
    not_before: str
    not_after: str | None = None

    @property
    def private(self) -> Ed25519PrivateKey:
        """The key to sign with."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.seed)

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self.private.public_key().public_bytes_raw()

    @property
    def key_id(self) -> str:
        """The name that certificates give it."""
        return fmt.issuer_key_id(self.public)


@dataclass(frozen=True, slots=True)
class IssuerKeys:
    """An issuer's name and its keys, the oldest first; the last one signs."""

    name: str
    keys: tuple[IssuerKey, ...]

    @property
    def signing(self) -> IssuerKey:
        """The key that signs now."""
        return self.keys[-1]

    def trusted(self) -> list[dict[str, Any]]:
        """Give what relying parties put under ``issuers`` of their trust file: every key with its name and times, nothing secret."""
        return [{"name": self.name, "public_key": base64.b64encode(key.public).decode(), "not_before": key.not_before,
                 **({} if key.not_after is None else {"not_after": key.not_after})} for key in self.keys]


def new_issuer_keys(path: str | os.PathLike[str], name: str, now: datetime) -> IssuerKeys:
    """Make a new file with one key.

    Raises:
        ValueError: a name that is empty, longer than 200 characters, or no Unicode text.
        LogError: ``exists``, ``missing`` (the folder), ``disk_full``, ``readonly``, ``file_io``.
    """
    try:
        fits = 0 < len(name.encode().decode()) <= 200  # noqa: PLR2004 - the format's bound
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise ValueError("an issuer's name is 1 to 200 characters")
    keys = IssuerKeys(name, (_new_key(now),))
    create_private(path, _written(keys))
    return keys


def load_issuer_keys(path: str | os.PathLike[str]) -> IssuerKeys:
    """Read the keys of an issuer.

    Raises:
        LogError: ``missing``, ``file_unsafe``, ``file_io``; ``file_foreign`` where it is no such file.
    """
    return _read(read_private(path, _MAX_BYTES), os.fspath(path))


def rotate_issuer_keys(path: str | os.PathLike[str], now: datetime, overlap_s: int = OVERLAP_S) -> IssuerKeys:
    """Add a key that signs from now on; certificates by the one before stay valid that were issued until the overlap is over.

    Raises:
        ValueError: An overlap below 0.
        LogError: as `load_issuer_keys`; ``disk_full``, ``readonly``.
    """
    if overlap_s < 0:
        raise ValueError("an overlap is a number of seconds from 0 on")
    with changing(path, _MAX_BYTES) as exchange:
        before = _read(exchange.data, os.fspath(path))
        if len(before.keys) == _MAX_KEYS:
            raise LogError("disk_full", f"{os.fspath(path)!r} holds {_MAX_KEYS} keys; begin a new one")
        end = _written_time(now + timedelta(seconds=overlap_s))
        *old, last = before.keys
        keys = IssuerKeys(before.name, (*old, replace(last, not_after=end), _new_key(now)))
        exchange.put(_written(keys))
    return keys


def _new_key(now: datetime) -> IssuerKey:
    return IssuerKey(secrets.token_bytes(_SEED_BYTES), _written_time(now))


def _written_time(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime(fmt.TIME)


def _written(keys: IssuerKeys) -> bytes:
    listed = [{"seed": base64.b64encode(key.seed).decode(), "not_before": key.not_before, "not_after": key.not_after} for key in keys.keys]
    return (json.dumps({"schema": _SCHEMA, "name": keys.name, "keys": listed}, indent=2) + "\n").encode()


def _read(data: bytes, path: str) -> IssuerKeys:
    try:
        given = parse(data)
    except MalformedJson:
        given = None
    if _FORM.departs(given) is not None:
        raise LogError("file_foreign", f"{path!r} is no file of issuer keys")
    return IssuerKeys(given["name"], tuple(_key(one, path) for one in given["keys"]))


def _key(given: Mapping[str, Any], path: str) -> IssuerKey:
    try:
        seed = ed25519.strict_base64(given["seed"])
    except ValueError:
        seed = b""
    if len(seed) != _SEED_BYTES:
        raise LogError("file_foreign", f"{path!r} is no file of issuer keys: a seed is not 32 bytes in base64")
    return IssuerKey(seed, given["not_before"], given["not_after"])
