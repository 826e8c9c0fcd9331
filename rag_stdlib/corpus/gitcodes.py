"""What git fails with, as the errors of the closed table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_stdlib.corpus.git import GitFailure
from rag_stdlib.corpus.listfile import ListedRepo
from rag_stdlib.errors import Failure, fail

if TYPE_CHECKING:
    from rag_stdlib.corpus.reposync import SyncLimits


def as_failure(failure: GitFailure, listed: ListedRepo, limits: SyncLimits) -> Failure:
    """Say what a failure of git means for a repository of the list."""
    if failure.kind == "no_git":
        return fail("git_missing")
    if failure.kind == "unknown_branch":
        return fail("repo_branch", id=listed.id, branch=listed.branch)
    if failure.kind == "commit_not_on_branch":
        return fail("commit_not_on_branch", id=listed.id, commit=listed.commit, branch=listed.branch)
    if failure.kind == "timeout":
        return fail("repo_timeout", id=listed.id, seconds=limits.fetch_seconds)
    if failure.kind == "busy":
        return fail("corpus_busy", what=f"the repository {listed.id!r}")
    code = {"unreachable": "repo_unreachable", "too_large": "repo_too_large"}.get(failure.kind, "repo_failed")
    return fail(code, id=listed.id, detail=failure.detail)
