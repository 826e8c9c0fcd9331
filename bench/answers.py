"""What an answer with a certificate costs: making it offline, verifying it, and what the pieces of that are.

Medians of one run on one machine. Run it on an idle machine: ``make bench`` or ``python bench/answers.py``.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from measure import Report, median_seconds

from rag_stdlib import Config, Runtime, rag_ingest
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.proof.certificate import to_bytes
from rag_stdlib.proof.generators.extractive import ExtractiveGenerator
from rag_stdlib.proof.issuerkeys import new_issuer_keys
from rag_stdlib.proof.issuing import Issuer, LogFile, answer
from rag_stdlib.proof.judges import make_judge
from rag_stdlib.proof.log.logkeys import new_keys
from rag_stdlib.proof.log.notes import NoteSigner
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.pipeline import Pipeline
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.retrieving import retrieve
from rag_stdlib.proof.trust import Issuer as Trusted
from rag_stdlib.proof.trust import Trust
from rag_stdlib.proof.verify import verify

INDEX, ORIGIN, CLAIMS = "bench.db", "log.example/bench", 6
SUBJECTS = ("Refunds", "Returns", "Exchanges", "Repairs", "Deliveries", "Vouchers", "Receipts", "Warranties")
TEXT = "\n\n".join(f"{subject} of goods are settled within {number + 3} working days. They need a form." for number, subject in enumerate(SUBJECTS))
QUESTION = "Within how many working days are goods settled?"


def made(folder: Path, node_key: NodeKey | None = None) -> tuple[dict[str, Any], Trust, float]:
    """Answer with a certificate, and return it, what to trust, and how many seconds it takes."""
    keys = new_issuer_keys(folder / "issuer", "bench", datetime.now(timezone.utc))
    log_keys = new_keys(folder / "log.keys", ORIGIN)
    witness = NoteSigner("witness.example/bench", bytes(32), 4)
    pipeline = Pipeline(ExtractiveGenerator(most=CLAIMS), make_judge("quotation"), spans=3)
    Log.create(folder / "log.db", log_keys, synchronous="normal").close()
    with LogFile(folder / "log.db", log_keys, synchronous="normal") as log, Runtime(Config(), root=folder, embedder=HashingEmbedder(384)):
        rag_ingest(INDEX, "terms", "terms.md", TEXT, 200).unwrap()
        issuer = Issuer(keys, log, node_key)
        envelope = answer(QUESTION, lambda question: retrieve(INDEX, question, 10), pipeline, issuer)
        took = median_seconds(lambda: answer(QUESTION, lambda question: retrieve(INDEX, question, 10), pipeline, issuer), runs=20)
    trust = Trust.of([Trusted("bench", keys.signing.public)], {ORIGIN: log_keys.signing}, [witness.verifier], 0)
    return envelope, trust, took


def main() -> int:
    """Measure everything; exit 1 if a bound is missed."""
    report = Report()
    for name, node_key, most in (("Ed25519", None, 1.5), ("Ed25519 and a pq_pure node", NodeKey.generate("pq_pure", puzzle_bits=0), None)):
        with tempfile.TemporaryDirectory() as folder:
            envelope, trust, took = made(Path(folder), node_key)
        data, now = to_bytes(envelope), datetime.now(timezone.utc)
        verdict = verify(data, trust, Policy(), QUESTION, now=now)
        assert verdict, verdict
        assert len(envelope["certificate"]["claims"]) == CLAIMS, len(envelope["certificate"]["claims"])
        seconds = median_seconds(lambda d=data, t=trust, n=now: verify(d, t, Policy(), QUESTION, now=n), runs=300)
        report.add(f"verify, {CLAIMS} claims, {name}, receipt and question", seconds * 1e3, "ms", most=most,
                   beside=f"{len(data):,} bytes, {len(envelope['certificate']['retrieval']['items'])} items")
        report.add(f"answer offline, certified and logged, {name}", took * 1e3, "ms")
    report.show()
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
