"""How a station can lie about who answered a pinned call."""

from __future__ import annotations

from enum import Enum


class Lie(str, Enum):
    """What a station does with a call instead of bringing it to the node that is named."""

    NONE = "none"  # it does bring it there
    OWN_NAME = "own_name"  # answers itself, as itself
    CLAIMED_ID = "claimed_id"  # answers itself, under the id that was asked for
    DIVERTED = "diverted"  # has another provider answer
    REPLAYED = "replayed"  # sends a true reply of that node to an earlier call


FORGED = "FORGED"  # what a station's own answers hold
