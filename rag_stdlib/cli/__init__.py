"""The `rag` command: a module per group of commands over one small frame."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code; nothing that goes wrong shows a traceback."""
    try:
        # Takes a moment, in which Ctrl-C counts already. Each module of commands registers its own with the frame.
        from rag_stdlib.cli import (  # noqa: F401
            answer,
            attack,
            corpus,
            corpuskeys,
            corpusstatus,
            corpusverify,
            doctor,
            importing,
            ingest,
            keys,
            log,
            logmonitor,
            logwitness,
            manage,
            meshanswer,
            meshkey,
            meshquery,
            meshserve,
            meshstatus,
            recording,
            search,
            setup,
            shard,
            traces,
            tracetests,
            verify,
        )
        from rag_stdlib.cli.frame import run

        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        print("rag: stopped", file=sys.stderr)  # noqa: T201 - what would say it is not there yet
        code = 130
    sys.exit(code)
