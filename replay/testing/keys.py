"""Names that the parts of the pytest plugin share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from replay.errors import ReplayError

MARKER: Final = "rag_trace"  # and the fixture
ON_REPORT: Final = "rag_replay"  # the attribute of a test's last report; xdist hands it over from its workers
TEST: Final[pytest.StashKey[Any]] = pytest.StashKey()  # of an item, its TracedTest; of the config, the one that is on
REFUSED: Final[pytest.StashKey[ReplayError]] = pytest.StashKey()  # of an item that may not run, why
