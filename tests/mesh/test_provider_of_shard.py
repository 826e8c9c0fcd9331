"""A provider of a shard: it holds a part of each repository, so it can answer for none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import serving
from serving import ALPHA, BETA, INDEX, refusal_of

from rag_stdlib.index.splitting import split
from rag_stdlib.mesh.provider import Provider


def test_it_describes_no_corpus_answers_as_none_and_says_that_no_repository_is_served(tmp_path: Path) -> None:
    serving.write_list(tmp_path, ALPHA, BETA)
    with serving.runtime(tmp_path) as runtime:
        serving.with_corpus(runtime)
        served = 0
        for shard in split(runtime.root, runtime.store, INDEX, 2):
            provider = Provider(runtime, shard.index, org="acme", list_file=serving.LIST)
            assert refusal_of(provider, "describe_corpus").detail == "index_is_shard"
            assert refusal_of(provider, "answer_query", {"query_text": "ravens"}).detail == "index_is_shard"
            repos: Any = provider.handle("ingest_status", None)["repos"]  # type: ignore[index, call-overload]
            assert [(repo["id"], repo["served"], repo["head"]) for repo in repos] == [("alpha", 0, None), ("beta", 0, None)]
            served += sum(repo["files_watermarked"] for repo in repos)
        assert served == 3


def test_without_repositories_a_shard_is_served_like_any_index(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        serving.put(runtime, "d", "How ravens store food.")
        found: list[Any] = []
        for shard in split(runtime.root, runtime.store, INDEX, 2):
            answer: Any = Provider(runtime, shard.index, org="acme").handle("answer_query", {"query_text": "ravens"})
            found += answer["hits"]
        assert [hit["content"] for hit in found] == ["How ravens store food."]
