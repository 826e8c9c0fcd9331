"""A host that runs until it is told to stop: what is tried again, what ends it, and what it says. No mesh is needed."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rag_stdlib.cli import meshrun
from rag_stdlib.cli.meshrun import run_until_told
from rag_stdlib.errors import Failure, fail
from rag_stdlib.mesh.errors import CallError, CallTimeout, InvalidCall, ServeRefused

LOG = logging.getLogger("rag_stdlib")


class Link:
    """A transport, as far as a run looks at it."""

    def __init__(self, *, linked: bool = True) -> None:
        self.linked = linked


class Double:
    """A host that begins as it is told, and notes what is done to it."""

    def __init__(self, transport: Link, failure: Exception | None = None) -> None:
        self.transport = transport
        self.failure = failure
        self.ungranted: Mapping[str, str] = {}
        self.drained = 0

    async def begin(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def drain(self) -> None:
        self.drained += 1


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name, seconds in (("LOOK_S", 0.01), ("FIRST_PAUSE_S", 0.01), ("LONGEST_PAUSE_S", 0.02)):
        monkeypatch.setattr(meshrun, name, seconds)
    told: list[str] = []
    monkeypatch.setattr(meshrun, "note", told.append)
    return told


def run(hosts: list[Double], *connections: Exception | None, during: Callable[[Double], Any] | None = None) -> None:
    """Run, with one outcome for each attempt to link; `during` is awaited beside it, with the last host."""
    outcomes, made = [*connections, *[None] * len(hosts)], list(hosts)

    async def connect() -> Link:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return made[0].transport

    async def body() -> None:
        beside = asyncio.ensure_future(during(hosts[-1])) if during is not None else None
        await run_until_told(connect, lambda _transport: made.pop(0), 30.0)  # type: ignore[arg-type, return-value]
        if beside is not None:
            await beside

    asyncio.run(asyncio.wait_for(body(), 30))


async def until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.005)


def stopped(noted: list[str]) -> Callable[[Double], Any]:
    """Tell it to stop when all is served."""

    async def stop(_host: Double) -> None:
        await until(lambda: "everything is served" in noted)
        os.kill(os.getpid(), signal.SIGINT)

    return stop


def test_a_station_that_keeps_silent_is_tried_after_longer_and_longer_pauses(noted: list[str]) -> None:
    host = Double(Link())
    run([host], *[CallTimeout("any station of s:1", 15.0)] * 3, during=stopped(noted))
    assert noted == [*(f"no reply from any station of s:1 within 15 s; trying again in {pause} s" for pause in ("0.01", "0.02", "0.02")),
                     "linked", "everything is served", "draining; a second signal ends it at once", "drained"]
    assert host.drained == 1


def test_a_station_that_goes_away_while_it_begins_is_tried_again(noted: list[str]) -> None:
    lost, host = Double(Link(linked=False), ServeRefused("acme/x", "no station has accepted it within 35 s")), Double(Link())
    run([lost, host], during=stopped(noted))
    assert noted[0] == "acme/x cannot be served here: no station has accepted it within 35 s; trying again in 0.01 s"
    assert (lost.drained, host.drained) == (1, 1)


@pytest.mark.parametrize("failure", [ServeRefused("acme/x", "it is in the namespace of another node"), fail("not_an_index", path="x", detail="no")])
def test_what_no_waiting_mends_ends_it(noted: list[str], failure: CallError | Failure) -> None:
    host = Double(Link(), failure)
    with pytest.raises(type(failure)):
        run([host])
    assert (noted, host.drained) == ([], 1)
    with pytest.raises(InvalidCall):
        run([], InvalidCall("a seed is none"))


def test_links_and_grants_are_told_when_they_change(noted: list[str]) -> None:
    async def change(host: Double) -> None:
        host.ungranted = {"acme/a": "a cannot be served here: no record", "acme/b": "b"}
        await until(lambda: len(noted) == 2)
        host.ungranted = {"acme/b": "b"}  # which is no news
        await asyncio.sleep(0.03)
        for told, (name, value) in enumerate([("ungranted", {}), ("linked", False), ("linked", True), ("ungranted", {"acme/b": "b again"})], 3):
            setattr(host if name == "ungranted" else host.transport, name, value)
            await until(lambda told=told: len(noted) == told)
        os.kill(os.getpid(), signal.SIGINT)

    run([Double(Link())], during=change)
    assert noted[:-2] == [
        "linked", "2 procedures wait for a grant, which is asked for every 30 s: a cannot be served here: no record", "everything is served",
        "no link to any station; it is made again when one answers", "linked again", "1 procedure waits for a grant, which is asked for every 30 s: b again"]


def test_warnings_and_errors_of_the_library_are_lines(noted: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    async def log(host: Double) -> None:
        await until(lambda: noted)
        LOG.info("no news")
        LOG.warning("the summary of\n%s", "\x1b[31mthis shard")
        try:
            raise OSError("no disk")
        except OSError:
            LOG.exception("the handler of acme/x failed")
        LOG.error("it is not known why", exc_info=OSError("raised nowhere"))
        _held_back()
        await stopped(noted)(host)

    run([Double(Link())], during=log)
    LOG.warning("when it has ended, nothing is told")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "rag: warning: the summary of �[31mthis shard"
    assert lines[1].startswith("rag: error: the handler of acme/x failed: OSError: no disk (test_cli_mesh_run.py:")
    assert lines[2:] == ["rag: error: it is not known why: OSError: raised nowhere"]
    assert noted[-1] == "drained"


def _held_back() -> None:
    """Log as the part of the transport does that waits for grants, which the run itself tells of."""
    record = LOG.makeRecord(LOG.name, logging.WARNING, "macula_serving.py", 1, "not granted; asking again", (), None, "_held_back")
    LOG.handle(record)
