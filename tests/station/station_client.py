"""A running station from the side of a test: where it is, what it is told, and its end.

``MACULA_TESTSTATION`` names a binary of macula-go's ``teststation``, which is then run in place of the double. It is a real one, so what
only the double can do (lie, forget a grant, drop its connections, come back under its port) is refused by `NotTheDouble`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from station.station_frames import IDLE_S
from station.station_lies import Lie

from rag_stdlib.contract.nodekeys import Profile

if TYPE_CHECKING:
    from typing_extensions import Self

TESTS = Path(__file__).parents[1]
REAL = "MACULA_TESTSTATION"

_END_S = 10


class NotTheDouble(Exception):  # noqa: N818 - a state
    """What is asked for cannot be asked of a real station."""


class StationProcess:
    """A station in a process of its own. ``with`` ends it. `idle_s` is the double's, and a real station keeps its own."""

    def __init__(self, profile: Profile, idle_s: float = IDLE_S) -> None:
        self.profile: Profile = profile
        self._idle_s = idle_s
        self._real = os.environ.get(REAL)
        self._admitted: dict[str, None] = {}
        self._begin(port=0)

    @property
    def is_double(self) -> bool:
        """Whether it is ours, and does all that a real one does not."""
        return not self._real

    @property
    def pid(self) -> int:
        return self._child.pid

    def admit(self, node_id: str) -> None:
        """Have the organisation grant its procedures to a node."""
        self._tell(f"admit {node_id}")
        self._admitted[node_id] = None

    def revoke(self, node_id: str) -> None:
        """Take that back."""
        self._tell_double(f"revoke {node_id}")
        self._admitted.pop(node_id, None)

    def lie(self, mode: Lie) -> None:
        """Have it lie about pinned calls, or stop that."""
        self._tell_double(f"lie {mode.value}")

    def lies_told(self) -> int:
        """Count the calls it has lied about."""
        return int(self._tell_double("told").split()[1])

    def drop(self) -> None:
        """Have it close every connection."""
        self._tell_double("drop")

    def restart(self) -> None:
        """End it, and start it again at its port, under its key; it has forgotten all but the grants."""
        self.end()
        self.begin_again()

    def begin_again(self) -> None:
        """Start it again after `end`."""
        self._check_double()
        self._begin(self.port)
        for node_id in self._admitted:
            self._tell(f"admit {node_id}")

    def kill(self) -> None:
        """End it without a word to anyone."""
        self._child.kill()
        self.end()

    def end(self) -> None:
        """End the process, which is this test's own."""
        with suppress(OSError):
            self._child.stdin.close()
        try:
            self._child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(_END_S)
        self._child.stdout.close()

    def __enter__(self) -> Self:
        """Hand it out."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.end()

    def _begin(self, port: int) -> None:
        double = [sys.executable, "-m", "station.station_process", self.profile, str(port), str(self._idle_s)]
        command = [self._real, self.profile] if self._real else double
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=TESTS)
        told = json.loads(self._line())
        first = told["stations"][0]
        self.host: str = first["host"]
        self.port: int = first["port"]
        self.node_id: str = first["node_id"]
        self.realm_name: str = told["realm_name"]
        self.realm_id: str = told["realm_id"]
        self.realm_key = bytes.fromhex(told["realm_key"])
        self.org: str = told["org"]

    def _tell_double(self, command: str) -> str:
        self._check_double()
        return self._tell(command)

    def _check_double(self) -> None:
        if not self.is_double:
            raise NotTheDouble(self._real)

    def _tell(self, command: str) -> str:
        self._child.stdin.write(f"{command}\n")
        self._child.stdin.flush()
        answer = self._line()
        if answer.split()[:1] in ([], ["unknown"]):
            raise RuntimeError(f"the station does not do {command!r}: {answer!r}")
        return answer

    def _line(self) -> str:
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the station ended with {self._child.wait(_END_S)}; its standard error says why")
        return line
