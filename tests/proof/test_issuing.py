"""Issuing: what is signed is verified, kept and logged, in this order, and what goes wrong on the way."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from answering_parts import KEYS, ORIGIN, QUESTION, from_index, judged, offline
from certified import as_bytes

import replay
from rag_stdlib.errors import Failure, fail
from rag_stdlib.proof.issuerkeys import IssuerKey, IssuerKeys
from rag_stdlib.proof.issuing import Issuer, LogFile, NotHeld, answer
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.logkeys import WITNESS_KINDS, LogKeys, load_keys, new_keys, retire, rotate
from rag_stdlib.proof.log.notes import NoteSigner
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.log.witness import Witness
from rag_stdlib.proof.log.witnessclient import WitnessClient
from rag_stdlib.proof.log.witnesshttp import WitnessServer
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.trust import Issuer as Trusted
from rag_stdlib.proof.trust import Trust
from rag_stdlib.proof.verdicts import Verified
from rag_stdlib.proof.verify import verify

pytestmark = pytest.mark.usefixtures("runtime")


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
