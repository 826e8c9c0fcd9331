"""Random attacks: an envelope changed here and there by somebody who knows its structure, and who has not the issuer's key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeAlias

from rag_stdlib.proof.attacks.matrix import edited, places
from rag_stdlib.proof.attacks.parts import GONE, Json, Path, part, rehashed, with_part, written
from rag_stdlib.proof.attacks.scene import OUTSIDERS, Attacker, Scene
from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.notes import Note
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.strict import MalformedJson, parse

Changed: TypeAlias = "tuple[Json, Json]"  # what stands there, and what is to stand there

VALUES: Final[tuple[Json, ...]] = (
    None, True, False, 0, 1, -1, 2, 1_000, 2**31, 2**53 - 1, 2**53, -(2**53), 2**64, 10**400, 0.5, 1e308, "", " ", "\u3000", "x", "0", "null", "\x00", "\ud800", "\u202e",
    "\U0001f600", "e\u0301", "0" * 64, "f" * 64, "F" * 64, "0" * 63, "0" * 65, "0" * 40, "0.000000", "1.000000", "1.000001", "0.5", "-0.000000000", "0.000000000",
    "-999999999.999999999", "1000000000.000000000", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "2024-02-29T24:00:00Z", "2023-02-29T00:00:00Z",
    "2026-12-01T12:00:60Z", "quoted", "entailed", "contradicted", "not_supported", "lexical", "vector", "score", "rank", "pq_hybrid", "no_span", "QQ==", "QR==", "QQ=", "A" * 86 + "==",
    "n" * 201, "n" * 4_097, [], {}, [[]], [{}], {"text": ""}, [None], ["quoted", "entailed"], ["quoted"], ["quoted", "quoted"])
_SIGNS: Final = (*' \n\t"\\{}[]:,0123456789abcdefz+-=._—é', "\x00", "\u2028", "\U0001f600", "\ud800")
_DEEPEST: Final = 40
_MOST_CHANGES: Final = 4


def mutated(scene: Scene, random: Random, attackers: Sequence[Attacker] = OUTSIDERS) -> bytes:
    """Make a file by one of the attackers. One by an outsider is nothing that anybody should take for a certificate, unless it `is_the_same`."""
    value: Json = dict(scene.envelope)
    for _ in range(random.randint(1, _MOST_CHANGES)):
        value = random.choice(_CHANGES)(scene, value, random)
    value = _signed(scene, value, random.choice(attackers), random)
    return random.choice(_SPELLINGS)(written(value), random)


def is_the_same(scene: Scene, data: bytes) -> bool:
    """Tell whether a file is the certificate under attack in other words: what is signed is the same, and so is what the receipt says."""
    try:
        value = parse(data)
        return bool(_said(value) == _said(scene.envelope))
    except (MalformedJson, ProofError, AttributeError, KeyError, TypeError, ValueError):
        return False


def _said(envelope: Mapping[str, Json]) -> Json:
    receipt = Receipt.parse(envelope["receipt"].encode()) if "receipt" in envelope else None
    logged = None if receipt is None else [receipt.index, [value.hex() for value in receipt.path], Note.parse(receipt.checkpoint).text]
    return json.dumps([{name: value for name, value in envelope.items() if name != "receipt"}, logged], sort_keys=True)


def _heads(random: Random) -> bool:
    return bool(random.getrandbits(1))


def _place(value: Json, random: Random) -> Path:
    return random.choice(places(value) or [()])


def _set(value: Json, path: Path, new: Json) -> Json:
    return with_part(value, path, new) if path else value if new is GONE else new


def _value(_scene: Scene, value: Json, random: Random) -> Json:
    return _set(value, _place(value, random), random.choice(VALUES))


def _edit(_scene: Scene, value: Json, random: Random) -> Json:
    path = _place(value, random)
    return _set(value, path, edited(part(value, path)))


def _drop(_scene: Scene, value: Json, random: Random) -> Json:
    return _set(value, _place(value, random), GONE)


def _nest(_scene: Scene, value: Json, random: Random) -> Json:
    path = _place(value, random)
    inner = part(value, path)
    for _ in range(random.randint(1, _DEEPEST)):
        inner = [inner]
    return _set(value, path, inner)


def _of_kind(value: Json, kind: type, random: Random) -> Path | None:
    found = [path for path in places(value) if isinstance(part(value, path), kind)]
    return random.choice(found) if found else None


def _text(_scene: Scene, value: Json, random: Random) -> Json:
    path = _of_kind(value, str, random)
    return value if path is None else _set(value, path, _cut(part(value, path), random))


def _number(_scene: Scene, value: Json, random: Random) -> Json:
    path = _of_kind(value, int, random)
    return value if path is None else _set(value, path, int(part(value, path)) + random.choice((-100, -1, 1, 100)))


def _list(_scene: Scene, value: Json, random: Random) -> Json:
    """Shuffle a list, or have some of it twice."""
    path = _of_kind(value, list, random)
    if path is None:
        return value
    new = list(part(value, path))
    if new and _heads(random):
        new.insert(random.randint(0, len(new)), random.choice(new))
    else:
        random.shuffle(new)
    return _set(value, path, new)


def _member(_scene: Scene, value: Json, random: Random) -> Json:
    path = _of_kind(value, dict, random) or ()
    inner = part(value, path)
    if not isinstance(inner, dict):
        return value
    return _set(value, path, {**inner, random.choice(("unknown", "", "text", "\ud800", "é")): random.choice(VALUES)})


def _splice(scene: Scene, value: Json, random: Random) -> Json:
    """Put a part of this or the other certificate elsewhere, or at its own place."""
    source = random.choice([scene.envelope, scene.other or scene.envelope])
    taken = _place(source, random)
    try:
        return _set(value, taken if _heads(random) else _place(value, random), part(source, taken))
    except (IndexError, KeyError, TypeError):
        return value


def _alike(scene: Scene, value: Json, random: Random) -> Json:
    """Take what stands elsewhere under the same name, here or in the other certificate."""
    path = _place(value, random)
    source = random.choice([value, scene.other or value])
    alike = [each for each in places(source) if each[-1:] == path[-1:]]
    return _set(value, path, part(source, random.choice(alike))) if alike else value


def _receipt(scene: Scene, value: Json, random: Random) -> Json:
    """Take lines of the receipt out, exchange them, have them twice, or take some of the other's."""
    if not isinstance(value, dict) or not isinstance(value.get("receipt"), str):
        return value
    lines = value["receipt"].split("\n")
    others = str((scene.other or {}).get("receipt", "")).split("\n")
    at, to = random.randrange(len(lines)), random.randrange(len(lines))
    way = random.choice(("drop", "exchange", "repeat", "borrow", "cut", "add"))
    if way == "drop":
        del lines[at]
    elif way == "exchange":
        lines[at], lines[to] = lines[to], lines[at]
    elif way == "repeat":
        lines.insert(at, lines[to])
    elif way == "borrow":
        lines[at] = random.choice(others)
    elif way == "cut":
        lines[at] = _cut(lines[at], random)
    else:
        lines.insert(at, random.choice(("", "extra QUFB", "index 0", "index 18446744073709551616", "A" * 43 + "=", "— w AAAAAAA=")))
    return {**value, "receipt": "\n".join(lines)}


