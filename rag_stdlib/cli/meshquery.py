"""`rag mesh query`: one question to all shards of an organisation, and what became of each."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.frame import AsJson, CommandError, command, note, require, runtime_of, show_json
from rag_stdlib.cli.meshask import Asking, silence
from rag_stdlib.cli.meshnode import DIGITS, MeshNode, mesh_errors, meshes, short
from rag_stdlib.cli.optiongroup import grouped
from rag_stdlib.cli.snippet import snippet
from rag_stdlib.cli.terminal import cells, clean, plural, show, styled
from rag_stdlib.contract import loose
from rag_stdlib.effects import RAG_READ
from rag_stdlib.records import Mode
from rag_stdlib.runtime import Runtime
from rag_stdlib.values import MAX_QUERY_BYTES, check_text

if TYPE_CHECKING:
    from rag_stdlib.mesh.federation.judging import Answered, Failed, NotAsked
    from rag_stdlib.mesh.federation.query import FederatedAnswer
    from rag_stdlib.mesh.federation.shard import Federation

_INDENT: Final = "   "
_LEAST_COLUMNS: Final = 20
_MOST_COLUMNS: Final = 100
_LABEL_COLUMNS: Final = 20
_NUMBER_COLUMNS: Final = 6


@command("query", "Ask all shards of the organisation.", group=meshes)
@grouped
def query(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Any words; nothing in them is syntax. Put -- before words that begin with a dash.")],
    *,
    limit: Annotated[int, typer.Option("-n", "-k", "--limit", metavar="N", min=1, max=1_000, help="At most so many hits.")] = 10,
    asking: Asking,
    as_json: AsJson = False,
) -> None:
    """Ask every shard of the organisation, merge what they find as if it were one index, and show which shards answered, and which did not and why.

    Exit codes: 0 at least one shard answered, or all were passed by for their topics; 1 there is no shard, or none answered.
    """
    text = " ".join(words)
    if not text.strip():
        raise typer.BadParameter("a question is not blank", param_hint="QUERY")
    check_text("query", text, MAX_QUERY_BYTES)
    with runtime_of(context) as runtime:
        require(runtime, RAG_READ, "rag mesh query")
        mode, node = asking.mode or runtime.mode, asking.node(runtime.config)
        with node.asking() as asker, mesh_errors():
            found, labels, took_ms = asyncio.run(_found(runtime, asker, text, asking, limit))
    if as_json:
        show_json(_plain(found, labels, took_ms))
    else:
        _show_hits(found.hits, text, mode)
        if not found.hits and (found.answered or found.not_asked):
            note("no hits")
        _show_shards(found, labels, took_ms)
    nobody = silence(found.answered, found.failed, found.not_asked, node.org)
    if nobody is not None:
        raise CommandError(nobody[1], code=nobody[0])


async def _found(runtime: Runtime, node: MeshNode, text: str, asking: Asking, limit: int) -> tuple[FederatedAnswer, dict[str, str], float]:
    """Ask; return what was found, the shards' own names by node id, and the milliseconds that the question took."""
    from rag_stdlib.mesh.federation.searching import search

    async with asking.federation(runtime, node, text) as (federation, how):
        began = time.monotonic()
        found = await search(federation, text, top_k=limit, **how)
        return found, _labels(federation, found), (time.monotonic() - began) * 1_000


def _labels(federation: Federation, found: FederatedAnswer) -> dict[str, str]:
    told = [(shard.node_id, shard.shard_id) for shard in federation.shards()]
    return dict([*told, *((each.node, each.shard_id) for each in found.answered), *((each.node, each.shard_id) for each in found.not_asked)])


def _plain(found: FederatedAnswer, labels: dict[str, str], took_ms: float) -> dict[str, Any]:
    from rag_stdlib.contract.jsonform import JsonFormError, to_json

    try:
        hits = json.loads(to_json(list(found.hits)))
    except JsonFormError as error:
        raise CommandError(f"the hits cannot be shown as JSON: {error}") from None
    return {
        "hits": hits, "merged_by": found.merged_by, "took_ms": round(took_ms, 1),
        "answered": [{"node": each.node, "shard_id": each.shard_id, "hits": len(each.hits), "left_out": each.left_out,
                      "took_ms": round(each.took_ms, 1)} for each in found.answered],
        "failed": [{"node": each.node, "shard_id": labels.get(each.node), "reason": each.reason.name, "detail": str(each.reason), "asked": each.asked,
                    "took_ms": round(each.took_ms, 1)} for each in found.failed],
        "not_asked": [{"node": each.node, "shard_id": each.shard_id, "reason": each.reason} for each in found.not_asked],
        "counted": list(found.counted),
    }


