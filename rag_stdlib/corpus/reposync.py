"""One repository of the list into the index: fetched, compared with what is served, made ready, and switched to in one transaction.

What cannot be stored (a file that no chunker takes, an embedder that fails) leaves the index at the commit that it served before.
"""

from __future__ import annotations

import errno
import logging
import pickle
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, Any, Final, Literal

from rag_stdlib.corpus.files import is_binary, new_file, watermark
from rag_stdlib.corpus.git import GitFailure, Mirror
from rag_stdlib.corpus.gitcodes import as_failure
from rag_stdlib.corpus.listfile import ListedRepo
from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.corpus.staging import Stager
from rag_stdlib.corpus.status import Watch
from rag_stdlib.corpus.tree import Entry, listing
from rag_stdlib.errors import Failure, fail, rag_error
from rag_stdlib.index import corpora, corpuswrite
from rag_stdlib.index.corpuswrite import NewFile
from rag_stdlib.records import Record
from rag_stdlib.result import RagError
from rag_stdlib.runtime import Runtime
from rag_stdlib.values import MAX_ID_BYTES
from replay.errors import ReplayError

_LOG: Final = logging.getLogger("rag_stdlib")
_GROUP_CHUNKS: Final = 512  # made ready, embedded and stored together
_GROUP_BYTES: Final = 8_000_000
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class SyncLimits:
    """What one repository may cost: bytes of its mirror and of a file, and seconds of fetching."""

    repo_bytes: int = 2_000_000_000
    file_bytes: int = 8_000_000
    fetch_seconds: float = 600.0


@dataclass(frozen=True)
class RepoReport(Record):
    """What a sync did with a repository.

    `commit` is what the index serves now (empty: nothing of it), `before` what it served. `passed_over` are files that are not
    ingested by rule, each with the reason; `failed` those that kept the index from moving, each with the code and words of its error.
    """

    id: str
    outcome: Literal["unchanged", "switched", "failed", "removed"]
    commit: str = ""
    before: str = ""
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    chunks: int = 0
    embedded: int = 0
    passed_over: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str, str], ...] = ()
    code: str = ""
    error: str = ""


