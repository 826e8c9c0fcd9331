"""A mirror of one branch of one repository: a bare object store that git fetches into, and that is never checked out.

A mirror is made beside its place and put there when it is whole. What goes wrong with one that exists (a killed fetch, damaged
objects, another url or branch, too many bytes) is put right by the next fetch, which makes it anew once and exchanges it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rag_stdlib.corpus import gitobjects, gitremote
from rag_stdlib.corpus.gitobjects import TreeEntry
from rag_stdlib.corpus.gitrun import Deadline, Finished, GitFailure, run

__all__ = ["MAX_BLOB_BYTES", "GitFailure", "Mirror", "TreeEntry", "remote_head"]

MAX_BLOB_BYTES: Final = 64 * 1024 * 1024
_MAX_DEPTH: Final = 2**31 - 2  # one more means no bound to git
_DAMAGED: Final = "damaged"  # a file in a mirror that could not be read: do not trust it any more
_IN_A_MIRROR: Final = frozenset({
    "HEAD", "FETCH_HEAD", "config", "description", "objects", "refs", "packed-refs", "shallow", "info", "hooks", "branches", "logs",
    "gc.pid", "gc.log", _DAMAGED})


@dataclass(frozen=True, slots=True)
class _Order:
    """What a fetch was asked for."""

    branch: str
    depth: int | None
    max_bytes: int
    deadline: Deadline

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"


def remote_head(url: str, branch: str, timeout_s: float) -> str:
    """Ask a repository for the commit that a branch points to, 40 hex digits; nothing is fetched.

    Raises:
        GitFailure: `unreachable`, `unknown_branch`, `timeout`, `no_git`, `failed`.
    """
    return gitremote.head(url, branch, Deadline(timeout_s))


class Mirror:
    """The mirror of the repository `url` in the folder `path`, which is made by the first `fetch`.

    Beside it stand ``PATH.lock`` and, while it is made anew, ``PATH.new`` and ``PATH.old``. Every method raises `GitFailure`.
    """

    def __init__(self, path: Path, url: str) -> None:
        """Name a mirror; nothing is opened. `unreachable` for a url that no corpus list may name."""
        gitremote.check_url(url)
        self.path = path.absolute()
        self.url = url
        self._held: tuple[int, int] | None = None  # by which thread, and the descriptor of the lock

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep every other process and thread from fetching, for the block; `fetch` does it by itself.

        Should this process be killed, the lock lasts until the git that it started has ended as well.

        Raises:
            GitFailure: `busy` where another one holds it, `failed` where the folder cannot be used.
        """
        if self._held is not None and self._held[0] == threading.get_ident():
            yield
            return
        lock = self._beside("lock")
        with _told():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            self._take(handle, lock)
            self._held = threading.get_ident(), handle
            try:
                yield
            finally:
                self._held = None
                fcntl.flock(handle, fcntl.LOCK_UN)  # closing would not do: a git that was just killed may have it open still
        finally:
            os.close(handle)

    def fetch(self, branch: str, depth: int | None = None, *, max_bytes: int, timeout_s: float) -> str:
        """Bring the mirror to the branch's present head.

        Args:
            branch: The name of the branch.
            depth: How many commits the first fetch brings at most; a mirror that exists stays full or shallow. None is the full
                history, also of a mirror that was shallow.
            max_bytes: What the mirror's objects may take on disk. One that grows larger is made anew, and refused only then.
            timeout_s: Seconds for all of it.

        Returns:
            The head, 40 hex digits; its whole tree is there.

        Raises:
            GitFailure: `unreachable`, `unknown_branch`, `too_large`, `timeout`, `busy`, `no_git`, `failed`. The mirror still serves
                what it did, unless it was damaged.
        """
        order = _Order(branch, None if depth is None else min(depth, _MAX_DEPTH), max_bytes, Deadline(timeout_s))
        with self.hold(), _told():
            head = gitremote.head(self.url, branch, order.deadline, self._lock)
            if self._is_sound(order):
                try:
                    return self._brought(self.path, order, head)
                except GitFailure as failure:
                    if failure.kind not in ("failed", "too_large"):
                        raise
            return self._made_anew(order, head)

    def has(self, commit: str) -> bool:
        """Tell whether the mirror holds a commit; False also where it is not there, or is damaged and awaits its next fetch."""
        with _told():
            if not self.path.is_dir() or (self.path / _DAMAGED).exists():
                return False
        try:
            return gitobjects.is_commit(self.path, commit)
        except GitFailure as failure:
            if failure.kind != "failed":
                raise
            self._distrust()
            return False

    def is_ancestor(self, commit: str, branch: str) -> bool:
        """Tell whether a commit is the tip of the fetched branch or an ancestor of it."""
        if not self.has(commit):
            return False
        with self._distrusting():
            told = run("merge-base", "--is-ancestor", commit, f"refs/heads/{branch}", folder=self.path)
            if told.status not in (0, 1):
                raise GitFailure("failed", f"the history of {branch!r} cannot be read: {told.complaint}")
        return told.status == 0

    def check_pin(self, commit: str, branch: str) -> None:
        """Refuse a commit that is neither the tip of the fetched branch nor an ancestor of it (§5.2).

        Raises:
            GitFailure: `commit_not_on_branch`.
        """
        if not self.is_ancestor(commit, branch):
            raise GitFailure("commit_not_on_branch", f"the commit {commit} is not on the branch {branch!r} of {self.url}")

    def entries(self, commit: str) -> Iterator[TreeEntry]:
        """Give every file, link and submodule of a commit that the mirror holds, in git's order.

        Raises:
            GitFailure: `failed` where the commit is not there or the mirror is damaged; the next `fetch` makes it anew then.
                `too_large` for a tree that takes more than `gitobjects.MAX_TREE_BYTES` to list.
        """
        if not self.has(commit):
            raise GitFailure("failed", f"the mirror {self.path} does not hold the commit {commit}; fetch it first")
        with self._distrusting():
            yield from gitobjects.tree(self.path, commit)

    def read_blobs(self, ids: Iterable[str], max_bytes: int = MAX_BLOB_BYTES) -> Generator[tuple[str, bytes | None], None, None]:
        """Give the bytes of blobs in the order asked for; None for one of more than `max_bytes`. Closing it ends git.

        Raises:
            GitFailure: `failed` where one is not there or not what its id says; the next `fetch` makes the mirror anew then.
        """
        with self._distrusting():
            yield from gitobjects.blobs(self.path, ids, max_bytes)

    def remove(self) -> None:
        """Delete the mirror and what stands beside it."""
        with self.hold(), _told():
            self._refuse_strangers()
            for path in (self.path, self._beside("new"), self._beside("old")):
                _discard(path)
            self._beside("lock").unlink()

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{suffix}")

    @staticmethod
    def _take(handle: int, lock: Path) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same = os.path.samestat(os.fstat(handle), lock.lstat())  # it may have been removed meanwhile, with its mirror
        except FileNotFoundError:
            same = False
        except BlockingIOError:
            raise GitFailure("busy", f"another process is fetching into {lock.with_suffix('')}") from None
        if not same:
            raise GitFailure("busy", f"another process is removing {lock.with_suffix('')}")

    @property
    def _lock(self) -> int | None:
        return self._held[1] if self._held else None

    def _git(self, *arguments: str, order: _Order, folder: Path, watch: Callable[[], None] = lambda: None) -> Finished:
        return run(*arguments, folder=folder, deadline=order.deadline, watch=watch, keep_open=self._lock)

    def _is_sound(self, order: _Order) -> bool:
        """Tell whether there is a mirror of this url and branch to go on with."""
        if not self._refuse_strangers() or (self.path / _DAMAGED).exists():
            return False
        _sweep(self.path)
        told = self._git("config", "--get", "remote.origin.url", order=order, folder=self.path)
        return told.output == f"{self.url}\n".encode() and self._tip(self.path, order) is not None

    def _refuse_strangers(self) -> bool:
        """Tell whether a folder stands at the mirror's path; refuse one that is no mirror, since it may be exchanged or removed."""
        try:
            kind = self.path.lstat().st_mode
        except FileNotFoundError:
            return False
        if not stat.S_ISDIR(kind):
            raise GitFailure("failed", f"{self.path} is no folder; move it away")
        strange = sorted(name for name in (path.name for path in self.path.iterdir()) if name not in _IN_A_MIRROR and not name.endswith(".lock"))
        if strange:
            raise GitFailure("failed", f"{self.path} holds {strange[0]!r}, so it is no mirror; move it away")
        return True

    def _tip(self, folder: Path, order: _Order) -> str | None:
        told = self._git("rev-parse", "--verify", "--quiet", f"{order.ref}^{{commit}}", order=order, folder=folder)
        return told.output.decode().strip() if told.status == 0 else None

    def _brought(self, folder: Path, order: _Order, head: str) -> str:
        """Bring a repository to the branch's head, and see that the whole tree of it can be read."""
        tip = self._tip(folder, order)
        if tip != head or (order.depth is None and (folder / "shallow").exists()):
            tip = self._transferred(folder, order, first=tip is None)
        _refuse_size(folder, order)
        for _ in gitobjects.tree(folder, tip, order.deadline):
            pass
        return tip

    def _transferred(self, folder: Path, order: _Order, *, first: bool) -> str:
        bounds = []
        if order.depth is None and (folder / "shallow").exists():
            bounds = ["--unshallow"]
        elif order.depth is not None and first:
            bounds = [f"--depth={order.depth}"]
        told = self._git(
            # A git whose parent was killed ends when it finds nobody to tell its progress.
            "fetch", "--progress", "--force", "--no-tags", "--no-auto-gc", "--no-recurse-submodules", "--no-write-fetch-head",
            "--update-shallow", *bounds, "--", self.url, f"+{order.ref}:{order.ref}", order=order, folder=folder,
            watch=lambda: _refuse_size(folder, order))
        tip = self._tip(folder, order)
        if told.status or tip is None:
            raise GitFailure("failed", told.complaint)
        with suppress(GitFailure):  # many packs become one when it is time; a mirror that was not tidied up serves as well
            self._git("gc", "--auto", "--quiet", order=order, folder=folder)
        return tip

    def _made_anew(self, order: _Order, head: str) -> str:
        fresh, old = self._beside("new"), self._beside("old")
        _discard(fresh)
        try:
            for command in (("init", "--quiet", "--bare", "--template=", "--object-format=sha1", str(fresh)),
                            ("config", "remote.origin.url", self.url)):
                told = self._git(*command, order=order, folder=fresh)
                if told.status:
                    raise GitFailure("failed", told.complaint)
            tip = self._brought(fresh, order, head)
            _discard(old)
            with suppress(FileNotFoundError):
                self.path.rename(old)
            fresh.rename(self.path)
        finally:
            _discard(fresh)
        _discard(old)
        return tip

    def _distrust(self) -> None:
        with suppress(OSError):  # it was never fetched, or cannot be written: then the next fetch has its own say
            (self.path / _DAMAGED).touch()

    @contextmanager
    def _distrusting(self) -> Iterator[None]:
        try:
            yield
        except GitFailure as failure:
            if failure.kind == "failed":
                self._distrust()
            raise


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GitFailure("failed", f"{error.filename or 'the mirror'}: {error.strerror or error}") from None


def _refuse_size(folder: Path, order: _Order) -> None:
    size = 0
    for parent, _, names in os.walk(folder / "objects"):
        for name in names:
            with suppress(FileNotFoundError):  # git moved it meanwhile
                size += Path(parent, name).lstat().st_size
    if size > order.max_bytes:
        raise GitFailure("too_large", f"branch {order.branch!r} takes more than {order.max_bytes:,} bytes")


def _sweep(folder: Path) -> None:
    """Delete what a killed git left: we hold the mirror's lock, so nothing of it is in use."""
    for lock in folder.rglob("*.lock"):  # no ref ends so
        lock.unlink()
    for pattern in ("tmp_*", ".tmp-*"):
        for path in list((folder / "objects").rglob(pattern)):
            _discard(path)


def _discard(path: Path) -> None:
    """Delete a folder or file, if it is there; a link goes, and what it leads to stays."""
    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        pass
