"""Folders that indexes share: given back whenever, also by the collector in the midst of another's opening."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib.index import folders
from rag_stdlib.index.folders import Folders
from rag_stdlib.index.store import Store
from rag_stdlib.root import Root


def _descriptors(folder: Path) -> int:
    """Count this process's descriptors of a folder."""
    held = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            held += entry.samefile(folder)
        except OSError:
            continue
    return held


@pytest.mark.timeout(30)
def test_a_store_that_the_collector_closes_while_another_one_opens_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    with Store(Root(str(one))).writing("a.db", create=True):
        pass
    gc.collect()
    forgotten = Store(Root(str(one)))
    with forgotten.reading("a.db"):
        pass
    ring: list[Any] = [forgotten]
    ring.append(ring)
    fstat = os.fstat

    def collecting(descriptor: int) -> os.stat_result:
        gc.collect()
        return fstat(descriptor)

    gc.disable()
    try:
        del forgotten, ring
        assert _descriptors(one) == 1
        monkeypatch.setattr(folders.os, "fstat", collecting)
        store = Store(Root(str(two)))
        with store.writing("b.db", create=True):
            pass
    finally:
        gc.enable()
    assert _descriptors(one) == 0, "the forgotten store still holds its folder"
    store.close()
    assert _descriptors(two) == 0


def test_a_folder_is_open_once_and_until_the_last_place_in_it_is_given_back(tmp_path: Path) -> None:
    root, shared = Root(str(tmp_path)), Folders()
    places = [root.open_place(name) for name in ("a.db", "b.db", "a.db")]
    for place in places:
        shared.adopt(place)
    assert _descriptors(tmp_path) == 1
    assert len({place.folder for place in places}) == 1
    shared.release(places[0])
    assert shared.names[places[2].path] == 1
    shared.release(places[1])
    assert _descriptors(tmp_path) == 1
    shared.release(places[2])
    assert _descriptors(tmp_path) == 0
    assert not shared.names


def test_a_place_that_waits_to_be_given_back_has_nothing_that_closing_it_could_take_from_others(tmp_path: Path) -> None:
    root, shared = Root(str(tmp_path)), Folders()
    mine, failed = root.open_place("a.db"), root.open_place("b.db")
    shared.adopt(mine)
    shared.adopt(failed)
    assert failed.folder == mine.folder
    with shared._lock:  # another thread is at it
        shared.release(failed)
        failed.close()  # as whoever could not open it does
    assert os.fstat(mine.folder).st_ino == tmp_path.stat().st_ino
    descriptor = mine.folder
    shared.release(mine)
    assert not shared.names
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
