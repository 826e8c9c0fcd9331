"""`rag record` and `rag replay`: any program, unchanged, with its calls recorded or answered from a trace."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.frame import CommandError, command, note, tell_error
from rag_stdlib.cli.page import Launcher, OptionalLauncher, words_behind
from rag_stdlib.cli.terminal import clean_block, flush, plural, say, say_page, show, styled
from rag_stdlib.cli.tracing import (
    UNREADABLE,
    SecretEnv,
    as_typed,
    check_target,
    columns,
    json_text,
    secret_values,
    trace_errors,
    write_file,
)

if TYPE_CHECKING:
    from replay.runs.launch import Recorded
    from replay.runs.verdicts import Plan, Replayed
    from replay.tracefile.trace import Trace

_STOPPED: Final = 130
_USAGE: Final = 2


@command("record", "Record the tool calls of any program.", page=Launcher)
def record(
    context: typer.Context,
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The new trace; in a folder, a file named after the run.")],
    fsync: Annotated[bool, typer.Option("--fsync", help="Wait for the disk at each event.")] = False,
    stop_on_error: Annotated[bool, typer.Option("--stop-on-error", help="Stop the program's calls where an event cannot be "
                                                                       "written, instead of reporting it once.")] = False,
    body_bytes: Annotated[int, typer.Option(metavar="N", min=1, help="Keep longer arguments and results in files beside "
                                                                     "the trace.")] = 1 << 20,
    secret_env: SecretEnv = None,
    seal: Annotated[str | None, typer.Option(metavar="KEYFILE", help="Seal the trace with this key; see rag trace seal.")] = None,
) -> None:
    """Run a program and record its tool calls: those through rag_stdlib, and those of functions marked @replay.tool.

    The program keeps its input, output and signals, and may start others, whose calls are recorded too. The exit code is the program's.
    """
    words = words_behind(context)
    if not words:
        context.fail("Missing the command to record: put it behind --")
    secrets = secret_values(secret_env)
    from replay.runs.launch import record_command
    from replay.scripts.options import RecordOptions
    from replay.tracefile.seal import load_private

    with trace_errors(trace, unreadable=1):
        how = RecordOptions(body_bytes=body_bytes, fsync=fsync, on_error="stop" if stop_on_error else "report",
                            seal_key=None if seal is None else load_private(seal))
        flush()
        done = record_command(trace, words, how, secrets)
    _tell_recorded(done, str(Path(trace) / Path(done.path).name) if Path(trace).is_dir() else trace)


def _tell_recorded(done: Recorded, name: str) -> None:
    for notice in done.notices:
        note(notice)
    for problem in done.problems:
        tell_error(f"{as_typed(problem, (name,))}; the trace has no end")
    note(f"recorded {plural(done.calls, 'calls')} to {name}")
    raise typer.Exit(done.ended.code or (1 if done.problems else 0))


@command("replay", "Run a program again, answered from a trace.", page=OptionalLauncher)
def replay(
    context: typer.Context,
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The trace to answer from.")],
    keyed: Annotated[bool, typer.Option("--keyed", help="Match calls by what they ask, in any order: for programs whose calls "
                                                        "run at the same time.")] = False,
    differential: Annotated[bool, typer.Option("--differential", help="Run the calls live, and show what changed.")] = False,
    json_file: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Also write what changed as JSON.")] = None,
    svg_file: Annotated[str | None, typer.Option("--svg", metavar="FILE", help="Also draw the ranks that shifted.")] = None,
    mutate: Annotated[tuple[int, str] | None, typer.Option(metavar="STEP JSON", help="Replace the result of the STEP-th call "
                                                                                    "(from 1), and show what follows.")] = None,
    incomplete: Annotated[bool, typer.Option("--incomplete", help="Replay a run without an end as far as it goes.")] = False,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not check the trace's hash chain.")] = False,
    allow_network: Annotated[bool, typer.Option("--allow-network", help="Let the program make connections.")] = False,
    secret_env: SecretEnv = None,
) -> None:
    """Run a program with its tool calls answered from a trace: nothing is opened, embedded or connected to.

    Without a command the recorded one is run, in the folder where it was recorded. Exit codes: 0 the program did what was recorded and ended so,
    well or badly; 1 it diverged; 2 usage, or a command that cannot be started; 3 the trace cannot be used.
    """
    if differential and mutate is not None:
        context.fail("--differential and --mutate are mutually exclusive")
    if (json_file or svg_file) and not differential:
        context.fail(f"{'--json' if json_file else '--svg'} needs --differential")
    secrets = secret_values(secret_env)
    from replay.tracefile.trace import load_trace

    with trace_errors(trace):
        loaded = load_trace(trace, verify=not no_verify, incomplete=incomplete)
        _tell_loaded(loaded, trace)
        plan = _plan(context, loaded, mutate, {
            "mode": "differential" if differential else "substitute", "matching": "keyed" if keyed else "ordered",
            "incomplete": incomplete, "verify": not no_verify, "allow_network": allow_network})
        done = _run(context, loaded, plan, secrets, (json_file, svg_file))
    _show_report(done, json_file, svg_file)
    raise typer.Exit(_tell_replayed(done, trace, "the same end" if loaded.completed is not None else "the trace has no end"))


def _tell_loaded(loaded: Trace, name: str) -> None:
    say(f"trace loaded: {loaded.event_count} events, run_id={loaded.run_id}, schema=v{loaded.header['version']}, path={name}")
    for notice in loaded.notices:
        note(notice)
    for kind, count in loaded.skipped.items():
        note(f"{plural(count, 'events')} of the unknown kind {kind!r} passed over")


def _plan(context: typer.Context, loaded: Trace, mutate: tuple[int, str] | None, options: dict[str, Any]) -> Plan:
    from replay.errors import InvalidMutation, NotRecordable
    from replay.jsontext import checked, decode
    from replay.runs.verdicts import Plan

    if mutate is None:
        return Plan(**options)
    step, text = mutate
    if step > len(loaded.calls):
        context.fail(f"--mutate: step {step} is out of range: the trace has {plural(len(loaded.calls), 'substitutable steps')}")
    try:
        plan = Plan(**{**options, "mode": "mutation"}, step=step, value=checked(decode(text)))
        plan.check(loaded)
    except InvalidMutation as error:
        context.fail(f"--mutate: {error}")
    except (ValueError, NotRecordable) as error:
        context.fail(f"--mutate: the JSON did not parse: {error}")
    return plan


def _run(context: typer.Context, loaded: Trace, plan: Plan, secrets: tuple[str, ...], files: Iterable[str | None]) -> Replayed:
    """Run the command, once it is known that it can be started and that the files can be written."""
    from replay.runs.launch import NoCommand, command_of, folder_of, replay_command
    from replay.runs.process import CannotStart, check_startable

    given = words_behind(context)
    try:
        words = command_of(loaded, given)
        folder = folder_of(loaded, given)
        check_startable(words, folder)
        for file in files:
            check_target(file)
        flush()
        done = replay_command(loaded, words, plan, secrets=secrets, folder=folder)
    except NoCommand as missing:
        context.fail(str(missing))
    except CannotStart as error:
        raise CommandError(str(error), exit_code=_USAGE) from None
    for problem in done.problems:
        if problem.code == "InvalidMutation":  # found by the program's own reader of the result
            context.fail(f"--mutate: {problem.message}")
    return done


def _show_report(done: Replayed, json_file: str | None, svg_file: str | None) -> None:
    """Print the table behind what the program printed, and write the files."""
    from replay.reports.report import DifferentialReport

    if done.report is None or done.ended.stopped_by is not None:
        return
    show(done.report.table(columns()))
    flush()
    if json_file is not None:
        write_file(json_file, json_text(done.report.to_dict()))
    if svg_file is not None and isinstance(done.report, DifferentialReport):
        from replay.reports.plot import rank_shift_svg

        write_file(svg_file, rank_shift_svg(done.report))


def _tell_replayed(done: Replayed, name: str, end: str) -> int:
    """Tell what did not hold, behind what the program told, or that all did and how it ended; return the exit code."""
    if done.ended.stopped_by is not None:
        return _STOPPED
    for remark in done.notes:
        note(remark)
    for problem in done.problems:
        tell_error(as_typed(problem.message, (name,)), problem.code if problem.code.startswith("trace_") else "")
    tell_divergences(str(one["message"]) for one in done.divergences)
    if any(problem.code.startswith("trace_") for problem in done.problems):
        return UNREADABLE
    if not done.faithful:
        return 1
    note(f"faithful: {done.asked:,} of {plural(done.recorded, 'recorded calls')} asked for; {end} ({done.ended.error or 'exit code 0'})")
    return 0


def tell_divergences(messages: Iterable[str]) -> None:
    """Write divergences as blocks on standard error."""
    for message in messages:
        first, _, rest = clean_block(message).partition("\n")
        say_page(styled(f"rag: {first}", 1, 31, stream=sys.stderr) + (f"\n{rest}" if rest else ""))
