"""macula-py, the mesh's own library: loaded where a node first needs it, and handed the node's key.

It is optional, and does not run on every Python and platform. Where it cannot be used, `library` fails with `mesh_not_installed`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.errors import fail
from rag_stdlib.keyfile import save_new_key

if TYPE_CHECKING:
    from types import ModuleType

    import macula_py

T = TypeVar("T")

OLDEST_PYTHON: Final = (3, 11)

_OWNER_ONLY: Final = 0o600
_OWN_HANDLES: Final = "/proc/self/fd"
_SETTLING_S: Final = 5.0


def library() -> ModuleType:
    """Import macula-py and load its native part.

    Raises:
        Failure: `mesh_not_installed`.
    """
    if sys.version_info < OLDEST_PYTHON:
        raise fail("mesh_not_installed", detail=f"it needs Python 3.11 or later, and this is {sys.version_info[0]}.{sys.version_info[1]}")
    try:
        import macula_py
    except ImportError as error:
        raise fail("mesh_not_installed", detail=str(error)) from None
    try:
        macula_py.NodeKey.verify(b"", b"", b"", "pq_pure")  # its first use of the native part, which is not in every wheel
    except (OSError, macula_py.MaculaError) as error:
        raise fail("mesh_not_installed", detail=str(error)) from None
    return macula_py


def native_key(key: NodeKey) -> macula_py.NodeKey:
    """Hand a key to macula-py, which takes none but from a file: one in memory where the system has such, so that no disk ever holds it."""
    import macula_py

    if hasattr(os, "memfd_create") and Path(_OWN_HANDLES).is_dir():
        handle = os.memfd_create("node-key", os.MFD_CLOEXEC)
        try:
            os.fchmod(handle, _OWNER_ONLY)
            with os.fdopen(handle, "wb", closefd=False) as file:
                file.write(key.to_seed_form())
            return macula_py.NodeKey.load(f"{_OWN_HANDLES}/{handle}", key.profile)
        finally:
            os.close(handle)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "node.key")
        save_new_key(path, key)
        return macula_py.NodeKey.load(path, key.profile)


class Starts:
    """Acts of the library that cannot be called off: one whose waiter has gone is undone when it comes to its end."""

    def __init__(self) -> None:
        """Begin with none."""
        self._undoing: Final[set[asyncio.Task[None]]] = set()

    async def run(self, start: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[object]]) -> T:
        """Wait for an act, and return what it gives."""
        act = asyncio.ensure_future(start)
        try:
            return await asyncio.shield(act)
        except asyncio.CancelledError:
            undoing = asyncio.ensure_future(_undone(act, undo))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            raise

    async def settle(self) -> None:
        """Wait for what is being undone, a few seconds at most."""
        if self._undoing:
            await asyncio.wait(self._undoing, timeout=_SETTLING_S)


async def _undone(act: asyncio.Task[T], undo: Callable[[T], Awaitable[object]]) -> None:
    import macula_py

    with suppress(macula_py.MaculaError, ValueError):  # it came to nothing, or is undone already
        await undo(await act)
