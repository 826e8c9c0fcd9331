"""A station that lies about who answered: a pinned call over it ends without a reply, and never with a false one."""

from __future__ import annotations

import asyncio

import pytest
from station.station_lies import FORGED, Lie
from station.station_mesh import LiveMesh

from rag_stdlib.mesh.errors import CallError, CallTimeout
from rag_stdlib.mesh.transport import PinnedReply

pytest_plugins = ("station.station_fixtures",)

LIES = [lie for lie in Lie if lie is not Lie.NONE]
TRIES = 3
HONEST_S, LYING_S = 20.0, 0.5  # how long to wait for a reply, and for none


async def outcome(mesh: LiveMesh, payload: object, timeout_s: float = HONEST_S) -> PinnedReply | CallError:
    try:
        return await mesh.node("c").call_pinned(f"{mesh.org}/who", payload, provider=mesh.id("a"), timeout_s=timeout_s)
    except CallError as error:
        return error


@pytest.fixture(scope="module")
def mesh(any_mesh: LiveMesh) -> LiveMesh:
    """Two providers of one procedure, each of which says its name and what it was asked."""
    any_mesh.needs_the_double()
    any_mesh.link("a", "b", "c")
    for role in ("a", "b"):
        node = any_mesh.node(role)
        any_mesh.run(node.serve(f"{any_mesh.org}/who", lambda request, role=role: {"by": role, "asked": request.payload}))
    return any_mesh


@pytest.mark.parametrize("lie", LIES)
def test_a_pinned_call_never_returns_a_false_reply(mesh: LiveMesh, lie: Lie) -> None:
    async def asked() -> list[PinnedReply | CallError]:
        return await asyncio.gather(*(outcome(mesh, number, LYING_S) for number in range(TRIES)))

    assert mesh.run(outcome(mesh, "before")) == PinnedReply({"by": "a", "asked": "before"}, mesh.id("a"))
    told = mesh.station.lies_told()
    mesh.station.lie(lie)
    try:
        found = mesh.run(asked())
    finally:
        mesh.station.lie(Lie.NONE)
    assert mesh.station.lies_told() - told == TRIES
    assert all(isinstance(one, CallTimeout) for one in found), found
    assert mesh.run(outcome(mesh, "after")) == PinnedReply({"by": "a", "asked": "after"}, mesh.id("a"))


def test_a_providers_own_reply_to_the_same_question_does_not_pass_twice(mesh: LiveMesh) -> None:
    """The replayed reply answers the very same payload, so that only the binding to the request tells it from a true one."""
    assert isinstance(mesh.run(outcome(mesh, "same")), PinnedReply)
    mesh.station.lie(Lie.REPLAYED)
    try:
        assert isinstance(mesh.run(outcome(mesh, "same", LYING_S)), CallTimeout)
    finally:
        mesh.station.lie(Lie.NONE)


def test_what_a_lying_station_answers_reaches_no_unpinned_call_either(mesh: LiveMesh) -> None:
    mesh.station.lie(Lie.OWN_NAME)
    try:
        with pytest.raises(CallTimeout):
            mesh.run(mesh.node("c").call(f"{mesh.org}/who", FORGED, timeout_s=LYING_S))
    finally:
        mesh.station.lie(Lie.NONE)
