"""What the commands about traces share: their errors, the width of what they show, secrets, and files that they write.

A trace that cannot be used ends a command with exit code 3, so that a script can tell it from one that diverged.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from rag_stdlib.cli.frame import CommandError
from rag_stdlib.cli.terminal import is_terminal
from rag_stdlib.wholefile import beside, mode_of, sync_file, sync_folder

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
def trace_errors(*names: str, unreadable: int = UNREADABLE) -> Iterator[None]:
    """End the command with one line for what goes wrong with a trace.

    `names` are the traces as they were typed, and so they are named; `unreadable` is the exit code where a trace is at fault.
    """
    from replay.errors import NotRecordable, ReplayError, TraceError

    try:
        yield
    except TraceError as error:
        told = as_typed(str(error), names)
        raise CommandError(told, code=error.code, exit_code=1 if error.code == "trace_exists" else unreadable) from None
    except (ReplayError, NotRecordable) as error:
        raise CommandError(as_typed(_line(error), names)) from None


def check_header(trace: str) -> None:
    """Refuse what holds no trace, before any of it is shown; a trace whose first line was taken away is one, and another matter.

    Raises:
        TraceError: trace_header, or what keeps the first line from being read.
    """
    from replay.errors import TraceError
    from replay.tracefile.reader import EventReader

    first = next(iter(EventReader(trace, bodies="leave")), None)
    if first is None or (first.kind != "schema_header" and "sha256" not in first.fields):
        raise TraceError("trace_header", "the trace is missing its schema_header, which is the first line", path=trace, line=1)


def as_typed(text: str, names: Sequence[str]) -> str:
    """Name traces in a message as they were typed, where it names them by where they are."""
    for name in names:
        for place in dict.fromkeys((str(Path(name).absolute()), os.path.realpath(name))):
            text = text.replace(f"trace {place!r}", f"trace {name!r}")
    return text


def _line(error: ReplayError | TypeError) -> str:
    return " ".join(str(error).split("\n"))


def columns() -> int:
    """Return how wide a table may be: as the terminal is, or as COLUMNS says, within reason; a file or pipe takes lines of any length."""
    if not (os.environ.get("COLUMNS", "").isdecimal() or is_terminal(sys.stdout)):
        from replay.reports.display import UNLIMITED

        return UNLIMITED
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
    with _writing(path, 1):
        if _is_stream(target):
            with open(target, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a name, as it was resolved
                yield stream
            return
        place = _place(target)
        with beside(place, mode_of(place)) as (temporary, file):
            text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
            yield text
            text.flush()
            sync_file(file)
            temporary.replace(place)
        sync_folder(place.parent)


def check_target(path: str | None) -> None:
    """See that a file can be written, before anything runs whose outcome it is for; its folder is made where it is not there."""
    if path is None:
        return
    target = os.path.realpath(path)
    with _writing(path, 2):
        if _is_stream(target):
            with open(target, "a", encoding="utf-8"):  # noqa: PTH123 - a name, as it was resolved
                return
        with beside(_place(target)):
            pass


@contextmanager
def _writing(path: str, exit_code: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommandError(f"{path!r} cannot be written: {error.strerror or error}; name another file", exit_code=exit_code) from None


def _is_stream(target: str) -> bool:
    """Tell what is there and no file, such as a device; a folder is neither, and is refused when it is opened."""
    return os.path.lexists(target) and not stat.S_ISREG(os.stat(target).st_mode)  # noqa: PTH116 - a name, as it was resolved


def _place(target: str) -> Path:
    """Return the place of a file, in a folder that is there."""
    place = Path(target)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def write_file(path: str, text: str) -> None:
    """Write a whole file in one step."""
    with replacing(path) as file:
        file.write(text)


def json_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Write JSON in ASCII, as `frame.show_json` prints it, for a file."""
    import json

    return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=2) + "\n"
