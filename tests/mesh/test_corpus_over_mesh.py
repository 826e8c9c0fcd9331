"""From a git repository to a checked answer: synced, served, asked with the provider pinned, over the memory mesh."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from embedder_double import EmbedderDouble

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))  # the real repositories of the tests of corpora
from git_repos import Repo
from syncing import INDEX, listed, synced

from rag_stdlib import Config, Runtime
from rag_stdlib.contract.answers import RefusedAnswer, SignedAnswer, StoredAnswer, UnsignedAnswer
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.mesh.caller import Caller
from rag_stdlib.mesh.memory import MemoryMesh
from rag_stdlib.mesh.provider import Provider

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Runtime, Repo]]:
    repo = Repo(tmp_path / "sources" / "alpha.git")
    repo.commit({f"{name}.md": f"# {name}\n\nCommon words of the page {name} in its state 1, and nothing else.\n" for name in "abc"})
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble()) as runtime:
        assert synced(runtime, listed(repo))["alpha"].outcome == "switched"
        yield runtime, repo


def test_an_answer_is_signed_by_the_provider_that_was_called_and_its_record_checks_offline(
        served: tuple[Runtime, Repo], run: Run, pure_key: Callable[[int], NodeKey]) -> None:
    runtime, _ = served
    key, other = pure_key(1), pure_key(2)

    async def body() -> None:
        mesh = MemoryMesh()
        async with mesh.node(key=key) as node, mesh.node(key=other) as asking:
            serving = await Provider(runtime, INDEX, org="acme", key=key).serve(node)
            caller = Caller(asking, "acme")
            answer = await caller.ask("common words of the page a", provider=key.node_id, top_k=2)
            assert isinstance(answer, SignedAnswer)
            assert (answer.provider, len(answer.hits)) == (key.node_id, 2)
            assert all(hit.content_verified and hit.in_corpus for hit in answer.hits)
            unpinned = await caller.ask("common words")
            assert isinstance(unpinned, UnsignedAnswer)
            assert (unpinned.provider, unpinned.corpus_hash) == (None, answer.corpus_hash)
            description = (await asking.call_pinned("acme/describe_corpus", provider=key.node_id)).value
            told = (await asking.call_pinned("acme/answer_query", {"query_text": "common words"}, provider=key.node_id)).value
            kept = StoredAnswer.from_json(StoredAnswer(key.node_id, "pq_pure", description, told).to_json())
            assert isinstance(kept.check(key.node_id), SignedAnswer)
            assert isinstance(kept.check(other.node_id), RefusedAnswer)
            await serving.stop()

    run(body())


def test_x4_questions_asked_while_heads_switch_are_answered_wholly_from_one(served: tuple[Runtime, Repo], run: Run,
                                                                           pure_key: Callable[[int], NodeKey]) -> None:
    runtime, repo = served
    key, stop = pure_key(1), threading.Event()
    commits = set()

    def switch_heads() -> None:
        with runtime:
            for turn in range(2, 9):
                repo.commit({f"{name}.md": f"# {name}\n\nCommon words of the page {name} in its state {turn}, and nothing else.\n" for name in "abc"})
                assert synced(runtime, listed(repo))["alpha"].outcome == "switched"
        stop.set()

    async def body() -> int:
        mesh, asked = MemoryMesh(), 0
        async with mesh.node(key=key) as node, mesh.node() as asking:
            serving = await Provider(runtime, INDEX, org="acme", key=key).serve(node)
            switching = asyncio.get_running_loop().run_in_executor(None, switch_heads)
            while not stop.is_set():
                answer = await Caller(asking, "acme").ask("common words of the page", provider=key.node_id)
                asked += 1
                assert isinstance(answer, SignedAnswer | RefusedAnswer)
                if isinstance(answer, RefusedAnswer):
                    # The head moved between both calls, twice: then nothing is claimed, rather than something mixed.
                    assert answer.reason.reason == "not_the_answering_corpus"
                    continue
                texts = {hit.hit["content"].split("state ")[1][0] for hit in answer.hits}
                told = {hit.hit["provenance"]["commit"] for hit in answer.hits}
                assert len(answer.hits) == 3
                assert len(texts) == 1
                assert told == {answer.corpus.repos[0].commit}
                assert all(hit.content_verified and hit.in_corpus for hit in answer.hits)
                commits.update(told)
            await switching
            await serving.stop()
        return asked

    assert run(body()) > 7
    assert len(commits) > 2
