"""The ways to open a session: record, substitute, differential, mutation, and the names that test suites know."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from replay.errors import ReplayError, TraceError
from replay.jsontext import checked
from replay.matching import make_matcher
from replay.redaction.redactor import Redactor
from replay.scripts.options import RecordOptions, ReplayOptions, Run, TracePath
from replay.scripts.script import Script
from replay.scripts.sharing import SharedUse
from replay.scripts.substitute import Substitute, check_start
from replay.session import Session
from replay.tracefile.trace import Trace, load_trace

Mode: TypeAlias = Literal["record", "substitute", "differential", "once", "new_episodes", "none", "all"]
MODES: Final[tuple[Mode, ...]] = ("record", "substitute", "differential", "once", "new_episodes", "none", "all")

Options = TypeVar("Options", RecordOptions, ReplayOptions)


def _options(name: str, kind: type[Options], given: dict[str, Any]) -> Options:
    known = kind.__dataclass_fields__
    unknown = ", ".join(repr(one) for one in given if one not in known)
    if unknown:
        raise TypeError(f"replay.{name} has no option {unknown}; its options are {', '.join(known)}")
    return kind(**given)


def record(trace: TracePath, *, agent: str = "main", args: Sequence[Any] = (), secrets: Iterable[str] = (),
           **options: Any) -> Session:  # noqa: ANN401 - RecordOptions' own
    """Record every tool call of a block into a new trace: a file, or a folder in which a file named after the run is made.

    `secrets` are values never to be written, beside those of environment variables that look like secrets. Further options
    are those of `RecordOptions`.

    Raises on entering:
        TraceError: trace_exists, trace_io.
    """
    from replay.scripts.recording import Recording, create_writer

    run, how = Run(agent, args), _options("record", RecordOptions, options)
    return Session("record", lambda session: Recording(create_writer(session, trace, run, how)), redactor=Redactor(secrets=secrets))


def substitute(trace: TracePath, *, agent: str = "main", args: Sequence[Any] = (), secrets: Iterable[str] = (),
               **options: Any) -> Session:  # noqa: ANN401 - ReplayOptions' own
    """Answer every tool call of a block from a trace; nothing runs and nothing is touched.

    Options are those of `ReplayOptions`.

    Raises on entering:
        TraceError: the trace cannot be used; no call is made live in its place.
        Divergence: started_otherwise.
    """
    run, how = Run(agent, args), _options("substitute", ReplayOptions, options)

    def opened(session: Session) -> Script:
        loaded = _loaded(session, trace, run, how)
        shared = SharedUse.of_forks(len(loaded.calls))
        return Substitute(loaded, make_matcher(how.matching, loaded.calls, shared.buffer, shared.lock), session.redactor, how.leftover)

    return Session("substitute", opened, redactor=Redactor(secrets=secrets), allow_network=how.allow_network)


def differential(trace: TracePath, *, agent: str = "main", args: Sequence[Any] = (), secrets: Iterable[str] = (),
                 **options: Any) -> Session:  # noqa: ANN401 - ReplayOptions' own
    """Run every tool call of a block live and compare it with a trace; `session.report` says what changed.

    The program gets the recorded results. Options are those of `ReplayOptions`. Raises what `substitute` raises.
    """
    from replay.scripts.differential import Differential

    run, how = Run(agent, args), _options("differential", ReplayOptions, options)

    def opened(session: Session) -> Script:
        loaded = _loaded(session, trace, run, how)
        script = Differential(loaded, make_matcher(how.matching, loaded.calls), session.redactor)
        session.report = script.report
        return script

    return Session("differential", opened, redactor=Redactor(secrets=secrets), forks=False)


def mutation(trace: TracePath, step: int, value: Any, *, agent: str = "main", args: Sequence[Any] = (),  # noqa: ANN401 - JSON
             secrets: Iterable[str] = (), **options: Any) -> Session:  # noqa: ANN401 - ReplayOptions' own
    """Replay a trace with the `step`-th result (from 1) replaced by `value`; `session.report` says what followed.

    Raises on entering, beside what `substitute` raises:
        InvalidMutation: no such step, or a value of another JSON kind than the recorded one.
    """
    from replay.scripts.mutation import Mutation

    run, how = Run(agent, args), _options("mutation", ReplayOptions, options)
    checked(value)

    def opened(session: Session) -> Script:
        loaded = _loaded(session, trace, run, how)
        script = Mutation(loaded, make_matcher(how.matching, loaded.calls), session.redactor, step, value)
        session.report = script.report
        return script

    return Session("mutation", opened, redactor=Redactor(secrets=secrets), allow_network=how.allow_network, forks=False)


def use_trace(mode: Mode, trace: TracePath, *, replaying: ReplayOptions | None = None, recording: RecordOptions | None = None,
            agent: str = "main", args: Sequence[Any] = (), secrets: Iterable[str] = ()) -> Session:
    """Open a session by the name of its mode.

    Test suites know these: "none" only replays, and a missing trace is an error; "once" records where there is no trace, and
    replays it otherwise; "new_episodes" replays what is recorded and records what is not; "all" records anew. The last three
    write the trace only when the block ends well, in one step, so that a failing test leaves the trace as it was.
    """
    from replay.scripts import episodes

    run, reading, writing = Run(agent, args), replaying or ReplayOptions(), recording or RecordOptions()
    if mode not in MODES:
        raise ReplayError(f"mode is {mode!r}, not one of {', '.join(MODES)}")
    if mode in ("once", "all", "new_episodes"):
        replays = mode == "new_episodes" or (mode == "once" and os.path.lexists(trace))
        if not (replays and os.path.lexists(trace)):
            return Session(mode, lambda one: episodes.Staged(one, trace, run, writing), redactor=Redactor(secrets=secrets))
        if mode == "new_episodes":
            return Session(mode, lambda one: episodes.NewEpisodes(one, load(one, trace, reading), run, writing),
                           redactor=Redactor(secrets=secrets), forks=False)
    common: dict[str, Any] = {"agent": agent, "args": args, "secrets": secrets}
    if mode == "record":
        return record(trace, **common, **_fields(writing))
    made = differential if mode == "differential" else substitute
    opened = made(trace, **common, **_fields(reading))
    opened.mode = mode
    return opened


def _fields(options: RecordOptions | ReplayOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__dataclass_fields__}


def load(session: Session, trace: TracePath, how: ReplayOptions) -> Trace:
    """Load a trace for a session, which takes its name, run id and seed."""
    path = os.fspath(trace)
    if Path(path).is_dir():
        raise TraceError("trace_missing", "this is a folder; name one trace in it", path=path)
    loaded = load_trace(path, verify=how.verify, incomplete=how.incomplete)
    session.trace_path, session.run_id, session.seed, session.notices = path, loaded.run_id, loaded.seed, loaded.notices
    return loaded


def _loaded(session: Session, trace: TracePath, run: Run, how: ReplayOptions) -> Trace:
    loaded = load(session, trace, how)
    check_start(loaded, run.agent, list(run.args), session.redactor)
    return loaded
