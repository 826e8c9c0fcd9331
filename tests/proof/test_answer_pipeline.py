"""From a question to a certificate that verifies, offline, and again from a trace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from certified import as_bytes

import replay
from rag_stdlib import Config, Runtime, SourceDocument, rag_delete, rag_ingest_document
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.effects import grant
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.errors import Failure, fail
from rag_stdlib.proof import retrieving
from rag_stdlib.proof.certificate import Item, Retrieval, SearchedIndex, score, share
from rag_stdlib.proof.generators import make_generator
from rag_stdlib.proof.generators.protocol import GeneratorIdentity
from rag_stdlib.proof.issuerkeys import IssuerKey, IssuerKeys
from rag_stdlib.proof.issuing import Issuer, LogFile, NotHeld, answer
from rag_stdlib.proof.judges import Judgement, make_judge
from rag_stdlib.proof.judges.protocol import JudgeIdentity
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.logkeys import WITNESS_KINDS, LogKeys, load_keys, new_keys, retire, rotate
from rag_stdlib.proof.log.notes import NoteSigner
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.log.witness import Witness
from rag_stdlib.proof.log.witnessclient import WitnessClient
from rag_stdlib.proof.log.witnesshttp import WitnessServer
from rag_stdlib.proof.pipeline import Pipeline
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.retrieving import retrieve, still_stored
from rag_stdlib.proof.trust import Issuer as Trusted
from rag_stdlib.proof.trust import Trust
from rag_stdlib.proof.verdicts import Verified
from rag_stdlib.proof.verify import verify
from rag_stdlib.result import Ok

QUESTION = "When are refunds paid?"
POLICY = """# Refunds

Refunds are paid within ten days of the return. A receipt is needed for every refund.

# Shipping

Goods are shipped on the next working day. Shipping is free above 50 euros.
"""
KEYS = IssuerKeys("acme", (IssuerKey(bytes(range(32)), "2020-01-01T00:00:00Z"),))
DIM = 64
ORIGIN = "log.example/answers"

pytestmark = pytest.mark.usefixtures("runtime")


class Says:
    """A generator that says one thing whatever it is asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[str] = []

    @property
    def identity(self) -> GeneratorIdentity:
        return GeneratorIdentity("says", "a model", "a" * 64)

    def generate(self, question: str, texts: Sequence[str]) -> str:
        self.asked.append(question)
        assert texts
        return self.text


class Believes:
    """A judge that believes everything."""

    def __init__(self, label: Any = "entailed", confidence: str = "0.900000") -> None:
        self.label, self.confidence = label, confidence

    @property
    def identity(self) -> JudgeIdentity:
        return JudgeIdentity("believes", "1", "b" * 64)

    def judge(self, _claim: str, _spans: Sequence[str]) -> Judgement:
        return Judgement(self.label, self.confidence, "")


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime(Config(), root=tmp_path, embedder=HashingEmbedder(DIM)) as made:
        assert isinstance(rag_ingest_document("a.db", SourceDocument("policy", "policy.md", POLICY), 120), Ok)
        yield made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogFile]:
    keys = new_keys(tmp_path / "log.keys", ORIGIN)
    Log.create(tmp_path / "log.db", keys, synchronous="normal").close()
    with LogFile(tmp_path / "log.db", keys, synchronous="normal") as made:
        yield made


def offline(**changes: Any) -> Pipeline:
    return Pipeline(**{"generator": make_generator(), "judge": make_judge("quotation"), **changes})


def from_index(question: str) -> Retrieval:
    return retrieve("a.db", question, 5)


def judged(envelope: dict[str, Any], *, logs: dict[str, Any] | None = None, query: str = QUESTION, **policy: Any) -> Any:
    trust = Trust.of([Trusted("acme", KEYS.signing.public)], logs)
    return verify(as_bytes(envelope), trust, Policy(require_log=logs is not None, **policy), query, now=datetime.now(timezone.utc))


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


