"""Certificates and their receipts as `rag log append` leaves them, and witnesses for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from proven import ORIGIN

from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.notes import Note
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.log.witness import Witness
from rag_stdlib.proof.log.witnesshttp import WitnessServer

APPEND = ("log", "append", "answers.log")


def now() -> int:
    return int(datetime.now(timezone.utc).timestamp())


def envelope(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(name).read_text())
    return found


def receipt(name: str) -> Receipt:
    return Receipt.parse(envelope(name)["receipt"].encode())


def signers(name: str) -> list[str]:
    """Who signed the checkpoint of a certificate's receipt, each as often as it has keys that did."""
    return [one.name for one in Note.parse(receipt(name).checkpoint).signatures]


def stripped(name: str, to: str) -> None:
    """Write a certificate without its receipt."""
    Path(to).write_text(json.dumps({key: part for key, part in envelope(name).items() if key != "receipt"}))


@contextmanager
def witnessing(number: int = 1, later: int = 0) -> Iterator[str]:
    """Serve a witness, whose clock is ahead by `later` seconds; its state is made the first time."""
    keys, state = load_keys(f"{'witness' if number == 1 else f'witness{number}'}.keys"), f"w{number}.db"
    if not Path(state).exists():
        Witness.create(state, keys.name)
    log = PinnedLog(ORIGIN, load_keys("log.keys").verifiers)
    with Witness(state, keys, [log], clock=lambda: now() + later) as witness, WitnessServer(witness) as server:
        server.start()
        yield server.url
