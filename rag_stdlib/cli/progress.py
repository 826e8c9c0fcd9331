"""Progress bars on standard error, where it is a terminal; nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rag_stdlib.cli.terminal import clean, colour_wanted


@contextmanager
def counted(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar for work told as (done, total), with its rate and the time that remains."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    with bar(what, unit) as (update, _describe):
        yield update


@contextmanager
def bar(what: str, unit: str) -> Iterator[tuple[Callable[[int, int], None], Callable[[str], None]]]:
    """Give two functions: one that moves the bar to (done, total), one that names what is being worked on."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.1f} {unit}/s" if speed else f"- {unit}/s")

    console = Console(stderr=True, no_color=not colour_wanted(sys.stderr), highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=30),
               TextColumn("{task.completed:,.0f}/{task.total:,.0f}"), Rate(),
               TimeRemainingColumn(), TextColumn("{task.fields[item]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=1, item="")

        def update(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        def describe(item: str) -> None:
            shown = clean(item)
            progress.update(task, item=escape(shown if len(shown) <= 40 else f"…{shown[-39:]}"))  # noqa: PLR2004 - a column

        yield update, describe
