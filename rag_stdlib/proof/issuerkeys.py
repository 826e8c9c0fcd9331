"""The keys of an issuer on disk: one file under one name, which its owner alone may use, and keys exchanged with overlap.

The file is JSON: ``schema``, ``name``, ``signing`` with the secret `seed` (base64 of 32 bytes) of the key that signs and its `not_before`, and
``superseded``: of the keys before it, the oldest first, `public_key`, `not_before` and `not_after`. Rotating adds a key that signs from now on and
forgets the secret of the one before, so that whoever gets the file later cannot issue as of earlier. What that one issued is still believed for
the overlap, and after it where witnesses had cosigned (docs/certificate.md, check 35).
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.certificate import LIFETIME_S
from rag_stdlib.proof.forms import ListOf, Members, OneOf, Text, departure
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.logkeys import may_begin_as
from rag_stdlib.proof.log.privatefile import changing, create_private, read_private
from rag_stdlib.proof.strict import MalformedJson, parse
from replay import ed25519

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

OVERLAP_S: Final = LIFETIME_S  # what was issued with this lifetime, just before a rotation, is believed to its end

_SCHEMA: Final = "rag-stdlib/issuer-keys/v1"
_SEED_BYTES: Final = 32
_MAX_KEYS: Final = 64
_MAX_BYTES: Final = 65_536
_NAME_CHARS: Final = 200
_ID_BEGINS: Final = re.compile("[0-9a-f]{8,64}")
BEGINNING: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{.*?\"schema\"\s*:\s*\"rag-stdlib/issuer-keys/", re.DOTALL)


def _is_over(key: IssuerKey, now: datetime) -> bool:
    """Tell whether a key ended so long ago that the last certificate by it has expired."""
    ended = None if key.not_after is None else fmt.read_time(key.not_after)
    return ended is not None and now - ended >= timedelta(seconds=fmt.LONGEST_S)


def _is_seed(text: str) -> bool:
    try:
        return len(ed25519.strict_base64(text)) == _SEED_BYTES
    except ValueError:
        return False


def _is_public(text: str) -> bool:
    try:
        ed25519.public_key(ed25519.strict_base64(text))
    except ValueError:
        return False
    return True


_TIME: Final = Text(pattern=r"[0-9TZ:-]{20}", is_fit=lambda text: fmt.read_time(text) is not None)
_SUPERSEDED: Final = Members({"public_key": Text(44, 44, is_fit=_is_public), "not_before": _TIME, "not_after": _TIME})
_FORM: Final = Members({
    "schema": OneOf((_SCHEMA,)), "name": Text(1, _NAME_CHARS), "signing": Members({"seed": Text(44, 44, is_fit=_is_seed), "not_before": _TIME}),
    "superseded": ListOf(_SUPERSEDED, _MAX_KEYS - 1)})


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """One key, and when certificates by it are valid.

    Attributes:
        seed: The secret, 32 bytes; None of a key that was superseded.
        not_before: The time of the format from which on it may have issued.
        not_after: The time before which it has to have issued; None while it signs.
        public: The public key, 32 bytes; computed where there is a seed.
    """

    seed: bytes | None = field(repr=False)
    not_before: str
    not_after: str | None = None
    public: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        """Compute the public half of a secret."""
        if self.seed is not None:
            object.__setattr__(self, "public", self.private.public_key().public_bytes_raw())

    @property
    def private(self) -> Ed25519PrivateKey:
        """The key to sign with.

        Raises:
            LogError: ``key_unknown`` of a key that was superseded.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if self.seed is None:
            raise LogError("key_unknown", f"the secret of the key {self.key_id} was forgotten when another key took its place; only the last key of an issuer signs")
        return Ed25519PrivateKey.from_private_bytes(self.seed)

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
        return [{"name": self.name, "public_key": _base64(key.public), "not_before": key.not_before,
                 **({} if key.not_after is None else {"not_after": key.not_after})} for key in self.keys]


