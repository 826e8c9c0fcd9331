"""What the tests of the federation share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What slow searches wait for; set in the end, so that no thread is left."""
    event = threading.Event()
    yield event
    event.set()
