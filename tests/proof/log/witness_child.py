"""A process that serves a witness until it is killed: ``KEYS STATE ORIGIN KEY``; it says its URL."""

from __future__ import annotations

import sys
import threading

from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.notes import VerifierKey
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.witness import Witness
from rag_stdlib.proof.log.witnesshttp import WitnessServer


def main(keys: str, state: str, origin: str, key: str) -> None:
    log = PinnedLog(origin, (VerifierKey.parse(key),))
    with Witness(state, load_keys(keys), [log]) as witness, WitnessServer(witness) as server:
        sys.stdout.write(f"{server.start().url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:5])