@dataclass(slots=True)
class RepoSync:
    """The sync of one repository; `run` does it."""

    runtime: Runtime
    index: str
    place: SyncPlace
    listed: ListedRepo
    position: int
    limits: SyncLimits
    watch: Watch
    failed: list[tuple[str, RagError]] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)

    def run(self) -> RepoReport:
        """Sync the repository; whatever fails is in the report, and the index is as before then."""
        before = self._state()
        served = before.served.commit if before.served else ""
        try:
            return self._synced(before, served)
        except Failure as failure:
            return self._failed(served, failure.error)
        except GitFailure as failure:
            return self._failed(served, as_failure(failure, self.listed, self.limits.fetch_seconds).error)
        except OSError as error:  # of the folder beside the index, where new files wait for the switch
            if error.errno in _FULL:
                return self._failed(served, rag_error("disk_full", path=self.index))
            return self._failed(served, rag_error("index_io", path=self.index, detail=error.strerror or str(error)))
        except ReplayError:
            raise  # what a session refuses is no failure of a repository
        except Exception as error:  # noqa: BLE001 - whatever it is, the other repositories go on
            _LOG.exception("the repository %s cannot be synced", self.listed.id)
            return self._failed(served, _unexpected(error))

    def _failed(self, served: str, error: RagError) -> RepoReport:
        self.watch.failed[self.listed.id] = error
        return RepoReport(self.listed.id, "failed", served, served, passed_over=tuple(self.passed_over),
                          failed=tuple((path, reason.code, str(reason)) for path, reason in self.failed), code=error.code, error=str(error))

    def _state(self) -> corpora.State:
        with self.runtime.store.reading_if_any(self.index) as connection:
            return corpora.state(connection, self.listed.id) if connection is not None else corpora.State()

    def _synced(self, before: corpora.State, served: str) -> RepoReport:
        self.watch.at(self.listed.id, "", 0, 0)
        mirror = Mirror(self.place.mirror(self.listed.id), self.listed.url)
        commit = self._wanted_commit(mirror, before)
        after = corpora.ServedRepo(self.listed.id, self.listed.url, self.listed.branch, commit)
        rules = "\n".join(self.listed.paths)
        if before.served == after and before.rules == rules and self._is_cut_by_present_rules(before):
            count = len(before.blobs)
            self.watch.found(count, unchanged=count)
            self.watch.counts.files_unchanged += count
            return RepoReport(self.listed.id, "unchanged", commit, served, unchanged=count)
        return self._moved(mirror, before, after, rules)

    def _wanted_commit(self, mirror: Mirror, before: corpora.State) -> str:
        """Fetch the branch and return the commit to serve: the pin, which must be on it, or its head."""
        listed, pin = self.listed, self.listed.commit
        if pin is not None and before.served == corpora.ServedRepo(listed.id, listed.url, listed.branch, pin) and mirror.has(pin):
            return pin
        head = mirror.fetch(listed.branch, listed.depth, max_bytes=self.limits.repo_bytes, timeout_s=self.limits.fetch_seconds)
        if pin is None:
            return head
        mirror.check_pin(pin, listed.branch)
        return pin

    @staticmethod
    def _is_cut_by_present_rules(before: corpora.State) -> bool:
        return all(mark == watermark(mark.rpartition(":")[2]) for mark in before.blobs.values())

    def _moved(self, mirror: Mirror, before: corpora.State, after: corpora.ServedRepo, rules: str) -> RepoReport:
        found = listing(mirror, after.commit, self.listed.paths, max_file_bytes=self.limits.file_bytes,
                        max_name_bytes=MAX_ID_BYTES - len(corpora.document_id(after.id, "").encode()))
        self.passed_over += found.passed_over
        blobs = before.blobs
        wanted = {corpora.document_id(after.id, entry.path): entry for entry in found.files}
        due = {doc_id: entry for doc_id, entry in wanted.items() if blobs.get(doc_id) != watermark(entry.blob)}
        went = sorted(blobs.keys() - wanted.keys() | blobs.keys() & due.keys())
        self.watch.found(len(wanted), unchanged=len(wanted) - len(due))
        with TemporaryFile(dir=self.place.folder) as spool:  # a folder for temporary files may be small, or memory
            stager = Stager(self.runtime, self.index, went, lambda source, error: self._fail(source.removeprefix(f"{after.id}/"), error))
            stored = self._make_ready(mirror, after, list(due.values()), stager, spool)
            if self.failed:
                path, error = self.failed[0]
                return self._failed(before.served.commit if before.served else "", RagError(f"{path}: {error}", error.code, error.fix))
            plan = corpuswrite.Switch(before, after, rules, self.position, went, lambda: _groups(spool))
            if not corpuswrite.switch(self.runtime.store, self.index, plan, stager.identity):
                raise fail("corpus_changed", path=self.index)
        unchanged, changed = len(wanted) - len(due), len(stored.doc_ids & blobs.keys())
        self.watch.stored()
        self._count(unchanged, stored, embedded=stager.identity is not None)
        return RepoReport(after.id, "switched", after.commit, before.served.commit if before.served else "", len(stored.doc_ids) - changed,
                          changed, unchanged, len(went) - changed, stored.chunks, stager.embedded, tuple(self.passed_over))

    def _make_ready(self, mirror: Mirror, after: corpora.ServedRepo, due: Sequence[Entry], stager: Stager, spool: IO[bytes]) -> _Stored:
        """Cut and embed the files that are due, a group at a time, into the spool."""
        stored, group, chunks, size = _Stored(), list[NewFile](), 0, 0
        total, done = sum(entry.size for entry in due), 0
        with closing(mirror.read_blobs([entry.blob for entry in due])) as blobs:  # whatever ends this ends git
            for entry, (_, data) in zip(due, blobs, strict=True):
                self.watch.at(after.id, entry.path, done, total)
                file = self._new_file(after, entry, data)
                self.watch.counts.files_seen += 1
                size += entry.size
                if file is not None:
                    group.append(file)
                    chunks += file.prepared.chunks
                if chunks >= _GROUP_CHUNKS or size >= _GROUP_BYTES:
                    stored.keep(stager.staged(group), spool)
                    group, chunks, size, done = [], 0, 0, done + size
        stored.keep(stager.staged(group), spool)
        self.watch.at(after.id, "", total, total)
        return stored

    def _new_file(self, after: corpora.ServedRepo, entry: Entry, data: bytes | None) -> NewFile | None:
        """Make a file ready; None for one that is passed over or failed. No file ends the sync of the others."""
        if data is None or is_binary(data):
            self.passed_over.append((entry.path, "too_large" if data is None else "binary"))
            return None
        try:
            return new_file(after, entry.path, watermark(entry.blob), data)
        except Failure as failure:
            if failure.error.code == "too_many_chunks":  # as it will be at each sync to come
                self.passed_over.append((entry.path, "too_many_chunks"))
            else:
                self._fail(entry.path, failure.error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other files go on
            _LOG.exception("the file %r of %s cannot be cut", entry.path, after.id)
            self._fail(entry.path, _unexpected(error))
        return None

    def _fail(self, path: str, error: RagError) -> None:
        self.failed.append((path, error))
        self.watch.counts.files_failed += 1

    def _count(self, unchanged: int, stored: _Stored, *, embedded: bool) -> None:
        """Count what a switch has stored."""
        counts = self.watch.counts
        counts.files_unchanged += unchanged
        counts.files_changed += len(stored.doc_ids)
        counts.chunks_written += stored.chunks
        counts.files_embedded += len(stored.doc_ids) if embedded else 0


@dataclass(slots=True)
class _Stored:
    """What stands in the spool."""

    doc_ids: set[str] = field(default_factory=set)
    chunks: int = 0

    def keep(self, group: Sequence[NewFile], spool: IO[bytes]) -> None:
        """Put a group of files into the spool."""
        if group:
            pickle.dump(group, spool, pickle.HIGHEST_PROTOCOL)
            self.doc_ids.update(file.prepared.doc_id for file in group)
            self.chunks += sum(file.prepared.chunks for file in group)


def _unexpected(error: Exception) -> RagError:
    return rag_error("internal", tool="rag corpus sync", detail=f"{type(error).__name__}: {error}")


def _groups(spool: IO[bytes]) -> Iterator[Sequence[NewFile]]:
    spool.seek(0)
    while True:
        try:
            group: Any = pickle.load(spool)  # noqa: S301 - written by this process, into a file that has no name
        except EOFError:
            return
        yield group
