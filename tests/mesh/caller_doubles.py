"""Providers of the tests of a caller: what they describe and answer, honest or not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from typing import Any

from rag_stdlib.contract.corpus import corpus_hash, sign_corpus
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.mesh.caller import Caller
from rag_stdlib.mesh.memory import MemoryMesh
from rag_stdlib.mesh.transport import Request

Run = Callable[[Coroutine[Any, Any, Any]], Any]


Handlers = dict[str, Callable[[Request], object]]


OLD, NEW = "1" * 40, "2" * 40


def description(commit: str = OLD, key: NodeKey | None = None, **other: object) -> dict[str, object]:
    """Describe a corpus of one repository, signed where there is a key."""
    repos = [{"id": "alpha", "url": "https://example.org/alpha.git", "branch": "main", "commit": commit}]
    whole: dict[str, object] = {"model": "hash-64", "dim": 64, "repos": repos, **other}
    whole["corpus_hash"] = corpus_hash(whole)
    if key is not None:
        whole |= {"signature": sign_corpus(str(whole["corpus_hash"]), key), "signed_by": key.node_id}
    return whole


def hit(content: str = "some text", commit: str = OLD, **other: object) -> dict[str, object]:
    digest = hashlib.sha256(content.encode()).hexdigest()
    provenance = {"kind": "corpus", "path": "alpha/a.md", "repo_id": "alpha", "commit": commit, "content_sha256": digest}
    return {"chunk_id": "c1", "score": 0.5, "content": content, "provenance": provenance, **other}


def answer(described: dict[str, object], *hits: dict[str, object]) -> dict[str, object]:
    return {"corpus_hash": described["corpus_hash"], "hits": list(hits or (hit(),))}


def says(value: object) -> Callable[[Request], object]:
    """Make a handler that answers this, or raises it."""
    def handler(_request: Request) -> object:
        if isinstance(value, Exception):
            raise value
        return value

    return handler


def replies(described: object, answered: object) -> Handlers:
    return {"describe_corpus": says(described), "answer_query": says(answered)}


async def asked(handlers: Handlers, key: NodeKey, question: Callable[[Caller], Coroutine[Any, Any, Any]], profile: Any = "pq_pure") -> Any:
    """Serve by these handlers under a key, ask, and leave the mesh."""
    mesh = MemoryMesh()
    provider, mine = mesh.node(key=key), mesh.node(profile=profile)
    try:
        for name, handler in handlers.items():
            await provider.serve(f"acme/{name}", handler)
        return await question(Caller(mine, "acme"))
    finally:
        await provider.close()
        await mine.close()


class Station:
    """A transport whose replies are those of a mesh that does not bind them to the node they are asked of."""

    node_id = "ee" * 32
    profile = "pq_pure"

    def __init__(self, reply: Callable[[object, str], object], described: dict[str, object]) -> None:
        self._reply, self._described = reply, described

    async def call_pinned(self, procedure: str, _payload: object = None, *, provider: str, **_: object) -> object:
        return self._reply(self._described if procedure.endswith("describe_corpus") else answer(self._described), provider)
