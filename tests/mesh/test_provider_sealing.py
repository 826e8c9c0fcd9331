"""A provider's procedures under seal: the mode that is given is that of each, and a mesh that cannot seal serves nothing in the clear for it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import serving

from rag_stdlib.mesh.errors import NotConfidential
from rag_stdlib.mesh.hosting import Host
from rag_stdlib.mesh.memory import MemoryMesh, MemoryTransport
from rag_stdlib.mesh.provider import Provider
from rag_stdlib.mesh.transport import Confidential, Handler, Served

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    with serving.runtime(tmp_path) as runtime:
        yield serving.with_corpus(runtime)


class Sealing:
    """A node whose procedures can be called under seal; it notes the mode of each."""

    names_kem_key = True

    def __init__(self, inner: MemoryTransport) -> None:
        self._inner = inner
        self.modes: dict[str, str] = {}

    async def serve_sealed(self, procedure: str, handler: Handler, *, confidential: str) -> Served:
        self.modes[procedure] = confidential
        return await self._inner.serve(procedure, handler)

    def __getattr__(self, name: str) -> Any:
        """Be a node in everything else."""
        return getattr(self._inner, name)


@pytest.mark.parametrize("mode", ["off", "preferred", "required", None])
def test_every_procedure_is_served_by_the_mode_of_sealing_that_is_given(provider: Provider, run: Run, mode: Confidential | None) -> None:
    async def scenario() -> None:
        async with MemoryMesh().node() as inner:
            node = Sealing(inner)
            host = Host(node, provider=provider, confidential=mode)  # type: ignore[arg-type]
            await host.begin()
            assert node.modes == ({} if mode is None else {f"acme/{name}": mode for name in provider.procedures})
            assert [info.node for info in await inner.providers("acme/answer_query")] == [node.node_id]
            await host.drain()

    run(scenario())


def test_what_is_to_be_sealed_is_not_served_by_a_mesh_that_cannot(provider: Provider, run: Run) -> None:
    async def scenario() -> None:
        async with MemoryMesh().node() as node:
            with pytest.raises(NotConfidential, match="kem_advertise_disabled"):
                await provider.serve(node, confidential="required")
            assert await node.providers("acme/answer_query") == []
            await (await provider.serve(node, confidential="preferred")).stop()

    run(scenario())
