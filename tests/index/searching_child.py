"""Search without end, and tell at the end how many searches there were; run as a program of its own."""

from __future__ import annotations

import sys
import time

from rag_stdlib import Config, QueryOptions, Runtime, rag_query

with Runtime(Config(), root=sys.argv[1]):
    count, end = 0, time.monotonic() + 60
    while time.monotonic() < end:
        found = rag_query("index.db", "document word", 5, QueryOptions(mode="lexical")).unwrap()
        assert len(found) == 5
        count += 1
        sys.stdout.write(f"{count}\n")
        sys.stdout.flush()
