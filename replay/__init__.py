"""Trace and replay for any tool: the seam between a tool and what records or replays its calls.

A tool hands each call to a `Recorder`; `Live` runs it and keeps nothing. This package knows nothing of retrieval.
"""

from replay.recorder import LIVE, Call, Live, Recorder

__all__ = ["LIVE", "Call", "Live", "Recorder"]
