"""ingest_status: how far the corpus is (RAG service contract §5.5). Counts only, unsigned, and no part of what a caller verifies."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Final

from rag_stdlib.contract import loose
from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.corpus.status import last_scan
from rag_stdlib.errors import Failure
from rag_stdlib.index import corpora, sharding
from rag_stdlib.index.corpora import ServedRepo
from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.procedures.desk import Desk
from rag_stdlib.mesh.procedures.params import Params

_COUNTS: Final = ("repos_total", "repos_done", "files_total", "files_seen", "files_changed", "files_unchanged", "files_embedded",
                  "files_failed", "chunks_written")
_OPENING: Final = frozenset({"index_missing", "busy"})
_STATES: Final = ("scanning", "idle")


def ingest_status(desk: Desk, _params: Params, _caller: str | None) -> dict[str, Any]:
    """Answer ``{"scan": {...}, "repos": [...]}``: the last sync, or the present one, and for each listed repository how it is served.

    Times are RFC 3339 in UTC, yes and no are 1 and 0, and what is not known is null. Without a list, or with a broken one, the
    repositories are those that the index serves.

    Raises:
        Failure: a refusal of the index, other than that it is not there yet.
    """
    try:
        with desk.snapshot() as snapshot:
            whole = sharding.shard(snapshot.connection) is None  # else no repository is served, but a part of each
            served = {repo.id: repo for repo in corpora.repos(snapshot.connection)} if whole else {}
            files, opening = corpora.files_by_repo(snapshot.connection), 0
    except Failure as failure:
        if failure.error.code not in _OPENING:
            raise
        served, files, opening = {}, {}, 1
    repos = [{"id": repo_id, "branch": branch, "served": int(repo_id in served), "files_watermarked": files.get(repo_id, 0),
              "head": served[repo_id].commit if repo_id in served else None} for repo_id, branch in _listed(desk, served).items()]
    return {"scan": {**_scan(desk), "store_opening": opening, "next_tick_ms": None}, "repos": repos}


def _listed(desk: Desk, served: dict[str, ServedRepo]) -> dict[str, str]:
    try:
        listed = desk.corpus_list.repos()
    except Refusal:
        listed = None
    return {repo.id: repo.branch for repo in (served.values() if listed is None else listed)}


def _scan(desk: Desk) -> dict[str, Any]:
    told = last_scan(SyncPlace(desk.runtime.root, desk.index))
    current = told.get("current")
    state = told.get("state")
    return {"state": state if state in _STATES else "unknown", "started_at": _time(told.get("started_at")),
            "finished_at": _time(told.get("finished_at")), "duration_ms": _count(told.get("duration_ms"), None),
            "current": {name: _words(current.get(name)) for name in ("repo", "path")} if isinstance(current, dict) else None,
            **{name: _count(told.get(name), 0) for name in _COUNTS}, "last_ingest_at": _time(told.get("last_ingest_at"))}


def _count(value: object, otherwise: int | None) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else otherwise


def _words(value: object) -> str:
    return loose.text(value) or ""


def _time(milliseconds: object) -> str | None:
    """Write Unix milliseconds as ``2026-11-29T12:00:00.000Z``."""
    try:
        if type(milliseconds) is int:
            return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, OSError, ValueError):  # no time that a calendar knows
        pass
    return None
