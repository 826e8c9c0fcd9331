"""`rag test`: recorded runs as tests."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rag_stdlib.cli.frame import AsJson, CommandError, command, note, show_json
from rag_stdlib.cli.page import OptionalLauncher, words_behind
from rag_stdlib.cli.terminal import clean, clean_block, flush, is_terminal, plural, say, show, styled
from rag_stdlib.cli.tracing import SecretEnv, columns, secret_values, trace_errors

if TYPE_CHECKING:
    from replay.runs.harness import Candidate, Options, Outcome

_RFC3339: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d))?")
_COLOURS: Final = {"passed": (32,), "promoted": (36,), "diverged": (1, 31), "flaky": (1, 33), "failed": (1, 31), "error": (1, 31)}
_WORD: Final = 9  # columns of a verdict


@command("test", "Replay recorded runs as tests.", page=OptionalLauncher)
def run_tests(
    context: typer.Context,
    folder: Annotated[str, typer.Option("--from-traces", metavar="DIR", help="The folder with the traces.")],
    only_tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only traces that call this tool.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only traces whose last event is not before this time: a "
                                                                   "date, or 2026-01-31T12:00:00Z (RFC 3339).")] = None,
    flake_detect: Annotated[int | None, typer.Option(metavar="N", min=1, help="Run each trace N times and see whether the "
                                                                              "outcomes differ.")] = None,
    promote: Annotated[bool, typer.Option("--promote", help="Ask for each diverged trace whether to record it anew.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --promote: do not ask.")] = False,
    keyed: Annotated[bool, typer.Option("--keyed", help="Match calls by what they ask, in any order.")] = False,
    timeout: Annotated[float | None, typer.Option(metavar="S", min=0.1, help="End a run after S seconds.")] = None,
    secret_env: SecretEnv = None,
    as_json: AsJson = False,
) -> None:
    """Replay each trace of a folder with its recorded command, or with the one given, and tell what became of it.

    Verdicts: passed; diverged; flaky (runs came out differently); failed (all runs came out alike, and badly); promoted (recorded anew);
    error (the trace cannot be used, or the command not run). Exit codes: 0 all are passed or promoted; 1 any is not; 2 usage, or a command given
    that cannot be started.
    """
    if promote and flake_detect is not None:
        context.fail("--promote and --flake-detect are mutually exclusive")
    if yes and not promote:
        context.fail("--yes needs --promote")
    since_ms = None if since is None else _ms(since)
    from replay.runs import harness
    from replay.runs.process import CannotStart, check_startable
    from replay.runs.verdicts import Plan

    words = words_behind(context) or None
    try:
        check_startable(words or [sys.executable])
    except CannotStart as error:
        raise CommandError(str(error), exit_code=2) from None
    options = harness.Options(words, Plan(matching="keyed" if keyed else "ordered"), flake_detect or 1, timeout, secret_values(secret_env))
    with trace_errors():
        every = harness.find(folder)
        chosen = harness.select(every, tool=only_tool, since_ms=since_ms)
        if not chosen:
            note(f"no traces in {folder!r}" if not every else f"no trace of {len(every):,} is left by the filters")
        else:
            _preview(harness.coverage(chosen), chosen, options.runs)
        outcomes = _Tests(options, as_json=as_json, promoter=_Promoter(yes=yes, quiet=as_json) if promote else None).run(chosen)
    if not all(outcome.good for outcome in outcomes):
        raise typer.Exit(1)


def _ms(text: str) -> int:
    """Read a time as RFC 3339 has it, or a date, which begins in UTC; return milliseconds of Unix time."""
    found = _RFC3339.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        date, time, fraction, zone = found.groups()
        fraction = f"{fraction or '.0':0<7}"[:7]  # what Python 3.10 reads
        moment = datetime.fromisoformat(f"{date}T{time or '00:00:00'}{fraction}{'+00:00' if (zone or 'Z') in 'Zz' else zone}")
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no time such as 2026-01-31T12:00:00Z", param_hint="--since") from None


def _preview(tools: Counter[str], chosen: Sequence[Candidate], runs: int) -> None:
    """Say what will be tested, on standard error."""
    listed = ", ".join(f"{name} {count:,}" for name, count in tools.most_common())
    often = f", {runs} runs of each" if runs > 1 else ""
    head = f"{plural(len(chosen), 'traces')}{often}: {plural(tools.total(), 'calls')}"
    say(f"{head} ({listed})" if listed else head)


class _Tests:
    """Runs the tests, telling each outcome as it comes."""

    def __init__(self, options: Options, *, as_json: bool, promoter: _Promoter | None) -> None:
        self._options = options
        self._as_json = as_json
        self._promoter = promoter

    def run(self, chosen: Sequence[Candidate]) -> list[Outcome]:
        """Run them all, or until somebody wants it to stop; tell the sum in either case."""
        from replay.runs import harness

        outcomes: list[Outcome] = []
        try:
            for candidate in chosen:
                outcome = harness.examine(candidate, self._options)
                if not self._as_json:
                    _tell(outcome)
                if self._promoter is not None and outcome.verdict == "diverged":
                    outcome = self._promoter.offer(candidate, outcome, self._options)
                outcomes.append(outcome)
                if self._promoter is not None and self._promoter.quit:
                    break
        finally:
            self._tell_sum(outcomes, len(chosen))
        return outcomes

    def _tell_sum(self, outcomes: Sequence[Outcome], count: int) -> None:
        from replay.runs.harness import VERDICTS

        if self._as_json:
            show_json([outcome.to_dict() for outcome in outcomes])
        elif count:
            found = Counter(outcome.verdict for outcome in outcomes)
            parts = [f"{found[verdict]:,} {verdict}" for verdict in VERDICTS if found[verdict]]
            parts += [f"{count - len(outcomes):,} not run"] if len(outcomes) < count else []
            show(f"{plural(count, 'traces')}: {', '.join(parts)}")
        flush()


def _tell(outcome: Outcome) -> None:
    """Print a verdict; behind a bad one what there is to say, and the last lines that the program printed."""
    from replay.reports.display import fit, flowed

    calls = f"  {plural(outcome.calls, 'calls')}" if outcome.good else ""
    name = fit(outcome.name, columns() - _WORD - 1 - len(calls))
    show(f"{styled(f'{outcome.verdict:{_WORD}}', *_COLOURS[outcome.verdict])} {name}{styled(calls, 2)}")
    if not outcome.good:
        first, _, rest = clean_block(outcome.message).partition("\n")
        head = clean(outcome.detail)
        for line in [head, *([first] if first != head and head not in first else []), *rest.split("\n")]:
            for part in flowed(f"    {line}", columns()) if line else ():
                show(part)
        for line in ["the program printed at last:", *clean_block(outcome.output).split("\n")] if outcome.output else ():
            show(styled(fit(f"    | {line}".rstrip(), columns()), 2))
    flush()


class _Promoter:
    """Asks for each diverged trace whether a new recording is to take its place, and makes it."""

    def __init__(self, *, yes: bool, quiet: bool) -> None:
        self.quit = False
        self._all = yes
        self._quiet = quiet
        self._told = False

    def offer(self, candidate: Candidate, outcome: Outcome, options: Options) -> Outcome:
        """Return the new outcome: promoted, or as it was."""
        if not self._accepts(candidate):
            return outcome
        from dataclasses import replace

        from replay.errors import ReplayError
        from replay.runs import harness
        from replay.scripts.options import RecordOptions

        try:
            done = harness.promote(candidate, options.command, RecordOptions(), options.secrets)
        except ReplayError as error:
            self._tell(f"    not promoted: {clean(str(error))}")
            return outcome
        calls = done.recorded.calls
        lost = "; the old trace's seal is gone with it" if done.unsealed else ""
        self._tell(f"    {styled('promoted', *_COLOURS['promoted'])}: recorded anew, {plural(calls, 'calls')}{lost}")
        return replace(outcome, verdict="promoted", calls=calls)

    def _tell(self, line: str) -> None:
        if not self._quiet:
            show(line)
            flush()

    def _accepts(self, candidate: Candidate) -> bool:
        if self._all:
            return True
        if not is_terminal(sys.stdin):
            if not self._told:
                note("nothing is promoted: standard input is no terminal to ask on; --yes promotes all")
            self._told = True
            return False
        flush()
        with suppress(OSError):
            sys.stderr.write(f"promote {clean(candidate.name)}? Its command is run live, and the recording takes its place. [y/N/a/q] ")
            sys.stderr.flush()
        answer = sys.stdin.readline().strip().lower()
        self.quit = answer in ("q", "quit")
        self._all = answer in ("a", "all")
        return self._all or answer in ("y", "yes")
