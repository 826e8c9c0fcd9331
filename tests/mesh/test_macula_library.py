"""The mesh's own library: what is said where it cannot be used, and how it gets a node's key."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from station.station_keys import fixed_key

from rag_stdlib import Failure
from rag_stdlib.contract.nodekeys import PROFILES, Profile
from rag_stdlib.mesh import macula_library
from rag_stdlib.mesh.macula_library import Starts, library, native_key


def refused() -> str:
    with pytest.raises(Failure) as caught:
        library()
    assert caught.value.error.code == "mesh_not_installed"
    assert "pip install 'rag-stdlib[mesh]'" in caught.value.error
    return str(caught.value.error)


def test_a_python_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 14))
    assert "it needs Python 3.11 or later, and this is 3.10" in refused()


@pytest.mark.skipif(sys.version_info < macula_library.OLDEST_PYTHON, reason="this Python is refused before the library is looked for")
def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "macula_py", None)
    assert "macula_py" in refused()


def test_a_platform_without_the_native_part_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
    monkeypatch.setattr("macula_py._native._native", None)
    monkeypatch.setenv("MACULA_LIBRARY_PATH", str(tmp_path / "none.so"))
    assert "none.so" in refused()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("way", ["memory", "no memory", "no /proc"])
def test_a_key_is_handed_over_in_memory_or_else_through_a_file_that_goes(
    profile: Profile, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:
    pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if way == "no memory":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif way == "no /proc":
        monkeypatch.setattr(macula_library, "_OWN_HANDLES", str(tmp_path / "none"))
    key = fixed_key(profile, "a")
    native = native_key(key)
    assert (native.node_id_hex(), native.profile()) == (key.node_id, profile)
    assert list(tmp_path.iterdir()) == []


def test_an_act_that_came_to_nothing_after_all_needs_no_undoing(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")

    async def nothing() -> None:
        starts = Starts()

        async def fails() -> None:
            await asyncio.sleep(0.01)
            raise ValueError

        waiting = asyncio.create_task(starts.run(fails(), lambda _found: asyncio.sleep(0)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await starts.settle()

    run(nothing())
