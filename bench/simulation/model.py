"""What the simulation takes for granted: how long calls take, and what they cost the processors of either side.

The first kind is made up, and the same on every machine. A call's way there and back is log-normal with a median of 30 ms (sigma 0.6: one
in twenty takes more than 80 ms); one in a hundred is held up on top of that, by a Pareto tail of at least 100 ms (alpha 1.5: one in a
thousand calls by half a second). Of the shards, 2 % are slow, eight times as long in their own part, and 1 % are listed and never answer. A
search takes what one of 100,000 chunks takes here, log-normal too (sigma 0.3).

The second kind was measured by ``bench/mesh.py`` on real macula-py nodes (`docs/measurements.md`): the processor time of a call on the side
that asks and on the one that answers, and of each provider in a listing, whose advertisement comes with two records of the realm that are all
checked. Nearly all of it is signing and checking; in the profile pq_hybrid, RSA beside ML-DSA.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rag_stdlib.contract.nodekeys import Profile
from rag_stdlib.records import Mode

SEED: Final = 20_261_101


@dataclass(frozen=True)
class Costs:
    """Seconds of a processor."""

    send_s: float  # before a call is sent
    receive_s: float  # after its reply has come
    loop_s: float  # and then in the event loop, which is one thread
    answer_s: float  # of who answers it
    listed_s: float  # for each provider in a listing
    judge_hit_s: float = 0.0  # in the event loop
    merge_hit_s: float = 0.0  # in the event loop

    @property
    def call_s(self) -> float:
        """What a call costs who makes it."""
        return self.send_s + self.receive_s + self.loop_s


@dataclass(frozen=True)
class Sizes:
    """Bytes of what is signed, beside the payload; `record` is a provider's advertisement with the realm's two records that come with it."""

    request: int
    reply: int
    record: int
    publication: int


CALLS: Final[Mapping[Profile, Costs]] = {
    "pq_pure": Costs(0.0021, 0.0010, 0.0008, 0.0036, 0.0015),
    "pq_hybrid": Costs(0.0115, 0.0052, 0.0008, 0.0160, 0.0020),
}
SEARCH_S: Final[Mapping[tuple[Mode, str], float]] = {
    ("vector", "hits"): 0.0055, ("lexical", "count"): 0.0005, ("lexical", "hits"): 0.0010,
    ("hybrid", "count"): 0.0055, ("hybrid", "words"): 0.0010, ("hybrid", "hits"): 0.0060,
}


@dataclass(frozen=True)
class Latencies:
    """Of calls and of shards; see above."""

    median_s: float = 0.030
    sigma: float = 0.6
    held_up: float = 0.01
    held_up_s: float = 0.1
    alpha: float = 1.5
    search_sigma: float = 0.3
    slow: float = 0.02
    slow_factor: float = 8.0
    dead: float = 0.01

    def way(self, draw: random.Random) -> float:
        """Draw the seconds of a call's way there and back."""
        seconds = draw.lognormvariate(0.0, self.sigma) * self.median_s
        return seconds + self.held_up_s * draw.paretovariate(self.alpha) if draw.random() < self.held_up else seconds

    def search(self, mode: Mode, kind: str, draw: random.Random) -> float:
        """Draw the seconds of a shard's part in a round."""
        return SEARCH_S[mode, kind] * draw.lognormvariate(0.0, self.search_sigma)
