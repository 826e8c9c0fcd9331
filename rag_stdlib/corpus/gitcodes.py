"""What git fails with, as the errors of the closed table."""

from __future__ import annotations

from rag_stdlib.corpus.git import GitFailure
from rag_stdlib.corpus.listfile import ListedRepo
from rag_stdlib.errors import Failure, fail


def as_failure(failure: GitFailure, listed: ListedRepo, seconds: float) -> Failure:
    """Say what a failure of git means for a repository of the list; `seconds` is how long a fetch may take."""
    if failure.kind == "no_git":
        return fail("git_missing")
    if failure.kind == "unknown_branch":
        return fail("repo_branch", id=listed.id, branch=listed.branch)
    if failure.kind == "commit_not_on_branch":
        return fail("commit_not_on_branch", id=listed.id, commit=listed.commit, branch=listed.branch)
    if failure.kind == "timeout":
        return fail("repo_timeout", id=listed.id, seconds=seconds)
    if failure.kind == "busy":
        return fail("corpus_busy", what=f"the repository {listed.id!r}")
    code = {"unreachable": "repo_unreachable", "too_large": "repo_too_large"}.get(failure.kind, "repo_failed")
    return fail(code, id=listed.id, detail=failure.detail)
