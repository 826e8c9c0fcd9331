"""Checking a trace: does every line hold, is the run complete, and who vouches for it.

One streaming pass names the first line that does not hold. The chain shows damage, not forgery: whoever rewrites a whole file can chain it anew.
A seal under a key that the reader has from elsewhere shows forgery too; without the key a seal is reported as unchecked, never as valid.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from replay.errors import TraceError
from replay.tracefile import chain
from replay.tracefile.bodies import check_bodies
from replay.tracefile.events import SEED_PURPOSE
from replay.tracefile.reader import Event, EventReader

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SealState: TypeAlias = Literal["none", "valid", "invalid", "unchecked"]

# What the file holds is at fault. Any other error says that nothing can be told about it.
_FINDINGS: Final = {"trace_line", "trace_large", "trace_tampered", "trace_body"}
_PRELUDE: Final = ("schema_header", "seed_read", "run_started")


@dataclass(slots=True)
class Verdict:
    """What a check found.

    `ok`: every line that is there holds, and so does the seal where a key was given. `complete`: the run came to its end; an `ok` trace that is
    not complete is the intact front of one, cut off at `line`. `chained`: there is a hash chain; without one nothing was
    checked, so that `ok` is False with no `line`. `events` counts those that hold, `head` is the digest of the last of them.
    `line` is the first line (from 1) that does not hold or is missing, and `problem` says why.
    """

    ok: bool
    complete: bool
    chained: bool
    seal: SealState
    key_id: str
    events: int
    line: int | None
    problem: str
    head: str
    notices: list[str] = field(default_factory=list)


def verify_trace(path: str | os.PathLike[str], public_key: Ed25519PublicKey | None = None) -> Verdict:
    """Check a trace in one pass, in bounded memory. With a key, a missing seal does not hold either.

    Raises:
        TraceError: trace_missing, trace_empty, trace_version, trace_io: nothing can be said about the file.
    """
    return _Check(str(Path(path).absolute()), public_key).run()


class _Check:
    """One pass over a trace."""

    def __init__(self, path: str, public_key: Ed25519PublicKey | None) -> None:
        self._path = path
        self._key = public_key
        self._reader = EventReader(path, chain="check", bodies="leave")
        self._last_line = 0
        self._verdict = Verdict(ok=False, complete=False, chained=False, seal="none", key_id="", events=0, line=None, problem="", head="")

    def run(self) -> Verdict:
        verdict = self._verdict
        try:
            for event in self._reader:
                self._take(event)
            self._end()
        except TraceError as error:
            if error.code not in _FINDINGS:
                raise
            verdict.line = error.line
            verdict.problem = str(error)
            verdict.complete = verdict.complete and verdict.seal == "invalid"  # the run is; who vouches for it is another matter
        verdict.chained = self._reader.chain.chained
        verdict.head = self._reader.chain.head if verdict.chained else ""
        verdict.notices = [*self._reader.notices, *(f"{count} events of the unknown kind {kind!r}" for kind, count in self._reader.skipped.items())]
        return verdict

    def _take(self, event: Event) -> None:
        if self._verdict.complete:
            raise self._finding("an event follows run_completed", event.line)
        if event.seq < len(_PRELUDE) and event.kind != _PRELUDE[event.seq]:
            raise self._finding(f"{_PRELUDE[event.seq]} belongs here, not {event.kind}", event.line)
        if event.kind == "seed_read" and event.seq == 1 and event.fields["purpose"] != SEED_PURPOSE:
            raise self._finding(f"the seed is not the {SEED_PURPOSE}", event.line)
        if "seal" in event.fields and event.kind != "run_completed":
            raise self._finding("a seal stands where none belongs", event.line)
        if "bodies" in event.fields:
            check_bodies(self._path, event.fields, event.line)
        self._last_line = event.line
        if event.kind == "run_completed":
            self._verdict.complete = True
            self._check_seal(event.fields, event.line)
        self._verdict.events = self._reader.chain.count

    def _check_seal(self, event: dict[str, Any], line: int) -> None:
        seal = event.get("seal")
        if seal is None:
            return
        self._verdict.seal = "unchecked"
        if type(seal) is not dict or chain.unseal(self._reader.text)[1] is None:
            self._verdict.seal = "invalid"
            raise self._finding("the seal is misshapen", line)
        self._verdict.key_id = str(seal.get("key_id", ""))
        if self._key is not None:
            from replay.tracefile.seal import problem_of_seal

            problem = problem_of_seal(self._key, seal, self._reader.text)
            self._verdict.seal = "invalid" if problem else "valid"
            if problem:
                raise self._finding(problem, line)

    def _end(self) -> None:
        verdict = self._verdict
        chain_ = self._reader.chain
        after = self._last_line + 1
        if verdict.complete and self._reader.torn:
            raise self._finding("something follows run_completed", after)
        if not chain_.chained:
            verdict.problem = "the trace carries no hash chain, so nothing can be said about its lines"
        elif self._key is not None and verdict.seal == "none":
            verdict.problem = "the trace carries no seal" if verdict.complete else "the trace carries no seal: the run did not come to its end"
        else:
            verdict.ok = True
            if not verdict.complete:
                verdict.line = after
                verdict.problem = f"there is no run_completed; the {verdict.events} events before it hold"

    def _finding(self, message: str, line: int) -> TraceError:
        return TraceError("trace_tampered", message, path=self._path, line=line)
