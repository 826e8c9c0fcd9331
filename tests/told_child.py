"""A process that does to an index what it is told, a line of JSON a step, and answers each with ``done``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]
from embedder_double import EmbedderDouble  # noqa: E402 - run as a script too

import rag_stdlib  # noqa: E402 - the same
from rag_stdlib import Config, Runtime  # noqa: E402 - the same


def main(root: str, dim: int) -> None:
    with Runtime(Config(), root=root, embedder=EmbedderDouble(dim=dim)):
        for line in sys.stdin:
            tool, *arguments = json.loads(line)
            result = getattr(rag_stdlib, tool)(*arguments)
            sys.stdout.write("done\n" if result.is_ok else f"{result}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
