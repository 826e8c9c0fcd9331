"""ingest_status: counts of the last sync, and how the listed repositories are served (RAG service contract §5.5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import serving
from serving import ALPHA, ALPHA_FILES, BETA, INDEX, V1, refusal_of

from rag_stdlib import Runtime
from rag_stdlib.corpus.places import SyncPlace
from rag_stdlib.corpus.status import Watch
from rag_stdlib.mesh.provider import Provider

SCAN = {"state", "started_at", "finished_at", "duration_ms", "current", "repos_total", "repos_done", "files_total", "files_seen", "files_changed",
        "files_unchanged", "files_embedded", "files_failed", "chunks_written", "last_ingest_at", "store_opening", "next_tick_ms"}


def status(provider: Provider) -> dict[str, Any]:
    told: Any = provider.handle("ingest_status", None)
    assert serving.is_wire(told)
    assert told.keys() == {"scan", "repos"}
    assert told["scan"].keys() == SCAN
    return told


def watch(runtime: Runtime) -> Watch:
    place = SyncPlace(runtime.root, INDEX)
    place.folder.mkdir(parents=True, exist_ok=True)
    return Watch(place.status, clock=iter([1_700_000_000.0 + second for second in range(100)]).__next__)


def test_before_any_sync_nothing_is_known_and_nothing_is_refused(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        told = status(serving.served(runtime))
    assert told["repos"] == []
    assert (told["scan"]["state"], told["scan"]["store_opening"], told["scan"]["started_at"], told["scan"]["current"]) == ("unknown", 1, None, None)
    assert told["scan"]["files_total"] == 0


def test_x10_a_listed_repository_is_served_or_still_to_come(tmp_path: Path) -> None:
    serving.write_list(tmp_path, BETA, ALPHA)
    with serving.runtime(tmp_path) as runtime:
        serving.switch(runtime, ALPHA, ALPHA_FILES)
        told = status(serving.served(runtime, list_file=serving.LIST))
        assert told["repos"] == [
            {"id": "beta", "branch": "trunk", "served": 0, "head": None, "files_watermarked": 0},
            {"id": "alpha", "branch": "main", "served": 1, "head": V1, "files_watermarked": 2}]
        assert told["scan"]["store_opening"] == 0
        unlisted = status(serving.served(runtime))
        assert [repo["id"] for repo in unlisted["repos"]] == ["alpha"]
        (tmp_path / serving.LIST).write_text("{")
        assert status(serving.served(runtime, list_file=serving.LIST)) == unlisted, "a broken list does not hide how far the index is"


def test_the_counts_of_a_sync_are_told_while_it_goes_and_afterwards(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        kept = watch(runtime)
        with SyncPlace(runtime.root, INDEX).locked():
            kept.begin(2)
            kept.counts.files_seen = 7
            kept.at("alpha", "guide.md", 1, 2)
            scan = status(provider)["scan"]
            assert (scan["state"], scan["files_seen"], scan["repos_total"]) == ("scanning", 7, 2)
            assert scan["current"] == {"repo": "alpha", "path": "guide.md"}
            assert (scan["started_at"], scan["finished_at"]) == ("2023-11-14T22:13:20.000Z", None)
        assert status(provider)["scan"]["state"] == "unknown", "it ended without a word"
        kept.stored()
        kept.end()
        scan = status(provider)["scan"]
        assert (scan["state"], scan["current"]) == ("idle", None)
        assert scan["finished_at"] > scan["last_ingest_at"] > scan["started_at"]
        assert scan["duration_ms"] > 0


@pytest.mark.parametrize("value", [True, "7", None, 7.5, [], {}, -1, 2**63, 10**30])
def test_a_status_file_with_something_else_in_it_is_told_as_unknown(tmp_path: Path, value: object) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        told = dict.fromkeys(SCAN, value)
        place = SyncPlace(runtime.root, INDEX)
        place.folder.mkdir(parents=True, exist_ok=True)
        place.status.write_text(json.dumps(told))
        scan = status(provider)["scan"]
        assert (scan["state"], scan["files_total"], scan["store_opening"]) == ("unknown", 0, 0)
        place.status.write_text("[]")
        assert status(provider)["scan"]["state"] == "unknown"


@pytest.mark.parametrize(("current", "told"), [
    ('{"repo": "alpha", "path": "\\ud800.md"}', {"repo": "alpha", "path": ""}), ('{"repo": 7, "path": ["a"]}', {"repo": "", "path": ""}), ("{}", {"repo": "", "path": ""}),
])
def test_a_place_in_the_status_file_that_is_no_text_is_left_blank(tmp_path: Path, current: str, told: dict[str, str]) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        place = SyncPlace(runtime.root, INDEX)
        place.folder.mkdir(parents=True, exist_ok=True)
        place.status.write_text(f'{{"current": {current}}}')
        assert status(provider)["scan"]["current"] == told


def test_an_index_that_is_no_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(b"no index" * 200)
    with serving.runtime(tmp_path) as runtime:
        assert refusal_of(serving.served(runtime), "ingest_status").detail == "not_an_index"
