"""Repositories for tests of `rag corpus`: those of the tests of the corpus itself."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))
from git_repos import Repo

__all__ = ["Repo", "needs_git"]

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
