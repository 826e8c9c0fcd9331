"""One attack by name, and the ways in which attacks are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rag_stdlib.contract.jcs import CanonicalError
from rag_stdlib.proof.attacks.parts import GONE, Json, Path, part, rehashed, with_part, written
from rag_stdlib.proof.attacks.scene import Attacker, Scene

Make: TypeAlias = Callable[[Scene], bytes]
Asked: TypeAlias = Literal["asked", "another"]

ANOTHER_QUESTION: Final = "What does nobody ask?"
GROUP_ORDER: Final = 2**252 + 27742317777372353535851937790883648493  # of edwards25519 (RFC 8032 §5.1)


class Unsuited(Exception):  # noqa: N818 - it says what became of an attack
    """The certificate has not what this attack is on, as a receipt or a quotation."""


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack, and what has to come of it.

    Attributes:
        id: A number for the idea and a letter for the variant; ``A`` and a number for the threat model, ``M`` for receipts, ``N`` for signatures of
            nodes, ``H`` for what is no harm.
        title: What is done, in a few words.
        attacker: By whom.
        make: Makes the file that the attacker hands over; raises `Unsuited` where the certificate has not what it takes.
        outcome: ``refuted``, ``unknown`` or ``verified``.
        code: The code of docs/certificate.md; empty where the outcome is ``verified``.
        asked: The question that the relying party checks by: the one that was asked, or `ANOTHER_QUESTION`.
    """

    id: str
    title: str
    attacker: Attacker
    make: Make
    outcome: str
    code: str = ""
    asked: Asked = "asked"


def as_it_is(scene: Scene) -> bytes:
    """Hand over the certificate itself."""
    return written(dict(scene.envelope))


def put(attacker: Attacker, *changes: tuple[Path, Json]) -> Make:
    """Let an attacker exchange parts of the body (a callable makes the new part of the old one) and compute the other digests again."""
    def make(scene: Scene) -> bytes:
        body: dict[str, Json] = scene.body
        try:
            for path, new in changes:
                body = with_part(body, path, new(part(body, path)) if callable(new) else new)
        except (IndexError, KeyError, TypeError):
            raise Unsuited from None
        return _handed_over(scene, attacker, body, [path for path, _ in changes])

    return make


def told(attacker: Attacker, change: Callable[[dict[str, Json]], None]) -> Make:
    """Let an attacker change the body in place, and compute every digest again."""
    def make(scene: Scene) -> bytes:
        body = scene.body
        try:
            change(body)
        except IndexError:  # there is no such claim, span or item
            raise Unsuited from None
        return _handed_over(scene, attacker, body, [])

    return make


def _handed_over(scene: Scene, attacker: Attacker, body: dict[str, Json], but: Sequence[Path]) -> bytes:
    if body == scene.envelope["certificate"]:
        raise Unsuited
    try:
        return written(scene.by(attacker, rehashed(body, scene.query, but=but)))
    except CanonicalError:  # a number that was at the bound already
        raise Unsuited from None


def beside(path: Path, new: Json) -> Make:
    """Exchange something of the envelope, without a key."""
    def make(scene: Scene) -> bytes:
        if new is GONE and path[0] not in scene.envelope:
            raise Unsuited
        return written(with_part(dict(scene.envelope), path, new))

    return make


def spelt(change: Callable[[bytes], bytes]) -> Make:
    """Change the bytes of the file, without a key."""
    return lambda scene: change(as_it_is(scene))


def replaced(old: str, new: str) -> Make:
    """Replace a part of the file's text, where it stands first, without a key."""
    def make(scene: Scene) -> bytes:
        text = as_it_is(scene).decode()
        if old not in text:
            raise Unsuited
        return text.replace(old, new, 1).encode()

    return make


def reread(change: Callable[[list[str]], Sequence[str]]) -> Make:
    """Change the lines of the receipt, without a key; the last line is an empty text behind the last line feed."""
    def make(scene: Scene) -> bytes:
        if "receipt" not in scene.envelope:
            raise Unsuited
        return written({**scene.envelope, "receipt": "\n".join(change(scene.envelope["receipt"].split("\n")))})

    return make
