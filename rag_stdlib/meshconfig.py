"""The [mesh] table of corvid.toml: who this node is, where it links, and what it serves there."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from rag_stdlib.configkeys import Key
from rag_stdlib.contract.nodekeys import PROFILES, Profile

Part: TypeAlias = Literal["provider", "shard"]
PARTS: Final[tuple[Part, ...]] = ("provider", "shard")
OWN: Final = "~"

_NODE_ID: Final = re.compile(r"[0-9a-fA-F]{64}")
_HOST: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?")
_PORT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)
_MOST_PORT: Final = 65_535
_NAME_BYTES: Final = 255
_DAY_MS: Final = 86_400_000
_NO_ID: Final = "a node id is 64 hex digits"


class Station(NamedTuple):
    """A station that this node links to, pinned by its node id. `host` is a name or an address, IPv6 without brackets."""

    host: str
    port: int
    node_id: str


@dataclass(frozen=True, slots=True)
class MeshConfig:
    """The [mesh] table. What has no default is None or empty until it is said; a command that needs it says so.

    Attributes:
        key: The file of the node's key, absolute.
        seeds: The stations.
        realm: The realm's name.
        realm_key: The file of the realm's public key, absolute. Without it only nodes' own namespaces can be served and called.
        org: The organisation, or ``~`` for the node's own namespace, or ``~<node id>`` for another node's.
        shard_id: What the shard is called.
        profile: The profile of the realm's keys.
        query_timeout_ms: How long a question to all shards may take.
        grant_retry_ms: How often a grant that is not there is asked for.
        summary_republish_ms: How often a shard says what it holds.
        confidential: How calls are sealed: off, preferred or required; None leaves it to the mesh.
        serve: What is served.
        operators: Node ids of those who may upload, prune and retire.
        deposits: Whether every caller may leave texts: off or open.
    """

    key: str | None = None
    seeds: tuple[Station, ...] = ()
    realm: str | None = None
    realm_key: str | None = None
    org: str | None = None
    shard_id: str | None = None
    profile: Profile = "pq_hybrid"
    query_timeout_ms: int = 1_500
    grant_retry_ms: int = 30_000
    summary_republish_ms: int = 60_000
    confidential: Literal["off", "preferred", "required"] | None = None
    serve: tuple[Part, ...] = PARTS
    operators: tuple[str, ...] = ()
    deposits: Literal["off", "open"] = "off"


def seed_problem(text: str) -> str:
    """Say why a text is not ``NODE_ID@HOST:PORT``, or return an empty string."""
    node, at, place = text.partition("@")
    if not at:
        return "a station is NODE_ID@HOST:PORT"
    if not _NODE_ID.fullmatch(node):
        return f"{_NO_ID}, before the @"
    host, colon, port = place.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or not 0 < int(port) <= _MOST_PORT:
        return f"a port stands behind the host's colon, 1 to {_MOST_PORT}"
    if host.startswith("["):
        return "" if host.endswith("]") and _is_ipv6(host[1:-1]) else "what stands in brackets is an IPv6 address"
    if ":" in host:
        return "an IPv6 address stands in brackets"
    return "" if _HOST.fullmatch(host) else "a host is a name or an address"


def org_problem(org: str) -> str:
    """Say why a text names no organisation and no node's own namespace, or return an empty string."""
    if org.startswith(OWN):
        return "" if org == OWN or _NODE_ID.fullmatch(org[1:]) else f"a node's own namespace is {OWN}, or {OWN} and its node id"
    if org in ("", "_") or "/" in org:
        return "an organisation is a name without a slash, and not _"
    return _length_problem(org)


def label_problem(label: str) -> str:
    """Say why a shard cannot be called so, or return an empty string."""
    if not label.strip():
        return "a shard's name is not blank"
    try:
        label.encode()
    except UnicodeEncodeError:
        return "a shard's name is Unicode text"
    return _length_problem(label)


def mesh_config(table: Mapping[str, Any], folder: Path) -> MeshConfig:
    """Make it of a table whose values hold to `KEYS`; its files are relative to `folder`."""
    made = dict(table)
    for name in ("key", "realm_key"):
        if name in made:
            made[name] = os.path.normpath(folder / made[name])
    made["seeds"] = tuple(map(_station, table.get("seeds", ())))
    made["serve"] = tuple(part for part in PARTS if part in table.get("serve", PARTS))
    made["operators"] = tuple(dict.fromkeys(operator.lower() for operator in table.get("operators", ())))
    return MeshConfig(**made)


def _station(seed: str) -> Station:
    node, _, place = seed.partition("@")
    host, _, port = place.rpartition(":")
    return Station(host.removeprefix("[").removesuffix("]"), int(port), node.lower())


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _realm_problem(realm: str) -> str:
    if "/" in realm or any(char.isspace() for char in realm):
        return "a realm's name has no slash and no blank in it"
    return _length_problem(realm)


def _length_problem(name: str) -> str:
    size = len(name.encode(errors="surrogatepass"))  # from a command line may come what is no Unicode
    return f"a name has at most {_NAME_BYTES} bytes, not {size:,}" if size > _NAME_BYTES else ""


def _node_problem(text: str) -> str:
    return "" if _NODE_ID.fullmatch(text) else _NO_ID


KEYS: Final[dict[str, Key]] = {
    "key": Key(str),
    "seeds": Key(list, check=seed_problem),
    "realm": Key(str, check=_realm_problem),
    "realm_key": Key(str),
    "org": Key(str, check=org_problem),
    "shard_id": Key(str, check=label_problem),
    "profile": Key(str, words=PROFILES),
    "query_timeout_ms": Key(int, least=1, most=_DAY_MS),
    "grant_retry_ms": Key(int, least=1, most=_DAY_MS),
    "summary_republish_ms": Key(int, least=1, most=_DAY_MS),
    "confidential": Key(str, words=("off", "preferred", "required")),
    "serve": Key(list, words=PARTS),
    "operators": Key(list, blank=True, check=_node_problem),
    "deposits": Key(str, words=("off", "open")),
}
