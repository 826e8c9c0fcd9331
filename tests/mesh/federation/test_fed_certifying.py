"""A search over shards as a certificate has it: who answered, who did not, and evidence that can be looked up."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from fed_mesh import A, B, C, Shards, hit
from hypothesis import given
from hypothesis import strategies as st

import replay
from rag_stdlib.errors import Failure, fail
from rag_stdlib.mesh.errors import CallTimeout, ProviderError
from rag_stdlib.mesh.federation.certifying import SearchFailed, certified_search, retrieval_of, retriever
from rag_stdlib.mesh.federation.judging import Answered, CallFailed, Failed, NotAsked, TimedOut
from rag_stdlib.mesh.federation.merging import BY_RANK, BY_SCORE, ByStatistics, merge
from rag_stdlib.mesh.federation.payloads import Embedding
from rag_stdlib.mesh.federation.query import FederatedAnswer
from rag_stdlib.proof.bodychecks import CHECKS
from rag_stdlib.proof.certificate import Draft, Named, Retrieval, make_body
from rag_stdlib.proof.format import BODY

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


def held(found: Retrieval) -> None:
    """Hold it to the form and the checks of a certificate's body."""
    draft = Draft("ravens?", "nonce-of-the-asker_1", found, "", (), Named("g", None, "1" * 64), Named("j", "1", "2" * 64), "rules", "lexical")
    body = make_body(draft, "acme", bytes(32), now=datetime(2026, 12, 1, tzinfo=timezone.utc), salt="5" * 64)
    assert (BODY.departs(body), [check(body) for _, check in CHECKS]) == (None, [None] * len(CHECKS))


def test_what_is_certified_passes_the_checks_of_a_body() -> None:
    found = certified(answered(hit("d#1", 1.0, **PLACED), hit("d#2", 2.0, **{**PLACED, "node_id": B}), merged_by="rank"))
    assert len(found.items) == 2
    held(found)


def test_what_a_certificate_has_no_room_for_is_left_out_and_the_rest_is_certified() -> None:
    wrong: list[tuple[str, float, dict[str, Any]]] = [
        ("", 9.0, {}), ("x" * 4_097, 9.0, {}), ("score", 1e9, {}), ("score", -1e9, {}), ("whole", 10**400, {}), ("doc", 9.0, {"doc_id": ""}),
        ("source", 9.0, {"source_path": "x" * 4_097}), ("far", 9.0, {"start_char": 2**53, "end_char": 2**53 + 17}), ("bytes", 9.0, {"doc_id": b"d"})]
    found = certified(answered(*(hit(name, score, **PLACED) | more for name, score, more in wrong), hit("d#1", 2.0, **PLACED), merged_by="rank"))
    assert [item.chunk_id for item in found.items] == ["d#1"]
    held(found)


def test_a_second_hit_of_a_shard_under_one_id_is_left_out() -> None:
    found = certified(answered(hit("d#1", 2.0, **PLACED), hit("d#1", 1.0, **PLACED), hit("d#1", 1.0, **{**PLACED, "node_id": B})))
    assert [(item.index, item.score) for item in found.items] == [(0, 2.0), (1, 1.0)]
    held(found)


def test_more_hits_than_were_asked_for_are_left_out() -> None:
    found = retrieval_of(answered(*(hit(f"d#{number}", 1.0, **PLACED) for number in range(9))), mode="lexical", limit=4, embedding=Embedding("nomic", 8))
    assert len(found.items) == 4
    held(found)


@pytest.mark.parametrize("lines", [(1, None), (None, 1), (2, 1)])
def test_lines_that_do_not_fit_together_are_no_provenance(lines: tuple[Any, Any]) -> None:
    found = certified(answered(hit("d#1", 2.0, **PLACED, provenance={**WHERE, "start_line": lines[0], "end_line": lines[1]})))
    assert found.items[0].provenance is None
    held(found)


def test_a_reason_of_a_shard_is_fitted_to_its_form() -> None:
    words = [ProviderError("", ""), ProviderError("x" * 300, "")]
    found = certified(answered(failed=tuple(Failed(node, CallFailed(error), asked=True) for node, error in zip((C, "ee" * 32), words, strict=True))))
    assert found.failed == ((C, "failed"), ("ee" * 32, "x" * 100))
    held(found)


