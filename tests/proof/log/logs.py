"""Logs on the disk for tests, and processes that append to them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
from log_trees import entries
from signed import LOG, NOW, ORIGIN

from rag_stdlib.proof.log.logkeys import LogKeys
from rag_stdlib.proof.log.privatefile import create_private
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.log.store import Log

ROOT = Path(__file__).parents[3]
CHILD = Path(__file__).with_name("log_child.py")
KEYS = LogKeys(ORIGIN, (LOG,))


def new_log(path: Path, size: int = 0, keys: LogKeys = KEYS) -> Log:
    """Make a log with the entries of `entries`."""
    log = Log.create(path, keys, synchronous="normal", busy_seconds=30, clock=lambda: NOW)
    if size:
        log.append_many(entries(size))
    return log


def open_log(path: Path, keys: LogKeys | None = KEYS, busy_seconds: float = 30) -> Log:
    return Log(path, keys, synchronous="normal", busy_seconds=busy_seconds, clock=lambda: NOW)


def entry(query: str = "q", answer: str = "a", *, issuer: str = "i", state: str = "s", setup: str = "w", **others: Any) -> bytes:
    """What a log holds of a certificate, with short names in the place of digests."""
    value = {"schema": "rag-stdlib/log-entry/v1", "answer_sha256": answer, "body_sha256": f"{query}{answer}", "index_state": state,
             "issued_at": "2026-12-01T00:00:00Z", "issuer_key_id": issuer, "query_key": query, "setup": setup, "signature": "c2ln", **others}
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def write_keys(path: Path, keys: LogKeys = KEYS) -> Path:
    lines = [f"retired {key.text()}" for key in keys.retired] + [f"signing {signer.private_text()}" for signer in keys.signers]
    create_private(path, "".join(f"{line}\n" for line in ["rag-stdlib/log-keys/v1", *lines]).encode())
    return path


def changed(path: Path, *statements: str) -> None:
    """Change a file behind the back of whoever keeps it."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def appending(keys: Path, log: Path, name: str, number: int) -> subprocess.Popen[bytes]:
    """Start a process that appends once it is given a line, and wait until it is ready."""
    child = subprocess.Popen([sys.executable, str(CHILD), str(keys), str(log), name, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def go(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(b"go\n")
    child.stdin.flush()


def acknowledged(said: bytes) -> list[tuple[bytes, Receipt]]:
    """Read the entries that a process had receipts of; a line that was cut off was told to nobody."""
    lines = [line.split() for line in said.splitlines(keepends=True) if line.endswith(b"\n")]
    found = [(entry, Receipt.parse(base64.b64decode(receipt))) for _, entry, receipt in lines]
    assert [receipt.index for _, receipt in found] == [int(position) for position, _, _ in lines]
    return found
