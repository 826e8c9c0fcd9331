"""Which files below the root an ingest takes: named files, and folders by their .gitignore and the given patterns."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rag_stdlib.errors import Failure, fail, rag_error
from rag_stdlib.result import RagError
from rag_stdlib.root import Root
from rag_stdlib.text.loaders import is_supported

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    Rules = tuple[tuple[str, GitIgnoreSpec], ...]


@dataclass(frozen=True, slots=True)
class Picked:
    """A file to ingest: its path below the root, its size in bytes, and whether it was named itself."""

    path: str
    size: int
    named: bool = False


@dataclass(frozen=True, slots=True)
class _Entry:
    """Something in a folder: its kind is the root's word for it, or ``left out``; the rules are those of its folder."""

    path: str
    kind: str
    size: int
    rules: Rules


@dataclass(slots=True)
class Walk:
    """What a walk found: files to ingest, folders walked, how many entries were passed over, and what failed."""

    files: dict[str, Picked] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    passed_over: int = 0
    errors: list[tuple[str, RagError]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Choice:
    """What the options say about files in folders."""

    include: Sequence[str]
    exclude: Sequence[str]
    kept_out: Collection[str]

    def takes(self, path: str, top: str, name: str) -> bool:
        below = path if top == "." else path[len(top) + 1:]

        def matches(patterns: Sequence[str]) -> bool:
            return any(fnmatch.fnmatchcase(candidate, pattern) for pattern in patterns for candidate in (below, name))

        return path not in self.kept_out and (not self.include or matches(self.include)) and not matches(self.exclude)


def pick(root: Root, paths: Sequence[str], include: Sequence[str], exclude: Sequence[str],
         kept_out: Collection[str] = ()) -> Walk:
    """Pick files: each named one as it is, folders recursively.

    In folders, hidden names, links, files that no loader reads, what a .gitignore names and the `kept_out` are passed
    over. `include` and `exclude` are shell patterns on the path below the named folder or on the bare name.
    """
    walk = Walk()
    for path in paths:
        try:
            if root.kind_of(path) == "folder":
                walk.folders.append(path)
                _walk_tree(root, path, walk, _Choice(include, exclude, kept_out))
            else:
                walk.files[path] = Picked(path, _size(root, path), named=True)
        except Failure as failure:
            if failure.error.code in ("root_unconfigured", "root_unusable"):
                raise
            walk.errors.append((path, failure.error))
    return walk


def _size(root: Root, path: str) -> int:
    with root.place(path) as place:
        status = place.check_regular(writing=False, suffixes=())
    if status is None:
        raise fail("file_missing", path=path)
    return status.st_size


def _join(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"


def _rules_above(root: Root, folder: str, walk: Walk) -> Rules:
    """Read the .gitignore files of the root and of the folders between it and `folder`."""
    rules: Rules = ()
    above, parts = ".", [] if folder == "." else folder.split("/")
    for part in parts:
        if root.kind_of(_join(above, ".gitignore")) == "file":
            rules = (*rules, *_read_rules(root, above, walk))
        above = _join(above, part)
    return rules


def _walk_tree(root: Root, top: str, walk: Walk, choice: _Choice) -> None:
    """Walk a folder in the order of its names, however deep it is."""
    ahead = [_Entry(top, "folder", 0, _rules_above(root, top, walk))]
    while ahead:
        entry = ahead.pop()
        name = entry.path.rpartition("/")[2]
        if entry.kind == "folder":
            ahead += reversed(_entries(root, entry, walk))
        elif entry.kind == "file" and is_supported(name) and choice.takes(entry.path, top, name):
            walk.files.setdefault(entry.path, Picked(entry.path, entry.size))
        else:
            walk.passed_over += 1


def _entries(root: Root, folder: _Entry, walk: Walk) -> list[_Entry]:
    """List what a folder holds, hidden and ignored entries as such."""
    try:
        listed = root.list_folder(folder.path)
    except Failure as failure:
        walk.errors.append((folder.path, failure.error))
        return []
    rules = folder.rules
    if any(name == ".gitignore" and kind == "file" for name, kind, _ in listed):
        rules = (*rules, *_read_rules(root, folder.path, walk))
    found = []
    for name, kind, size in listed:
        path = _join(folder.path, name)
        left_out = name.startswith(".") or _ignored(path, kind == "folder", rules)
        found.append(_Entry(path, "left out" if left_out else kind, size, rules))
    return found


def _read_rules(root: Root, folder: str, walk: Walk) -> Iterator[tuple[str, GitIgnoreSpec]]:
    from pathspec import GitIgnoreSpec

    path = _join(folder, ".gitignore")
    try:
        text = root.read_file(path, cap=1_000_000).decode("utf-8-sig", "replace")
        yield folder, GitIgnoreSpec.from_lines(line.removesuffix("\r") for line in text.split("\n"))
    except Failure as failure:
        walk.errors.append((path, failure.error))
    except ValueError as error:  # a pattern that is none
        walk.errors.append((path, rag_error("file_unreadable", name=path, kind=".gitignore", detail=str(error))))


def _ignored(path: str, is_folder: bool, rules: Rules) -> bool:
    """Ask the .gitignore files from the innermost out; the first that has a say decides."""
    for folder, spec in reversed(rules):
        below = path if folder == "." else path[len(folder) + 1:]
        verdict = spec.check_file(f"{below}/" if is_folder else below).include
        if verdict is not None:
            return bool(verdict)
    return False
