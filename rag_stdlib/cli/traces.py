"""`rag trace`: list, show, verify, seal, diff and export traces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_stdlib.cli.frame import AsJson, CommandError, command, group, note, show_json
from rag_stdlib.cli.terminal import clean, plural, show, styled
from rag_stdlib.cli.tracing import UNREADABLE, TracePath, as_typed, check_header, columns, trace_errors

if TYPE_CHECKING:
    from replay.tracefile.verify import Verdict

traces = group("trace", "List, show, check and compare traces.",
               "Look at recorded traces. A trace is a file of one JSON object a line, which rag record and replay.record write.")


@command("list", "List the traces of a folder.", group=traces)
def list_(
    folder: Annotated[str | None, typer.Argument(metavar="[DIR]", help="The folder; otherwise traces, where there is one, "
                                                                       "or the working directory.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the traces of a folder, not of those below it: when each run started, what ran, and whether it came to its end.

    Hash chains and seals are not checked; see rag trace verify. Exit code 3 where a trace cannot be read.
    """
    from rag_stdlib.cli.tracelist import default_folder, summaries, table

    name = folder or default_folder()
    found = summaries(name)
    if as_json:
        show_json([summary.to_dict() for summary in found])
    else:
        if not found:
            note(f"no traces in {name!r}")
        for line in table(found, columns()):
            show(line)
    if any(summary.state == "unreadable" for summary in found):
        raise typer.Exit(UNREADABLE)