def new_issuer_keys(path: str | os.PathLike[str], name: str, now: datetime) -> IssuerKeys:
    """Make a new file with one key.

    Raises:
        ValueError: a name that is empty, longer than 200 characters, or no Unicode text; `now` has no zone, or no certificate could state it.
        LogError: ``exists``, ``missing`` (the folder), ``disk_full``, ``readonly``, ``file_io``.
    """
    check_issuer_name(name)
    keys = IssuerKeys(name, (_new_key(_written_time(now)),))
    create_private(path, _written(keys))
    return keys


def check_issuer_name(name: str) -> None:
    """Refuse a name that no issuer can have.

    Raises:
        ValueError: it is empty, longer than 200 characters, or no Unicode text.
    """
    try:
        fits = 0 < len(name.encode().decode()) <= _NAME_CHARS
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise ValueError(f"an issuer's name is 1 to {_NAME_CHARS} characters; choose another name")


def load_issuer_keys(path: str | os.PathLike[str]) -> IssuerKeys:
    """Read the keys of an issuer.

    Raises:
        LogError: ``missing``, ``file_unsafe``, ``file_io``; ``file_foreign`` where it is no such file.
    """
    _check_kind(path)
    return _read(read_private(path, _MAX_BYTES), os.fspath(path))


def may_hold_issuer_keys(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file begins as one of these, so that what is wrong with it is worth telling."""
    return may_begin_as(path, BEGINNING)


def _check_kind(path: str | os.PathLike[str]) -> None:
    if not may_hold_issuer_keys(path):
        raise LogError("file_foreign", f"{os.fspath(path)!r} is no file of issuer keys")


def rotate_issuer_keys(path: str | os.PathLike[str], now: datetime, overlap_s: int = OVERLAP_S) -> IssuerKeys:
    """Add a key that signs from now on, and forget the secret of the one before; its certificates are believed until the overlap is over.

    In a file that is full, the oldest key of those is taken out that ended so long ago that no certificate by them can be good any more.

    Args:
        path: The file.
        now: The time, with its zone.
        overlap_s: The overlap in seconds. Once it is over, certificates by the key before verify only where witnesses had cosigned them.

    Raises:
        ValueError: An overlap below 0, or one whose end no certificate could state; `now` has no zone, or is before the key began that signs.
        LogError: as `load_issuer_keys`; ``disk_full``, ``readonly``.
    """
    if overlap_s < 0:
        raise ValueError("an overlap is a number of seconds from 0 on")
    begins = _written_time(now)
    try:
        end = _written_end(now, overlap_s)
    except (OverflowError, ValueError):
        raise ValueError(f"an overlap of {overlap_s} seconds ends later than a time can be written; choose a shorter one") from None
    _check_kind(path)
    with changing(path, _MAX_BYTES) as exchange:
        before = _read(exchange.data, os.fspath(path))
        *old, last = before.keys
        if len(before.keys) == _MAX_KEYS:  # only then: a clock that is ahead for once would take out keys that are believed
            over = next((key for key in old if _is_over(key, now)), None)
            if over is None:
                raise LogError("disk_full", f"{os.fspath(path)!r} holds {_MAX_KEYS} keys; begin a new one")
            old.remove(over)
        if begins < last.not_before:
            raise ValueError(f"it is {begins} by the clock, and the key that signs began at {last.not_before}; set the clock right, or begin a new file")
        keys = IssuerKeys(before.name, (*old, replace(last, seed=None, not_after=end), _new_key(begins)))
        exchange.put(_written(keys))
    return keys


def retire_issuer_key(path: str | os.PathLike[str], key_id: str, now: datetime, *, compromised: bool = False) -> IssuerKeys:
    """End a superseded key now, before its overlap is over; what a program issued by it within this second is believed.

    Args:
        path: The file.
        key_id: The key's id, or at least 8 hex digits of its beginning.
        now: The time, with its zone.
        compromised: Take the key out of the file instead, so that `trusted` lists it no more: others have its secret.

    Raises:
        ValueError: `now` has no zone, or no certificate could state it.
        LogError: as `rotate_issuer_keys`; ``key_unknown`` where no key or several keys have such an id, where it is the key that signs, and for one that has
            ended already.
    """
    end = _written_end(now)
    _check_kind(path)
    with changing(path, _MAX_BYTES) as exchange:
        keys = _read(exchange.data, os.fspath(path))
        key = _named(keys, key_id.lower())
        if key.not_after is None:
            raise LogError("key_unknown", f"the key {key_id} signs for {keys.name}; rotate first")
        if not compromised and key.not_after <= end:
            raise LogError("key_unknown", f"the key {key_id} of {keys.name} ended at {key.not_after}; it is left as it is")
        ended = () if compromised else (replace(key, not_after=max(end, key.not_before)),)  # a clock may have been set back
        at = keys.keys.index(key)
        keys = IssuerKeys(keys.name, (*keys.keys[:at], *ended, *keys.keys[at + 1:]))
        exchange.put(_written(keys))
    return keys


def _named(keys: IssuerKeys, key_id: str) -> IssuerKey:
    """Find the one key whose id begins like this."""
    if not _ID_BEGINS.fullmatch(key_id):
        raise LogError("key_unknown", f"{key_id!r:.80} names no key of an issuer; give the 64 hex digits of its id, or at least the first 8")
    found = [key for key in keys.keys if key.key_id.startswith(key_id)]
    if len(found) != 1:
        problem = f"{len(found)} keys of {keys.name} have an id that begins with {key_id}; give more of it"
        raise LogError("key_unknown", problem if found else f"{keys.name} has no key with the id {key_id}; name one of those in its file")
    return found[0]


def _new_key(begins: str) -> IssuerKey:
    return IssuerKey(secrets.token_bytes(_SEED_BYTES), begins)


def _written_end(now: datetime, overlap_s: int = 0) -> str:
    """Write when a key ends that may have issued now, or until the overlap is over: certificates say whole seconds, so the last one counts to its end."""
    return _written_time(now, timedelta(seconds=overlap_s + 1))


def _written_time(moment: datetime, later: timedelta = timedelta(0)) -> str:
    """Write a time, or a later one, as the format has it: whole seconds, rounded down."""
    if moment.tzinfo is None:
        raise ValueError("the time needs its zone")
    try:
        written = (moment.astimezone(timezone.utc) + later).strftime(fmt.TIME)
    except OverflowError:
        written = ""
    if fmt.read_time(written) is None:
        raise ValueError(f"no certificate can state the time {moment.isoformat()}; set the clock right")
    return written


def _written(keys: IssuerKeys) -> bytes:
    *superseded, last = keys.keys
    assert last.seed is not None  # noqa: S101 - the last one signs
    listed = [{"public_key": _base64(key.public), "not_before": key.not_before, "not_after": key.not_after} for key in superseded]
    signing = {"seed": _base64(last.seed), "not_before": last.not_before}
    return (json.dumps({"schema": _SCHEMA, "name": keys.name, "signing": signing, "superseded": listed}, indent=2) + "\n").encode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _read(data: bytes, path: str) -> IssuerKeys:
    try:
        given = parse(data)
    except MalformedJson as error:
        raise _foreign(path, str(error)) from None
    if isinstance(given, dict) and given.get("schema", _SCHEMA) != _SCHEMA:
        raise _foreign(path, f"its schema is not {_SCHEMA}", "use the release that made it")
    departs = departure(given, _FORM, is_secret=True)
    if departs:
        raise _foreign(path, departs)
    superseded = [IssuerKey(None, key["not_before"], key["not_after"], ed25519.strict_base64(key["public_key"])) for key in given["superseded"]]
    signing = IssuerKey(ed25519.strict_base64(given["signing"]["seed"]), given["signing"]["not_before"])
    keys = IssuerKeys(given["name"], (*superseded, signing))
    problem = _problem(keys)
    if problem:
        raise _foreign(path, problem)
    return keys


def _foreign(path: str, why: str, advice: str = "put a good copy in its place") -> LogError:
    return LogError("file_foreign", f"{path!r} is no file of issuer keys: {why}; {advice}")


def _problem(keys: IssuerKeys) -> str:
    """Say why keys that have the form are not those of one issuer; nothing where they are."""
    if len({key.public for key in keys.keys}) != len(keys.keys):
        return "a key is there twice"
    in_turn = all(before.not_before <= after.not_before for before, after in pairwise(keys.keys))
    return "" if in_turn and all(key.not_after is None or key.not_before <= key.not_after for key in keys.keys) else "the times of its keys are not in order"
