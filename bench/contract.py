"""What checking and serving a corpus costs: verdicts on a description and its hits, and an answer over the memory mesh beside its search.

Medians of one run on one machine. Run it on an idle machine: ``make bench`` or ``python bench/contract.py``.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import Report, median_seconds

from rag_stdlib import Config, QueryOptions, Runtime, SourceDocument, rag_ingest_many, rag_query
from rag_stdlib.contract import corpus_hash, sign_corpus, verify_corpus, verify_hit
from rag_stdlib.contract.cbor import decode, encode
from rag_stdlib.contract.nodekeys import NodeKey, Profile
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.mesh.memory import MemoryMesh
from rag_stdlib.mesh.provider import Provider

CHUNKS = 10_000
HITS = 10
INDEX = "bench.db"
QUERIES = 200


def description(profile: Profile) -> tuple[dict[str, Any], NodeKey]:
    """Make a description of twenty repositories, signed with a new key."""
    key = NodeKey.generate(profile, puzzle_bits=0)
    repos = [{"id": f"repo-{number}", "url": f"https://example.org/{number}.git", "branch": "main", "commit": f"{number:040x}"} for number in range(20)]
    described: dict[str, Any] = {"model": "bench", "dim": 384, "repos": repos}
    hashed = corpus_hash(described)
    return {**described, "corpus_hash": hashed, "signature": sign_corpus(hashed, key), "signed_by": key.node_id}, key


def verdicts(report: Report) -> None:
    """Time `verify_corpus` in both profiles, and `verify_hit` over contents of 1 kB."""
    for profile, most in (("pq_pure", 1.0), ("pq_hybrid", None)):
        described, key = description(profile)
        assert verify_corpus(described, key.node_id, profile)
        seconds = median_seconds(lambda d=described, k=key, p=profile: verify_corpus(d, k.node_id, p), runs=200)
        report.add(f"verify_corpus, {profile}, 20 repositories", seconds * 1e3, "ms", most=most)
    contents = ["".join(random.Random(number).choices("abcdefgh ", k=1_000)) for number in range(1_000)]
    hits = [{"content": content, "provenance": {"kind": "corpus", "path": "repo/a.md", "repo_id": "repo", "commit": "a" * 40,
                                                "content_sha256": hashlib.sha256(content.encode()).hexdigest()}} for content in contents]
    assert all(verify_hit(hit) for hit in hits)
    seconds = median_seconds(lambda: [verify_hit(hit) for hit in hits], runs=50)
    bare = median_seconds(lambda: [hashlib.sha256(content.encode()).hexdigest() for content in contents], runs=50)
    report.add("verify_hit, contents of 1 kB", len(hits) / seconds, "/s", least=50_000, beside=f"{bare / seconds:.2f} x the speed of SHA-256 alone")


def fill(runtime: Runtime) -> list[str]:
    """Store the chunks, each a document of about 1 kB, and return questions about some."""
    draw = random.Random(3)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(3, 9))) for _ in range(4_000)]
    texts = [" ".join(draw.choices(words, k=150)) for _ in range(CHUNKS)]
    rag_ingest_many(INDEX, [SourceDocument(f"d{number}", f"docs/{number}.md", text) for number, text in enumerate(texts)], 2_000).unwrap()
    assert runtime.has_embedder
    return [" ".join(draw.choice(texts).split()[10:15]) for _ in range(QUERIES)]


async def _asked(provider: Provider, questions: list[str], search: Callable[[str], object]) -> tuple[dict[str, float], bytes]:
    """Ask each question by a bare search, by the handler, and over the mesh, in turning order; return the median milliseconds of each.

    All questions are asked once before, so that none of the three finds words in memory that another one read.
    """
    mesh, times, reply = MemoryMesh(), {"search": [], "handler": [], "call": []}, b""
    async with mesh.node() as node, mesh.node() as caller:
        serving = await provider.serve(node)
        for turn, question in enumerate([*questions, *questions]):
            payload = {"query_text": question, "top_k": HITS}
            for way in [*times, *times][turn % 3:turn % 3 + 3]:
                start = time.perf_counter()
                if way == "search":
                    search(question)
                elif way == "handler":
                    provider.handle("answer_query", payload)
                else:
                    answer = (await caller.call_pinned(f"{provider.org}/answer_query", payload, provider=node.node_id)).value
                times[way].append(time.perf_counter() - start)
            assert len(answer["hits"]) == HITS
            reply = encode(answer)
        await serving.stop()
    return {way: statistics.median(taken[len(questions):]) * 1e3 for way, taken in times.items()}, reply


def serving(report: Report, folder: Path) -> None:
    """Time answer_query beside the hybrid search that it makes."""
    with Runtime(Config(), root=folder, embedder=HashingEmbedder(384)) as runtime:
        questions = fill(runtime)
        provider = Provider(runtime, INDEX, org="acme")
        options = QueryOptions("hybrid")
        took, reply = asyncio.run(_asked(provider, questions, lambda text: rag_query(INDEX, text, HITS, options).unwrap()))
    report.add(f"hybrid search, {CHUNKS:,} chunks, {HITS} hits", took["search"], "ms")
    report.add("answer_query over the memory mesh, added to the search", took["call"] - took["search"], "ms", most=1.0,
               beside=f"{took['call'] / took['search']:.2f} x the search; the handler alone adds {took['handler'] - took['search']:.2f} ms; "
                      f"a reply of {len(reply):,} bytes")
    coding = median_seconds(lambda: decode(encode(decode(reply))), runs=100)
    report.add("encoding and decoding such a reply", coding * 1e3, "ms")


def main() -> int:
    """Measure everything; exit 1 if a bound is missed."""
    report = Report()
    verdicts(report)
    with tempfile.TemporaryDirectory() as folder:
        serving(report, Path(folder))
    report.show()
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
