"""A log that forks, goes back, or drops an entry: its witness, a client with a memory and its monitor each catch it, all in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from logs import KEYS, ROOT, write_keys
from signed import LOG, ORIGIN, witness

from rag_stdlib.proof.log.logkeys import LogKeys
from rag_stdlib.proof.log.witness import Witness

HERE = Path(__file__).parent
NAME = "witness.example/w1"
WITNESS = LogKeys(NAME, (witness(1, 4), witness(1, 6)))
KEY = LOG.verifier.text()


class Party:
    """A process to give commands to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, str(HERE / "log_party.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True)

    def __call__(self, *command: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(part) if isinstance(part, Path) else part for part in command]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate(timeout=30)


class World:
    """A folder, an operator, a witness, a client and a monitor."""

    def __init__(self, folder: Path, url: str, operator: Party, client: Party, monitor: Party) -> None:
        self.folder, self.url = folder, url
        self.operator, self.client, self.monitor = operator, client, monitor
        self.log, self.site = folder / "log.db", folder / "site"

    def append(self, *entries: str, log: Path | None = None) -> Any:
        return self.operator("append", self.folder / "log.keys", log or self.log, list(entries))

    def judged(self, log: Path, site: Path) -> tuple[Any, Any, Any]:
        """Show a log to everyone, and return what witness, client and monitor say of it."""
        self.operator("publish", log, site)
        return (self.operator("cosign", self.folder / "log.keys", log, self.url, [key.text() for key in WITNESS.signing]),
                self.client("look", self.folder / "seen", site, ORIGIN, KEY), self.monitor("scan", self.folder / "monitor.db", site, ORIGIN, KEY))


@pytest.fixture(scope="module")
def parties() -> Iterator[list[Party]]:
    """Three processes; what they know of a log is in files alone, so they serve every test."""
    made = [Party() for _ in range(3)]
    yield made
    for party in made:
        party.end()


@pytest.fixture
def world(tmp_path: Path, parties: list[Party]) -> Iterator[World]:
    """All have seen six entries of an honest log."""
    write_keys(tmp_path / "log.keys", KEYS)
    write_keys(tmp_path / "witness.keys", WITNESS)
    Witness.create(tmp_path / "witness.db", NAME)
    with ExitStack() as ending:
        command = [sys.executable, str(HERE / "witness_child.py"), str(tmp_path / "witness.keys"), str(tmp_path / "witness.db"), ORIGIN, KEY]
        served = ending.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT))
        ending.callback(os.kill, served.pid, signal.SIGKILL)
        assert served.stdout is not None
        made = World(tmp_path, served.stdout.readline().decode().strip(), *parties)
        assert made.append("e0", "e1", "e2", "e3") == 4
        shutil.copy(made.log, tmp_path / "four.db")
        assert made.append("e4", "e5") == 6
        assert made.judged(made.log, made.site) == (2, 6, 6), "two cosignatures, six entries"
        yield made


def codes(said: tuple[Any, Any, Any]) -> list[Any]:
    assert isinstance(said[2], list), "the monitor gives an alarm"
    return [said[0], said[1], *(code for code, _ in said[2])]


FORKED = ["refused", "forked", "forked"]  # what a witness says of it is signed by nobody
GONE_BACK = ["refused", "rolled_back", "rolled_back"]


def test_an_honest_log_that_grows_is_taken_by_all(world: World) -> None:
    for size in (7, 8):
        assert world.append(f"e{size - 1}") == size
        assert world.judged(world.log, world.site) == (2, size, size)


def test_a_log_with_two_views_is_caught_by_all(world: World) -> None:
    """Two processes hold a copy each, and append different entries; everyone has seen the first view."""
    other, elsewhere = world.folder / "view.db", world.folder / "view"
    shutil.copy(world.log, other)
    assert world.append("for the many") == 7
    assert world.append("for the one", log=other) == 7
    assert world.judged(world.log, world.site) == (2, 7, 7)
    assert codes(world.judged(other, elsewhere)) == FORKED
    assert world.append("and on", log=other) == 8
    assert codes(world.judged(other, elsewhere)) == FORKED
    assert world.append("e7") == 8
    assert world.judged(world.log, world.site) == (2, 8, 8), "the view that was seen goes on"


def test_a_fork_behind_a_tree_of_a_power_of_two_is_caught_by_all(world: World) -> None:
    """What all have seen is one complete subtree, whose root no proof of consistency repeats."""
    other, elsewhere = world.folder / "view.db", world.folder / "view"
    shutil.copy(world.log, other)
    assert world.append("e6", "e7") == 8
    assert world.judged(world.log, world.site) == (2, 8, 8)
    assert world.append("f6", "f7", "f8", "f9", log=other) == 10
    said = world.judged(other, elsewhere)
    assert codes(said) == FORKED
    assert "entry 6 is another than it was" in said[2][0][1]


@pytest.mark.parametrize("seen", [6, 8])
def test_a_mirror_that_serves_garbage_makes_nobody_call_an_honest_log_forked(world: World, seen: int) -> None:
    """It cannot sign, so it shows the log's own checkpoint, and hashes and entries of its own."""
    if seen > 6:
        world.append("e6", "e7")
    assert world.judged(world.log, world.site) == (2, seen, seen)
    world.append("e8", "e9", "e10")
    mirror = world.folder / "mirror"
    world.operator("publish", world.log, mirror)
    for file in (path for path in mirror.glob("tile/**/*") if path.is_file()):
        file.write_bytes(file.read_bytes().replace(b"e9", b"x9") if "entries" in str(file.relative_to(mirror)) else b"\1" * file.stat().st_size)
    assert world.client("look", world.folder / "seen", mirror, ORIGIN, KEY) == "consistency_not_shown"
    (alarm, words), = world.monitor("scan", world.folder / "monitor.db", mirror, ORIGIN, KEY)
    assert (alarm, "may be at fault" in words) == ("entries_differ", True)
    assert world.judged(world.log, world.site) == (2, seen + 3, seen + 3), "where it is served rightly, all go on"


def test_a_log_that_is_copied_back_is_caught_by_all(world: World) -> None:
    """The operator puts an old copy of the file in its place, as it is and with other entries behind."""
    world.log.unlink()
    shutil.copy(world.folder / "four.db", world.log)
    world.log.chmod(0o600)
    assert world.append() == 4
    assert codes(world.judged(world.log, world.folder / "back")) == GONE_BACK
    assert world.append("f4", "f5", "f6") == 7
    said = world.judged(world.log, world.folder / "again")
    assert codes(said) == FORKED
    assert "entry 4 is another than it was" in said[2][0][1]


def test_the_operators_own_folder_does_not_go_back_either(world: World) -> None:
    world.log.unlink()
    shutil.copy(world.folder / "four.db", world.log)
    world.log.chmod(0o600)
    assert world.operator("publish", world.log, world.site) == "rolled_back"
    assert world.append("f4", "f5", "f6") == 7
    assert world.operator("publish", world.log, world.site) == "forked"


def test_a_log_that_drops_an_entry_is_caught_by_all(world: World) -> None:
    """The operator makes the log again with its own key, without one entry."""
    other = world.folder / "dropped.db"
    for count, entries in enumerate((["e0", "e1", "e3", "e4", "e5", "e6"], ["e7"])):
        assert world.append(*entries, log=other) == 6 + count
        said = world.judged(other, world.folder / f"dropped{count}")
        assert codes(said) == FORKED
        assert "entry 2 is another than it was" in said[2][0][1]
