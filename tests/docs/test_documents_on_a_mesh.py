"""The documents whose commands need a station are run beside the tests' own; a unit file is one that systemd takes."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from documents import ON_THE_MESH, ROOT, Block, blocks_of, check_console, check_document, environment, matches
from station.station_mesh import LiveMesh

pytest_plugins = ("station.station_fixtures",)

OPERATIONS = ON_THE_MESH[0]
STATION = "station.example.org"
WAIT_S = 60.0
_WANTED = re.compile(r"to the node ([0-9a-f]{64})")


@dataclass
class Neighbourhood:
    """The nodes that a document has begun to run, and the mesh that they are on."""

    mesh: LiveMesh
    ends: ExitStack

    def adapted(self, text: str) -> str:
        """Write a text for the tests' station, whose keys are of the quick profile."""
        station = self.mesh.station
        text = text.replace(f"{STATION}:4433", f"{station.host}:{station.port}").replace(f"{STATION} port 4433", f"{station.host} port {station.port}")
        return text.replace("[mesh]\n", f'[mesh]\nprofile = "{self.mesh.profile}"\ngrant_retry_ms = 200\nquery_timeout_ms = 20000\n')

    def console(self, block: Block, folder: Path, document: Path) -> None:
        """Run a block; where it says *serving*, its command goes on for the rest of the document."""
        if block.rest != "serving":
            check_console(block, folder, document)
            return
        command, _, expected = block.body.removeprefix("$ ").partition("\n")
        output = folder / f"output-{block.line}"
        with output.open("w") as file:
            child = subprocess.Popen(command.split(), cwd=folder, env=environment(), stdout=file, stderr=subprocess.STDOUT)
        self.ends.callback(_end, child)
        end = time.monotonic() + WAIT_S
        while not matches(expected, output.read_text()):
            still_waiting = time.monotonic() < end and child.poll() is None
            assert still_waiting, f"{document.name}:{block.line}\n--- printed\n{output.read_text()}"
            for node in _WANTED.findall(output.read_text()):  # the organisation grants what the document says it has to
                self.mesh.station.admit(node)
            time.sleep(0.1)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    assert child.wait(WAIT_S) == 0


@pytest.fixture
def neighbourhood(mesh: LiveMesh) -> Iterator[Neighbourhood]:
    with ExitStack() as ends:
        yield Neighbourhood(mesh, ends)


@pytest.mark.parametrize("document", ON_THE_MESH, ids=lambda path: path.name)
def test_what_a_document_shows_of_the_mesh_is_what_happens(document: Path, tmp_path: Path, neighbourhood: Neighbourhood) -> None:
    (tmp_path / "realm.key").write_bytes(neighbourhood.mesh.station.realm_key)
    check_document(document, tmp_path, neighbourhood.adapted, neighbourhood.console)


def test_the_lines_to_watch_are_lines_that_are_written() -> None:
    written = "".join(file.read_text() for file in [ROOT / "rag_stdlib" / "cli" / "meshrun.py", *(ROOT / "rag_stdlib" / "mesh").rglob("*.py")])
    lines = re.findall(r"`rag: (?:note|warning|error): ([^`]+)`", OPERATIONS.read_text())
    assert len(lines) > 9
    for line in lines:
        assert any(len(piece) > 5 and piece in written for piece in re.split(r" *[…;,:] *|\d+ | of | for ", line)), line


def unit() -> Block:
    (block,) = [each for each in blocks_of(OPERATIONS) if each.kind == "ini"]
    return block


def test_the_unit_runs_what_the_page_runs() -> None:
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit().body)
    assert parser.sections() == ["Unit", "Service", "Install"]
    program, *arguments = parser["Service"]["ExecStart"].split()
    assert Path(program).name == "rag"
    shown = re.search(r"^\$ rag (mesh serve birds-0.*)$", OPERATIONS.read_text(), re.MULTILINE)
    assert shown is not None
    assert " ".join(arguments).replace("%i", "birds-0") == shown.group(1)
    assert int(parser["Service"]["TimeoutStopSec"]) > 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    block = unit()
    name = block.rest.replace("@", "@birds-0")
    (tmp_path / name).write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", block.body))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(tmp_path / name)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, [line for line in done.stderr.splitlines() if name in line]) == (0, "", [])
