"""`rag log monitor`: read every entry of a log, and tell what does not fit together."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.frame import AsJson, CommandError, command, note, output_apart, show_json
from rag_stdlib.cli.log import entries, logs
from rag_stdlib.cli.logged import open_log, published
from rag_stdlib.cli.prooffiles import TrustFile, number, proof_errors, read_pinned, read_trust
from rag_stdlib.cli.remembered import unfit_to_watch
from rag_stdlib.cli.standing import Stop, heard
from rag_stdlib.cli.terminal import clean, flush, plural, show, styled

if TYPE_CHECKING:
    from rag_stdlib.proof.log.answers import Conflict
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.monitor import Alarm, Monitor, Report, Source
    from rag_stdlib.proof.log.pinned import PinnedLog

UNREADABLE: Final = 3

_UNUSABLE: Final = 2
_LONGEST_S: Final = 86_400.0
_KEPT: Final = 8  # errors: of one scan there are fewer
_NAMED: Final = 20  # places that are named in a line
_MADE: Final = {True: "made in one way", False: "made in different ways, as by another model, judge, limit or policy"}


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

    Two answers are a question to the issuer whose key the entries name. Anyone who can append may have made such an entry, so the signed certificates decide; and a
    model may answer twice differently. Keys that the trust file gives to one name are one issuer's. Of a log only `forked` is proven, by what it signed itself; for
    the rest, whoever serves it may be at fault.

    Exit codes: 0 all that was read fits together; 1 it does not; 3 the log could not be read or verified; 2 usage, or a file or an output that cannot be used.
    """
    from rag_stdlib.proof.log.monitor import Monitor

    found, seconds = False, number(every, "--every")
    fault = unfit_to_watch(source)
    if fault is not None:
        raise typer.BadParameter(fault, param_hint="SOURCE")
    with proof_errors(_UNUSABLE), output_apart(_UNUSABLE):
        trusted, issuers = _trusted(trust)
        pinned = _pinned(trusted, trust, origin)
        with _made(state, pinned, new=new), Monitor(state, pinned, issuers=issuers) as made, _opened(source) as opened, opened.at_fault():
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


@contextmanager
def _made(state: str, log: PinnedLog, *, new: bool) -> Iterator[None]:
    """Make the state where it is to be new, and take it away again where the log could not be read even once."""
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.monitor import Monitor
    from rag_stdlib.root import SIDE_FILES

    try:
        if new:
            Monitor.create(state, log.origin)
        elif not os.path.lexists(state):
            raise LogError("missing", f"there is no monitor {state!r}; give --new to make one")
    except LogError as error:
        if error.code == "exists":
            raise LogError("exists", f"{error.words}; leave --new out to go on with it") from None
        raise
    try:
        yield
    except BaseException:
        if new and _is_unused(state, log):
            for side in ("", *SIDE_FILES):
                Path(f"{state}{side}").unlink(missing_ok=True)
        raise


def _is_unused(state: str, log: PinnedLog) -> bool:
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.monitor import Monitor

    try:
        with Monitor(state, log) as made:
            return made.checkpoint() is None and not made.alarms()
    except LogError:
        return False


def _trusted(trust: str) -> tuple[Mapping[str, PinnedLog], Mapping[str, str]]:
    """Read the logs of a trust file by origin, and the names of the issuers by key id, of which there may be none."""
    try:
        read = read_trust(trust)
    except CommandError:  # it may be one of logs alone; what else is amiss is told again
        return read_pinned(trust), {}
    return read.logs, {key_id: issuer.name for key_id, issuer in read.issuers.items()}


def _pinned(pinned: Mapping[str, PinnedLog], trust: str, origin: str | None) -> PinnedLog:
    if origin is None and len(pinned) == 1:
        return next(iter(pinned.values()))
    if origin is None or origin not in pinned:
        known = ", ".join(pinned) or "none"
        raise CommandError(f"{trust!r} {'names several logs or none' if origin is None else f'does not name the log {origin}'}; --origin names one of: {known}")
    return pinned[origin]


@contextmanager
def _opened(source: str) -> Iterator[_Told]:
    """Open a log in its file, or as it is published."""
    from rag_stdlib.proof.log.tiles import PublishedLog

    if Path(source).is_file():
        with open_log(source) as log:
            yield _Told(log)
        return
    with published(source) as fetch:
        yield _Told(PublishedLog(fetch, source))


