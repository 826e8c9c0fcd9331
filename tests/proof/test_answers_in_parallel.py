"""Many answers at once into one log: each gets its receipt, and whoever reads the log waits for none of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from certified import as_bytes

from rag_stdlib import Config, Runtime, carry, rag_ingest
from rag_stdlib.proof.generators import make_generator
from rag_stdlib.proof.issuerkeys import load_issuer_keys, new_issuer_keys
from rag_stdlib.proof.issuing import Issuer, LogFile, answer
from rag_stdlib.proof.judges import make_judge
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.logkeys import load_keys, new_keys
from rag_stdlib.proof.log.notes import Note
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.pipeline import Pipeline
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.retrieving import retrieve
from rag_stdlib.proof.trust import Trust
from rag_stdlib.proof.verify import verify
from rag_stdlib.result import Ok

ANSWERS = 16
QUESTION = "When are refunds paid?"
NOW = datetime.now(timezone.utc)


def made(root: Path) -> tuple[Issuer, Pipeline, Trust]:
    """Issue by the keys on disk, into the log on disk."""
    issuer, log_keys = load_issuer_keys(root / "issuer"), load_keys(root / "log.keys")
    trust = Trust.from_json({"issuers": issuer.trusted(), "logs": [{"origin": "log.example/a", "keys": [key.text() for key in log_keys.signing]}]})
    return Issuer(issuer, LogFile(root / "log.db", log_keys, synchronous="normal")), Pipeline(make_generator(), make_judge("quotation")), trust


def test_sixteen_answers_at_once_are_logged_and_a_reader_waits_for_none(tmp_path: Path) -> None:
    new_issuer_keys(tmp_path / "issuer", "acme", NOW)
    Log.create(tmp_path / "log.db", new_keys(tmp_path / "log.keys", "log.example/a"), synchronous="normal").close()
    issuer, pipeline, trust = made(tmp_path)
    with Runtime(Config(), root=tmp_path):
        assert isinstance(rag_ingest("a.db", "policy", "policy.md", "Refunds are paid within ten days of the return. A receipt is needed.", 200), Ok)

        def asked(_number: int) -> dict[str, Any]:
            return answer(QUESTION, lambda question: retrieve("a.db", question, 5), pipeline, issuer)

        done, sizes = threading.Event(), []

        def reading() -> None:
            with Log(tmp_path / "log.db") as reader:
                while not done.is_set():
                    sizes.append(Checkpoint.parse(Note.parse(reader.checkpoint()).text).size)

        with ThreadPoolExecutor(ANSWERS + 1) as pool:
            watching = pool.submit(reading)
            envelopes = list(pool.map(carry(asked), [0]))
            envelopes += [future.result() for future in [pool.submit(carry(asked), number) for number in range(ANSWERS)]]
            done.set()
            watching.result()
    assert sizes == sorted(sizes)
    assert len(sizes) > ANSWERS
    verdicts = [verify(as_bytes(envelope), trust, Policy(), QUESTION, now=datetime.now(timezone.utc)) for envelope in envelopes]
    assert all(verdicts), verdicts
    assert sorted(verdict.logged.index for verdict in verdicts if verdict and verdict.logged) == list(range(ANSWERS + 1))


def test_a_checkpoint_is_read_while_an_append_holds_the_log(tmp_path: Path) -> None:
    keys = new_keys(tmp_path / "log.keys", "log.example/a")
    held, go = threading.Event(), threading.Event()

    def entries() -> Any:
        yield b"first"
        held.set()
        assert go.wait(30)
        yield b"second"

    with Log.create(tmp_path / "log.db", keys, synchronous="normal") as log, Log(tmp_path / "log.db") as reader, ThreadPoolExecutor(1) as pool:
        appending = pool.submit(log.append_many, entries())
        assert held.wait(30)
        assert Checkpoint.parse(Note.parse(reader.checkpoint()).text).size == 0
        go.set()
        assert appending.result().positions == range(2)
        assert Checkpoint.parse(Note.parse(reader.checkpoint()).text).size == 2


def test_keys_and_log_go_on_after_a_restart(tmp_path: Path) -> None:
    new_issuer_keys(tmp_path / "issuer", "acme", NOW)
    Log.create(tmp_path / "log.db", new_keys(tmp_path / "log.keys", "log.example/a"), synchronous="normal").close()
    found = []
    with Runtime(Config(), root=tmp_path):
        assert isinstance(rag_ingest("a.db", "policy", "policy.md", "Refunds are paid within ten days of the return.", 200), Ok)
        for _ in range(3):
            issuer, pipeline, trust = made(tmp_path)
            found.append(answer(QUESTION, lambda question: retrieve("a.db", question, 5), pipeline, issuer))
            assert isinstance(issuer.log, LogFile)
            issuer.log.close()
    verdicts = [verify(as_bytes(envelope), trust, Policy(), QUESTION, now=datetime.now(timezone.utc)) for envelope in found]
    assert [verdict.logged.index for verdict in verdicts if verdict and verdict.logged] == [0, 1, 2]
