"""The vectors that Macula's own projects publish; they are read where they lie, and tests of them are skipped where they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

FOLDER: Final = Path(__file__).parents[2].parent / "shared" / "vectors"

needs_vectors = pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder shared/vectors is not beside the project")


def vectors(name: str) -> Any:
    """Read a file of vectors; an empty list where the folder is absent, so that a table of them can still be collected."""
    return json.loads((FOLDER / name).read_bytes()) if FOLDER.is_dir() else []
