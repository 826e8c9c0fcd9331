"""Tests in this folder look at what is in memory after one search; tests/test_first_search.py has the searches before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rag_stdlib.index.resident import cache


@pytest.fixture(autouse=True, scope="module")
def kept_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "SERVED_FIRST", 0)
        yield
