"""`rag corpus status`: what an index serves of the repositories on the list, and how its syncs stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

import typer

from rag_stdlib.cli.corpus import COMMIT_DIGITS, ListFile, corpora
from rag_stdlib.cli.corpuslist import list_path, read_list
from rag_stdlib.cli.frame import AsJson, Index, command, note, require, runtime_of, show_json
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.terminal import clean, plural, show, styled
from rag_stdlib.effects import RAG_READ
from rag_stdlib.runtime import Runtime

if TYPE_CHECKING:
    from rag_stdlib.corpus.listfile import ListedRepo
    from rag_stdlib.index.corpora import ServedRepo, State

_STATES: Final[Mapping[str, tuple[int, ...]]] = {"served": (32,), "behind": (33,), "not served": (33,), "not listed": (33,)}
_STATE_COLUMNS: Final = max(map(len, _STATES))


@command("status", "Show what is served, and the last sync.", group=corpora)
def status(context: typer.Context, index: Index, list_file: ListFile = None, as_json: AsJson = False) -> None:
    """Show what the index serves of each repository on the list, whether a sync is going on, and what the last one did.

    A repository is *behind* where the list says another commit, branch, URL or paths than those that are served. Nothing is fetched: whether
    a branch that is followed has moved is found out by rag corpus sync.
    """
    from rag_stdlib.corpus.places import SyncPlace
    from rag_stdlib.corpus.status import last_scan

    with runtime_of(context) as runtime:
        require(runtime, RAG_READ, "rag corpus status")
        name = below_root(runtime, index)
        rows = list(_rows(runtime, name, read_list(runtime, list_path(runtime, list_file))))
        scan = last_scan(SyncPlace(runtime.root, name))
    if as_json:
        show_json({"repos": rows, "sync": scan})
        return
    width = max((len(clean(row["id"])) for row in rows), default=0)
    for row in rows:
        state = styled(f"{row['state']:<{_STATE_COLUMNS}}", *_STATES[row["state"]])
        show(f"{clean(row['id']):<{width}}  {state}  {_standing(row)}")
        for line in _why(scan, row["id"]):
            show(f"{'':<{width}}  {line}")
    if not rows:
        note("the list names no repository, and the index serves none")
    show(_of_scan(scan))


def _rows(runtime: Runtime, index: str, listed: Sequence[ListedRepo]) -> Iterator[dict[str, Any]]:
    """Give a row for each repository of the list, then for each that is served all the same."""
    from rag_stdlib.index import corpora as tables
    from rag_stdlib.index import sharding

    with runtime.store.reading_if_any(index) as connection:
        if connection is None:
            note(f"there is no index {index!r} yet")
        else:
            sharding.refuse_shard(connection, index, "it holds a part of each repository, whatever the list says; ask for the whole index")
        served = [repo.id for repo in tables.repos(connection)] if connection is not None else []
        states = {repo_id: tables.state(connection, repo_id) for repo_id in served} if connection is not None else {}
    for repo in listed:
        yield _row(repo.id, repo, states.pop(repo.id, None))
    for repo_id, state in states.items():
        yield _row(repo_id, None, state)


def _row(repo_id: str, listed: ListedRepo | None, state: State | None) -> dict[str, Any]:
    served = state.served if state is not None else None
    files = len(state.blobs) if state is not None else 0
    return {"id": repo_id, "state": _state(listed, state), "served": _point(served), "listed": _point(listed), "files": files}


def _point(repo: ListedRepo | ServedRepo | None) -> dict[str, str | None] | None:
    return None if repo is None else {"url": repo.url, "branch": repo.branch, "commit": repo.commit}


def _state(listed: ListedRepo | None, state: State | None) -> str:
    if listed is None:
        return "not listed"
    if state is None or state.served is None:
        return "not served"
    served = state.served
    as_listed = (served.url, served.branch, listed.commit or served.commit) == (listed.url, listed.branch, served.commit)
    return "served" if as_listed and state.rules == "\n".join(listed.paths) else "behind"


def _standing(row: Mapping[str, Any]) -> str:
    """Say what is served, and what the list says instead."""
    served, listed = row["served"], row["listed"]
    parts = [f"{clean(served['branch'])} at {served['commit'][:COMMIT_DIGITS]}, {plural(row['files'], 'files')}"] if served else []
    if row["state"] in ("not served", "behind"):
        at = f" at {listed['commit'][:COMMIT_DIGITS]}" if listed["commit"] else ""
        parts.append(f"listed: {clean(listed['branch'])}{at}")
    return "; ".join(parts)


def _why(scan: Mapping[str, Any], repo_id: str) -> Iterator[str]:
    """Say why the last sync failed for a repository, if it did."""
    failed = scan.get("failed")
    found = failed.get(repo_id) if isinstance(failed, dict) else None
    if isinstance(found, dict):
        yield f"failed at the last sync [{clean(str(found.get('code')))}]: {clean(str(found.get('error')))}"


def _of_scan(scan: Mapping[str, Any]) -> str:
    """Say in a line how the last sync went, or how the present one goes."""
    if "started_at" not in scan:
        return "no sync is known of"
    counts = {name: value if type(value) is int else 0 for name, value in scan.items()}
    begun = _utc(counts["started_at"])
    done, total = counts.get("repos_done", 0), counts.get("repos_total", 0)
    repos = f"{done:,} of {_repositories(total)}"
    if scan["state"] == "unknown":
        return f"last sync: begun {begun}, ended before its time with {repos} done; run rag corpus sync again"
    files = (f"{plural(counts.get('files_changed', 0), 'files')} new or changed, {counts.get('files_unchanged', 0):,} unchanged, "
             f"{counts.get('files_failed', 0):,} failed; {plural(counts.get('chunks_written', 0), 'chunks')}")
    if scan["state"] == "scanning":
        current = scan.get("current")
        at = f", at {clean('/'.join(str(part) for part in current.values() if part))}" if isinstance(current, dict) else ""
        read = f"{counts.get('files_seen', 0):,} of {plural(counts.get('files_total', 0), 'files')} read"
        return f"syncing since {begun}: {repos} done{at}; {read}, {counts.get('files_failed', 0):,} failed"
    ended = f"stopped after {repos}" if done < total else repos
    return f"last sync: {begun}, {counts.get('duration_ms', 0) / 1000:,.1f} s, {ended}; {files}"


def _repositories(count: int) -> str:
    return f"{count:,} {'repository' if count == 1 else 'repositories'}"


def _utc(ms: int) -> str:
    try:
        return f"{datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return "at no known time"
