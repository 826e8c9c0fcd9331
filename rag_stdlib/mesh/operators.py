"""Who may call what changes a provider's index: the operators, by node id (RAG service contract §5.7).

The gate looks at the caller that the transport verified and at nothing else. What a payload says about its sender does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rag_stdlib.mesh.errors import Refusal

_SEPARATORS: Final = re.compile(r"[,\s]+")
_NODE_ID: Final = re.compile(r"[0-9a-fA-F]{64}")


class NotANodeId(ValueError):  # noqa: N818 - a verdict on an entry
    """An entry of a list of operators is not 64 hex digits; `entry` holds it. A provider with such a list does not start."""

    name = "not_64_hex"

    def __init__(self, entry: str) -> None:
        """Keep the entry."""
        super().__init__(entry)
        self.entry = entry

    def __str__(self) -> str:
        """Name the entry."""
        return f"{self.name}: an operator is a node id of 64 hex digits, not {self.entry!r:.100}"


@dataclass(frozen=True, slots=True)
class Operators:
    """Node ids in lower case; nobody where there are none."""

    ids: frozenset[str] = frozenset()

    def require(self, caller: str | None) -> None:
        """Let an operator pass; `caller` is the node id that the transport verified, None where there is none.

        Raises:
            Refusal: `not_an_operator`.
        """
        if caller not in self.ids:
            raise Refusal("not_an_operator")


def parse(listed: str | Iterable[str]) -> Operators:
    """Read node ids in any case, separated by commas, white space or both; blank is nobody.

    Several such texts are read as one list.

    Raises:
        NotANodeId: an entry is anything else.
    """
    texts = [listed] if isinstance(listed, str) else listed
    entries = [entry for text in texts for entry in _SEPARATORS.split(text) if entry]
    for entry in entries:
        if not _NODE_ID.fullmatch(entry):
            raise NotANodeId(entry)
    return Operators(frozenset(entry.lower() for entry in entries))
