"""A process that appends to a log: ``append KEYS LOG NAME COUNT``, until it is killed where COUNT is 0.

Otherwise it appends so many entries, and more until another process has appended one before its last.

It says ``ready``, waits for a line, and then says of each acknowledged entry ``POSITION ENTRY`` and the receipt in base64, on a line.
"""

from __future__ import annotations

import base64
import sys
from itertools import count

from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.store import Log


def main(keys: str, path: str, name: str, number: int) -> None:
    with Log(path, load_keys(keys), synchronous="normal", busy_seconds=60) as log:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for turn in count():
            entry = f"{name}-{turn}"
            receipt = log.append(entry.encode())
            sys.stdout.write(f"{receipt.index} {entry} {base64.b64encode(receipt.to_bytes()).decode()}\n")
            sys.stdout.flush()
            if 0 < number <= turn + 1 and receipt.index > turn:
                break


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
