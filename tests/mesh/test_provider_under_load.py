"""Questions, deposits, uploads, removals and switches at once on one index: what each reply says holds, and the index stays whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import serving
from serving import ALPHA, GUIDE, INDEX, LICENSED, OPERATOR, outcome

from rag_stdlib import Ok, rag_check
from rag_stdlib.contract import verify_hit
from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.provider import Provider

HEADS = 10
SHADOWED = "alpha/guide.md"  # a path of the corpus, which uploads and deposits take for their own name


def head(version: int) -> tuple[serving.ServedRepo, dict[str, str]]:
    """A commit in which one file stays, one changes, and one comes where the last one's goes."""
    return replace(ALPHA, commit=f"{version:040x}"), {
        "docs/owls.md": LICENSED, "guide.md": f"{GUIDE}\nRavens of version {version} sit on the tower and look down.\n",
        f"only-{version}.md": f"This file about ravens belongs to version {version} alone, and to none besides.\n"}


def commits(rows: list[dict[str, Any]]) -> set[str]:
    return {row["provenance"]["commit"] for row in rows if row["provenance"]["kind"] == "corpus"}


class Asking:
    """A caller that looks into everything; `seen` holds the commit of each corpus that it met."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.seen: dict[str, str] = {}

    def look(self) -> None:
        """Ask once, and read again what was found."""
        answer: Any = self.provider.handle("answer_query", {"query_text": "ravens of a version", "top_k": 100})
        assert all(map(verify_hit, answer["hits"]))
        (commit,) = commits(answer["hits"])
        assert self.seen.setdefault(answer["corpus_hash"], commit) == commit
        description: Any = self.provider.handle("describe_corpus", None)
        (repo,) = description["repos"]
        assert self.seen.setdefault(description["corpus_hash"], repo["commit"]) == repo["commit"]
        page: Any = self.provider.handle("list_sources_page", {"limit": 200})
        assert len(commits(page)) == 1
        document: Any = self.provider.handle("get_document_verbatim", {"source_path": SHADOWED})
        assert document["raw_bytes"].startswith(GUIDE.encode()), "the corpus comes before whatever has its name"
        for hit in answer["hits"][:3]:
            again = outcome(self.provider, "get_chunk_by_id", {"chunk_id": hit["chunk_id"]})
            assert again.name == "not_found" if isinstance(again, Refusal) else again["content"] == hit["content"]


def meddle(provider: Provider, number: int) -> None:
    """Leave and take out what bears the name of a file of the corpus."""
    assert provider.handle("add_knowledge", {"text": f"A note on ravens, {number % 5}.", "source_label": SHADOWED}) == {"chunks": 1}
    upload: Any = provider.handle("upload_knowledge", {"document_id": SHADOWED, "raw_bytes": b"Ravens, upload %d \xff" % number}, OPERATOR)
    assert upload["chunks"] == 1
    for name in ("prune_chunks", "retire_document"):
        for document_id in (SHADOWED, f"corpus:{SHADOWED}"):
            assert outcome(provider, name, {"document_id": document_id}, OPERATOR).name == "corpus_document"
        done = outcome(provider, name, {"document_id": f"upload:{SHADOWED}"}, OPERATOR)
        assert not isinstance(done, Refusal) or done.name == "not_ingested"


def until(stop: threading.Event, step: Callable[[int], object]) -> int:
    done = 0
    while not stop.is_set() or not done:
        step(done)
        done += 1
    return done


def test_x1_x4_whatever_goes_on_at_once_every_reply_holds_and_the_index_is_whole(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        serving.switch(runtime, *head(0))
        provider = serving.served(runtime, deposits="open", operators=[OPERATOR])
        stop, asking = threading.Event(), [Asking(provider) for _ in range(2)]
        with ThreadPoolExecutor(4) as pool:
            work = [pool.submit(until, stop, lambda _, each=each: each.look()) for each in asking]
            work += [pool.submit(until, stop, lambda number, first=first: meddle(provider, number + first)) for first in (0, 1_000)]
            try:
                for version in range(1, HEADS):
                    serving.switch(runtime, *head(version))
            finally:
                stop.set()
            assert all(future.result() for future in work)
        for each in asking:
            each.look()
            assert head(HEADS - 1)[0].commit in each.seen.values()
            assert len(each.seen) == len(set(each.seen.values())), "a corpus hash is of one commit"
        report = rag_check(INDEX)
        assert isinstance(report, Ok)
        assert report.value.problems == ()