@command("show", "Show a run as a timeline.", group=traces)
def show_(
    trace: TracePath,
    step: Annotated[int | None, typer.Option("--step", metavar="N", min=0, help="Print one event whole, by the number "
                                                                                "that the timeline shows.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a run as a timeline: each call, what it asked, how it ended and how long it took. Nothing is checked; see rag trace verify."""
    from replay.reports.timeline import timeline
    from replay.tracefile.reader import EventReader

    with trace_errors(trace):
        check_header(trace)
        if step is not None:
            _show_step(trace, step)
        elif as_json:
            _show_events(EventReader(trace))
        else:
            for line in timeline(trace, width=columns(), styled=styled):
                show(line)


def _show_step(trace: str, step: int) -> None:
    from replay.tracefile.reader import EventReader

    reader = EventReader(trace)
    for event in reader:
        if event.seq == step:
            show_json(event.fields)
            return
    unknown = ", or of a kind that is not known here" if reader.skipped else ""
    raise CommandError(f"there is no step {step} in {trace!r}; give one from 0 to {max(0, reader.chain.count - 1)}{unknown}")


def _show_events(reader: Any) -> None:  # noqa: ANN401 - the reader is not loaded with this module
    """Print all events as a JSON array, one a line, while they are read."""
    lead = "["
    for event in reader:
        show(f"{lead}\n  {json.dumps(event.fields, ensure_ascii=True)}", end="")
        lead = ","
    show("[]" if lead == "[" else "\n]")


@command("verify", "Check a trace's hash chain and seal.", group=traces)
def verify(
    trace: TracePath,
    key: Annotated[str | None, typer.Option("--key", metavar="FILE.pub", help="The public key that the seal must be by.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a trace is whole and as it was written; name the first line that does not hold.

    Exit codes: 0 it holds; 1 it does not; 3 it cannot be read. The hash chain shows damage and careless edits. Whoever can rewrite the whole file can chain it anew, which only a seal
    shows, checked with a public key that you have from elsewhere.
    """
    from replay.tracefile.seal import load_public
    from replay.tracefile.verify import verify_trace

    with trace_errors(trace):
        check_header(trace)
        verdict = verify_trace(trace, None if key is None else load_public(key))
    if as_json:
        show_json({name: getattr(verdict, name) for name in verdict.__slots__})
    else:
        for notice in verdict.notices:
            note(notice)
        _tell_verdict(verdict, trace)
    if not (verdict.ok and verdict.complete):
        raise typer.Exit(1)


def _tell_verdict(verdict: Verdict, trace: str) -> None:
    if not (verdict.ok and verdict.complete):
        # the problem names file and line again, for those who see nothing else
        problem = as_typed(verdict.problem, (trace,))
        problem = problem.removeprefix(f"trace {trace!r}: ").removeprefix(f"line {verdict.line}: ")
        show(f"{styled(_failing(verdict), 1, 31)}: {clean(problem)}")
        return
    show(f"{styled('intact', 1, 32)}: {plural(verdict.events, 'events')}, complete")
    key = clean(verdict.key_id)
    if verdict.seal == "valid":
        show(f"seal: valid, by key {key}, whose holder vouches for every line")
    elif verdict.seal == "unchecked":
        show(f"seal: by key {key}, not checked; give its public key with --key")
    else:
        show("seal: none; a hash chain alone cannot tell who wrote the trace")


def _failing(verdict: Verdict) -> str:
    if verdict.line is None:
        return "not sealed" if verdict.chained else "cannot tell"
    return f"cut off before line {verdict.line}" if verdict.ok else f"does not hold at line {verdict.line}"


@command("seal", "Sign a complete trace.", group=traces)
def seal(
    trace: TracePath,
    key: Annotated[str, typer.Option("--key", metavar="FILE", help="The private key, an Ed25519 key in PEM form.")],
    make_key: Annotated[bool, typer.Option("--make-key", help="Make the key first: FILE for you alone, FILE.pub for others.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a seal by another key.")] = False,
) -> None:
    """Seal a complete, intact trace: sign its last line, and so, through the hash chain, every line.

    The seal says that the holder of the key vouches for the trace as it stands; it does not say when the run was.
    """
    from replay.tracefile import seal as seals

    with trace_errors(trace):
        if make_key:
            seals.check_sealable(trace)
            made = seals.make_key(key)
            note(f"made key {made}: keep {key}, give {key}.pub to those who verify")
        private = seals.load_private(key)
        fresh = seals.seal_trace(trace, private, force=force)
    show(f"{'sealed' if fresh else 'sealed already'} by key {seals.key_id(private.public_key())}")


@command("diff", "Show two runs side by side.", group=traces)
def diff(
    left: Annotated[str, typer.Argument(metavar="A", help="A trace file.")],
    right: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
) -> None:
    """Show two runs side by side, calls aligned; times, ids and seeds do not count.

    Exit codes: 0 the runs are the same; 1 they differ; 3 one cannot be read.
    """
    from replay.reports.compare import side_by_side

    with trace_errors(left, right):
        check_header(left)
        check_header(right)
        text, same = side_by_side(left, right, columns())
    show(text)
    if not same:
        raise typer.Exit(1)


@command("export-otel", "Export a run as OpenTelemetry spans.", group=traces)
def export_otel(
    context: typer.Context,
    trace: TracePath,
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help="Send them by OTLP/HTTP, such as to http://127.0.0.1:4318.")] = None,
    output: Annotated[str | None, typer.Option(metavar="FILE", help="Write them as OTLP JSON, a batch a line.")] = None,
    bodies: Annotated[bool, typer.Option("--bodies", help="Arguments and results too, not only their SHA-256 and length.")] = False,
) -> None:
    """Export a run as OpenTelemetry spans with the gen_ai names: one for the run and one for each call. Needs rag-stdlib[otel].

    Headers and certificates of an endpoint come from the OTEL_EXPORTER_OTLP_... variables.
    """
    if (endpoint is None) == (output is None):
        context.fail("give one of --endpoint and --output")
    from rag_stdlib.cli.spans import describe, to_file
    from replay.reports import otel

    with trace_errors(trace):
        if output is not None:
            count = to_file(trace, output, bodies=bodies)
        else:
            exporter = otel.otlp_exporter(endpoint)
            try:
                count = otel.export(trace, exporter, bodies=bodies, describe=describe(bodies=bodies))
            finally:
                exporter.shutdown()
    show(f"{plural(count, 'spans')} exported")
