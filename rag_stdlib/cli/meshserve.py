"""`rag mesh serve`: an index on the mesh, until it is told to stop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rag_stdlib.cli.frame import CommandError, Index, State, command, note, require
from rag_stdlib.cli.meshnode import KeyFile, MeshNode, Org, embedding_words, mesh_errors, meshes, node_of
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.terminal import clean, flush, plural, show
from rag_stdlib.effects import RAG_READ, RAG_WRITE
from rag_stdlib.meshconfig import OWN, Part, label_problem
from rag_stdlib.runtime import Runtime

if TYPE_CHECKING:
    from rag_stdlib.mesh.hosting import Host
    from rag_stdlib.mesh.macula import MaculaTransport
    from rag_stdlib.mesh.provider import Provider

_NAME_COLUMNS: Final = 11
_NOT_THERE: Final = "store_opening"  # the refusal of an index that is not there yet, which was told before


@command("serve", "Serve an index on the mesh.", group=meshes)
def serve(
    context: typer.Context,
    index: Index,
    shard_id: Annotated[str | None, typer.Option("--shard-id", metavar="NAME", help="What the shard is called; otherwise as corvid.toml says, "
                                                                                   "or as the file of the index.")] = None,
    key: KeyFile = None,
    org: Org = None,
    only: Annotated[Part | None, typer.Option("--only", metavar="PART", help="Serve the provider or the shard alone; otherwise what corvid.toml says, "
                                                                            "which is both.")] = None,
) -> None:
    """Serve an index until SIGTERM or Ctrl-C: the procedures of the RAG service contract, and the index as a shard of its organisation.

    A node that has no grant of the organisation yet is told, and serves when it gets one. At the end no further call is taken, those that run
    are answered, and the exit code is 0; a second signal ends it at once. While no station answers, it is tried again and again. The index may be
    ingested into, synced and embedded anew meanwhile.
    """
    import asyncio

    from rag_stdlib.cli.meshrun import run_until_told

    if shard_id is not None and label_problem(shard_id):
        raise typer.BadParameter(f"{shard_id!r:.100}: {label_problem(shard_id)}", param_hint="--shard-id")
    state: State = context.obj
    with Runtime(state.config) as runtime:
        require(runtime, RAG_READ, "rag mesh serve")
        node = _serving_node(node_of(runtime.config, key=key, org=org))
        plan = _Plan(runtime, node, _index(runtime, index), shard_id or node.config.shard_id or PurePosixPath(index).stem,
                     (only,) if only is not None else node.config.serve)
        if node.config.deposits == "open" and "provider" in plan.parts:
            require(runtime, RAG_WRITE, "rag mesh serve with [mesh] deposits open")
        with node.held() as free, mesh_errors():
            if not free:
                raise CommandError(f"the key {node.key_file!r} is in use by another process; a node is one process, so give this one a key of its own by --key")
            plan.tell()
            asyncio.run(run_until_told(plan.connect, plan.host, node.config.grant_retry_ms / 1_000))


def _serving_node(node: MeshNode) -> MeshNode:
    """Return a node that is to serve; one that is to in another's namespace is refused, since no grant makes up for that."""
    if node.org.startswith(OWN) and node.org != f"{OWN}{node.key.node_id}":
        raise CommandError(f"{node.org} is the namespace of another node; serve in an organisation's, or by --org '{OWN}' in this node's own",
                           code="serve_refused")
    return node


def _index(runtime: Runtime, typed: str) -> str:
    """Name the index; one that cannot be served is refused here, and one that is not there yet is told."""
    name = below_root(runtime, typed)
    with runtime.store.reading_if_any(name) as connection:
        if connection is None:
            note(f"there is no index {name!r} yet; calls are refused until there is one")
    return name


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is served, by whom."""

    runtime: Runtime
    node: MeshNode
    index: str
    shard_id: str
    parts: tuple[Part, ...]

    async def connect(self) -> MaculaTransport:
        """Link."""
        return await self.node.connect(sealed=self.node.config.confidential in ("preferred", "required"))

    def host(self, transport: MaculaTransport) -> Host:
        """Make what is served over a link."""
        from rag_stdlib.mesh.federation.indexshard import IndexShard
        from rag_stdlib.mesh.federation.shard import Federation
        from rag_stdlib.mesh.hosting import Host, HostedShard

        shard = HostedShard(IndexShard(self.runtime, self.index), Federation(), bytes.fromhex(self.node.realm_id), self._options())
        return Host(transport, provider=self._provider() if "provider" in self.parts else None, shard=shard if "shard" in self.parts else None,
                    confidential=self.node.config.confidential)

    def tell(self) -> None:
        """Show who serves what; an index that is no shard of this configuration is refused."""
        from rag_stdlib.mesh.federation.indexshard import IndexShard

        rows = [("node", self.node.key.node_id), ("profile", self.node.key.profile), ("realm", self.node.realm), ("index", self.index)]
        embedding = IndexShard(self.runtime, self.index).embedding()
        rows.append(("embedding", embedding_words(embedding.model, embedding.dim)))
        if "provider" in self.parts:
            rows.append(("provider", f"{plural(len(self._provider().procedures), 'procedures')} of {self.node.org}"))
        if "shard" in self.parts:
            rows.append(("shard", f"{self.shard_id} of {self.node.org}"))
        for name, value in rows:
            show(f"{name:<{_NAME_COLUMNS}}{clean(value)}")
        flush()
        if "provider" in self.parts:
            self._tell_refusal()

    def _tell_refusal(self) -> None:
        """Tell where the index is of a kind that is not answered for as a corpus."""
        from rag_stdlib.mesh.errors import Refusal

        try:
            self._provider().handle("describe_corpus", {})
        except Refusal as refusal:
            if refusal.name != _NOT_THERE:
                note(f"describe_corpus and answer_query are refused as the index stands [{refusal.name}]; rag corpus describe {self.index} says why")

    def _options(self) -> dict[str, object]:
        config = self.node.config
        sealing = {} if config.confidential is None else {"confidential": config.confidential}
        return {"org": self.node.org, "shard_id": self.shard_id, "realm_name": self.node.realm, "query_timeout_ms": config.query_timeout_ms,
                "grant_retry_ms": config.grant_retry_ms, "summary_republish_ms": config.summary_republish_ms, **sealing}

    def _provider(self) -> Provider:
        from rag_stdlib.mesh.provider import Provider

        corpus, config = self.runtime.config.corpus, self.node.config
        return Provider(self.runtime, self.index, org=self.node.org, key=self.node.key, list_file=corpus.list, regime=corpus.regime,
                        operators=config.operators, deposits=config.deposits)
