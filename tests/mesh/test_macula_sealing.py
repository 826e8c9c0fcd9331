"""Calls that no station can read: which are sealed, and what becomes of those that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from station.station_mesh import WAIT_S, LiveMesh, echo

from rag_stdlib.mesh.errors import InvalidCall, NotConfidential, ProviderError
from rag_stdlib.mesh.federation.failures import ConfidentialityRefused
from rag_stdlib.mesh.federation.shard import Federation
from rag_stdlib.mesh.macula import MaculaTransport
from rag_stdlib.mesh.transport import Confidential, SealingTransport

pytest_plugins = ("station.station_fixtures",)

MODES: tuple[Confidential, ...] = get_args(Confidential)


def watched(node: MaculaTransport) -> list[bool]:
    """Note of each call that the node is handed whether it came sealed."""
    seen: list[bool] = []
    serve = node._pool.serve

    async def watching(realm: str, procedure: str, answer: Callable[[Any], Any], **options: Any) -> Any:
        def noted(request: Any) -> Any:
            seen.append(request.sealed)
            return answer(request)

        return await serve(realm, procedure, noted, **options)

    node._pool.serve = watching
    return seen


def test_calls_come_sealed_to_a_node_that_names_a_key_unless_that_is_off(any_mesh: LiveMesh) -> None:
    mesh = any_mesh

    async def sealed() -> dict[str, list[bool]]:
        found: dict[str, list[bool]] = {}
        async with await mesh.join("a", kem_advertise=True) as provider:
            assert isinstance(provider, SealingTransport)
            assert provider.names_kem_key
            seen = watched(provider)
            await provider.serve(f"{mesh.org}/plain", echo)
            for mode in MODES:
                await provider.serve_sealed(f"{mesh.org}/{mode}", echo, confidential=mode)
            for mode in ("plain", *MODES):
                for call in ({"provider": provider.node_id}, {}):
                    asked = mesh.node("c").call_pinned if call else mesh.node("c").call
                    assert (await asked(f"{mesh.org}/{mode}", {"q": mode, "b": b"\0"}, timeout_s=WAIT_S, **call)).value == {"q": mode, "b": b"\0"}
                found[mode] = seen.copy()
                seen.clear()
        return found

    mesh.link("c")
    assert mesh.run(sealed()) == {"plain": [True] * 2, "off": [False] * 2, "preferred": [True] * 2, "required": [True] * 2}


def test_a_node_that_names_no_key_serves_in_the_clear_or_not_at_all(any_mesh: LiveMesh) -> None:
    mesh = any_mesh

    async def clear() -> list[bool]:
        async with await mesh.join("b") as provider:
            assert not provider.names_kem_key
            seen = watched(provider)
            with pytest.raises(NotConfidential) as caught:
                await provider.serve_sealed(f"{mesh.org}/required", echo, confidential="required")
            assert caught.value.name == "kem_advertise_disabled"
            assert (await mesh.node("c").providers(f"{mesh.org}/required"), provider.ungranted) == ([], {})
            for mode in ("off", "preferred"):
                await provider.serve_sealed(f"{mesh.org}/{mode}", echo, confidential=mode)
                await mesh.node("c").call_pinned(f"{mesh.org}/{mode}", provider=provider.node_id, timeout_s=WAIT_S)
            await provider.serve(f"{mesh.org}/required", echo)
        return seen

    mesh.link("c")
    assert mesh.run(clear()) == [False, False]


def test_a_call_in_the_clear_to_one_who_requires_sealing_is_refused_by_name(mesh: LiveMesh, name: str) -> None:
    """As of a caller that remembers the advertisement of before, which named no key."""

    async def refused() -> list[bool]:
        provider, caller = await mesh.join("a", kem_advertise=True), await mesh.join("d")
        async with provider, caller:
            seen = watched(provider)
            served = await provider.serve_sealed(name, echo, confidential="off")
            await caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)
            await served.stop()
            await provider.serve_sealed(name, echo, confidential="required")
            with pytest.raises(ProviderError) as caught:
                await caller.call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)
            assert caught.value.name == "sealed_required"
            await mesh.node("c").call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)
        return seen

    mesh.link("c")
    assert mesh.run(refused()) == [False, True]


def test_a_mode_that_is_none_is_refused(mesh: LiveMesh, name: str) -> None:
    mode: Any
    for mode in ("sealed", "", None, True):
        with pytest.raises(InvalidCall, match="off, preferred, required"):
            mesh.run(mesh.node("c").serve_sealed(name, echo, confidential=mode))


def test_a_refusal_at_the_handler_of_a_sealed_call_keeps_its_name(mesh: LiveMesh, name: str) -> None:
    from rag_stdlib.mesh.errors import Refusal

    def refuses(_request: object) -> object:
        raise Refusal("not_found", "語")

    async def refused() -> None:
        async with await mesh.join("a", kem_advertise=True) as provider:
            await provider.serve_sealed(name, refuses, confidential="required")
            with pytest.raises(ProviderError) as caught:
                await mesh.node("c").call_pinned(name, provider=provider.node_id, timeout_s=WAIT_S)
            assert (caught.value.name, caught.value.detail) == ("not_found", "not_found: 語")

    mesh.link("c")
    mesh.run(refused())


# --- a federation ---

def options(mesh: LiveMesh, **more: Any) -> dict[str, Any]:
    return {"org": mesh.org, "shard_id": "s", "realm_name": mesh.station.realm_name, "embedding": {"model": "m", "dim": 2},
            "query_timeout_ms": 10_000, **more}


def test_a_shard_that_requires_sealing_is_asked_under_seal(mesh: LiveMesh) -> None:
    realm = bytes.fromhex(mesh.station.realm_id)

    async def asked() -> tuple[Any, list[bool]]:
        shard_node, asking_node = await mesh.join("b", kem_advertise=True), await mesh.join("d")
        async with shard_node, asking_node, Federation() as shard, Federation() as asking:
            seen = watched(shard_node)
            await asking.configure(asking_node, realm, options(mesh))
            await shard.configure(shard_node, realm, options(mesh, confidential="required"))
            await shard.register_responder(lambda _query, _top_k: [{"id": "h", "score": 1.0}])
            await shard.advertise()
            return await asking.query({"text": "x"}), seen

    answer, seen = mesh.run(asked())
    assert [hit["node_id"] for hit in answer.hits] == [mesh.id("b")]
    assert seen
    assert all(seen)


def test_a_federation_without_a_key_cannot_require_sealing(mesh: LiveMesh) -> None:
    async def refused() -> None:
        async with Federation() as federation:
            with pytest.raises(ConfidentialityRefused) as caught:
                await federation.configure(mesh.node("c"), bytes.fromhex(mesh.station.realm_id), options(mesh, confidential="required"))
            assert caught.value.reason == "kem_advertise_disabled"
            assert not federation.status().configured

    mesh.link("c")
    mesh.run(refused())
