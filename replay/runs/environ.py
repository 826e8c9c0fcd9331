"""The session that a parent process hands over through the environment, as `rag record` and `rag replay` do.

The parent begins the trace, starts the program and completes the trace; every process of the program joins in: a recording
one appends to the trace, a replaying one marks the recorded calls it was given in a file of one byte per call that all of them share, and what
does not hold goes as one JSON line into the parent's outcome file.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Final

from replay import ambient, quarantine
from replay.ambient import ELSEWHERE, VARIABLE
from replay.errors import Divergence, QuarantineViolation, ReplayError
from replay.jsontext import decode, encode
from replay.recorder import Call, Ending
from replay.runs import uncaught
from replay.scripts.script import Step
from replay.scripts.sharing import SharedUse
from replay.session import Session

__all__ = ["JOINED", "QUARANTINED", "VARIABLE", "HandedSession", "Handover", "attend", "handed_session", "report"]

QUARANTINED: Final = ("substitute", "mutation")
JOINED: Final = ("record", "substitute", "differential", "mutation")


@dataclass(frozen=True, slots=True)
class Handover:
    """What a parent process says: the mode, the trace, where to report, and the options of the mode.

    Mode "elsewhere" says that a session is open in the parent, which this process cannot join.
    """

    mode: str
    trace: str
    outcome: str
    used: str = ""
    matching: str = "ordered"
    step: int = 0
    value: Any = None
    allow_network: bool = False
    incomplete: bool = False
    verify: bool = True
    body_bytes: int = 1 << 20
    fsync: bool = False
    on_error: str = "report"
    secrets: tuple[str, ...] = field(default=())

    def to_text(self) -> str:
        """Write the value of the environment variable."""
        return encode({one.name: getattr(self, one.name) for one in fields(self)}).decode()

    @classmethod
    def from_text(cls, text: str) -> Handover:
        """Read it; `ReplayError` where it is not of this form."""
        try:
            values = decode(text)
            values["secrets"] = tuple(values.get("secrets", ()))
            handed = cls(**values)
        except (ValueError, TypeError, AttributeError) as error:
            raise ReplayError(f"{VARIABLE} in the environment is not what rag record or rag replay set: {error}") from None
        if handed.mode not in (*JOINED, ELSEWHERE):
            raise ReplayError(f"{VARIABLE} names the mode {handed.mode!r}, not one of {', '.join(JOINED)}")
        return handed


def report(handed: Handover, line: dict[str, Any]) -> None:
    """Append one line to the parent's outcome file; where that is gone there is nobody to tell."""
    with suppress(OSError):
        descriptor = os.open(handed.outcome, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, encode(line) + b"\n")
        finally:
            os.close(descriptor)


class HandedSession(Session):
    """A session without a block: it lasts as long as the process, and its findings go to the parent."""

    def __init__(self, handed: Handover) -> None:
        """Take what the parent said."""
        from replay.redaction.redactor import Redactor

        super().__init__(handed.mode, lambda _session: _script(self), redactor=Redactor(secrets=handed.secrets),
                         allow_network=handed.allow_network)
        self.handed = handed

    def remember(self, error: ReplayError) -> None:
        """Keep the error, and tell the parent of it once."""
        if self.problem is None:
            self.tell(_line(error))
        super().remember(error)

    def tell(self, line: dict[str, Any]) -> None:
        """Tell the parent, without secrets."""
        report(self.handed, self.redactor.value(line))


def _line(error: ReplayError) -> dict[str, Any]:
    if isinstance(error, Divergence):
        return {"type": "divergence", **error.to_dict()}
    if isinstance(error, QuarantineViolation):
        return {"type": "quarantine", "message": str(error)}
    return {"type": "error", "code": getattr(error, "code", type(error).__name__), "message": str(error)}


def _script(session: HandedSession) -> Any:  # noqa: ANN401 - one of the scripts
    from replay.matching import make_matcher
    from replay.tracefile.trace import load_trace

    handed = session.handed
    if handed.mode == "record":
        return _joined(session)
    trace = load_trace(handed.trace, verify=handed.verify, incomplete=handed.incomplete)
    session.trace_path, session.run_id, session.seed, session.notices = handed.trace, trace.run_id, trace.seed, trace.notices
    shared = SharedUse.of_file(handed.used, len(trace.calls))
    matcher = make_matcher("keyed" if handed.matching == "keyed" else "ordered", trace.calls, shared.buffer, shared.lock)
    if handed.mode == "differential":
        from replay.scripts.differential import Differential

        return Differential(trace, matcher, session.redactor, session.tell)
    if handed.mode == "mutation":
        from replay.scripts.mutation import Mutation

        return Mutation(trace, matcher, session.redactor, handed.step, handed.value, session.tell)
    from replay.scripts.substitute import Substitute

    return Substitute(trace, matcher, session.redactor)


def _joined(session: HandedSession) -> Any:  # noqa: ANN401 - a script
    from replay.scripts.recording import Joined
    from replay.tracefile.writer import TraceWriter, WriterOptions

    handed = session.handed
    writer = TraceWriter.join(handed.trace, redactor=session.redactor, options=WriterOptions(
        handed.body_bytes, handed.fsync, "stop" if handed.on_error == "stop" else "report"))
    session.trace_path, session.run_id, session.seed = writer.path, writer.run_id, writer.seed

    class Telling(Joined):
        """Has the parent know of what could not be written, since a trace that lacks something may not be completed."""

        told = False

        def end(self, step: Step, call: Call[Any], ending: Ending) -> None:
            super().end(step, call, ending)
            if self.writer.failure is not None and not self.told:
                self.told = True
                session.tell(_line(self.writer.failure))

    return Telling(writer)


_made: dict[str, HandedSession | ReplayError] = {}


def handed_session() -> Session | None:
    """Return the session that the environment hands over, or None.

    Raises:
        ReplayError: it cannot be used; every call is refused with it, and none is made live.
    """
    text = ambient.announced()
    if text is None:
        return None
    if text not in _made:
        _made[text] = _make(text)
    found = _made[text]
    if isinstance(found, ReplayError):
        raise found
    return found


def _make(text: str) -> HandedSession | ReplayError:
    try:
        handed = Handover.from_text(text)
    except ReplayError as error:
        return error
    if handed.mode == ELSEWHERE:
        return ReplayError(f"this process was started inside a replay session (of {handed.trace!r}), which does not reach here, and no call is "
                           "made live beside it; run the whole program by rag record or rag replay, use threads or forked processes, or make the call in replay.live()")
    if handed.mode != "record":
        uncaught.install()
    session = HandedSession(handed)
    try:
        session.open()
    except (ReplayError, OSError) as error:
        problem = error if isinstance(error, ReplayError) else ReplayError(f"the replay cannot be joined: {error}")
        session.tell(_line(problem))
        return problem
    return session


def attend() -> None:
    """Have the calls of this process belong to the session handed over, and its quarantine count from now on."""
    ambient.set_environment(handed_session)
    text = os.environ.get(VARIABLE)
    if text and any(f'"mode":"{mode}"' in text for mode in QUARANTINED):
        quarantine.begin()  # sockets are refused before the first call, too