def _show_hits(hits: Sequence[dict[str, Any]], text: str, mode: Mode) -> None:
    columns = min(shutil.get_terminal_size((_MOST_COLUMNS, 24)).columns, _MOST_COLUMNS)
    width = max(columns, _LEAST_COLUMNS) - len(_INDENT)
    for rank, hit in enumerate(hits, 1):
        show(f"{rank}. {styled(_place(hit), 1)}  {styled(f'{mode} {_score(hit)}', 2)}  {clean(hit['shard_id'])}")
        for line in snippet(loose.text(hit.get("content")) or "", text, width):
            show(_INDENT + line)
        show("")


def _place(hit: dict[str, Any]) -> str:
    """Say where a hit stands, for whatever a shard said of that."""
    meta = hit.get("meta") if isinstance(hit.get("meta"), dict) else {}
    lines = list(dict.fromkeys(line for line in (loose.field(meta, "start_line"), loose.field(meta, "end_line")) if type(line) is int))
    path = loose.text(hit.get("source_path")) or loose.text(hit.get("id")) or "-"
    return clean(path + (f":{'-'.join(map(str, lines))}" if lines else ""))


def _score(hit: dict[str, Any]) -> str:
    parts = [f"{name} {hit[key]:.3f}" for name, key in (("words", "lexical_score"), ("vector", "vector_score")) if isinstance(hit.get(key), float)]
    return f"{hit['score']:.3f}" + (f" ({', '.join(parts)})" if len(parts) > 1 else "")


def _show_shards(found: FederatedAnswer, labels: dict[str, str], took_ms: float) -> None:
    """Show a row for each shard, in order of their names."""
    everyone: list[Answered | Failed | NotAsked] = [*found.answered, *found.failed, *found.not_asked]
    everyone.sort(key=lambda each: (labels.get(each.node, ""), each.node))
    if not everyone:
        return
    names = [_fitted(clean(labels.get(each.node, "-"))) for each in everyone]
    width = max(len("shard"), *(sum(map(cells, name)) for name in names))
    show(f"{'shard':<{width}}  {'node':<{DIGITS}}  {'hits':>{_NUMBER_COLUMNS}}  {'ms':>{_NUMBER_COLUMNS}}")
    for each, name in zip(everyone, names, strict=True):
        padding = " " * (width - sum(map(cells, name)))
        show(f"{name}{padding}  {short(each.node)}  {'  '.join(f'{cell:>{_NUMBER_COLUMNS}}' for cell in _numbers(each))}  {_outcome(each)}")
    merged = f"; merged by {found.merged_by}" if found.answered else ""
    show(f"{len(found.answered):,} of {plural(len(everyone), 'shards')} answered in {took_ms:,.0f} ms{merged}")


def _fitted(name: str) -> str:
    return name if len(name) <= _LABEL_COLUMNS else f"{name[:_LABEL_COLUMNS - 1]}…"


def _numbers(each: Answered | Failed | NotAsked) -> Iterator[str]:
    from rag_stdlib.mesh.federation.judging import Answered, Failed

    yield f"{len(each.hits):,}" if isinstance(each, Answered) else "-"
    yield f"{each.took_ms:,.0f}" if isinstance(each, Answered) or (isinstance(each, Failed) and each.asked) else "-"


def _outcome(each: Answered | Failed | NotAsked) -> str:
    from rag_stdlib.mesh.federation.judging import Answered, Failed, NoSummary

    if isinstance(each, Answered):
        return styled("answered", 32) + (f"  without {plural(each.left_out, 'hits')} that its reply had no room for" if each.left_out else "")
    if isinstance(each, Failed):
        unheard = ": it did not say what it holds" if isinstance(each.reason, NoSummary) else ""
        return f"{styled('failed', 1, 31)}    {clean(str(each.reason))}{unheard}{'' if each.asked else ', and was not asked'}"
    return f"{styled('not asked', 33)} it has none of the topics"
