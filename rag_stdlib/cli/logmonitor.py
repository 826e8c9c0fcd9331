"""`rag log monitor`: read every entry of a log, and tell what does not fit together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.frame import AsJson, CommandError, command, note, show_json
from rag_stdlib.cli.log import entries, logs
from rag_stdlib.cli.logged import open_log, published
from rag_stdlib.cli.prooffiles import TrustFile, number, proof_errors, read_pinned
from rag_stdlib.cli.standing import Stop, heard
from rag_stdlib.cli.terminal import clean, flush, plural, show, styled

if TYPE_CHECKING:
    from rag_stdlib.proof.log.monitor import Alarm, Conflict, Monitor, Report, Source
    from rag_stdlib.proof.log.pinned import PinnedLog

UNREADABLE: Final = 3

_LONGEST_S: Final = 86_400.0
_NAMED: Final = 20  # places that are named in a line
_MADE: Final = {True: "made in one way", False: "made in different ways: another model, judge, limit or policy"}


@command("monitor", "Look through a log for what does not fit.", group=logs)
def monitor(
    state: Annotated[str, typer.Argument(metavar="STATE", help="The file in which the monitor keeps what it has read.")],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The log: the folder or the URL that it is published at, or its file.")],
    trust: TrustFile,
    origin: Annotated[str | None, typer.Option(metavar="ORIGIN", help="Which log of the trust file it is; needed where there are several.")] = None,
    new: Annotated[bool, typer.Option("--new", help="Make the state first: of a monitor that has read nothing yet.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Read also what was read before, and hold it against what it was then.")] = False,
    every: Annotated[float | None, typer.Option(metavar="S", min=0.1, max=_LONGEST_S, help="Look again each so many seconds, until SIGTERM or Ctrl-C.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read what is new in a log, and report two answers to one question over one state of an index, and a log that drops, changes or forks what it has shown.

    Two answers are a question to the issuer: a model may answer twice differently. Of a log only `forked` is proven, by what it signed itself; for the rest,
    whoever serves it may be at fault.

    Exit codes: 0 all that was read fits together; 1 it does not; 3 the log could not be read or verified.
    """
    from rag_stdlib.proof.log.monitor import Monitor

    found, seconds = False, number(every, "--every")
    with proof_errors(UNREADABLE):
        pinned = replace(_pinned(trust, origin), quorum=0)  # what the log signs counts here, whoever has seen it
        if new:
            Monitor.create(state, pinned.origin)
        with Monitor(state, pinned) as made, _opened(source) as opened:
            if seconds is None:
                found = _scan(made, opened, whole=whole, as_json=as_json, quiet=False)
            else:
                found = _watch(made, opened, seconds, whole=whole, as_json=as_json)
    if found:
        raise typer.Exit(1)


def _watch(made: Monitor, source: Source, every: float, *, whole: bool, as_json: bool) -> bool:
    """Look again and again; what cannot be read now is told, and tried again."""
    from rag_stdlib.proof.log.errors import LogError

    stop, found, quiet = Stop(), False, False
    with heard(stop.tell):
        while not stop:
            try:
                found |= _scan(made, source, whole=whole, as_json=as_json, quiet=quiet)
                flush()
            except LogError as error:
                note(f"not read [{error.code}]: {error.words}; trying again in {every:g} s")
            quiet = True
            stop.wait(every)
    return found


def _pinned(trust: str, origin: str | None) -> PinnedLog:
    pinned = read_pinned(trust)
    if origin is None and len(pinned) == 1:
        return next(iter(pinned.values()))
    if origin is None or origin not in pinned:
        known = ", ".join(pinned) or "none"
        raise CommandError(f"{trust!r} {'names several logs or none' if origin is None else f'does not name the log {origin}'}; --origin names one of: {known}")
    return pinned[origin]


@contextmanager
def _opened(source: str) -> Iterator[Source]:
    """Open a log in its file, or as it is published."""
    from rag_stdlib.proof.log.tiles import PublishedLog

    if Path(source).is_file():
        with open_log(source) as log:
            yield log
        return
    with published(source) as fetch:
        yield PublishedLog(fetch)


def _scan(made: Monitor, source: Source, *, whole: bool, as_json: bool, quiet: bool) -> bool:
    """Scan once, and tell; say whether anything was found."""
    report = made.scan(source, whole=whole)
    found = bool(report.conflicts or report.alarms)
    if quiet and not found and not report.new:
        return False
    if as_json:
        show_json({"size": report.size, "new": report.new, "conflicts": [_conflict(each, source, report.size) for each in report.conflicts],
                   "unreadable": list(report.unreadable), "alarms": [_alarm(each) for each in report.alarms],
                   "so_far": {"conflicts": [_conflict(each, source, report.size) for each in made.conflicts()], "alarms": [_alarm(each) for each in made.alarms()]}})
    else:
        _show(report, made, source)
    return found


def _show(report: Report, made: Monitor, source: Source) -> None:
    show(f"read       {entries(report.size)}, {report.new:,} new")
    for conflict in report.conflicts:
        who = f" by the issuer's key {issuer}" if (issuer := _issuer(conflict, source, report.size)) else ""
        show(f"{styled('conflict', 1, 31)}   entries {conflict.first} and {conflict.second}: two answers{who} to one question over one state of an index, {_MADE[conflict.same_setup]}")
    if report.unreadable:
        places = ", ".join(map(str, report.unreadable[:_NAMED]))
        show(f"passed by  {plural(len(report.unreadable), 'new entries') if len(report.unreadable) != 1 else '1 new entry'} of no certificate: {places}"
             f"{', …' if len(report.unreadable) > _NAMED else ''}")
    for alarm in report.alarms:
        show(f"{styled('alarm', 1, 31)}      [{alarm.code}] {clean(alarm.words)}")
    conflicts, alarms = made.conflicts(), made.alarms()
    if conflicts or alarms:
        show(f"so far     {plural(len(conflicts), 'conflicts')}, {plural(len(alarms), 'alarms')}")


def _issuer(conflict: Conflict, source: Source, size: int) -> str | None:
    """Say by whose key the answers are, which both entries name; None where the log does not show it any more."""
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.sightings import read_sighting

    try:
        seen = read_sighting(next(source.entries(conflict.first, size)))
    except (LogError, StopIteration):
        return None
    return None if seen is None else seen.issuer_key_id


def _conflict(conflict: Conflict, source: Source, size: int) -> dict[str, Any]:
    return {"first": conflict.first, "second": conflict.second, "same_setup": conflict.same_setup, "issuer_key_id": _issuer(conflict, source, size)}


def _alarm(alarm: Alarm) -> dict[str, Any]:
    return {"code": alarm.code, "words": alarm.words, "time": alarm.time, "checkpoint": alarm.checkpoint.decode()}
