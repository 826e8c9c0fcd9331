"""Reading what a bare repository holds: is it a commit, what is in its tree, what is in a blob.

Everything comes from the object store, so nothing is ever checked out: no filter, hook, link or submodule has a say, and a file is the
bytes that were committed. Each function raises `GitFailure`: `failed` where the store is damaged, `too_large`, `timeout`, `no_git`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rag_stdlib.corpus.gitrun import Deadline, Git, GitFailure, run

# Trees that name one another many times over can stand for more files than any memory holds.
MAX_TREE_BYTES: Final = 64_000_000  # of a listing; some 600,000 files with names of usual length

_OBJECT_ID: Final = re.compile(r"[0-9a-f]{40}")
_LISTED: Final = re.compile(rb"([0-7]{6}) ([a-z]+) ([0-9a-f]{40}) +(-|[0-9]+)\t(.+)", re.DOTALL)
_CHECKED_BYTES: Final = 80  # of a line that tells an object's kind and size


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file, link or submodule of a commit; `name` is its path from the root, `size` is None for what is no blob."""

    mode: str
    kind: str
    id: str
    size: int | None
    name: bytes


def is_object_id(text: str) -> bool:
    """Tell whether a text is the full id of an object: 40 lower-case hex digits."""
    return bool(_OBJECT_ID.fullmatch(text))


def is_commit(folder: Path, commit: str) -> bool:
    """Tell whether the repository holds a commit of this id."""
    return is_object_id(commit) and _kinds_and_sizes(folder, [commit])[0][0] == "commit"


def tree(folder: Path, commit: str, deadline: Deadline | None = None) -> Iterator[TreeEntry]:
    """Give every entry of a commit's tree that is no folder, in git's order."""
    if not is_object_id(commit):
        raise GitFailure("failed", f"{commit!r} is no id of a commit")
    rest, size = b"", 0
    with Git("ls-tree", "-r", "-l", "-z", "--full-tree", commit, folder=folder, deadline=deadline) as git:
        for piece in git.pieces():
            size += len(piece)
            if size > MAX_TREE_BYTES:
                raise GitFailure("too_large", f"the tree of {commit} takes more than {MAX_TREE_BYTES:,} bytes to list")
            *lines, rest = (rest + piece).split(b"\0")
            for line in lines:
                yield _entry(line, commit)
        status, complaint = git.finish()
    if status or rest:
        raise GitFailure("failed", f"the tree of {commit} cannot be read: {complaint}")


def blobs(folder: Path, ids: Iterable[str], max_bytes: int) -> Iterator[tuple[str, bytes | None]]:
    """Give the bytes of each blob, in the order asked for and checked against its id; None for one of more than `max_bytes`."""
    wanted = list(ids)
    if not all(map(is_object_id, wanted)):
        raise GitFailure("failed", "a blob is asked for by what is no id")
    known = list(zip(wanted, _kinds_and_sizes(folder, wanted), strict=True)) if wanted else []
    for blob, (kind, _) in known:
        if kind != "blob":
            raise GitFailure("failed", f"the blob {blob} is {kind}")
    asked = "".join(f"{blob}\n" for blob, (_, size) in known if size <= max_bytes)
    with Git("cat-file", "--batch", "--buffer", folder=folder, stdin=asked.encode()) as git:
        stream = _Stream(git)
        for blob, (_, size) in known:
            yield blob, stream.blob(blob, size) if size <= max_bytes else None


def _entry(line: bytes, commit: str) -> TreeEntry:
    match = _LISTED.fullmatch(line)
    if match is None:  # git writes BAD for the size of what it cannot read
        raise GitFailure("failed", f"the tree of {commit} names a blob that cannot be read: {line.decode(errors='replace')}")
    mode, kind, blob, size, name = match.groups()
    return TreeEntry(mode.decode(), kind.decode(), blob.decode(), None if size == b"-" else int(size), name)


def _kinds_and_sizes(folder: Path, ids: list[str]) -> list[tuple[str, int]]:
    """Return the kind and size of each object, "missing" and 0 for one that is not there."""
    told = run("cat-file", "--batch-check", folder=folder, stdin="".join(f"{blob}\n" for blob in ids).encode(),
               most=len(ids) * _CHECKED_BYTES)
    lines = told.output.decode(errors="replace").splitlines()
    if told.status or len(lines) != len(ids):
        raise GitFailure("failed", f"objects cannot be read: {told.complaint}")
    words = [line.split(" ") for line in lines]
    return [(word[1], int(word[2]) if len(word) > 2 else 0) for word in words]  # noqa: PLR2004 - id, kind, size


class _Stream:
    """The answers of ``git cat-file --batch``, one after the other."""

    def __init__(self, git: Git) -> None:
        self._git, self._pieces, self._buffer = git, git.pieces(), bytearray()

    def blob(self, blob: str, size: int) -> bytes:
        head = f"{blob} blob {size}\n".encode()
        while len(self._buffer) < len(head) + size + 1:
            piece = next(self._pieces, b"")
            if not piece:
                raise GitFailure("failed", f"the blob {blob} cannot be read: {self._git.finish()[1]}")
            self._buffer += piece
        data = bytes(memoryview(self._buffer)[len(head):len(head) + size])
        digest = hashlib.sha1(b"blob %d\0" % size + data, usedforsecurity=False).hexdigest()
        if not self._buffer.startswith(head) or digest != blob:
            raise GitFailure("failed", f"the blob {blob} is damaged")
        del self._buffer[:len(head) + size + 1]
        return data
