"""From a question to a certificate that verifies, offline, and again from a trace."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answering_parts import DIM, KEYS, ORIGIN, POLICY, QUESTION, Believes, Says, from_index, judged, offline
from certified import as_bytes

import replay
from rag_stdlib import Runtime, SourceDocument, rag_delete, rag_ingest_document
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.effects import grant
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.errors import Failure
from rag_stdlib.proof import retrieving
from rag_stdlib.proof.certificate import Item, Retrieval, SearchedIndex, score, share
from rag_stdlib.proof.issuing import Issuer, LogFile, answer
from rag_stdlib.proof.judges import make_judge
from rag_stdlib.proof.retrieving import retrieve, still_stored
from rag_stdlib.result import Ok

pytestmark = pytest.mark.usefixtures("runtime")


def test_an_answer_offline_is_quotations_and_verifies(runtime: Runtime, log: LogFile) -> None:
    envelope = answer(QUESTION, from_index, offline(), Issuer(KEYS, log), nonce="nonce-of-the-asker")
    verdict = judged(envelope, logs={ORIGIN: log.trusted})
    assert verdict, verdict
    first = verdict.claims[0]
    assert (first.text, first.label, first.quotes, first.blocked) == (
        "Refunds are paid within ten days of the return.", "quoted", ("Refunds are paid within ten days of the return.",), None)
    body = envelope["certificate"]
    assert (body["query"]["nonce"], body["retrieval"]["embedder"], body["retrieval"]["mode"]) == ("nonce-of-the-asker", {"model": "words-sha256", "dim": DIM}, "hybrid")
    with runtime.store.snapshot("a.db") as snapshot:
        assert body["retrieval"]["indexes"] == [{"node_id": None, "shard_id": None, "content": snapshot.describe()["content"]}]
    assert log.open().size == 1


def test_no_evidence_is_an_abstention_and_nothing_is_generated() -> None:
    assert isinstance(rag_delete("a.db", "policy"), Ok)
    says = Says("Everything is refunded.")
    envelope = answer(QUESTION, from_index, offline(generator=says), Issuer(KEYS))
    assert (says.asked, envelope["certificate"]["answer"]["abstained"], envelope["certificate"]["claims"]) == ([], True, [])
    verdict = judged(envelope)
    assert (bool(verdict), verdict.abstained, verdict.claims) == (True, True, ())


def test_what_is_not_in_the_evidence_is_not_shown() -> None:
    says = Says("Refunds are paid within ten days of the return.\n- Refunds are paid in gold.")
    verdict = judged(answer(QUESTION, from_index, offline(generator=says), Issuer(KEYS)))
    assert [(claim.text, claim.blocked) for claim in verdict.claims] == [
        ("Refunds are paid within ten days of the return.", None), ("Refunds are paid in gold.", "not_supported")]


def test_a_judge_that_says_quoted_of_what_is_none_is_not_believed() -> None:
    verdict = judged(answer(QUESTION, from_index, offline(generator=Says("Refunds are paid in gold."), judge=Believes("quoted", "1.000000")), Issuer(KEYS)))
    assert [claim.blocked for claim in verdict.claims] == ["not_supported"]


@pytest.mark.parametrize(("changes", "blocked"), [
    ({"judge": Believes()}, [None, None]), ({"judge": Believes("contradicted")}, ["contradicted"] * 2), ({"judge": Believes(confidence="0.499999")}, ["low_confidence"] * 2),
    ({"judge": Believes(), "labels": ("quoted",)}, ["label_not_allowed"] * 2), ({"judge": Believes(), "alignment": "none"}, ["no_span"] * 2),
    ({"judge": Believes(), "decomposition": "whole"}, [None]), ({"judge": Believes(), "decomposition": "model"}, [None]), ({"judge": make_judge("none")}, ["not_supported"] * 2),
    ({"judge": Believes(), "minimum_confidence": "0.900001"}, ["low_confidence"] * 2), ({"judge": Believes(), "spans": 1}, [None, None]),
])
def test_every_part_can_be_left_out_and_the_certificate_says_so(changes: dict[str, Any], blocked: list[str | None]) -> None:
    pipeline = offline(generator=Says("Refunds are paid within ten days. Shipping is free."), **changes)
    envelope = answer(QUESTION, from_index, pipeline, Issuer(KEYS))
    verdict = judged(envelope)
    assert [claim.blocked for claim in verdict.claims] == blocked
    assert envelope["certificate"]["methods"] == {"decomposition": pipeline.decomposition, "alignment": pipeline.alignment}


def test_alignment_by_embedder() -> None:
    embedder = HashingEmbedder(DIM)
    pipeline = offline(alignment="embedder", embed=lambda texts: embedder.embed(texts, "passage"))
    envelope = answer(QUESTION, from_index, pipeline, Issuer(KEYS))
    assert judged(envelope).claims[0].blocked is None
    for wrong in ({"alignment": "embedder"}, {"embed": embedder.embed}):
        with pytest.raises(ValueError, match="embedder"):
            offline(**wrong)
    for spans in (0, 17):
        with pytest.raises(ValueError, match="1 to 16"):
            offline(spans=spans)


def test_a_run_that_was_recorded_issues_the_same_body_without_index_clock_or_chance(runtime: Runtime, tmp_path: Path) -> None:
    pipeline = offline()
    with replay.record(str(tmp_path / "run.jsonl")):
        first = answer(QUESTION, from_index, pipeline, Issuer(KEYS))
    runtime.close()
    (tmp_path / "a.db").unlink()
    with replay.substitute(str(tmp_path / "run.jsonl")):
        again = answer(QUESTION, from_index, pipeline, Issuer(KEYS))
    assert as_bytes(again) == as_bytes(first)


def test_a_node_of_the_mesh_signs_as_well() -> None:
    node = NodeKey.generate("pq_pure", puzzle_bits=0)
    envelope = answer(QUESTION, from_index, offline(), Issuer(KEYS, node_key=node))
    assert envelope["certificate"]["issuer"]["node_id"] == node.node_id
    assert judged(envelope)
    envelope["node_signature"]["signature"] = envelope["node_signature"]["signature"].replace("A", "B", 1)
    assert judged(envelope).code == "node_signature"


def test_failures_of_the_index_are_told() -> None:
    with pytest.raises(Failure) as caught:
        answer(QUESTION, lambda question: retrieve("missing.db", question, 5), offline(), Issuer(KEYS))
    assert caught.value.error.code == "index_missing"
    with grant(), pytest.raises(Failure) as caught:
        retrieve("a.db", QUESTION, 5)
    assert caught.value.error.code == "effect_not_granted"


def test_an_index_that_changes_all_the_time_is_certified_without_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(100))
    real = retrieving.searched
    monkeypatch.setattr(retrieving, "searched", lambda *given: {**real(*given), "content": f"{next(numbers):064x}"})
    found = retrieve("a.db", QUESTION, 5)
    assert (found.indexes[0].content, next(numbers)) == (None, 6)


def test_an_index_that_changed_once_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter(["1" * 64] + ["2" * 64] * 9)
    real = retrieving.searched
    monkeypatch.setattr(retrieving, "searched", lambda *given: {**real(*given), "content": next(states)})
    assert retrieve("a.db", QUESTION, 5).indexes[0].content == "2" * 64


def test_what_is_still_stored_is_told_item_by_item() -> None:
    body = answer(QUESTION, from_index, offline(), Issuer(KEYS))["certificate"]
    assert still_stored(body["retrieval"], "a.db") == [True] * len(body["retrieval"]["items"])
    assert isinstance(rag_ingest_document("a.db", SourceDocument("policy", "policy.md", POLICY.replace("ten", "six")), 120), Ok)
    stored = still_stored(body["retrieval"], "a.db")
    assert False in stored
    assert [("ten" not in item["text"]) for item in body["retrieval"]["items"]] == stored
    with grant(), pytest.raises(Failure):
        still_stored(body["retrieval"], "a.db")


def test_a_lexical_search_names_no_embedder() -> None:
    found = retrieve("a.db", QUESTION, 5, "lexical")
    assert (found.mode, found.embedder, found.corpus_hash) == ("lexical", None, None)


def test_a_document_that_says_it_is_of_a_corpus_is_not_believed() -> None:
    lying = SourceDocument("lying", "x.md", "Refunds are refunds.", metadata={"kind": "corpus", "repo_id": "acme/policy", "commit": "c" * 40})
    assert isinstance(rag_ingest_document("a.db", lying, 120), Ok)
    found = retrieve("a.db", "refunds are refunds", 5)
    assert {item.doc_id: item.provenance for item in found.items}["lying"] is None


@pytest.mark.parametrize(("lines", "certified"), [
    (((0, 3), (24, 4)), True), (((0, 10), (24, 3)), False), (((24, 3),), True), ((), True), (((0, 2**53),), False)])
def test_a_deposit_whose_lines_no_certificate_can_say_is_certified_without_its_provenance(lines: tuple[tuple[int, int], ...], certified: bool) -> None:
    text = "Refunds are paid within\nten days of the return.\n"
    deposit = SourceDocument("deposit:1", "d.md", text, lines=lines, metadata={"kind": "deposit"})
    assert isinstance(rag_ingest_document("d.db", deposit, 200), Ok)
    envelope = answer(QUESTION, lambda question: retrieve("d.db", question, 5), offline(), Issuer(KEYS))
    assert [claim.blocked for claim in judged(envelope).claims] == [None]
    (provenance,) = (item["provenance"] for item in envelope["certificate"]["retrieval"]["items"])
    assert (provenance is not None) is certified
    assert provenance is None or (provenance["kind"], provenance["path"], provenance["commit"]) == ("deposit", "d.md", None)


def test_what_was_cut_off_at_the_ends_of_a_chunk_is_no_evidence() -> None:
    item = Item("d:1", "d", "d.md", 100, 157, "40 MB are needed. Refunds are paid within ten days. Goods cost", 1.0)
    found = Retrieval("lexical", 5, (replace(item, end=100 + len(item.text)),), (SearchedIndex(None),))
    said = "40 MB are needed. Refunds are paid within ten days. Goods cost"
    verdict = judged(answer(QUESTION, lambda _question: found, offline(generator=Says(said)), Issuer(KEYS)))
    assert [(claim.text, claim.blocked) for claim in verdict.claims] == [
        ("40 MB are needed.", "no_span"), ("Refunds are paid within ten days.", None), ("Goods cost", "no_span")]
    whole = Retrieval("lexical", 5, (Item("d:0", "d", "d.md", 0, 17, "40 MB are needed.", 1.0),), (SearchedIndex(None),))
    assert judged(answer(QUESTION, lambda _question: whole, offline(generator=Says("40 MB are needed.")), Issuer(KEYS))).claims[0].blocked is None


def test_a_chunk_that_begins_with_a_heading_begins_whole() -> None:
    text = "## Refunds\n\nRefunds are paid within ten days. A receipt is needed."
    found = Retrieval("lexical", 5, (Item("d:1", "d", "d.md", 100, 100 + len(text), text, 1.0),), (SearchedIndex(None),))
    verdict = judged(answer(QUESTION, lambda _question: found, offline(generator=Says("Refunds are paid within ten days.")), Issuer(KEYS)))
    assert [claim.blocked for claim in verdict.claims] == [None]


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 1e9, -1e30])
def test_a_score_that_no_certificate_can_hold_is_refused(number: float) -> None:
    with pytest.raises(Failure) as caught:
        score(number)
    assert caught.value.error.code == "certificate_invalid"
    assert share(number) in ("0.000000", "1.000000")


@pytest.mark.parametrize(("number", "written"), [
    (9.64e-7, "0.000000964"), (-9e-8, "-0.000000090"), (1e-9, "0.000000001"), (4e-10, "0.000000000"), (-4e-10, "0.000000000"), (0.0, "0.000000000"),
    (999_999_999.5, "999999999.500000000"), (12.5, "12.500000000")])
def test_scores_are_written_without_exponents(number: float, written: str) -> None:
    assert score(number) == written


def test_numbers_are_written_in_one_way() -> None:
    assert [share(number) for number in (0.0, -0.0, 1.0, 0.5, -3.0, 7.5, 1 / 3, 0.9999999)] == [
        "0.000000", "0.000000", "1.000000", "0.500000", "0.000000", "1.000000", "0.333333", "1.000000"]
    assert [score(number) for number in (0.0, -0.0, -1e-12, 2.5, -1.25, 123456789.1, math.nextafter(1.0, 2.0))] == [
        "0.000000000", "0.000000000", "0.000000000", "2.500000000", "-1.250000000", "123456789.099999994", "1.000000000"]
