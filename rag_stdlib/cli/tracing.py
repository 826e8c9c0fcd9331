"""What the commands about traces share: their errors, the width of what they show, secrets, and files that they write.

A trace that cannot be used ends a command with exit code 3, so that a script can tell it from one that diverged.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from rag_stdlib.cli.frame import CommandError

if TYPE_CHECKING:
    from replay.errors import ReplayError

UNREADABLE: Final = 3

_NARROWEST: Final = 40
_WIDEST: Final = 160
_LEAST_SECRET: Final = 4  # characters; what is shorter stands in every text

TracePath = Annotated[str, typer.Argument(metavar="TRACE", help="A trace file.")]
SecretEnv = Annotated[list[str] | None, typer.Option(
    "--secret-env", metavar="NAME", help="Never write the value of this variable; may be repeated. Names such as "
                                         "..._KEY or ..._TOKEN count without it.")]


@contextmanager
def trace_errors(unreadable: int = UNREADABLE) -> Iterator[None]:
    """End the command with one line for what goes wrong with a trace; `unreadable` is the exit code where the trace is at fault."""
    from replay.errors import NotRecordable, ReplayError, TraceError

    try:
        yield
    except TraceError as error:
        raise CommandError(str(error), code=error.code, exit_code=1 if error.code == "trace_exists" else unreadable) from None
    except (ReplayError, NotRecordable) as error:
        raise CommandError(_line(error)) from None


def _line(error: ReplayError | TypeError) -> str:
    return " ".join(str(error).split("\n"))


def columns() -> int:
    """Return how wide a table may be: as the terminal is, within reason; 100 columns where there is none."""
    return max(_NARROWEST, min(shutil.get_terminal_size((100, 24)).columns, _WIDEST))


def secret_values(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the values of the variables that hold secrets."""
    values = []
    for name in names or ():
        value = os.environ.get(name, "").strip()
        if len(value) < _LEAST_SECRET:
            problem = f"is shorter than {_LEAST_SECRET} characters, which would be hidden everywhere" if value else "is not set"
            raise typer.BadParameter(f"{name} {problem}", param_hint="--secret-env")
        values.append(value)
    return tuple(values)


@contextmanager
def replacing(path: str) -> Iterator[TextIO]:
    """Write a file that takes its place in one step when the block ends well; what is there and no file is written to."""
    target = os.path.realpath(path)
    try:
        if os.path.lexists(target) and not stat.S_ISREG(os.stat(target).st_mode):  # noqa: PTH116 - a name, as it was resolved
            with open(target, "w", encoding="utf-8") as stream:  # noqa: PTH123 - as above
                yield stream
            return
        with _beside(target) as file:
            yield file
    except OSError as error:
        raise CommandError(f"{path!r} cannot be written: {error.strerror or error}") from None


@contextmanager
def _beside(target: str) -> Iterator[TextIO]:
    path = Path(target)
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            yield file
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def write_file(path: str, text: str) -> None:
    """Write a whole file in one step."""
    with replacing(path) as file:
        file.write(text)


def json_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Write JSON in ASCII, as `frame.show_json` prints it, for a file."""
    import json

    return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=2) + "\n"
