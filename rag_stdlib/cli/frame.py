"""The frame of the command line: the app, its errors and its exit codes.

Exit codes: 0 done; 1 an error, or something the command was asked to find is wrong; 2 usage; 130 stopped by Ctrl-C. An
error is one line on standard error. Standard output carries results only.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import typer

import replay
from rag_stdlib import __version__
from rag_stdlib.cli.page import Command, Commands
from rag_stdlib.cli.terminal import OutputError, flush, say, say_page, show
from rag_stdlib.config import Config
from rag_stdlib.effects import Effect, refusal
from rag_stdlib.errors import Failure
from rag_stdlib.result import Err, RagError, Result
from rag_stdlib.runtime import Runtime

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

INT_MAX: Final = 2**63 - 1  # what the tools take; a greater number on the command line means as much

app = typer.Typer(
    name="rag", cls=Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Ingest documents into one SQLite file and search them, every hit with its evidence.",
    epilog="To begin: rag init, then rag ingest notes.db FOLDER, then rag search notes.db WORDS")

Index = Annotated[str, typer.Argument(metavar="INDEX", help="The index file, below the [io] root.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


class CommandError(Exception):
    """An error that ends the command: its line is printed, with its code if it has one; the exit code is 1 unless it says another."""

    def __init__(self, error: str, *, code: str = "", exit_code: int = 1) -> None:
        """Keep the error to print; a `RagError` brings its code."""
        super().__init__(error)
        self.error = error
        self.code = code
        self.exit_code = exit_code


class Stopped(Exception):  # noqa: N818 - the user's wish is no error
    """Ctrl-C came, and the command has something to say about where things stand."""


@dataclass(slots=True)
class State:
    """What the options before the command say."""

    config: str | None = None


def command(name: str, short: str, *, group: typer.Typer = app, page: type[Command] = Command) -> Callable[[F], F]:
    """Register a command: its name, and what it does in at most 45 characters for the list of commands."""
    return group.command(name, short_help=short, cls=page)


def group(name: str, short: str, text: str) -> typer.Typer:
    """Register a group of commands: its name, what it is for in at most 45 characters, and in whole."""
    made = typer.Typer(name=name, cls=Commands, no_args_is_help=True, rich_markup_mode=None, short_help=short, help=text)
    app.add_typer(made, name=name)
    return made


def _show_version(value: bool) -> None:
    if value:
        show(f"rag {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    config: Annotated[str | None, typer.Option("--config", metavar="FILE",
                                               help="Use this corvid.toml instead of the one found upward.")] = None,
    _version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True,
                                           help="Show the version and exit.")] = False,
) -> None:
    context.obj = State(config)


@contextmanager
def runtime_of(context: typer.Context, **options: Any) -> Iterator[Runtime]:  # noqa: ANN401 - Runtime's own options
    """Make the runtime of the configuration in force, ambient for the block; a command that is replayed can do without one."""
    state: State = context.obj
    try:
        runtime = Runtime(state.config, resident=False, **options)  # a command asks once
    except Failure:
        if not replayed():
            raise
        runtime = Runtime(Config(), resident=False, **options)
    with runtime:
        yield runtime


def replayed() -> bool:
    """Tell whether the command runs in a replay, whose trace answers for what is not there."""
    session = replay.current()
    return session is not None and session.quarantined


def require(runtime: Runtime, effect: Effect, what: str) -> None:
    """End the command where corvid.toml does not grant an effect, for what is done past the tools."""
    refused = refusal(what, (effect,), runtime.config.grant)
    if refused is not None:
        raise CommandError(refused)


def value_of(result: Result[T]) -> T:
    """Return a result's value, telling its notes on standard error, or end the command with its error."""
    if isinstance(result, Err):
        raise CommandError(result.error)
    for remark in result.notes:
        note(remark)
    return result.value


def note(text: str) -> None:
    """Tell something on standard error that is no result."""
    say(f"rag: note: {text}")


def tell_error(error: str, code: str = "") -> None:
    """Tell an error on standard error; `value_of` and `CommandError` do it for those that end the command."""
    code = error.code if isinstance(error, RagError) else code
    say(f"rag: error{f' [{code}]' if code else ''}: {error}")


def show_json(value: Any) -> None:  # noqa: ANN401 - any JSON
    """Print a result as JSON, in ASCII, so that nothing in it can act on a terminal."""
    show(json.dumps(value, ensure_ascii=True, allow_nan=False, indent=2))


@contextmanager
def output_apart(gone: int) -> Iterator[None]:
    """Keep exit code 1 for what a command found: where output cannot be written it ends with 2, and where its reader went away, with `gone`."""
    try:
        yield
        flush()
    except OutputError as error:
        _abandon_output()
        if error.reason:
            raise CommandError(f"standard output cannot be written: {error.reason}", exit_code=2) from None
        raise typer.Exit(gone) from None


def run(arguments: Sequence[str]) -> int:
    """Run a registered command and return its exit code."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())  # a library's warnings and tracebacks are not for here
    try:
        code = _outcome(list(arguments))
        flush()
    except OutputError as error:
        _abandon_output()
        if error.reason:
            tell_error(f"standard output cannot be written: {error.reason}")
        return 1
    return code


def _open_closed_streams() -> None:
    """Give a closed standard stream a file again, lest an index gets its number; writing to standard output then fails."""
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole run
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole run


def _abandon_output() -> None:
    """Let what is still buffered go nowhere, or the interpreter would fail on it at its end."""
    with suppress(OSError, ValueError):  # a stand-in for standard output has no descriptor
        output = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output)
        os.close(nowhere)


def _outcome(arguments: list[str]) -> int:
    try:
        code = app(arguments, prog_name="rag", standalone_mode=False)
    except (CommandError, Failure, replay.ReplayError) as error:
        # of a ReplayError, which the session raised that this command runs in, whoever began that session shows the rest
        tell_error(getattr(error, "error", str(error).partition("\n")[0]), getattr(error, "code", ""))
        return int(getattr(error, "exit_code", 1))
    except Stopped as stopped:
        say(f"rag: stopped; {stopped}")
        return 130
    except typer.TyperException as error:
        return _usage(error)
    except OutputError:
        raise
    except OSError as error:
        tell_error(_explained(error))
        return 1
    except Exception as error:  # noqa: BLE001 - whatever it is, a user has no use for a traceback
        tell_error(f"unexpected {type(error).__name__}: {error}; please report it")
        return 1
    if code == 130:  # noqa: PLR2004 - what the toolkit makes of Ctrl-C
        say("rag: stopped")
    return code if isinstance(code, int) else 0


def _explained(error: OSError) -> str:
    try:
        os.getcwd()  # noqa: PTH109 - asked for its failure
    except OSError as missing:
        return f"the working directory cannot be used: {missing.strerror}; change to another one"
    named = f"{os.fsdecode(error.filename)!r}: " if isinstance(error.filename, (str, bytes)) else ""
    return f"{named}{error.strerror or error}"


def _usage(error: typer.TyperException) -> int:
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        say_page(message)
        return error.exit_code
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "rag"
    # "Value error, " is how typer introduces the words of a ValueError raised by a parameter's own check.
    say(f"rag: usage: {message.replace('Value error, ', '').rstrip('.?')}; see {where} --help")
    return error.exit_code
