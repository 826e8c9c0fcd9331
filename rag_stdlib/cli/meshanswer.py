"""`rag mesh answer`: an answer from all shards of an organisation, and its certificate."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from rag_stdlib.cli.answer import Limit, Question, answer_by, words_of
from rag_stdlib.cli.answering import Answering
from rag_stdlib.cli.answerissue import Issuing
from rag_stdlib.cli.answershow import Showing, counted
from rag_stdlib.cli.frame import command
from rag_stdlib.cli.meshask import Asking, silence
from rag_stdlib.cli.meshnode import MeshNode, mesh_errors, meshes
from rag_stdlib.cli.optiongroup import grouped
from rag_stdlib.effects import RAG_READ, refusal
from rag_stdlib.errors import Failure
from rag_stdlib.runtime import Runtime
from rag_stdlib.values import MAX_QUERY_BYTES, check_text

if TYPE_CHECKING:
    from rag_stdlib.proof.certificate import Retrieval
    from rag_stdlib.proof.pipeline import Retrieve


@command("answer", "Answer a question from all shards.", group=meshes)
@grouped
def answer(
    context: typer.Context,
    question: Question,
    *,
    limit: Limit = 10,
    asking: Asking,
    answering: Answering,
    issuing: Issuing,
    showing: Showing,
) -> None:
    """Answer a question from what all shards of the organisation hold, as rag answer does from one index.

    A certificate names the shards that answered, and those that did not and why.

    Exit codes: 0 at least one shard answered, or all were passed by for their topics; 1 there is no shard, or none answered.
    """
    def searching(runtime: Runtime) -> Retrieve:
        from rag_stdlib.mesh.federation.certifying import retriever

        return retriever(lambda text: _asked(runtime, text, asking, limit), limit, asking.mode, asking.topic, asking.org)

    with mesh_errors():
        answer_by(context, words_of(question), searching, issuing, answering, showing)


def _asked(runtime: Runtime, text: str, asking: Asking, limit: int) -> Retrieval:
    """Ask, from the node that is configured."""
    check_text("query", text, MAX_QUERY_BYTES)
    refused = refusal("rag mesh answer", (RAG_READ,), runtime.config.grant)
    if refused is not None:
        raise Failure(refused)
    node = asking.node(runtime.config)
    with node.asking() as asker:
        return asyncio.run(_found(runtime, asker, text, asking, limit))


async def _found(runtime: Runtime, node: MeshNode, text: str, asking: Asking, limit: int) -> Retrieval:
    from rag_stdlib.mesh.federation.certifying import SearchFailed, certified_search

    async with asking.federation(runtime, node, text) as (federation, how):
        found = await certified_search(federation, text, top_k=limit, **how)
    nobody = silence(found.indexes, found.failed, found.not_asked, node.org)
    if nobody is not None:
        code, words = nobody
        raise SearchFailed(code, f"{words}: {counted(reason for _, reason in found.failed)}" if found.failed else words)
    return found
