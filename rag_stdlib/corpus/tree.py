"""What a commit holds for the corpus: its Markdown files, and what is passed over by rule, each with the reason (§5.2, §5.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rag_stdlib.corpus.boilerplate import is_boilerplate_path
from rag_stdlib.corpus.git import Mirror, TreeEntry

Reason: TypeAlias = Literal[
    "boilerplate", "name_not_utf8", "name_unfit", "not_markdown", "outside_paths", "submodule", "symlink", "too_large"]

MAX_FILE_BYTES: Final = 8_000_000
MAX_NAME_BYTES: Final = 1_000  # a document's id holds the name, and has at most 1,024 bytes

_SYMLINK: Final = "120000"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file to ingest: its path from the repository's root, the id of its blob, and the bytes in it."""

    path: str
    blob: str
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """What a commit holds, both parts sorted by path. Bytes of a name that are no UTF-8 are shown as escapes."""

    files: list[Entry]
    passed_over: list[tuple[str, Reason]]


def listing(mirror: Mirror, commit: str, paths: Iterable[str] = (), *, max_file_bytes: int = MAX_FILE_BYTES,
            max_name_bytes: int = MAX_NAME_BYTES) -> Listing:
    """List what a commit holds.

    Args:
        mirror: A mirror that holds the commit.
        commit: The commit, 40 hex digits.
        paths: Files and folders to keep to, by whole segments; several are a union, none is everything.
        max_file_bytes: Larger files are passed over.
        max_name_bytes: The most UTF-8 bytes of a path.

    Raises:
        GitFailure: as `Mirror.entries`.
    """
    kept = [_segments(path) for path in paths]
    files: list[Entry] = []
    passed_over: list[tuple[str, Reason]] = []
    for entry in mirror.entries(commit):
        path = entry.name.decode(errors="backslashreplace")
        reason = "outside_paths" if kept and not _is_inside(_segments(path), kept) else _reason(entry, path, max_file_bytes, max_name_bytes)
        if reason is None:
            files.append(Entry(path, entry.id, entry.size or 0))
        else:
            passed_over.append((path, reason))
    return Listing(sorted(files, key=lambda file: file.path), sorted(passed_over))


def _reason(entry: TreeEntry, path: str, max_file_bytes: int, max_name_bytes: int) -> Reason | None:
    """Say why an entry is passed over; None for one that is not."""
    if entry.kind != "blob":
        return "submodule"
    if entry.mode == _SYMLINK:
        return "symlink"
    if not path.lower().endswith(".md"):
        return "not_markdown"
    return _name_reason(entry.name, path, max_name_bytes) or ("too_large" if (entry.size or 0) > max_file_bytes else None)


def _name_reason(name: bytes, path: str, max_bytes: int) -> Reason | None:
    if path.encode() != name:
        return "name_not_utf8"
    if len(name) > max_bytes or not {"", ".", ".."}.isdisjoint(path.split("/")):
        return "name_unfit"
    return "boilerplate" if is_boilerplate_path(path) else None


def _segments(path: str) -> tuple[str, ...]:
    return tuple(segment for segment in path.split("/") if segment not in ("", "."))


def _is_inside(path: tuple[str, ...], kept: list[tuple[str, ...]]) -> bool:
    return any(path[:len(prefix)] == prefix for prefix in kept)
