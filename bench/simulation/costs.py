"""What is measured here and now, by the library's own code: sizes of what is sent, and the time of judging, merging, filters and summaries."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from rag_stdlib.contract import signedobject
from rag_stdlib.contract.nodekeys import NodeKey, Profile
from rag_stdlib.mesh.federation import bloom
from rag_stdlib.mesh.federation.bloom import Bloom
from rag_stdlib.mesh.federation.clock import SystemClock
from rag_stdlib.mesh.federation.directory import Directory
from rag_stdlib.mesh.federation.judging import Answered, judged
from rag_stdlib.mesh.federation.merging import AS_ONE, merge
from rag_stdlib.mesh.federation.payloads import Summary
from simulation.answers import EMBEDDING, TOP_K, size
from simulation.model import Sizes
from simulation.nodes import Shard

TOPICS: Final = 20  # of a shard
TERMS: Final = 2_000  # in its filter, as an index that is served has them

_ID: Final = 32
_RUNS: Final = 5


@dataclass(frozen=True)
class Judging:
    """Seconds for each hit that is judged and merged."""

    judge_hit_s: float
    merge_hit_s: float


@cache
def sizes(profile: Profile) -> Sizes:
    """Sign one object of each kind, with the fields that the mesh has it carry, and count the bytes."""
    key = _key(profile)
    node, realm, now = secrets.token_bytes(_ID), secrets.token_bytes(_ID), time.time_ns() // 1_000_000

    def signed(label: str, **fields: object) -> bytes:
        return signedobject.sign(label, fields, key)

    def record(kind: int, **payload: object) -> bytes:
        return signed("MACULA-PQ-RECORD-V1", type=kind, version=secrets.token_bytes(16), created_at=now, expires_at=now + 300_000,
                      payload=payload, schema=1, lifetime_class=0)

    call = {"request_id": secrets.token_bytes(16), "payload": None}
    procedure = "acme/rag.query_shard_v1"
    authorization = {"org_directory": record(0x15, realm_id=realm, org_name="acme", org_key=node),
                     "procedure_delegation": record(0x16, org_key=node, advertiser=node)}
    return Sizes(
        len(signed("MACULA-PQ-REQUEST-V1", frame_type="call", caller=node, realm=realm, procedure=procedure, target=node, deadline=now, **call)),
        len(signed("MACULA-PQ-REPLY-V1", frame_type="result", request_hash=secrets.token_bytes(48), responded_by=node, **call)),
        len(record(0x06, realm_id=realm, procedure=procedure, advertiser_node=node, serving_stations=[node], authorization=authorization)),
        len(signed("MACULA-PQ-PUBLICATION-V1", publisher=node, realm=realm, topic="io.example/acme/rag/shard/shard_summarized_v1", seq=1,
                   published_at=now, ttl_ms=180_000, payload=None)))


@cache
def _key(profile: Profile) -> NodeKey:
    return NodeKey.generate(profile, puzzle_bits=0)


@cache
def checking_s(profile: Profile) -> float:
    """Time the check of one signature."""
    signed = signedobject.sign("MACULA-PQ-PUBLICATION-V1", {"payload": bytes(2_600)}, _key(profile))
    return median(lambda: [signedobject.verify("MACULA-PQ-PUBLICATION-V1", signed, profile) for _ in range(20)]) / 20


def judging(shards: Sequence[Shard]) -> Judging:
    """Time the judgement of answers, and the merge of all of them."""
    answers = [(shard.node_id, shard.vector_answer) for shard in shards]
    took = median(lambda: [judged(node, answer, EMBEDDING, 0.0) for node, answer in answers])
    outcomes = [outcome for node, answer in answers if isinstance(outcome := judged(node, answer, EMBEDDING, 0.0), Answered)]
    hits = len(outcomes) * TOP_K
    return Judging(took / hits, median(lambda: merge(outcomes, TOP_K, AS_ONE)) / hits)


@dataclass(frozen=True)
class Rate:
    """A filter of so many topics and terms: its bytes, and how often it takes what is not in it for held."""

    topics: int
    terms: int
    size: int
    expected: float
    measured: float


def rate(topics: int, terms: int, probes: int = 20_000) -> Rate:
    """Build a filter, and probe it."""
    held = [f"topic {number}" for number in range(topics)]
    built = Bloom.of(held, [f"term{number}" for number in range(terms)])
    return Rate(topics, terms, len(built.to_bytes()), built.expected_rate, bloom.measured_rate(built, held, "topic", probes))


@dataclass(frozen=True)
class Summaries:
    """A summary's bytes and those of its filter, and the seconds to take one in and to look a topic up in a filter."""

    size: int
    filter_size: int
    hear_s: float
    look_s: float


def summaries() -> Summaries:
    """Measure a summary of 20 topics."""
    topics = tuple(f"topic {number}" for number in range(TOPICS))
    filter_bytes = Bloom.of(topics, [f"term{number}" for number in range(TERMS)]).to_bytes()
    payload = Summary("shard-00000", EMBEDDING, topics, filter_bytes, time.time_ns() // 1_000_000).payload()
    directory = Directory(SystemClock(), 180.0)

    def hear_all() -> None:
        for number in range(500):
            directory.hear_summary(f"{number:064x}", payload)

    hear = median(hear_all) / 500
    look = median(lambda: [bloom.rules_out(filter_bytes, ["another topic"]) for _ in range(500)]) / 500
    return Summaries(size(payload), len(filter_bytes), hear, look)


def median(work: Callable[[], object]) -> float:
    """Return the median seconds of a few runs, by the processor's time."""
    times = []
    for _ in range(_RUNS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)
