"""Processes that write to an index until they are killed, and say what is finished.

Run as a program, it forks one for each line of its input, which saves them from loading everything once more: a line is a root, a seed and
a file, separated by tabs. It prints the process and, when that has ended, its status. The process says in the file: first ``ready``, when
everything is loaded, then ``begin NAME VERSION`` before and ``done NAME VERSION`` after each step; VERSION 0 is a deletion.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent)]
from embedder_double import EmbedderDouble  # noqa: E402 - run as a script too

from rag_stdlib import Config, Err, Runtime, rag_compact, rag_delete, rag_ingest, rag_reembed  # noqa: E402 - run as a script too

PATH = "index.db"


def text_of(name: str, version: int) -> str:
    """Make the text that a document has in a version; other versions share half of its sentences."""
    rng = random.Random(f"{name} {version // 2}")
    return " ".join(f"Sentence {n} of {name} says {rng.randrange(10**6)} in v{version if n % 2 else 0}." for n in range(12 + version % 5))


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def write(root: str, seed: int) -> None:
    rng = random.Random(seed)
    version = 1
    with Runtime(Config(), root=root, embedder=EmbedderDouble()):
        rag_ingest("warm-doc.db", "warm", "v", "everything that is loaded on first use is loaded now", 60)
        say("ready")
        while True:
            name = f"doc{rng.randrange(6)}"
            version += 1
            action = rng.random()
            if action < 0.12:
                result = (rag_compact if action < 0.06 else rag_reembed)(PATH)
            elif action < 0.25:
                say("begin", name, 0)
                result = rag_delete(PATH, name)
                if isinstance(result, Err) and result.error.code in ("not_found", "index_missing"):
                    result = None
                say("done", name, 0)
            else:
                say("begin", name, version)
                result = rag_ingest(PATH, name, f"v{version}", text_of(name, version), 60)
                if not isinstance(result, Err):
                    say("done", name, version)
            if isinstance(result, Err) and result.error.code != "index_missing":
                say("err", result.error.code, str(result.error).replace("\n", " "))


def main() -> None:
    """Fork a process for each line; one ends before the next is begun."""
    import apsw  # noqa: F401 - loaded once for all of them
    import numpy as np  # noqa: F401
    import sqlite_vec  # noqa: F401

    for line in sys.stdin:
        root, seed, file = line.rstrip("\n").split("\t")
        child = os.fork()
        if not child:
            try:
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), 1)
                write(root, int(seed))
            except BaseException:  # noqa: BLE001 - it is not to go on as its parent, whatever it is
                sys.excepthook(*sys.exc_info())
            os._exit(1)
        say(child)
        say(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
