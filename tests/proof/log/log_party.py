"""A process that plays one party about a log: it reads commands as JSON on lines, and answers each with what came of it, or the code it was refused by.

``["append", KEYS, LOG, ENTRIES]``, ``["publish", LOG, FOLDER]``, ``["cosign", KEYS, LOG, URL, WITNESS_KEYS]``, ``["look", MEMORY, FOLDER, ORIGIN, KEY]``,
``["scan", STATE, FOLDER, ORIGIN, KEY]``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.fetching import Folder
from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.memory import Memory
from rag_stdlib.proof.log.monitor import Monitor
from rag_stdlib.proof.log.notes import VerifierKey
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.publish import publish
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.log.tiles import PublishedLog
from rag_stdlib.proof.log.witnessclient import WitnessClient


def append(keys: str, path: str, entries: list[str]) -> object:
    made = Log if Path(path).exists() else Log.create
    with made(path, load_keys(keys)) as log:
        for entry in entries:
            log.append(entry.encode())
        return log.size


def shown(path: str, folder: str) -> object:
    with Log(path) as log:
        return publish(log, folder).size


def cosign(keys: str, path: str, url: str, witness_keys: list[str]) -> object:
    with Log(path, load_keys(keys)) as log, WitnessClient(url, [VerifierKey.parse(text) for text in witness_keys]) as witness:
        return witness.cosign(log).count(b"\n\xe2\x80\x94 witness.example")


def look(memory: str, folder: str, origin: str, key: str) -> object:
    log = PublishedLog(Folder(folder))
    return Memory(memory).current(PinnedLog(origin, (VerifierKey.parse(key),)), log.checkpoint, log.comparison_path).checkpoint.size


def scan(state: str, folder: str, origin: str, key: str) -> object:
    if not Path(state).exists():
        Monitor.create(state, origin)
    with Monitor(state, PinnedLog(origin, (VerifierKey.parse(key),))) as monitor:
        report = monitor.scan(PublishedLog(Folder(folder)))
        return [[alarm.code, alarm.words] for alarm in report.alarms] or report.size


COMMANDS: dict[str, Callable[..., object]] = {"append": append, "publish": shown, "cosign": cosign, "look": look, "scan": scan}


def main() -> None:
    for line in sys.stdin:
        name, *given = json.loads(line)
        try:
            answer = COMMANDS[name](*given)
        except LogError as error:
            answer = error.code
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
