"""A sync that kills itself at a point of its way: python killed_sync.py ROOT URL POINT."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from embedder_double import EmbedderDouble
from syncing import INDEX

from rag_stdlib import Config, Runtime
from rag_stdlib.corpus import git, reposync
from rag_stdlib.corpus.listfile import ListedRepo
from rag_stdlib.corpus.sync import sync
from rag_stdlib.index import content, corpuswrite, writer

POINTS: dict[str, tuple[Any, str]] = {
    "fetching": (git.Mirror, "_transferred"), "listing": (reposync, "listing"), "cutting": (reposync, "new_file"),
    "staging": (corpuswrite, "stage"), "removing": (writer, "remove"), "adding": (writer, "add"), "counting": (content, "advance"),
}


def main(root: str, url: str, point: str) -> None:
    where, name = POINTS[point]
    done = getattr(where, name)

    def last(*arguments: Any, **named: Any) -> None:
        """Do what is done at this point, and no more."""
        done(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(where, name, last)
    with Runtime(Config(), root=root, embedder=EmbedderDouble()) as runtime:
        sync(runtime, INDEX, [ListedRepo("alpha", url, "main")])


if __name__ == "__main__":
    main(*sys.argv[1:])
