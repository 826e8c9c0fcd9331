"""The matrix of small changes: every part of a certificate, changed in every way, by every attacker.

Nothing of it may verify but what the issuer changed where the format leaves it free, and logged again: that is another certificate, and as good as
the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from rag_stdlib.proof.attacks.parts import GONE, Json, Path, part, rehashed, with_part, written
from rag_stdlib.proof.attacks.scene import Attacker, Scene
from rag_stdlib.proof.format import read_time

Kind: TypeAlias = Literal["edit", "delete", "null", "duplicate", "reorder", "wrong_type", "add", "swap"]

BODY: Final = "certificate"

_OTHER_TYPE: Final[Mapping[type, Json]] = {str: 1, int: "1", bool: "true", list: {}, dict: [], type(None): {}}
_DECIMAL: Final = re.compile(r"-?[0-9]+\.[0-9]+")
_TWIN: Final = "\U0010fffd"  # a member's name that no certificate has


@dataclass(frozen=True, slots=True)
class Change:
    """A change at a place of an envelope: `new` stands there afterwards (`GONE`: nothing), or, of a duplicate, beside what is there."""

    path: Path
    kind: Kind
    new: Json


def places(value: Json) -> list[Path]:
    """List every place of a JSON value but its root, outer ones first."""
    found: list[Path] = []
    _add_places(value, (), found)
    return found


def _add_places(value: Json, path: Path, found: list[Path]) -> None:
    if isinstance(value, (dict, list)):
        for step, each in value.items() if isinstance(value, dict) else enumerate(value):
            found.append((*path, step))
            _add_places(each, found[-1], found)


def changes(scene: Scene) -> Iterator[Change]:
    """List the changes that make a difference to a certificate."""
    for path in places(scene.envelope):
        value = part(scene.envelope, path)
        for kind, new in _alternatives(scene, path, value).items():
            change = Change(path, kind, new)
            if new is GONE or kind == "duplicate" or (_differ(new, value) and not _is_undone(scene, change)):
                yield change


def attempt(scene: Scene, change: Change, attacker: Attacker) -> bytes:
    """Make the file that an attacker hands over.

    Whoever signs computes every digest again, but the one that he changes.
    """
    if change.kind == "duplicate":
        return _with_twin(_by(scene, attacker, scene.body), change)
    if change.path == (BODY,) and change.new is GONE:
        return written(with_part(dict(scene.envelope), change.path, GONE))
    if change.path[0] == BODY:
        body = part(with_part(dict(scene.envelope), change.path, change.new), (BODY,))
        return written(_by(scene, attacker, body, change))
    return written(with_part(_by(scene, attacker, scene.body), change.path, change.new))


def edited(value: Json) -> Json:
    """Change a scalar to another that looks like it; null for what is none.

    A decimal loses one unit of its last place, a time changes its seconds, another text its first character.
    """
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if not isinstance(value, str):
        return None
    if _DECIMAL.fullmatch(value):
        unit = Decimal(1).scaleb(-len(value.partition(".")[2]))
        return f"{Decimal(value) - unit if Decimal(value) else unit:f}"
    if read_time(value) is not None:
        return f"{value[:-2]}{'0' if value[-2] != '0' else '1'}Z"
    first = value[:1]
    return ("a" if first not in ("a", "0") else "b" if first == "a" else "1") + value[1:]


def _by(scene: Scene, attacker: Attacker, body: Json, change: Change | None = None) -> dict[str, Json]:
    if attacker == "no_key" or not isinstance(body, dict):
        return scene.by(attacker, body)
    return scene.by(attacker, rehashed(body, scene.query, but=() if change is None else [change.path[1:]]))


def _alternatives(scene: Scene, path: Path, value: Json) -> dict[Kind, Json]:
    """Give what may stand at a place after a change, by the kinds that can be made there."""
    found: dict[Kind, Json] = {"delete": GONE, "null": None, "wrong_type": _OTHER_TYPE[type(value)]}
    if isinstance(value, (str, int)):
        found["edit"] = edited(value)
    if isinstance(path[-1], str):
        found["duplicate"] = edited(value)
    if isinstance(value, list) and value:
        found["reorder"], found["add"] = value[::-1], [*value, value[0]]
    elif isinstance(value, dict):
        found["add"] = {**value, "unknown": 1}
    with suppress(IndexError, KeyError, TypeError):
        found["swap"] = part(scene.other, path)
    return found


def _is_undone(scene: Scene, change: Change) -> bool:
    """Tell whether a change was one of digests alone, which whoever signs computes again."""
    if change.kind != "swap" or change.path[0] != BODY:
        return False
    body = part(with_part(dict(scene.envelope), change.path, change.new), (BODY,))
    return not _differ(rehashed(body, scene.query, but=[change.path[1:]]), scene.body)


def _differ(one: Json, other: Json) -> bool:
    return json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True)  # unlike ==, which takes true for 1


def _with_twin(envelope: dict[str, Json], change: Change) -> bytes:
    """Write an envelope with a member twice: first as the attacker wants it, then as it is."""
    *path, name = change.path
    inner = part(envelope, path)
    twins = {_TWIN: change.new, **inner}
    whole = with_part(envelope, tuple(path), twins) if path else twins
    return written(whole).replace(json.dumps(_TWIN).encode(), json.dumps(name).encode())
