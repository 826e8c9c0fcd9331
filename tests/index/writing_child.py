"""A process that writes to an index until it is killed, and says on stdout what is finished.

First comes ``ready``, when everything is loaded. Then lines are ``begin NAME VERSION`` before and ``done NAME VERSION`` after each step; VERSION 0 is a deletion.
"""

from __future__ import annotations

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


def main(root: str, seed: int, prefix: str, steps: int, *, alone: bool) -> None:
    rng = random.Random(seed)
    version = 1
    with Runtime(Config(), root=root, embedder=EmbedderDouble()):
        rag_ingest(f"warm-{prefix}.db", "warm", "v", "everything that is loaded on first use is loaded now", 60)
        say("ready")
        for _ in range(steps):
            name = f"{prefix}{rng.randrange(6)}"
            version += 1
            action = rng.random()
            if alone and action < 0.12:
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
            if isinstance(result, Err) and not (alone and result.error.code == "index_missing"):
                say("err", result.error.code, str(result.error).replace("\n", " "))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), alone=sys.argv[5] == "alone")
