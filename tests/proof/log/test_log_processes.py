"""Several processes append to one log, and some are killed: it stays one log, and no entry whose receipt was given is lost."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from log_trees import tree_hash
from logs import acknowledged, appending, go, new_log, open_log, write_keys
from signed import PINNED

from rag_stdlib.proof.log.merkle import verify_consistency
from rag_stdlib.proof.log.receipts import Receipt

KILLS = 8  # bench/log.py kills fifty times


def held(log_path: Path, told: list[tuple[bytes, Receipt]]) -> list[bytes]:
    """Hold the log against the receipts that were given: all true, and all of one history."""
    with open_log(log_path) as log:
        stored = list(log.entries())
        last = PINNED.open(log.checkpoint()).checkpoint
        assert log.check() == []
        for entry, receipt in told:
            assert stored[receipt.index] == entry
            seen = receipt.verify(entry, PINNED).checkpoint
            verify_consistency(seen.size, seen.root, last.size, last.root, log.consistency_path(seen.size, last.size))
    assert last.root == tree_hash(stored)
    return stored


def test_two_processes_share_one_log_without_forking_it(tmp_path: Path) -> None:
    keys, path = write_keys(tmp_path / "log.keys"), tmp_path / "log.db"
    new_log(path).close()
    children = [appending(keys, path, name, 60) for name in ("a", "b")]
    for child in children:
        go(child)
    told = [acknowledged(child.communicate(timeout=120)[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    stored = held(path, told[0] + told[1])
    assert min(map(len, told)) >= 60
    assert sorted(stored) == sorted(f"{name}-{turn}".encode() for name, given in zip("ab", told, strict=True) for turn in range(len(given)))
    indices = [[receipt.index for _, receipt in given] for given in told]
    assert sorted(indices[0] + indices[1]) == list(range(len(stored)))
    assert min(indices[0]) < max(indices[1]), "they took turns"
    assert min(indices[1]) < max(indices[0]), "they took turns"


def test_a_process_that_is_killed_at_any_moment_loses_no_entry_that_it_had_a_receipt_of(tmp_path: Path) -> None:
    keys, path = write_keys(tmp_path / "log.keys"), tmp_path / "log.db"
    new_log(path).close()
    told: list[tuple[bytes, Receipt]] = []
    rng = random.Random(11)
    for kill in range(KILLS):
        child = appending(keys, path, f"k{kill}", 0)
        go(child)
        time.sleep(rng.random() * 0.08)
        os.kill(child.pid, signal.SIGKILL)
        told += acknowledged(child.communicate(timeout=60)[0])
        assert child.returncode == -signal.SIGKILL
        with open_log(path) as log:
            assert 0 <= log.size - len(told) <= kill + 1, "an entry more at most for each that was killed"
    assert len(told) > KILLS
    held(path, told)
