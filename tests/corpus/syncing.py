"""A knowledge base with a corpus list, for tests that sync real repositories into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from git_repos import Repo

from rag_stdlib import QueryOptions, Runtime, rag_check, rag_query
from rag_stdlib.corpus.describe import describe, identity_of
from rag_stdlib.corpus.listfile import ListedRepo
from rag_stdlib.corpus.reposync import RepoReport
from rag_stdlib.corpus.sync import DEFAULT_LIMITS, SyncLimits, SyncReport, sync
from rag_stdlib.index import served

INDEX = "kb.db"
A = "# Alpha\n\nApples are sweet and they keep well in a cool cellar over winter.\n"
B = "# Beta\n\nBananas ripen fast, and faster still beside a bowl of other fruit.\n"


def listed(repo: Repo, repo_id: str = "alpha", commit: str | None = None, **more: Any) -> ListedRepo:
    return ListedRepo(repo_id, repo.url, more.pop("branch", "main"), commit, **more)


def synced(runtime: Runtime, *repos: ListedRepo, limits: SyncLimits = DEFAULT_LIMITS) -> dict[str, RepoReport]:
    report: SyncReport = sync(runtime, INDEX, repos, limits=limits)
    return {repo.id: repo for repo in report.repos}


def commits(runtime: Runtime) -> dict[str, str]:
    """Say what describe_corpus would: each served repository and its commit, in order."""
    with runtime.store.reading(INDEX) as connection:
        description = describe(connection, identity_of(connection, INDEX, runtime.embedder))
    return {repo["id"]: repo["commit"] for repo in description["repos"]}


def paths(runtime: Runtime) -> list[str]:
    with runtime.store.reading(INDEX) as connection:
        return [source.path for source in served.sources_page(connection, 0, 10_000)]


def found(query: str) -> list[str]:
    """Return the texts of the chunks that hold a word of the query, and see that nothing in the index is amiss."""
    check = rag_check(INDEX).unwrap()
    assert check.clean, check.problems
    return sorted(chunk.text for chunk in rag_query(INDEX, query, 1_000, QueryOptions("lexical")).unwrap())


def reasons(passed_over: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    return dict(passed_over)
