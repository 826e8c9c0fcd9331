"""`rag corpus add` and `sync`: the list of repositories that an index is to serve, and bringing the index there."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace as with_changes
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.corpuslist import change_list, list_bytes, list_errors, list_path, read_list
from rag_stdlib.cli.frame import (
    AsJson,
    CommandError,
    Index,
    Stopped,
    command,
    group,
    note,
    require,
    runtime_of,
    show_json,
)
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.progress import Shown, bar
from rag_stdlib.cli.terminal import clean, plural, say, show, styled
from rag_stdlib.effects import RAG_WRITE
from rag_stdlib.runtime import Runtime

if TYPE_CHECKING:
    from rag_stdlib.corpus.listfile import ListedRepo
    from rag_stdlib.corpus.reposync import RepoReport, SyncLimits
    from rag_stdlib.corpus.status import Told
    from rag_stdlib.corpus.sync import SyncReport

corpora = group("corpus", "Make, check and sign corpora of repositories.",
                "Corpora from git repositories, described and signed. A corpus is the Markdown files of the repositories on a list, "
                "each repository at one commit.")

ListFile = Annotated[str | None, typer.Option("--list", metavar="FILE", help="The corpus list; otherwise the one of corvid.toml, "
                                                                             "which is corpus-repos.json unless it says another.")]

_ANY_COMMIT: Final = "0" * 40
_ARGUMENT_BYTES: Final = 4_096
COMMIT_DIGITS: Final = 12  # of a commit, where it stands in a line
_LABEL_COLUMNS: Final = 16
_COLOURS: Final[Mapping[str, tuple[int, ...]]] = {"switched": (32,), "removed": (33,), "failed": (1, 31)}


@command("add", "Put a repository on the corpus list.", group=corpora)
def add(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="An https address without credentials, or the folder of a repository here.")],
    repo_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Its name; otherwise made from the last part of the URL.")] = None,
    branch: Annotated[str, typer.Option(metavar="NAME", help="The branch that is served.")] = "main",
    commit: Annotated[str | None, typer.Option(metavar="SHA", help="The reviewed commit; otherwise the branch's present head. "
                                                                   "In the regime pinned.")] = None,
    depth: Annotated[int | None, typer.Option(metavar="N", min=1, help="Fetch so many commits at first. In the regime head.")] = None,
    path: Annotated[list[str] | None, typer.Option(metavar="PATH", help="Only this file or folder; may be repeated. In the regime head.")] = None,
    list_file: ListFile = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of the entry with the same id.")] = False,
) -> None:
    """Put a repository on the corpus list, which is made if it is missing. The index is brought there by rag corpus sync.

    In the regime pinned of corvid.toml's [corpus], an entry names the commit that is served; in the regime head, the branch is followed.
    """
    from rag_stdlib.corpus.listfile import ListedRepo
    from rag_stdlib.corpus.listwrite import id_of

    _require_locks()
    with runtime_of(context) as runtime:
        require(runtime, RAG_WRITE, "rag corpus add")
        _check_options(context, runtime, {"--commit": commit}, {"--depth": depth, "--path": path})
        address = _address(url)
        named = id_of(address) if repo_id is None else repo_id
        if not named:
            raise CommandError(f"no id can be made from {url!r}; give one with --id")
        repo = ListedRepo(named, address, branch, commit, depth, tuple(path or ()))
        replaced, repo = _put(runtime, repo, list_path(runtime, list_file), replace=replace)
    at = f"the head of {repo.branch}" if repo.commit is None else f"{repo.branch} at {repo.commit}"
    asked = ", its present head" if repo.commit != commit else ""
    show(f"{'replaced' if replaced else 'added'} {clean(repo.id)}: {clean(at)}{asked}")


def _require_locks() -> None:
    """End the command on a system without POSIX file locks, which the list and the mirrors are kept by."""
    if importlib.util.find_spec("fcntl") is None:
        raise CommandError("corpora are kept on systems with POSIX file locks (Linux, macOS), and this is none; serve an index that was synced on one")


def _check_options(context: typer.Context, runtime: Runtime, pinned: Mapping[str, Any], head: Mapping[str, Any]) -> None:
    """Refuse options of the other regime, and text that no list can hold."""
    from rag_stdlib.values import check_text

    regime = runtime.config.corpus.regime
    other, others = ("head", head) if regime == "pinned" else ("pinned", pinned)
    for option, value in others.items():
        if value:
            context.fail(f"{option} is for the regime {other}, and [corpus] regime is {regime}")
    for name, value in context.params.items():
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(text, str):
                check_text(f"the argument {name}", text, _ARGUMENT_BYTES)


def _address(typed: str) -> str:
    """Make a folder as typed from here absolute; what git would take for the address of a server stays as it is."""
    if not typed or typed.startswith("/") or ":" in typed.partition("/")[0]:
        return typed
    return str(Path(typed).resolve())


def _put(runtime: Runtime, repo: ListedRepo, path: str, *, replace: bool) -> tuple[bool, ListedRepo]:
    """Put an entry on the list; return whether it replaced another, and the entry with its commit."""
    from rag_stdlib.corpus import listwrite

    regime = runtime.config.corpus.regime

    def with_entry(held: bytes | None, entry: ListedRepo) -> listwrite.Changed:
        with list_errors(path):
            try:
                return listwrite.with_entry(held, entry, regime, replace=replace)
            except listwrite.AlreadyListed as error:
                raise CommandError(f"{error} ({path}); --replace puts this entry in the place of that one") from None
            except listwrite.EntryRefused as error:
                raise CommandError(f"it cannot stand on a corpus list: {error}") from None

    if regime == "pinned" and repo.commit is None:
        with_entry(list_bytes(runtime, path), with_changes(repo, commit=_ANY_COMMIT))  # its other faults are told before anyone is asked
        repo = with_changes(repo, commit=_remote_head(runtime, repo))
    return change_list(runtime, path, lambda held: with_entry(held, repo)).replaced, repo


def _remote_head(runtime: Runtime, repo: ListedRepo) -> str:
    from rag_stdlib.corpus.git import GitFailure, remote_head
    from rag_stdlib.corpus.gitcodes import as_failure

    limits = _limits(runtime)
    try:
        return remote_head(repo.url, repo.branch, limits.fetch_seconds)
    except GitFailure as failure:
        raise as_failure(failure, repo, limits.fetch_seconds) from None


def _limits(runtime: Runtime) -> SyncLimits:
    from rag_stdlib.corpus.reposync import SyncLimits

    bounds = runtime.config.corpus
    return SyncLimits(bounds.max_repo_mb * 1_000_000, bounds.max_file_mb * 1_000_000, bounds.fetch_timeout_s)


@command("sync", "Bring an index to where the list says.", group=corpora)
def sync(context: typer.Context, index: Index, list_file: ListFile = None, as_json: AsJson = False) -> None:
    """Fetch the repositories of the corpus list and bring the index to their commits; repositories that left the list are taken out.

    Each repository is switched in one step, so that a search sees it wholly as it was or wholly as it is. One that fails stays as it was and
    does not stop the others; the exit code is 1 then. A sync that was stopped goes on where it was when it is run again.
    """
    _require_locks()
    from rag_stdlib.corpus.sync import sync as run_sync

    with runtime_of(context) as runtime:
        name = below_root(runtime, index)
        listed = read_list(runtime, list_path(runtime, list_file))
        try:
            with _bars() as told:
                report = run_sync(runtime, name, listed, limits=_limits(runtime), told=told)
        except KeyboardInterrupt:
            raise Stopped("what was switched is stored and the rest is served as before, as rag corpus status shows, "
                          "and the same command goes on from there") from None
    if as_json:
        show_json(report.to_dict())
    else:
        _show_report(report)
    _tell_failed(report)
    if not report.clean:
        raise typer.Exit(1)


@contextmanager
def _bars() -> Iterator[Told]:
    """Show a bar for each repository, one after the other, of how much of its new text is ready."""
    with ExitStack() as opened:
        shown, present = Shown(), ""

        def told(repo_id: str, file: str, done: int, total: int) -> None:
            nonlocal shown, present
            if repo_id != present:
                opened.close()
                shown, present = opened.enter_context(bar(_label(repo_id), "bytes")), repo_id
            shown.describe(file or ("storing" if total else "fetching"))
            if total:
                shown.update(done, total)

        yield told


def _label(repo_id: str) -> str:
    return repo_id if len(repo_id) <= _LABEL_COLUMNS else f"{repo_id[:_LABEL_COLUMNS - 1]}\u2026"


def _show_report(report: SyncReport) -> None:
    width = max((len(repo.id) for repo in report.repos), default=0)
    for repo in report.repos:
        outcome = styled(f"{repo.outcome:<9}", *_COLOURS.get(repo.outcome, ()))
        show(f"{clean(repo.id):<{width}}  {outcome}  {repo.commit[:COMMIT_DIGITS] or '-':<{COMMIT_DIGITS}}  {_counts(repo)}".rstrip())
        reasons = Counter(reason for _, reason in repo.passed_over)
        if reasons:
            told = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0])))
            show(f"{'':<{width}}  passed over: {told}")
    if not report.repos:
        note("the list names no repository, and the index serves none")


def _counts(repo: RepoReport) -> str:
    counts = (repo.new, "new"), (repo.changed, "changed"), (repo.unchanged, "unchanged"), (repo.gone, "gone")
    files = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    embedded = f", {repo.embedded:,} embedded" if repo.embedded else ""
    return f"{files}; {plural(repo.chunks, 'chunks')}{embedded}" if repo.chunks else files


def _tell_failed(report: SyncReport) -> None:
    for repo in report.repos:
        if repo.outcome == "failed":
            say(f"rag: failed [{repo.code}]: {'' if repr(repo.id) in repo.error else f'{repo.id!r}: '}{repo.error}")
        for path, code, error in repo.failed:
            if repo.error != f"{path}: {error}":  # the first failure of a file is its repository's
                say(f"rag: failed [{code}]: {repo.id!r}: {path}: {error}")
