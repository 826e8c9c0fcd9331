"""Putting a repository into a corpus list: text in, text out, and everything else in the list stays what it was.

The list is held to its rules before and after, so that nothing is written that a sync would refuse.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from rag_stdlib.config import Regime
from rag_stdlib.corpus import listfile
from rag_stdlib.corpus.listfile import ListedRepo, ListRefused

_NOT_IN_AN_ID: Final = re.compile(r"[^a-z0-9]+")
_OWN_FOLDER: Final = ".git"  # of a working copy, and the ending of a bare repository's name


class AlreadyListed(ValueError):  # noqa: N818 - what is the matter with the entry
    """The list has an entry of this id."""


class EntryRefused(ValueError):  # noqa: N818 - as above
    """The new entry breaks a rule of the list; the message names it."""


class Changed(NamedTuple):
    """A list with a new entry, and whether the entry took another one's place."""

    text: str
    replaced: bool


def id_of(url: str) -> str:
    """Make an id for the repository at `url`: the last part of its path, in the letters that an id has; empty where it has none of them."""
    parts = [part for part in url.partition("://")[2 if "://" in url else 0].split("/") if part not in ("", _OWN_FOLDER)]
    return _NOT_IN_AN_ID.sub("-", parts[-1].lower().removesuffix(_OWN_FOLDER)).strip("-") if parts else ""


def with_entry(text: str | bytes | None, repo: ListedRepo, regime: Regime, *, replace: bool = False) -> Changed:
    """Give a corpus list an entry for `repo`: behind the others, or in the place of the one with its id.

    Args:
        text: The list as it is; None makes one.
        repo: What the entry says.
        regime: The regime that the list is for.
        replace: Let the entry take the place of the one with the same id.

    Returns:
        JSON with an indent of two blanks. The other entries are in their order, and keys beside ``repos`` are kept.

    Raises:
        EntryRefused: The entry breaks a rule.
        ListRefused: The list breaks one, without the entry or with it (`listfile.parse`).
        AlreadyListed: There is an entry of this id, and it is not to be replaced.
    """
    entry = _entry(repo)
    _check_alone(entry, regime)
    content: dict[str, Any] = {"repos": []}
    if text is not None:
        ids = [listed.id for listed in listfile.parse(text, regime)]
        content = json.loads(text)
        if repo.id in ids and not replace:
            raise AlreadyListed(f"the id {repo.id!r} is in the list already")
        if repo.id in ids:
            content["repos"][ids.index(repo.id)] = entry
            return Changed(_written(content, regime), replaced=True)
    content["repos"].append(entry)
    return Changed(_written(content, regime), replaced=False)


def _entry(repo: ListedRepo) -> dict[str, Any]:
    optional = {"commit": repo.commit, "depth": repo.depth, "paths": list(repo.paths) or None}
    return {"id": repo.id, "url": repo.url, "branch": repo.branch, **{key: value for key, value in optional.items() if value is not None}}


def _check_alone(entry: dict[str, Any], regime: Regime) -> None:
    try:
        listfile.parse(json.dumps({"repos": [entry]}), regime)
    except ListRefused as refused:
        unplaced = ListRefused(refused.name, *refused.parts)  # it stands nowhere in a list yet
        raise EntryRefused(str(unplaced).removeprefix("corpus list: ")) from None


def _written(content: dict[str, Any], regime: Regime) -> str:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2) + "\n"
    listfile.parse(text, regime)
    return text
