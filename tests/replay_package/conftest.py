"""A suite of traced tests, for the tests of the pytest plugin."""

from __future__ import annotations

import pytest
from traced_suite import Suite


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # processes are faster when they need not compile
    return Suite(pytester)
