"""Programs that write traces, for tests that kill, fork, starve and count them: ``python trace_writers.py NAME PATH …``.

They use the package as it is; what they have to tell is JSON on standard output.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from tracing import hiding

from replay.errors import ReplayError
from replay.tracefile.writer import TraceWriter, WriterOptions


def begin(path: str, **options: Any) -> TraceWriter:
    return TraceWriter.create(path, agent="main", args=[], redactor=hiding(), **options)


def tell(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def calls(writer: TraceWriter, name: str, count: int, size: int = 50) -> None:
    """Write calls whose results name their writer and number."""
    for number in range(count):
        step = writer.append("tool_call", {"tool": name, "args": [number]})
        writer.append("tool_result", {"tool": name, "result": [number, "x" * (number * 7919 % size)], "call": step})


def until_killed(path: str, size: str) -> None:
    """Write long events from two threads, for ever."""
    writer = begin(path)
    for name in ("one", "two"):
        threading.Thread(target=calls, args=(writer, name, 1 << 30, int(size)), daemon=True).start()
    tell("ready")
    time.sleep(60)


def joining(path: str, name: str, count: str) -> None:
    """Go on with another process's trace."""
    writer = TraceWriter.join(path, redactor=hiding())
    calls(writer, name, int(count), 300)
    writer.close()


def forking(path: str, count: str) -> None:
    """Fork from a process whose threads are writing; every child writes by the writer that it inherited."""
    writer = begin(path)
    busy = [threading.Thread(target=calls, args=(writer, f"thread{number}", int(count), 3000)) for number in range(2)]
    for thread in busy:
        thread.start()
    children = []
    for number in range(6):
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what is tried here
        pid = os.fork()
        if pid == 0:
            calls(writer, f"child{number}", int(count), 300)
            os._exit(0)
        children.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    for thread in busy:
        thread.join()
    writer.complete(ok=True)
    tell(statuses)


def starved(path: str, limit: str, on_error: str) -> None:
    """Write until the file may not grow any more, and go on trying."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    told: dict[str, Any] = {"steps": [], "raised": []}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            writer = begin(path, options=WriterOptions(on_error=on_error))  # type: ignore[arg-type]
            for number in range(40):
                try:
                    told["steps"].append(writer.append("tool_call", {"tool": "t", "args": [number, "x" * 400]}))
                except ReplayError as error:
                    told["raised"].append(f"{type(error).__name__}: {error}")
            try:
                writer.complete(ok=True)
            except ReplayError as error:
                told["raised"].append(f"{type(error).__name__}: {error}")
            told["failure"] = str(writer.failure)
        except ReplayError as error:
            told["creating"] = [getattr(error, "code", ""), str(error)]
    told["warnings"] = [[type(warning.message).__name__, str(warning.message), Path(warning.filename).name] for warning in seen]
    tell(told)


def unprivileged(path: str, action: str) -> None:
    """Create or join as a user who may do neither."""
    os.setuid(65534)
    told = []
    try:
        begin(path) if action == "create" else TraceWriter.join(path, redactor=hiding())
    except ReplayError as error:
        told.append([getattr(error, "code", ""), str(error)])
    tell(told)


PROGRAMS: dict[str, Callable[..., None]] = {
    "until_killed": until_killed, "joining": joining, "forking": forking, "starved": starved, "unprivileged": unprivileged}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
