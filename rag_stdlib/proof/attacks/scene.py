"""What an attacker starts from, and what he can do with it: copies of a certificate, changed, signed anew, and logged anew.

There are five attackers: one without any key; one with a key of his own, who lets the certificate go on to name the issuer's key; the same, who has it name his
own; the issuer, who lies, computes every digest again and signs, but leaves the old receipt; and the issuer who also has the log take what he made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.attacks.parts import Json, copied, with_part
from rag_stdlib.proof.certificate import sign
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.trust import Trust

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from rag_stdlib.contract.nodekeys import NodeKey

Attacker: TypeAlias = Literal["no_key", "own_key", "own_named_key", "issuer", "issuer_logged"]
Logging: TypeAlias = Callable[[Mapping[str, Json]], str]  # has an envelope logged, and gives its receipt

ATTACKERS: Final[tuple[Attacker, ...]] = get_args(Attacker)
OUTSIDERS: Final[tuple[Attacker, ...]] = ("no_key", "own_key", "own_named_key")


@dataclass(frozen=True, slots=True)
class Insider:
    """What only the issuer has.

    Attributes:
        key: Its secret key.
        log: Has an envelope logged. Whether what is logged for one is shown to all is for those who watch the log.
        query: The question, in the clear.
        node_key: The key of the node that signs as well, where one does.
    """

    key: Ed25519PrivateKey
    log: Logging
    query: str
    node_key: NodeKey | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """A certificate under attack.

    Attributes:
        envelope: A certificate that verifies, in whole JSON.
        trust: What the relying party trusts.
        policy: What it asks for.
        own_key: The attacker's key, which nobody trusts.
        other: Another certificate by the same issuer, to swap parts with.
        insider: What the issuer has, where the attacker may be the issuer.
    """

    envelope: Mapping[str, Json]
    trust: Trust
    policy: Policy
    own_key: Ed25519PrivateKey
    other: Mapping[str, Json] | None = None
    insider: Insider | None = None

    @property
    def body(self) -> dict[str, Json]:
        """A copy of the body."""
        body: dict[str, Json] = copied(self.envelope["certificate"])
        return body

    @property
    def query(self) -> str | None:
        """The question, where the attacker knows it."""
        return None if self.insider is None else self.insider.query

    @property
    def attackers(self) -> tuple[Attacker, ...]:
        """Who can attack here."""
        return OUTSIDERS if self.insider is None else ATTACKERS

    def by(self, attacker: Attacker, body: Json) -> dict[str, Json]:
        """Let an attacker put a body of his into the envelope.

        Raises:
            ValueError: the attacker is the issuer, whose key is not at hand.
        """
        if attacker == "no_key":
            return {**self.envelope, "certificate": body}
        if attacker == "own_key":
            return {**self.envelope, **sign(body, self.own_key)}
        if attacker == "own_named_key":
            return {**self.envelope, **sign(self._naming_own_key(body), self.own_key)}
        if self.insider is None:
            raise ValueError("this attacker has not the issuer's key")
        envelope = {**self.envelope, **sign(body, self.insider.key, self.insider.node_key)}
        if attacker == "issuer_logged":
            with suppress(KeyError, TypeError):  # what no entry can be made of is not logged
                envelope["receipt"] = self.insider.log(envelope)
        return envelope

    def _naming_own_key(self, body: Json) -> Json:
        public = self.own_key.public_key().public_bytes_raw()
        try:
            return with_part(body, ("issuer", "key_id"), fmt.issuer_key_id(public))
        except (KeyError, TypeError):  # there is no issuer any more to have a key
            return body
