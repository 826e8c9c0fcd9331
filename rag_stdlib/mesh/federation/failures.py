"""Why a federation does not do what it is told: refusals of a configuration (§4.4), and failures of a whole question (§4.5).

What one shard failed with is no exception; `rag_stdlib.mesh.federation.judging` has those reasons.
"""

from __future__ import annotations

from rag_stdlib.mesh.errors import CallError


class FederationError(CallError):
    """The family of all of these; `name` is the word for programs."""


class InvalidOptions(FederationError, ValueError):  # noqa: N818 - a verdict on options
    """The options have not the shape of §4.4; `words` says which one, and why."""

    name = "invalid_options"

    def __init__(self, words: str) -> None:
        """Keep the words."""
        super().__init__(words)
        self.words = words

    def __str__(self) -> str:
        """Give the name, then the words."""
        return f"{self.name}: {self.words}"


class InvalidOrg(FederationError, ValueError):  # noqa: N818 - a verdict on a name
    """What was given is no organisation that a procedure could be named after; `org` holds it."""

    name = "invalid_org"

    def __init__(self, org: object) -> None:
        """Keep what was given."""
        super().__init__(org)
        self.org = org

    def __str__(self) -> str:
        """Name it."""
        return f"{self.name}: an organisation is a name without a slash, and not _; this is {self.org!r:.100}"


class ConfidentialityRefused(FederationError, ValueError):  # noqa: N818 - a verdict on an option
    """A mode of sealing that is none (`reason` ``not_a_mode``), or that this node cannot keep (``kem_advertise_disabled``)."""

    name = "confidentiality"

    def __init__(self, reason: str, given: object) -> None:
        """Keep the reason, and the mode that was given."""
        super().__init__(reason, given)
        self.reason = reason
        self.given = given

    def __str__(self) -> str:
        """Say why."""
        words = "this node names no key that a call could be sealed to" if self.reason == "kem_advertise_disabled" else \
            "a mode is off, preferred or required"
        return f"{self.name}: {self.reason}: {words}; given is {self.given!r:.100}"


class RealmNameMismatch(FederationError, ValueError):  # noqa: N818 - a verdict on a name
    """The SHA-256 of the realm's name is not the realm's id: a topic with that name would reach nobody."""

    name = "realm_name_mismatch"

    def __init__(self, realm_name: str) -> None:
        """Keep the name."""
        super().__init__(realm_name)
        self.realm_name = realm_name

    def __str__(self) -> str:
        """Name it."""
        return f"{self.name}: the realm's id is not that of a realm named {self.realm_name!r:.100}"


class NotConfigured(FederationError):  # noqa: N818 - a state
    """Nothing was configured yet, or the federation is closed."""

    name = "not_configured"

    def __str__(self) -> str:
        """Say what to do."""
        return f"{self.name}: configure the federation first"


class NoShards(FederationError):  # noqa: N818 - the contract's own word
    """The shards could not be listed, so that none was asked; `reason` is what the listing failed with."""

    name = "no_shards"

    def __init__(self, reason: CallError) -> None:
        """Keep the reason."""
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """Give the name, then the reason."""
        return f"{self.name}: the shards cannot be listed: {self.reason}"
