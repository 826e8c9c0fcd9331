"""What two recordings of one run have in common: events without their times, ids and places in the file.

Left out are `ts_ms`, every `…_at_ms`, `run_id`, `token_id`, the value of the default seed, the folder in which a command ran, the hash
chain and its seal, and counters among the facts. In a rendered prompt the times of retrievals and the line ends do not count. A value that is kept in a
file beside the trace counts by its SHA-256. Nothing else is left out, and nothing inside arguments and results.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from replay.errors import NotRecordable
from replay.jsontext import MISSING, Difference, encode, first_difference, match_key
from replay.reports.facts import without_counters
from replay.tracefile.events import KINDS, SEED_PURPOSE
from replay.tracefile.pairing import bodies_of
from replay.tracefile.reader import Event

_PASSING: Final = frozenset({"ts_ms", "run_id", "token_id", "seq", "prev", "sha256", "seal", "call", "bodies"})
# A retrieval in a prompt is an object without objects in it that says so. It may stand in a string of a string.
_OBJECT: Final = re.compile(r"\{[^{}]*\}")
_RETRIEVAL: Final = re.compile(r'kind\\*"?\s*:\s*\\*"?retrieval\b', re.IGNORECASE)
_TIME: Final = re.compile(r'(timestamp_ms\\*"?\s*:\s*)\d+')


def normalised(event: Event) -> dict[str, Any]:
    """Return what counts of an event, `kind` first."""
    fields = {name: value for name, value in event.fields.items() if name not in _PASSING and not name.endswith("_at_ms")}
    if event.kind == "seed_read" and fields.get("purpose") == SEED_PURPOSE:
        fields.pop("value", None)
    if event.kind == "run_started":
        fields.pop("folder", None)  # a place of the file, as it were
    if isinstance(fields.get("rendered"), str):
        fields["rendered"] = _rendered(fields["rendered"])
    if isinstance(fields.get("facts"), Mapping):
        fields["facts"] = without_counters(fields["facts"])
    for name in KINDS[event.kind].optional if event.kind in KINDS else ():
        if name in fields and fields[name] is None:  # null and absent say the same
            del fields[name]
    for pointer, body in bodies_of(event).items():
        fields = _put(fields, _parts(pointer), {"sha256": body.get("sha256")})
    return {"kind": event.kind, **fields}


def difference(one: Event, other: Event, leave: Collection[str] = ()) -> Difference | None:
    """Return the first place where two events differ in what counts; fields named in `leave` do not count."""
    ours, theirs = bodies_of(one).keys(), bodies_of(other).keys()
    first, second = _hashed(normalised(one), theirs - ours), _hashed(normalised(other), ours - theirs)
    for name in leave:
        first.pop(name, None)
        second.pop(name, None)
    return first_difference(first, second)


def fingerprint(event: Event, leave: Collection[str] = ()) -> bytes:
    """Return 32 bytes that are equal for two events where `difference` finds nothing, save for the order of keys."""
    there = bodies_of(event)

    def digest(pointer: str, value: Any) -> str:  # noqa: ANN401 - JSON
        return str(value["sha256"]) if pointer in there else _digest(value)

    parts: dict[str, Any] = {}
    for name, value in normalised(event).items():
        if name == "args" and isinstance(value, list):
            parts[name] = [digest(f"/args/{index}", item) for index, item in enumerate(value)]
        elif name not in leave:
            parts[name] = digest(f"/{name}", value)
    return sha256(match_key(parts)).digest()


def _digest(value: Any) -> str:  # noqa: ANN401 - JSON
    try:
        text = encode(value)  # what the file of a body holds
    except NotRecordable:
        text = match_key(value)  # an integer that only other writers write
    return sha256(text).hexdigest()


def _rendered(text: str) -> str:
    def timeless(found: re.Match[str]) -> str:
        return _TIME.sub(r"\g<1>0", found[0]) if _RETRIEVAL.search(found[0]) else found[0]

    return _OBJECT.sub(timeless, text.replace("\r\n", "\n"))


def _hashed(fields: dict[str, Any], pointers: Iterable[str]) -> dict[str, Any]:
    """Put digests in the place of values, as they stand where the other recording keeps them in files."""
    for pointer in pointers:
        parts = _parts(pointer)
        value = _get(fields, parts)
        if value is not MISSING:
            fields = _put(fields, parts, {"sha256": _digest(value)})
    return fields


def _parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _get(value: Any, parts: list[str]) -> Any:  # noqa: ANN401 - JSON
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


def _put(value: Any, parts: list[str], new: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a copy of a value with `new` at a place; the value itself where it has no such place."""
    if not parts:
        return new
    if isinstance(value, dict):
        # a result that is null may be left out, and its body not
        return {**value, parts[0]: _put(value.get(parts[0]), parts[1:], new)}
    if isinstance(value, list) and parts[0].isdecimal() and int(parts[0]) < len(value):
        at = int(parts[0])
        return [*value[:at], _put(value[at], parts[1:], new), *value[at + 1:]]
    return value
