"""The frame of the command line: the app, its errors and its exit codes.

Exit codes: 0 done; 1 an error, or something the command was asked to find is wrong; 2 usage; 130 stopped by Ctrl-C. An
error is one line on standard error. Standard output carries results only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from rag_stdlib import __version__
from rag_stdlib.cli.terminal import clean
from rag_stdlib.errors import Failure
from rag_stdlib.result import Err, RagError, Result
from rag_stdlib.runtime import Runtime

T = TypeVar("T")

app = typer.Typer(name="rag", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
                  context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
                  help="Ingest documents into one SQLite file and search them, every hit with its evidence.")


class CommandError(Exception):
    """An error that ends the command: its line is printed and the exit code is 1."""

    def __init__(self, error: RagError) -> None:
        """Keep the error to print."""
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class State:
    """What the options before the command say."""

    config: str | None = None


def _show_version(value: bool) -> None:
    if value:
        print(f"rag {__version__}")  # noqa: T201 - the answer to --version
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
    """Make the runtime of the configuration in force, ambient for the block."""
    state: State = context.obj
    with Runtime(state.config, **options) as runtime:
        yield runtime


def value_of(result: Result[T]) -> T:
    """Return a result's value, telling its notes on standard error, or end the command with its error."""
    if isinstance(result, Err):
        raise CommandError(result.error)
    for remark in result.notes:
        note(remark)
    return result.value


def note(text: str) -> None:
    """Tell something on standard error that is no result."""
    print(clean(f"rag: note: {text}"), file=sys.stderr)  # noqa: T201 - a command line prints


def index_name(runtime: Runtime, path: str) -> str:
    """Turn a path as typed into one below the root: from the working directory if that lies in the root, else from the root."""
    root, here = Path(runtime.root.path).resolve(), Path.cwd().resolve()
    if path.startswith("/") or here == root or not here.is_relative_to(root):
        return path
    return f"{here.relative_to(root).as_posix()}/{path}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code; nothing that goes wrong shows a traceback."""
    # Commands register themselves on import; they import this module, so this is the place to do it.
    from rag_stdlib.cli import doctor, ingest, manage, search, setup  # noqa: F401 - for their commands

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(arguments: list[str]) -> int:
    try:
        code = app(arguments, prog_name="rag", standalone_mode=False)
        sys.stdout.flush()
    except CommandError as error:
        return _say(f"rag: error [{error.error.code}]: {error.error}", 1)
    except Failure as failure:
        return _say(f"rag: error [{failure.error.code}]: {failure.error}", 1)
    except typer.TyperException as error:
        return _usage(error)
    except (KeyboardInterrupt, typer.Abort):
        return _say("rag: stopped", 130)
    except BrokenPipeError:  # the reader of our output went away: nothing is left to tell it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code if isinstance(code, int) else 0


def _usage(error: typer.TyperException) -> int:
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        return _say(message, 2)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "rag"
    return _say(f"rag: usage: {message.rstrip('.')}; see {command} --help", error.exit_code)


def _say(line: str, code: int) -> int:
    print(clean(line) if "\n" not in line else line, file=sys.stderr)  # noqa: T201 - a command line prints
    return code