def _cut(text: str, random: Random) -> str:
    """Put a sign into a text, take one out, or exchange one."""
    at = random.randint(0, len(text))
    return f"{text[:at]}{random.choice((*_SIGNS, ''))}{text[at + random.randint(0, 1):]}"


_CHANGES: Final[Sequence[Callable[[Scene, Json, Random], Json]]] = (
    _value, _edit, _edit, _edit, _drop, _nest, _text, _text, _number, _number, _list, _list, _member, _splice, *(_alike,) * 6, *(_receipt,) * 4)


def _signed(scene: Scene, value: Json, attacker: Attacker, random: Random) -> Json:
    """Let an attacker sign what became of the body, and leave the rest as it became, or take it anew."""
    if not isinstance(value, dict) or not isinstance(value.get("certificate"), dict) or attacker == "no_key":
        return value
    try:
        made = scene.by(attacker, rehashed(value["certificate"], scene.query))
    except ValueError:  # nobody can sign what has no canonical form
        return value
    return made if _heads(random) else {**value, "certificate": made["certificate"], "signature": made["signature"]}


def _as_is(data: bytes, _random: Random) -> bytes:
    return data


def _flipped(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1:]


def _truncated(data: bytes, random: Random) -> bytes:
    return data[:random.randrange(len(data))]


def _twice(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    end = random.randint(start, min(len(data), start + 100))
    return data[:end] + data[start:]


def _twin(data: bytes, random: Random) -> bytes:
    """Have a member twice, under its own name or one in escapes."""
    at = data.find(b'":', random.randrange(len(data)))
    start = data.rfind(b'"', 0, at)
    if at < 0 or start < 0:
        return data
    name = data[start + 1:at]
    spelt = b"\\u%04x" % name[0] + name[1:] if name and _heads(random) else name
    return data[:start] + b'"' + spelt + b'":' + written(random.choice(VALUES)) + b"," + data[start:]


_SPELLINGS: Final[Sequence[Callable[[bytes, Random], bytes]]] = (*(_as_is,) * 12, _flipped, _truncated, _twice, _twin)
