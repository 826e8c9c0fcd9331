"""Audit events for tests: one hook for the process, since hooks cannot be taken away, that is off outside of its blocks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_blocks: list[Callable[[str, tuple[Any, ...]], None]] = []
_installed: list[bool] = []


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _blocks and event.startswith("rag_stdlib."):
        _blocks[-1](event, args)


@contextmanager
def audited(forbid: BaseException | None = None, *, at: str = "") -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Collect the library's audit events of the block as (event, arguments); raise `forbid`, if given, at each or at those `at`."""
    if not _installed:
        sys.addaudithook(_hook)
        _installed.append(True)
    seen: list[tuple[str, tuple[Any, ...]]] = []

    def take(event: str, args: tuple[Any, ...]) -> None:
        seen.append((event, args))
        if forbid is not None and at in ("", event):
            raise forbid

    _blocks.append(take)
    try:
        yield seen
    finally:
        _blocks.remove(take)
