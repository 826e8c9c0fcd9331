"""Asking the repository that a list names where its branch is. What fails here is its fault, or the network's, and not the mirror's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rag_stdlib.corpus.gitobjects import is_object_id
from rag_stdlib.corpus.gitrun import Deadline, GitFailure, run
from rag_stdlib.corpus.listfile import is_fit_url

_NO_SUCH_REF: Final = 2  # exit status of ls-remote


def check_url(url: str) -> None:
    """Refuse a url that no corpus list may name.

    Raises:
        GitFailure: `unreachable`.
    """
    if not is_fit_url(url):
        raise GitFailure("unreachable", f"the url {url!r} is neither https:// without credentials nor an absolute path")


def head(url: str, branch: str, deadline: Deadline, keep_open: int | None = None) -> str:
    """Return the commit that a branch points to, 40 hex digits; `keep_open` as in `Git`.

    Raises:
        GitFailure: `unreachable`, `unknown_branch`, `timeout`, `no_git`; `failed` for a repository of other ids.
    """
    check_url(url)
    ref = f"refs/heads/{branch}"
    if not _is_branch_name(branch) or run("check-ref-format", ref, deadline=deadline).status:
        raise GitFailure("unknown_branch", f"{branch!r} is no name that git gives a branch")
    if url.startswith("/"):
        _check_folder(url)
    told = run("ls-remote", "--exit-code", "--", url, ref, deadline=deadline, keep_open=keep_open)
    if told.status not in (0, _NO_SUCH_REF):
        raise GitFailure("unreachable", told.complaint)
    for line in told.output.decode(errors="replace").splitlines():
        commit, _, name = line.partition("\t")
        if name == ref and not is_object_id(commit):
            raise GitFailure("failed", f"the ids of {url} are not of 40 hex digits, and the contract knows no other commits")
        if name == ref:  # git also lists longer names that end alike
            return commit
    raise GitFailure("unknown_branch", f"{url} has no branch {branch!r}")


def _check_folder(url: str) -> None:
    """Refuse what is no folder: git would also read a bundle file."""
    try:
        found = Path(url).is_dir()
    except OSError as error:
        raise GitFailure("unreachable", f"{url}: {error.strerror}") from None
    if not found:
        raise GitFailure("unreachable", f"there is no folder {url}")


def _is_branch_name(branch: str) -> bool:
    """Tell whether a name can be handed to git at all, and will not be taken for an option by a person's git."""
    try:
        branch.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in branch and not branch.startswith("-")
