"""The group `rag mesh`, and this node as [mesh] of corvid.toml and a command's options say it: its key, its realm, its stations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from rag_stdlib.cli.frame import CommandError, group
from rag_stdlib.cli.terminal import plural
from rag_stdlib.config import FILE_NAME, Config
from rag_stdlib.errors import fail
from rag_stdlib.meshconfig import OWN, MeshConfig, org_problem

if TYPE_CHECKING:
    from rag_stdlib.contract.nodekeys import NodeKey
    from rag_stdlib.mesh.macula import MaculaTransport

meshes = group("mesh", "Serve an index on the mesh, and ask others.",
               "A node on the Macula mesh: it serves an index to others, or asks those who serve. [mesh] of corvid.toml says which stations, "
               "realm and organisation; it needs the extra `mesh` and Python 3.11.")

KeyFile = Annotated[str | None, typer.Option("--key", metavar="FILE", help="The node's key; otherwise the one of corvid.toml.")]
Org = Annotated[str | None, typer.Option("--org", metavar="NAME", help="The organisation; otherwise the one of corvid.toml. ~ is the node's own namespace, "
                                                                      "~NODE_ID another node's.")]

LINK_S: Final = 15.0  # a node of the profile pq_hybrid makes a key for its links first, which takes seconds
DIGITS: Final = 12  # of a node id, where it stands in a table

@dataclass(frozen=True, slots=True)
class MeshNode:
    """What a node needs to link: all of it is there, and fits together. `org` is a procedure's first part."""

    config: MeshConfig
    key: NodeKey
    key_file: str
    realm: str
    realm_key: bytes | None
    org: str

    @property
    def realm_id(self) -> str:
        """The realm's id, 64 hex digits."""
        from rag_stdlib.mesh.macula import realm_id

        return realm_id(self.realm)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the node's key for the block, and say whether it could be had: one key is one node, and links once at a time.

        Processes of this machine see each other by a lock on the key's file; where there are no such locks, everyone has it.
        """
        try:
            import fcntl
        except ImportError:
            yield True
            return
        handle = os.open(self.key_file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            free = True
            with suppress(OSError):  # a file system without locks
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    free = False
            yield free
        finally:
            os.close(handle)

    @contextmanager
    def asking(self) -> Iterator[MeshNode]:
        """Give a node to ask from: this one, or one with a key for this once while another process here links under this key."""
        from rag_stdlib.contract.nodekeys import NodeKey

        with self.held() as free:
            yield self if free else replace(self, key=NodeKey.generate(self.key.profile))

    async def connect(self, timeout_s: float | None = None, *, sealed: bool = False) -> MaculaTransport:
        """Link to a station. What is `sealed` names a key that callers can seal to.

        Raises:
            CallError: As `MaculaTransport.connect`.
        """
        from rag_stdlib.mesh.macula import MaculaTransport

        return await MaculaTransport.connect(
            self.key, self.config.seeds, self.realm_id, self.realm_key, profile=self.config.profile, kem_advertise=sealed,
            timeout_s=LINK_S if timeout_s is None else timeout_s, grant_retry_s=self.config.grant_retry_ms / 1_000)


def node_of(config: Config, *, key: str | None = None, org: str | None = None) -> MeshNode:
    """Return the node that the configuration describes, with what a command's options say instead.

    Raises:
        Failure: `mesh_not_installed`; `config_invalid` for what is missing, or does not fit together; what `load_key` says of the key.
    """
    from rag_stdlib.keyfile import load_key
    from rag_stdlib.mesh.macula_library import library

    fit_org(org)
    library()
    mesh = config.mesh
    key_file, name = mesh.key if key is None else key, mesh.org if org is None else org
    if key_file is None:
        _missing(config, 'key; add key = "node.key" (rag mesh key makes one), or give --key')
    if not mesh.seeds:
        _missing(config, 'seeds; add seeds = ["NODE_ID@HOST:PORT"], the stations to link to')
    if mesh.realm is None:
        _missing(config, 'realm; add realm = "NAME", the name of the realm')
    if name is None:
        _missing(config, 'org; add org = "NAME", the organisation, or "~" for the node\'s own namespace, or give --org')
    loaded = load_key(key_file, mesh.profile)
    realm_key = None if mesh.realm_key is None else _realm_key(mesh.realm_key, mesh)
    if realm_key is None and not name.startswith(OWN):
        _missing(config, f"realm_key, which vouches for the nodes of {name!r}; add realm_key = \"realm.key\", the file of the realm's public key")
    return MeshNode(mesh, loaded, key_file, mesh.realm, realm_key, _namespace(name, loaded))


def fit_org(org: str | None) -> None:
    """Refuse what --org says, as usage, where it is no organisation."""
    if org is not None and org_problem(org):
        raise typer.BadParameter(f"{org!r}: {org_problem(org)}", param_hint="--org")


def _namespace(org: str, key: NodeKey) -> str:
    """Write the first part of procedures' names: an organisation as it is, a node's own namespace with its id in lower case."""
    if org == OWN:
        return f"{OWN}{key.node_id}"
    return org.lower() if org.startswith(OWN) else org


def _missing(config: Config, what: str) -> NoReturn:
    raise fail("config_invalid", where=Path(config.file).name if config.file else f"no {FILE_NAME}", detail=f"[mesh] has no {what}")


def _realm_key(path: str, mesh: MeshConfig) -> bytes:
    from rag_stdlib.contract.nodekeys import well_formed

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise fail("config_invalid", where="[mesh] realm_key", detail=f"{path!r} cannot be read: {error.strerror}") from None
    if well_formed(data, mesh.profile):
        return data
    with suppress(ValueError):
        if well_formed(bytes.fromhex(data.decode("ascii", "replace")), mesh.profile):
            raise fail("config_invalid", where="[mesh] realm_key", detail=f"{path!r} holds the key as hex digits; it is to hold the bytes themselves")
    raise fail("config_invalid", where="[mesh] realm_key", detail=f"{path!r} holds no public key of the profile {mesh.profile}")


@contextmanager
def mesh_errors() -> Iterator[None]:
    """End the command with what the mesh failed with."""
    from rag_stdlib.mesh.errors import CallError

    try:
        yield
    except CallError as error:
        raise CommandError(str(error).removeprefix(f"{error.name}: "), code=error.name) from None


def short(node: str) -> str:
    """Return as much of a node id as tells nodes apart in a table."""
    return node[:DIGITS]


def embedding_words(model: str, dim: int) -> str:
    """Say what vectors are of; `none` where there are none."""
    from rag_stdlib.mesh.federation.indexshard import LEXICAL

    return "none" if (model, dim) == (LEXICAL.model, LEXICAL.dim) else f"{model}, {plural(dim, 'dimensions')}"