class TestLogging:
    """A log that certificates go into, and what goes wrong with it."""

    def test_it_is_opened_when_the_first_entry_comes_and_again_after_its_end(self, log: LogFile, tmp_path: Path) -> None:
        away = tmp_path / "away.db"
        (tmp_path / "log.db").rename(away)
        issuer = Issuer(KEYS, log)
        with pytest.raises(LogError) as caught:
            answer(QUESTION, from_index, offline(), issuer)
        assert caught.value.code == "missing"
        away.rename(tmp_path / "log.db")
        assert [receipt_of(answer(QUESTION, from_index, offline(), issuer)).index for _ in range(2)] == [0, 1]
        log.close()
        log.close()
        assert receipt_of(answer(QUESTION, from_index, offline(), issuer)).index == 2

    def test_what_is_kept_is_verified_and_not_logged_yet_and_then_has_its_receipt(self, log: LogFile) -> None:
        kept: list[tuple[dict[str, Any], int]] = []
        envelope = answer(QUESTION, from_index, offline(), Issuer(KEYS, log), keep=lambda one: kept.append((dict(one), log.open().size)))
        (first, before), (second, after) = kept
        assert (before, after, second) == (0, 1, envelope)
        assert first == {name: part for name, part in envelope.items() if name != "receipt"}
        assert judged(first)
        assert judged(second, logs={ORIGIN: log.trusted}).logged.index == 0
        kept.clear()
        assert answer(QUESTION, from_index, offline(), Issuer(KEYS), keep=lambda one: kept.append((dict(one), 0))) == kept[0][0]
        assert len(kept) == 1

    def test_what_cannot_be_kept_is_not_logged(self, log: LogFile) -> None:
        def full(_envelope: Any) -> None:
            raise OSError("the disk is full")

        with pytest.raises(OSError, match="the disk is full"):
            answer(QUESTION, from_index, offline(), Issuer(KEYS, log), keep=full)
        assert log.open().size == 0

    @pytest.mark.parametrize(("keys", "code"), [
        (IssuerKeys("acme", (IssuerKey(bytes(range(32)), "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"),)), "key_not_valid"),
        (IssuerKeys("acme", (IssuerKey(bytes(range(32)), "9020-01-01T00:00:00Z"),)), "key_not_valid")])
    def test_a_key_that_may_not_issue_now_logs_nothing(self, log: LogFile, keys: IssuerKeys, code: str) -> None:
        kept: list[Any] = []
        with pytest.raises(NotHeld, match="what is to be certified is no certificate at /issued_at") as caught:
            answer(QUESTION, from_index, offline(), Issuer(keys, log), keep=kept.append)
        assert (caught.value.error.code, caught.value.code, kept, log.open().size) == ("certificate_invalid", code, [], 0)

    def test_keys_that_nobody_can_trust_together_are_refused_before_anything_is_asked(self, log: LogFile, tmp_path: Path) -> None:
        same = LogKeys(ORIGIN, (NoteSigner(ORIGIN, bytes(range(32)), 1),))
        for keys in (same, LogKeys(ORIGIN, (NoteSigner(ORIGIN, bytes(32), 4),))):
            with pytest.raises(ProofError, match=f"nobody can trust the keys of acme and {ORIGIN} together: ") as caught:
                Issuer(KEYS, LogFile(tmp_path / "log.db", keys))
            assert caught.value.code == "keys_unfit"
        assert log.open().size == 0

    def test_a_receipt_of_another_entry_is_not_passed_on(self, log: LogFile) -> None:
        class Wrong:
            """A log that gives somebody else's receipt."""

            origin, trusted = log.origin, log.trusted

            def append(self, entry: bytes) -> Receipt:
                return log.append(entry[::-1])

        kept: list[Any] = []
        with pytest.raises(NotHeld) as caught:
            answer(QUESTION, from_index, offline(), Issuer(KEYS, Wrong()), keep=kept.append)
        assert (caught.value.code, len(kept), "receipt" in kept[0]) == ("inclusion", 1, False)

    def test_receipts_are_cosigned_on_their_way_by_those_who_do(self, log: LogFile, tmp_path: Path) -> None:
        keys = new_keys(tmp_path / "witness.keys", "witness.example/w1", WITNESS_KINDS)
        Witness.create(tmp_path / "witness.db", "witness.example/w1")
        with Witness(tmp_path / "witness.db", keys, [PinnedLog(ORIGIN, tuple(log.trusted))]) as witness, WitnessServer(witness) as server:
            server.start()
            with WitnessClient(server.url, keys.signing) as client, LogFile(tmp_path / "log.db", load_keys(tmp_path / "log.keys"), client.cosign) as watched:
                envelope = answer(QUESTION, from_index, offline(), Issuer(KEYS, watched))
        trust = Trust.of([Trusted("acme", KEYS.signing.public)], {ORIGIN: log.trusted}, keys.signing, 1)
        verdict = verify(as_bytes(envelope), trust, Policy(), QUESTION, now=datetime.now(timezone.utc))
        assert isinstance(verdict, Verified)
        assert verdict.logged is not None
        assert [name for name, _ in verdict.logged.witnesses] == ["witness.example/w1"]
        with LogFile(tmp_path / "log.db", load_keys(tmp_path / "log.keys"), lambda _log: None) as alone:
            assert receipt_of(answer(QUESTION, from_index, offline(), Issuer(KEYS, alone))).index == 1

    def test_a_recorded_run_replays_without_its_log_and_after_an_exchange_of_its_keys(self, log: LogFile, tmp_path: Path) -> None:
        with replay.record(str(tmp_path / "run.jsonl")):
            first = answer(QUESTION, from_index, offline(), Issuer(KEYS, log))
        log.close()
        (tmp_path / "log.db").unlink()
        (old, _) = rotate(tmp_path / "log.keys").signing
        keys = retire(tmp_path / "log.keys", old.key_id.hex())
        with replay.substitute(str(tmp_path / "run.jsonl")):
            again = answer(QUESTION, from_index, offline(), Issuer(KEYS, LogFile(tmp_path / "log.db", keys)))
        assert as_bytes(again) == as_bytes(first)
        assert not (tmp_path / "log.db").exists()

    def test_a_recorded_failure_of_the_log_is_the_same_in_a_replay(self, log: LogFile, tmp_path: Path) -> None:
        away = tmp_path / "away.db"
        (tmp_path / "log.db").rename(away)
        with replay.record(str(tmp_path / "run.jsonl")), pytest.raises(LogError) as first:
            answer(QUESTION, from_index, offline(), Issuer(KEYS, log))
        away.rename(tmp_path / "log.db")
        with replay.substitute(str(tmp_path / "run.jsonl")), pytest.raises(LogError) as again:
            answer(QUESTION, from_index, offline(), Issuer(KEYS, log))
        assert (first.value.code, log.open().size) == ("missing", 0)
        assert (again.value.code, again.value.words) == (first.value.code, first.value.words)

    def test_a_failure_that_is_none_of_the_log_stays_what_it_is(self, log: LogFile, tmp_path: Path) -> None:
        def failing(_log: Log) -> bytes:
            raise fail("invalid_limit")

        with LogFile(tmp_path / "log.db", load_keys(tmp_path / "log.keys"), failing) as watched, pytest.raises(Failure) as caught:
            answer(QUESTION, from_index, offline(), Issuer(KEYS, watched))
        assert (caught.value.error.code, log.open().size) == ("invalid_limit", 1)


def receipt_of(envelope: dict[str, Any]) -> Receipt:
    return Receipt.parse(envelope["receipt"].encode())


def test_a_nonce_that_is_none_is_refused_before_anything_is_logged(log: LogFile) -> None:
    with pytest.raises(Failure, match="/query/nonce") as caught:
        answer(QUESTION, from_index, offline(), Issuer(KEYS, log), nonce="short")
    assert (caught.value.error.code, log.open().size) == ("certificate_invalid", 0)


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


