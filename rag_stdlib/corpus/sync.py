"""Bringing an index to where its corpus list says: every repository whole at its commit, and none that the list does not name.

Each repository is switched in one transaction of its own (see `index.corpuswrite`), so that whoever reads meanwhile sees it wholly
as it was or wholly as it is; one that fails stays as it was and keeps no other from moving.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from rag_stdlib.corpus.git import GitFailure, Mirror
from rag_stdlib.corpus.listfile import ListedRepo
from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.corpus.reposync import RepoReport, RepoSync, SyncLimits
from rag_stdlib.corpus.status import Told, Watch
from rag_stdlib.effects import RAG_READ, RAG_WRITE, refusal
from rag_stdlib.errors import Failure
from rag_stdlib.index import corpora, corpuswrite, sharding
from rag_stdlib.records import Record
from rag_stdlib.runtime import Runtime

DEFAULT_LIMITS: Final = SyncLimits()


@dataclass(frozen=True)
class SyncReport(Record):
    """What a sync did: a report for each repository of the list, in its order, then those that were taken out."""

    repos: tuple[RepoReport, ...]

    @property
    def clean(self) -> bool:
        """Whether the index serves every repository of the list as it says, and no other."""
        return all(repo.outcome != "failed" for repo in self.repos)


def sync(runtime: Runtime, index: str, listed: Sequence[ListedRepo], *, limits: SyncLimits = DEFAULT_LIMITS,
         told: Told = lambda _repo, _file, _done, _total: None, clock: Callable[[], float] = time.time) -> SyncReport:
    """Sync an index with a corpus list; `told` hears the repository, the file, and the bytes done and in all.

    Raises:
        Failure: `effect_not_granted`, `corpus_busy`, `index_is_shard`, and refusals of the index. What fails for one repository is in its report.
    """
    for effect in (RAG_READ, RAG_WRITE):
        refused = refusal("rag corpus sync", (effect,), runtime.config.grant)
        if refused is not None:
            raise Failure(refused)
    place = SyncPlace(runtime.root, index)
    with runtime.store.reading_if_any(index) as connection:  # an index that is refused is refused before anything is fetched
        if connection is not None:
            sharding.refuse_shard(connection, index, "a sync would make its repositories whole; sync the whole index, and split it again")
    with place.locked():
        watch = Watch(place.status, clock, told)
        watch.begin(len(listed))
        try:
            removed = _remove_others(runtime, index, {repo.id for repo in listed}, watch)
            reports = []
            for position, repo in enumerate(listed):
                reports.append(RepoSync(runtime, index, place, repo, position, limits, watch).run())
                watch.counts.repos_done += 1
            if all(repo.outcome == "removed" for repo in removed):
                _arrange(runtime, index, [repo.id for repo in listed])
            _drop_mirrors(place, {repo.id for repo in listed})
        finally:
            watch.end()
        report = SyncReport((*reports, *removed))
        if report.clean:
            with suppress(Failure):  # everything is served; what is staged is thrown away by the next sync
                corpuswrite.unstage(runtime.store, index)
    return report


def _remove_others(runtime: Runtime, index: str, listed: set[str], watch: Watch) -> list[RepoReport]:
    """Take out the repositories that are served and not listed any more; one that cannot be taken out now stays whole."""
    with runtime.store.reading_if_any(index) as connection:
        served = corpora.repos(connection) if connection is not None else []
    removed = []
    for repo in served:
        if repo.id in listed:
            continue
        try:
            gone = corpuswrite.remove_repo(runtime.store, index, repo.id)
        except Failure as failure:
            watch.failed[repo.id] = failure.error
            removed.append(RepoReport(repo.id, "failed", repo.commit, repo.commit, code=failure.error.code, error=str(failure.error)))
        else:
            watch.stored()
            removed.append(RepoReport(repo.id, "removed", "", repo.commit, gone=gone))
    return removed


def _arrange(runtime: Runtime, index: str, order: Sequence[str]) -> None:
    """Put what is served into the list's order."""
    with runtime.store.reading_if_any(index) as connection:
        present = connection is not None
    if present:
        corpuswrite.arrange(runtime.store, index, order)


def _drop_mirrors(place: SyncPlace, listed: set[str]) -> None:
    """Let go of mirrors that nobody needs."""
    for repo_id, path in place.mirrors().items():
        if repo_id not in listed:
            with suppress(GitFailure):  # what cannot be deleted now is tried again by the next sync
                Mirror(path, "/").remove()
