"""Progress bars on standard error, where it is a terminal that can take one; nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from rag_stdlib.cli.terminal import cells, clean, colour_wanted, is_dumb, is_terminal, size

if TYPE_CHECKING:
    from rich.progress import Task
    from rich.text import Text

Update: TypeAlias = Callable[[int, int], None]

_ITEM_FROM: Final = 100  # columns of a terminal that has room for the name of what is worked on
_ITEM_COLUMNS: Final = 36


@dataclass(slots=True)
class Shown:
    """How a command tells its progress: `update` takes (done, total), `describe` what is being worked on."""

    update: Update = field(default=lambda _done, _total: None)
    describe: Callable[[str], None] = field(default=lambda _item: None)


@contextmanager
def bar(what: str, unit: str) -> Iterator[Shown]:
    """Show a bar with amount, rate and remaining time for the length of the block; `unit` "bytes" is scaled."""
    if not is_terminal(sys.stderr) or is_dumb():
        yield Shown()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Amount(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.total is None else f"{_amount(task.completed, unit)} of {_amount(task.total or 0, unit)}")

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{_amount(speed, unit)}/s" if speed else "")

    console = Console(stderr=True, no_color=not colour_wanted(sys.stderr), highlight=False)
    columns: list[ProgressColumn] = [TextColumn("{task.description}", markup=False), BarColumn(bar_width=max(6, min(30, console.width - 54))),
                                     Amount(), Rate(), TimeRemainingColumn(compact=True)]
    if console.width >= _ITEM_FROM:
        columns.append(TextColumn("{task.fields[item]}", markup=False))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None, item="")
        yield Shown(lambda done, total: progress.update(task, completed=done, total=max(total, 1)),
                    lambda item: progress.update(task, item=ending(clean(item), _ITEM_COLUMNS)))


def _amount(count: float, unit: str) -> str:
    return size(round(count)) if unit == "bytes" else f"{count:,.0f} {unit}"


def ending(text: str, columns: int) -> str:
    """Shorten a text to its last columns, as names of files are told apart by their ends."""
    if sum(map(cells, text)) <= columns:
        return text
    kept, used = len(text), 1
    while used + cells(text[kept - 1]) <= columns:
        kept -= 1
        used += cells(text[kept])
    return f"…{text[kept:]}"
