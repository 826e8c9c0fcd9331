"""What the tests of a question to all shards share."""

from __future__ import annotations

from typing import Any

from fed_mesh import (
    hit,
)

from rag_stdlib.mesh.federation.query import FederatedAnswer

A1, A2, B1 = hit("a1", 0.4), hit("a2", 0.9), hit("b1", 0.7)


TEXT = {"text": "ravens"}


def ids(answer: FederatedAnswer) -> list[str]:
    return [each["id"] for each in answer.hits]


def nodes(entries: Any) -> list[str]:
    return [entry.node for entry in entries]


def failures(answer: FederatedAnswer) -> list[tuple[str, Any, bool]]:
    return [(each.node, each.reason, each.asked) for each in answer.failed]
