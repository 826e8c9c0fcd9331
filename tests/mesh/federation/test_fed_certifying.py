"""A search over shards as a certificate has it: who answered, who did not, and evidence that can be looked up."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from fed_mesh import A, B, C, hit

from rag_stdlib.mesh.federation.certifying import retrieval_of
from rag_stdlib.mesh.federation.judging import Answered, Failed, NotAsked, TimedOut
from rag_stdlib.mesh.federation.payloads import Embedding
from rag_stdlib.mesh.federation.query import FederatedAnswer
from rag_stdlib.proof.bodychecks import CHECKS
from rag_stdlib.proof.certificate import Draft, Named, Retrieval, make_body

TEXT = "Ravens are birds."
PLACED: dict[str, Any] = {"content": TEXT, "doc_id": "d", "source_path": "birds.txt", "start_char": 3, "end_char": 20, "node_id": A, "shard_id": "a"}
WHERE = {"kind": "corpus", "path": "birds.txt", "repo_id": "acme/birds", "commit": "c" * 40, "start_line": 1, "end_line": 1, "content_sha256": "d" * 64}


def answered(*hits: Any, **more: Any) -> FederatedAnswer:
    given = {"failed": (Failed(C, TimedOut(), asked=True),), "not_asked": (NotAsked("dd" * 32, "x"),), "merged_by": "statistics", **more}
    return FederatedAnswer(hits, (Answered(A, "a", hits, {"v": 1, "content": "e" * 64}), Answered(B, "b" * 300, (), {"v": 1, "content": "no digest"})), **given)


def certified(answer: FederatedAnswer, mode: Any = "lexical") -> Retrieval:
    return retrieval_of(answer, mode=mode, limit=10, embedding=Embedding("nomic", 8))


def test_every_shard_and_every_reason_is_named() -> None:
    found = certified(answered(hit("d#1", 2.5, **PLACED, provenance=WHERE)))
    assert [(index.node_id, index.shard_id, index.content) for index in found.indexes] == [(A, "a", "e" * 64), (B, "b" * 200, None)]
    assert (found.failed, found.not_asked, found.merged_by) == (((C, "timeout"),), (("dd" * 32, "topics_absent"),), "statistics")
    (item,) = found.items
    assert (item.chunk_id, item.doc_id, item.source, item.start, item.end, item.text, item.score, item.index) == ("d#1", "d", "birds.txt", 3, 20, TEXT, 2.5, 0)
    assert item.provenance == {name: part for name, part in WHERE.items() if name != "content_sha256"}
    assert (found.embedder, certified(answered(), "hybrid").embedder) == (None, ("nomic", 8))


def test_a_hit_that_says_not_where_it_stands_is_no_evidence() -> None:
    wrong: list[dict[str, Any]] = [{}, {"content": TEXT}, *({**PLACED, name: None} for name in ("content", "doc_id", "source_path", "start_char", "end_char")),
                                   {**PLACED, "start_char": 4}, {**PLACED, "start_char": -3, "end_char": 14}, {**PLACED, "start_char": True, "end_char": 18}]
    assert certified(answered(*(hit("x", 1.0, **{"node_id": A, **each}) for each in wrong))).items == ()
    (odd,) = certified(answered(hit("x", 1, **PLACED, provenance={**WHERE, "commit": 7}))).items
    assert (odd.provenance, odd.score) == (None, 1.0)


def test_what_is_certified_passes_the_checks_of_a_body() -> None:
    found = certified(answered(hit("d#1", 1.0, **PLACED), hit("d#2", 2.0, **{**PLACED, "node_id": B}), merged_by="rank"))
    draft = Draft("ravens?", "nonce-of-the-asker_1", found, "", (), Named("g", None, "1" * 64), Named("j", "1", "2" * 64), "rules", "lexical")
    body = make_body(draft, "acme", bytes(32), now=datetime(2026, 12, 1, tzinfo=timezone.utc), salt="5" * 64)
    assert [check(body) for _, check in CHECKS] == [None] * len(CHECKS)
