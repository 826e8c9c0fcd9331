"""Fixtures of a live mesh. A test module takes them by ``pytest_plugins = ("station.station_fixtures",)``."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest
from station.station_mesh import LiveMesh, open_mesh


@pytest.fixture(scope="module")
def pure_mesh() -> Iterator[LiveMesh]:
    """A mesh of the profile pq_pure."""
    with open_mesh("pq_pure") as mesh:
        yield mesh


@pytest.fixture(scope="module")
def mesh(pure_mesh: LiveMesh) -> LiveMesh:
    """The mesh of a module that has no other."""
    return pure_mesh


@pytest.fixture
def name(mesh: LiveMesh, request: pytest.FixtureRequest) -> str:
    """Give a procedure of the organisation that no other test serves."""
    return f"{mesh.org}/{zlib.crc32(request.node.nodeid.encode())}"


@pytest.fixture(scope="module", params=["pq_pure", "pq_hybrid"])
def any_mesh(request: pytest.FixtureRequest) -> Iterator[LiveMesh]:
    """A mesh of either profile."""
    with open_mesh(request.param) as mesh:
        yield mesh

