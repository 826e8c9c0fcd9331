"""The configuration of a federation: its options, their defaults, and what is refused, in the order of §4.4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast, get_args

from rag_stdlib.contract import loose
from rag_stdlib.mesh.errors import InvalidCall
from rag_stdlib.mesh.federation import names
from rag_stdlib.mesh.federation.failures import ConfidentialityRefused, InvalidOptions
from rag_stdlib.mesh.federation.payloads import Embedding
from rag_stdlib.mesh.transport import Confidential, checked_topic

QUERY_TIMEOUT_MS: Final = 1_500
GRANT_RETRY_MS: Final = 30_000
SUMMARY_REPUBLISH_MS: Final = 60_000
PERIODS: Final = 3  # without a summary, and it is stale

_LONGEST_MS: Final = 86_400_000
_TIMES: Final = {"query_timeout_ms": QUERY_TIMEOUT_MS, "grant_retry_ms": GRANT_RETRY_MS, "summary_republish_ms": SUMMARY_REPUBLISH_MS}
_REQUIRED: Final = ("org", "shard_id", "realm_name", "embedding")


@dataclass(frozen=True, slots=True)
class Settings:
    """A configuration that holds; `settings` makes it from options. `confidential` None leaves sealing to the mesh's own default."""

    org: str
    shard_id: str
    realm_name: str
    embedding: Embedding
    query_timeout_ms: int = QUERY_TIMEOUT_MS
    grant_retry_ms: int = GRANT_RETRY_MS
    summary_republish_ms: int = SUMMARY_REPUBLISH_MS
    confidential: Confidential | None = None

    @property
    def procedure(self) -> str:
        """The procedure of every shard."""
        return names.procedure(self.org)

    @property
    def summary_procedure(self) -> str:
        """The procedure that tells a shard's summary."""
        return names.summary_procedure(self.org)

    @property
    def topics(self) -> tuple[str, str]:
        """The topics of summaries and of withdrawals."""
        return names.summarized_topic(self.realm_name, self.org), names.withdrawn_topic(self.realm_name, self.org)

    @property
    def stale_s(self) -> float:
        """Seconds after which a summary that was not heard again counts no more."""
        return PERIODS * self.summary_republish_ms / 1_000


def settings(realm: bytes, options: object, *, names_kem_key: bool = False) -> Settings:
    """Check a configuration.

    Args:
        realm: The realm's id, 32 bytes.
        options: A map: `org`, `shard_id`, `realm_name` (texts), `embedding` (a map of `model` and `dim`, or an `Embedding`); and maybe
            `query_timeout_ms`, `grant_retry_ms`, `summary_republish_ms` (1 ms to a day) and `confidential` (off, preferred, required).
        names_kem_key: Whether this node names a key that calls can be sealed to.

    Raises:
        InvalidOptions: Not that shape, or an option that there is not.
        InvalidOrg, ConfidentialityRefused, RealmNameMismatch: What they say, looked at in this order.
        ValueError: `realm` is no id.
    """
    given, embedding = _shape(options)
    names.procedure(given["org"])
    confidential = given.get("confidential")
    if confidential is not None and confidential not in get_args(Confidential):
        raise ConfidentialityRefused("not_a_mode", confidential)
    if confidential == "required" and not names_kem_key:
        raise ConfidentialityRefused("kem_advertise_disabled", confidential)
    names.check_realm(cast("str", given["realm_name"]), realm)
    times = {name: cast("int", given.get(name, default)) for name, default in _TIMES.items()}
    made = Settings(cast("str", given["org"]), cast("str", given["shard_id"]), cast("str", given["realm_name"]), embedding, **times,
                    confidential=cast("Confidential | None", confidential))
    for topic in made.topics:
        try:
            checked_topic(topic)
        except InvalidCall as error:
            raise InvalidOptions(str(error)) from None
    return made


def _shape(options: object) -> tuple[Mapping[str, object], Embedding]:
    if not isinstance(options, Mapping):
        raise InvalidOptions(f"options are a map, not {type(options).__name__}")
    missing = [name for name in _REQUIRED if options.get(name) is None]
    unknown = [name for name in options if name not in (*_REQUIRED, *_TIMES, "confidential")]
    if missing or unknown:
        raise InvalidOptions(f"{missing[0]} is missing" if missing else f"there is no option {unknown[0]!r:.100}")
    for name in ("shard_id", "realm_name"):
        if not _is_text(options[name]):
            raise InvalidOptions(f"{name} is text, not {options[name]!r:.100}")
    for name in _TIMES:
        value = options.get(name, 1)
        if type(value) is not int or not 1 <= value <= _LONGEST_MS:
            raise InvalidOptions(f"{name} is a whole number of milliseconds from 1 to {_LONGEST_MS:,}, not {value!r:.100}")
    return options, _embedding(options["embedding"])


def _embedding(value: object) -> Embedding:
    if isinstance(value, Embedding):
        value = {"model": value.model, "dim": value.dim}
    if not isinstance(value, Mapping) or set(value) != {"model", "dim"}:
        raise InvalidOptions("embedding is a map of model and dim")
    model, dim = value["model"], value["dim"]
    if not _is_text(model) or type(dim) is not int or not 0 < dim < 2**63:
        raise InvalidOptions("embedding names a model, as text, and its dimension, a whole number above 0")
    return Embedding(model, dim)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and loose.text(value) is not None