HITS = st.lists(st.tuples(st.sampled_from(["d#1", "d#2", "", "x"]), st.floats(-2e9, 2e9, width=32) | st.sampled_from([0.0, -0.0, 1.0]), st.integers(-2, 40), st.booleans()), max_size=8)


@given(HITS, HITS, st.sampled_from([BY_SCORE, BY_RANK, ByStatistics(frozenset({A, B}), others=False), ByStatistics(frozenset({A}), others=True)]), st.integers(1, 5))
def test_whatever_two_shards_send_it_is_certified(ours: Any, theirs: Any, merger: Any, limit: int) -> None:
    def of(node: str, given_: Any) -> tuple[dict[str, Any], ...]:
        return tuple(hit(name, score, **{**PLACED, "node_id": node, "start_char": start, "end_char": start + 17 + wrong, "content": f"{TEXT[:-1]}{chr(97 + place)}"})
                     for place, (name, score, start, wrong) in enumerate(given_))

    shards = (Answered(A, "a", of(A, ours), {"content": "e" * 64}), Answered(B, "b", of(B, theirs)))
    merged = merge(shards, limit, merger)
    held(retrieval_of(FederatedAnswer(tuple(merged), shards, (), (), merger.name), mode="lexical", limit=limit, embedding=Embedding("nomic", 8)))


FOUND = certified(answered(hit("d#1", 0.1 + 0.2, **PLACED, provenance=WHERE)), "hybrid")


def test_a_question_to_a_federation_is_recorded_and_replayed_as_it_was(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(question: str) -> Retrieval:
        asked.append(question)
        return FOUND

    retrieve = retriever(ask, 10, None, ["birds"])
    assert retrieve("ravens?") == FOUND
    with replay.record(tmp_path / "t.jsonl"):
        assert retrieve("ravens?") == FOUND
    with replay.substitute(tmp_path / "t.jsonl"):
        assert retrieve("ravens?") == FOUND
    assert asked == ["ravens?"] * 2
    with pytest.raises(replay.ReplayError), replay.substitute(tmp_path / "t.jsonl"):
        retriever(ask, 11, None, ["birds"])("ravens?")


@pytest.mark.parametrize(("error", "told"), [
    (CallTimeout("acme/x", 2.0), ("timeout", "no reply from acme/x within 2 s")), (SearchFailed("no_answer", "no shard answered"), ("no_answer", "no shard answered"))])
def test_what_the_mesh_fails_with_is_replayed_as_well(tmp_path: Path, error: Exception, told: tuple[str, str]) -> None:
    def ask(_question: str) -> Retrieval:
        raise error

    for session in (replay.record, replay.substitute):
        with session(tmp_path / "t.jsonl"), pytest.raises(SearchFailed) as caught:
            retriever(ask)("ravens?")
        assert (caught.value.name, str(caught.value)) == told


def test_a_failure_stays_what_it_is() -> None:
    def ask(_question: str) -> Retrieval:
        raise fail("mode_needs_embedder", mode="vector")

    with pytest.raises(Failure, match="needs an embedder"):
        retriever(ask)("ravens?")


def test_a_search_over_shards_is_certified_with_the_embedding_of_the_federation() -> None:
    async def asked() -> Retrieval:
        async with Shards() as mesh:
            _, asking = await mesh.asker()
            await mesh.shard(A, hit("d#1", 2.0, **PLACED))
            await mesh.shard(B, hit("d#2", 3.0, **{**PLACED, "content": TEXT[::-1]}))
            return await certified_search(asking, "ravens?", mode="vector", vector=[1.0] * 768, top_k=7, timeout_ms=20_000)

    found = asyncio.run(asked())
    assert (found.embedder, found.limit, found.merged_by, [item.chunk_id for item in found.items]) == (("nomic-embed-text", 768), 7, "score", ["d#2", "d#1"])
    assert [(index.node_id, index.content) for index in found.indexes] == [(A, None), (B, None)]
    held(found)
