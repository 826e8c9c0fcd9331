"""Attacks run against a verifier: what had to come of each, what came, and whether that is the same.

Who holds a certificate and no key of the issuer's runs the attacks of outsiders; the others need a scene with an insider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from rag_stdlib.proof.attacks.attack import Asked, Attack, Unsuited, as_it_is
from rag_stdlib.proof.attacks.edits import EDITS
from rag_stdlib.proof.attacks.forgeries import FORGERIES
from rag_stdlib.proof.attacks.matrix import attempt, changes
from rag_stdlib.proof.attacks.parts import GONE
from rag_stdlib.proof.attacks.receipts import RECEIPTS
from rag_stdlib.proof.attacks.scene import OUTSIDERS, Scene
from rag_stdlib.proof.attacks.threats import THREATS
from rag_stdlib.proof.forms import pointer

Verifier: TypeAlias = Callable[[bytes, Asked], "tuple[str, str]"]  # a file and which question to check by, to outcome and code

ATTACKS: Final[tuple[Attack, ...]] = (*FORGERIES, *RECEIPTS, *EDITS, *THREATS)
UNHARMED: Final = Attack("0", "the certificate as it is", "no_key", as_it_is, "verified")
NOT_VERIFIED: Final = "not verified"


@dataclass(frozen=True, slots=True)
class Row:
    """One attack that was run.

    Attributes:
        id: The attack's name; of the matrix, the kind of change and the place as a JSON Pointer.
        title: What was done.
        attacker: By whom.
        expected: The outcome and code that had to come of it, or `NOT_VERIFIED`.
        got: The outcome and code that came, or what was raised.
        ok: Whether that is the same.
    """

    id: str
    title: str
    attacker: str
    expected: str
    got: str
    ok: bool


def suited(scene: Scene) -> Iterator[tuple[Attack, bytes]]:
    """Give the attacks by name that can be made on a certificate, each with the file that comes of it; first of all the certificate itself."""
    for attack in (UNHARMED, *ATTACKS):
        if attack.attacker not in scene.attackers or (attack.attacker == "issuer" and "receipt" not in scene.envelope):
            continue
        try:
            yield attack, attack.make(scene)
        except Unsuited:
            continue


def named(scene: Scene, verifier: Verifier) -> Iterator[Row]:
    """Run the attacks by name. Where the first row, the certificate itself, is not ok, others would say nothing, and there are none."""
    for attack, data in suited(scene):
        expected = f"{attack.outcome} {attack.code}".rstrip()
        got = _got(verifier, data, attack.asked)
        yield Row(attack.id, attack.title, attack.attacker, expected, got, got == expected)
        if attack is UNHARMED and got != expected:
            return


def matrix(scene: Scene, verifier: Verifier) -> Iterator[Row]:
    """Run the matrix by those who have not the issuer's key: nothing of it may verify, but a certificate without its receipt where none is asked for."""
    for change in changes(scene):
        if change.path == ("receipt",) and change.new is GONE and not scene.policy.require_log:
            continue
        for attacker in OUTSIDERS:
            got = _got(verifier, attempt(scene, change, attacker), "asked")
            ok = got.startswith(("refuted ", "unknown "))
            yield Row(f"{change.kind} {pointer(change.path)}", f"{change.kind} of a part", attacker, NOT_VERIFIED, got, ok)


def _got(verifier: Verifier, data: bytes, asked: Asked) -> str:
    try:
        outcome, code = verifier(data, asked)
    except Exception as error:  # noqa: BLE001 - whatever a verifier raises is what came of the attack
        return f"raised {type(error).__name__}"
    return f"{outcome} {code}".rstrip()
