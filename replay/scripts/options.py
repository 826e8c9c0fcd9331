"""What a session can be told: what its run is called, how to record it, how to replay it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from replay.errors import ReplayError
from replay.jsontext import checked
from replay.matching import MATCHINGS, Matching
from replay.scripts.substitute import Leftover
from replay.tracefile.writer import WriterOptions, now_ms

TracePath: TypeAlias = "str | os.PathLike[str]"



@dataclass(frozen=True, slots=True)
class Run:
    """What a run is called: agent and arguments, compared on replay."""

    agent: str = "main"
    args: Sequence[Any] = ()

    def __post_init__(self) -> None:
        """Refuse arguments that are no JSON."""
        checked(list(self.args))


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """How to record.

    Arguments and results longer than `body_bytes` go to files beside the trace. `fsync` waits for the disk at each event.
    `on_error`: "report" warns once when an event cannot be written and lets the program go on; "stop" raises. `seal_key` (an
    Ed25519 private key, or the path of its PEM file) seals the end. `clock_ms` and `entropy` are where times and ids come from.
    """

    body_bytes: int = WriterOptions().body_bytes
    fsync: bool = False
    on_error: Literal["report", "stop"] = "report"
    seal_key: Any = None
    clock_ms: Callable[[], int] = field(default=now_ms)
    entropy: Callable[[int], bytes] = field(default=os.urandom)


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to replay.

    `matching` is "ordered" or "keyed". `leftover`: whether recorded calls that nobody asked for are an "error" or only to be
    seen in `session.unused` ("report"). `incomplete` replays a run that never came to its end as far as it goes. `verify`
    checks the hash chain first. `allow_network` lets sockets out of the quarantine.
    """

    matching: Matching = "ordered"
    leftover: Leftover = "error"
    incomplete: bool = False
    verify: bool = True
    allow_network: bool = False

    def __post_init__(self) -> None:
        """Refuse words that mean nothing."""
        if self.matching not in MATCHINGS:
            raise ReplayError(f"matching is {self.matching!r}, not one of {', '.join(MATCHINGS)}")
        if self.leftover not in ("error", "report"):
            raise ReplayError(f"leftover is {self.leftover!r}, not one of error, report")
