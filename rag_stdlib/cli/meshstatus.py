"""`rag mesh status` and `providers`: who this node is, and who serves what."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.frame import AsJson, CommandError, command, note, runtime_of, show_json
from rag_stdlib.cli.meshask import Listen, asking, serving_nodes
from rag_stdlib.cli.meshnode import KeyFile, MeshNode, Org, embedding_words, mesh_errors, meshes, node_of
from rag_stdlib.cli.terminal import clean, plural, show, styled

if TYPE_CHECKING:
    from rag_stdlib.mesh.federation.directory import Shard

_COLUMNS: Final = 11
_TOPICS: Final = 10
_CONTRACT: Final = ("describe_corpus", "answer_query")


@command("status", "Show this node, its link, and the shards.", group=meshes)
def status(context: typer.Context, listen: Listen = 0.0, key: KeyFile = None, org: Org = None, as_json: AsJson = False) -> None:
    """Show who this node is, whether a station answers it, and the shards of its organisation: what they say they hold, and whether they serve.

    Exit codes: 0 a station answers; 1 none does.
    """
    with runtime_of(context) as runtime:
        node = node_of(runtime.config, key=key, org=org)
    with node.held() as free:
        in_use = not free
    shards: list[dict[str, Any]] | None = None
    failure: CommandError | None = None
    try:
        with node.asking() as asker, mesh_errors():
            shards = asyncio.run(_shards(asker, listen))
    except CommandError as error:
        failure = error
    found = {
        "node": node.key.node_id, "profile": node.key.profile, "running": in_use, "realm": {"name": node.realm, "id": node.realm_id}, "org": node.org,
        "stations": [{"host": station.host, "port": station.port, "node": station.node_id} for station in node.config.seeds],
        "linked": failure is None, "shards": shards,
    }
    if as_json:
        show_json(found)
    else:
        _show_status(found)
    if failure is not None:
        raise failure


async def _shards(node: MeshNode, listen_s: float) -> list[dict[str, Any]]:
    """List the shards that are known or serve, by node id."""
    from rag_stdlib.mesh.federation.indexshard import LEXICAL

    async with asking(node, LEXICAL) as (_, federation):  # what it asks with does not matter to who is there
        serving = set(await serving_nodes(federation, listen_s))
        known = {shard.node_id: shard for shard in federation.shards()}
        return [_shard(each, known.get(each), serves=each in serving) for each in sorted(serving | known.keys())]


def _shard(node: str, shard: Shard | None, *, serves: bool) -> dict[str, Any]:
    told = None if shard is None else {"shard_id": shard.shard_id, "model": shard.embedding.model, "dim": shard.embedding.dim, "topics": list(shard.topics)}
    return {"node": node, "serves": serves, "summary": told}


def _show_status(found: dict[str, Any]) -> None:
    _row("node", found["node"])
    _row("profile", found["profile"])
    _row("running", "yes, in another process of this machine" if found["running"] else "not on this machine")
    _row("realm", found["realm"]["name"])
    _row("org", found["org"])
    for station in found["stations"]:
        _row("station", f"{station['host']} port {station['port']}")
        _row("", station["node"])
    _row("link", "up" if found["linked"] else "none")
    if found["shards"] is None:
        return
    serving = sum(bool(shard["serves"] and shard["summary"]) for shard in found["shards"])
    _row("shards", f"{len(found['shards']):,} known, {serving:,} serving" if found["shards"] else "none")
    for shard in sorted(found["shards"], key=lambda shard: (_label(shard), shard["node"])):
        show("")
        _row("shard", _label(shard) or "not told yet")
        _row("node", shard["node"])
        show(f"{'state':<{_COLUMNS}}{_state(shard)}")
        if shard["summary"]:
            _row("embedding", embedding_words(shard["summary"]["model"], shard["summary"]["dim"]))
            _row("topics", _topics(shard["summary"]["topics"]))


def _label(shard: dict[str, Any]) -> str:
    return str(shard["summary"]["shard_id"]) if shard["summary"] else ""


def _state(shard: dict[str, Any]) -> str:
    """Say whether a shard serves; of one that is listed and keeps silent, the mesh may not know yet that it is gone."""
    if not shard["serves"]:
        return styled("not serving", 33)
    return styled("serving", 32) if shard["summary"] else styled("listed, but it did not say what it holds", 33)


def _topics(topics: list[str]) -> str:
    more = f" and {len(topics) - _TOPICS:,} more" if len(topics) > _TOPICS else ""
    return ", ".join(topics[:_TOPICS]) + more if topics else "none"


def _row(name: str, value: str) -> None:
    show(f"{name:<{_COLUMNS}}{clean(value)}")


@command("providers", "List the nodes that serve a procedure.", group=meshes)
def providers(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A procedure, as in answer_query, or with its organisation, as in acme/answer_query; "
                                                                      "otherwise those of providers and shards.")] = None,
    key: KeyFile = None,
    org: Org = None,
    as_json: AsJson = False,
) -> None:
    """List the nodes that serve the procedures of the RAG service contract and shards, the freshest first.

    Nodes of an organisation are those whom its delegation vouches for, checked against the realm's key, whatever stations say.
    """
    from rag_stdlib.mesh.federation.names import PROCEDURE

    with runtime_of(context) as runtime:
        node = node_of(runtime.config, key=key, org=org)
    wanted = [each if "/" in each else f"{node.org}/{each}" for each in ([name] if name is not None else [*_CONTRACT, PROCEDURE])]
    with node.asking() as asker, mesh_errors():
        listed = asyncio.run(_listed(asker, wanted))
    if as_json:
        show_json([{"procedure": procedure, "nodes": nodes} for procedure, nodes in listed.items()])
        return
    for procedure, nodes in listed.items():
        show(f"{clean(procedure)}  {styled(plural(len(nodes), 'nodes'), 2)}")
        for each in nodes:
            show(f"   {each}")
    if not any(listed.values()):
        note("nobody serves that" if name is not None else f"nobody serves for {node.org}")


async def _listed(node: MeshNode, procedures: list[str]) -> dict[str, list[str]]:
    async with await node.connect() as transport:
        found = await asyncio.gather(*map(transport.providers, procedures))
        return {procedure: [info.node for info in infos] for procedure, infos in zip(procedures, found, strict=True)}
