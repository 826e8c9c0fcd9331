"""The audit events (`sys.audit`) that the library raises before it reaches for an index or an embedder.

A hook (`sys.addaudithook`) sees all of them in a process, whichever object they come from and however old it is, and what it raises
stops the act. Replay sessions forbid both in this way.
"""

from __future__ import annotations

from typing import Final

INDEX: Final = "rag_stdlib.index"  # (path as given): an index is about to be opened or used
EMBED: Final = "rag_stdlib.embed"  # (whose model, how many texts): texts are about to be embedded
