"""What the tests of mirrors share: fetching, failing, and looking beside."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rag_stdlib.corpus.git import GitFailure, Mirror

MANY = 10**9


def fetch(mirror: Mirror, branch: str = "main", depth: int | None = None, max_bytes: int = MANY, timeout_s: float = 60) -> str:
    return mirror.fetch(branch, depth, max_bytes=max_bytes, timeout_s=timeout_s)


def fails(kind: str, call: Callable[[], object]) -> str:
    with pytest.raises(GitFailure) as caught:
        call()
    assert caught.value.kind == kind, caught.value.detail
    assert "\n" not in caught.value.detail
    return caught.value.detail


def names(mirror: Mirror, commit: str) -> list[bytes]:
    return [entry.name for entry in mirror.entries(commit)]


def beside(mirror: Mirror) -> set[str]:
    return {path.name for path in mirror.path.parent.iterdir()}
