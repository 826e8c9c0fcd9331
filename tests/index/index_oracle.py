"""Plain second implementations, and a small corpus, to hold the index against."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

WORDS = ["refund", "order", "invoice", "courier", "parcel", "customs", "return", "window", "warehouse", "label", "carrier", "signature", "damage", "claim", "policy", "voucher", "credit", "balance", "ledger", "account", "billing", "cycle", "renewal", "trial", "upgrade", "seat", "license", "export", "import", "archive", "backup", "restore", "snapshot", "cluster", "shard", "replica", "quorum", "leader", "follower", "ballot", "vote", "election", "timeout", "retry"]


def corpus(count: int, seed: int = 1) -> list[tuple[str, str, str]]:
    """Make (doc_id, source, text); every fifth text repeats the one before it, so that scores tie."""
    rng = random.Random(seed)
    documents: list[tuple[str, str, str]] = []
    for number in range(count):
        sentences = [" ".join(rng.choices(WORDS, k=rng.randint(4, 12))).capitalize() + "." for _ in range(rng.randint(1, 9))]
        text = documents[-1][2] if number % 5 == 4 else " ".join(sentences)
        documents.append((f"doc-{rng.randrange(16**6):06x}-{number}", f"src/{number % 3}", text))
    return documents


def queries(count: int, seed: int = 2) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices([*WORDS, "unknownword", "zzz"], k=rng.randint(1, 4))) for _ in range(count)]


def bm25(documents: Mapping[int, Sequence[str]], terms: Sequence[str]) -> dict[int, float]:
    """Okapi BM25 as FTS5 documents it: k1 1.2, b 0.75, idf not below 1e-6; only documents that hold a term."""
    total = len(documents)
    average = sum(len(words) for words in documents.values()) / total
    found: dict[int, float] = {}
    for term in terms:
        holders = {key: Counter(words)[term] for key, words in documents.items() if term in words}
        idf = max(math.log((total - len(holders) + 0.5) / (len(holders) + 0.5)) if holders else 0.0, 1e-6)
        for key, frequency in holders.items():
            length = len(documents[key]) / average
            gain = idf * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length))
            found[key] = found.get(key, 0.0) + gain
    return found


def cosines(rows: npt.NDArray[np.float32], query: npt.NDArray[np.float32]) -> list[float]:
    """Float64 dot products, one exact sum each, rounded as documented."""
    wide = query.astype(float).tolist()
    return [round(min(1.0, max(-1.0, math.fsum(a * b for a, b in zip(row, wide, strict=True)))), 9)
            for row in rows.astype(float).tolist()]


def coded_cosines(rows: npt.NDArray[np.float32], query: npt.NDArray[np.float32]) -> list[float]:
    """Dot products of the 8-bit codes: what the hybrid score's mean and deviation are taken over."""
    def code(vector: npt.NDArray[np.float32]) -> tuple[list[int], float]:
        scale = np.float32(np.abs(vector).max() / np.float32(127)) or np.float32(1)
        return [round(float(value)) for value in (vector / scale).tolist()], float(scale)

    asked, unit = code(query)
    result = []
    for row in rows:
        levels, scale = code(row)
        result.append(sum(a * b for a, b in zip(levels, asked, strict=True)) * scale * unit)
    return result


def standardised(scores: Sequence[float], sample: Sequence[float]) -> list[float]:
    """(score - mean) / population deviation, both of `sample`; nothing where all of it is equal."""
    mean = math.fsum(sample) / len(sample)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in sample) / len(sample))
    return [(score - mean) / deviation for score in scores] if deviation > 1e-9 else [0.0] * len(scores)
