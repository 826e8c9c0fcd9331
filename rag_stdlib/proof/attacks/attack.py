"""One attack by name, and the ways in which attacks are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rag_stdlib.proof.attacks.parts import Json, Path, rehashed, with_part, written
from rag_stdlib.proof.attacks.scene import Attacker, Scene

Make: TypeAlias = Callable[[Scene], bytes]
Asked: TypeAlias = Literal["asked", "another", "nothing"]


class Unsuited(Exception):  # noqa: N818 - it says what became of an attack
    """The certificate has not what this attack is on, as a receipt or a quotation."""


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack, and what has to come of it.

    Attributes:
        id: Its name; a number is that of the list in docs/certificate-attacks.md, `A` and a number that of the threat model.
        title: What is done, in a few words.
        attacker: By whom.
        make: Makes the file that the attacker hands over; raises `Unsuited` where the certificate has not what it takes.
        outcome: ``refuted``, ``unknown`` or ``verified``.
        code: The code of docs/certificate.md; empty where the outcome is ``verified``.
        asked: The question that the relying party checks by: the one that was asked, another, or none.
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


def changed_body(change: Callable[[dict[str, Json]], Json], attacker: Attacker, *, anew: bool = True) -> Make:
    """Let an attacker change the body; `anew`: with every digest computed again. What `change` returns, if anything, is the body."""
    def make(scene: Scene) -> bytes:
        body = scene.body
        body = _tried(change, body) or body
        query = None if scene.insider is None else scene.insider.query
        return written(scene.by(attacker, rehashed(body, query) if anew else body))

    return make