class _Told:
    """A log that keeps its last errors, so that they are told from those of the monitor's own file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._failed: deque[LogError] = deque(maxlen=_KEPT)

    def checkpoint(self) -> bytes:
        with self._kept():
            return self._source.checkpoint()

    def entries(self, start: int, stop: int) -> Iterator[bytes]:
        with self._kept():
            yield from self._source.entries(start, stop)

    def comparison_path(self, old_size: int, new_size: int) -> list[bytes]:
        with self._kept():
            return self._source.comparison_path(old_size, new_size)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        from rag_stdlib.proof.log.errors import LogError

        try:
            yield
        except LogError as error:
            self._failed.append(error)
            raise

    @contextmanager
    def at_fault(self) -> Iterator[None]:
        """End the command with a code of its own where the log, or whoever serves it, is at fault."""
        from rag_stdlib.proof.log.errors import LogError, ProofError

        try:
            yield
        except LogError as error:
            is_of_log = isinstance(error, ProofError) or any(error is each for each in self._failed)
            with proof_errors(UNREADABLE if is_of_log else _UNUSABLE):
                raise


def _scan(made: Monitor, source: Source, *, whole: bool, as_json: bool, quiet: bool) -> bool:
    """Scan once, and tell; say whether anything was found."""
    report = made.scan(source, whole=whole)
    found = bool(report.conflicts or report.alarms)
    if quiet and not found and not report.new:
        return False
    if as_json:
        show_json({"size": report.size, "new": report.new, "conflicts": [_conflict(each, made, source) for each in report.conflicts],
                   "unreadable": list(report.unreadable), "alarms": [_alarm(each) for each in report.alarms],
                   "so_far": {"conflicts": [_conflict(each, made, source) for each in made.conflicts()], "alarms": [_alarm(each) for each in made.alarms()]}})
    else:
        _show(report, made, source)
    return found


def _show(report: Report, made: Monitor, source: Source) -> None:
    show(f"read       {entries(report.size)}, {report.new:,} new")
    for conflict in report.conflicts:
        _show_conflict(conflict, made, source)
    if report.unreadable:
        places = ", ".join(map(str, report.unreadable[:_NAMED]))
        show(f"passed by  {plural(len(report.unreadable), 'new entries') if len(report.unreadable) != 1 else '1 new entry'} of no certificate: {places}"
             f"{', …' if len(report.unreadable) > _NAMED else ''}")
    for alarm in report.alarms:
        show(f"{styled('alarm', 1, 31)}      [{alarm.code}] {clean(alarm.words)}")
    conflicts, alarms = made.conflicts(), made.alarms()
    if conflicts or alarms:
        show(f"so far     {plural(len(conflicts), 'conflicts')}, {plural(len(alarms), 'alarms')}")


def _show_conflict(conflict: Conflict, made: Monitor, source: Source) -> None:
    seen = [each for each in made.sightings(conflict, source) if each is not None]
    keys = list(dict.fromkeys(each.issuer_key_id for each in seen))
    names = f" name the {'key' if len(keys) == 1 else 'keys'} {clean(' and '.join(keys))}" if len(seen) > 1 else ""
    show(f"{styled('conflict', 1, 31)}   entries {conflict.first} and {conflict.second}{names}: two answers to one question over one state of an index, "
         f"{_MADE[conflict.same_setup]}; ask the issuer for both certificates, whose signatures decide")
    for each in seen:
        show(f"body       {clean(each.body_sha256)}")


def _conflict(conflict: Conflict, made: Monitor, source: Source) -> dict[str, Any]:
    seen = made.sightings(conflict, source)
    return {"first": conflict.first, "second": conflict.second, "same_setup": conflict.same_setup,
            "issuer_key_ids": [None if each is None else each.issuer_key_id for each in seen], "body_sha256": [None if each is None else each.body_sha256 for each in seen]}


def _alarm(alarm: Alarm) -> dict[str, Any]:
    return {"code": alarm.code, "words": alarm.words, "time": alarm.time, "checkpoint": alarm.checkpoint.decode()}
