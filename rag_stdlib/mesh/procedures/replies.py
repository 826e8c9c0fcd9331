"""How large a reply is, so that one that is too large is refused by name here, and not by the mesh on its way (F10 R182)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rag_stdlib.contract.cbor import Value
from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.wire import PAYLOAD_ITEMS

MAX_BYTES: Final = 16 * 1024 * 1024 - 256 * 1024  # the mesh's frame holds 16 MiB less one byte, its own keys and signatures among them
MAX_HITS_BYTES: Final = 8 * 1024 * 1024  # of an answer, which nobody reads whole; a document may need the whole frame
MAX_HITS_ITEMS: Final = PAYLOAD_ITEMS - 64  # values and keys of an answer's hits; the rest of it is a handful
_HEAD: Final = 5  # a head of CBOR for lengths below 2^32
_NUMBER: Final = 9


def size(value: Any) -> int:  # noqa: ANN401 - any value of the wire
    """Return the bytes that a value takes on the wire, or a few more."""
    if isinstance(value, str):
        return _HEAD + (len(value) if value.isascii() else len(value.encode()))
    if isinstance(value, Mapping):
        return _HEAD + sum(size(name) + size(inner) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return _HEAD + sum(map(size, value))
    return _HEAD + len(value) if isinstance(value, bytes) else _NUMBER


def items(value: Any) -> int:  # noqa: ANN401 - as above
    """Return the values and keys that a value consists of, itself included."""
    if isinstance(value, Mapping):
        return 1 + len(value) + sum(map(items, value.values()))
    return 1 + sum(map(items, value)) if isinstance(value, list | tuple) else 1


def hits_within_bounds(hits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return ``{"hits": …}``, and `left_out`, how many at the end were one too many for a reply.

    Raises:
        Refusal: `payload_too_large` where not even the first one fits.
    """
    room, left = MAX_HITS_BYTES, MAX_HITS_ITEMS
    for kept, hit in enumerate(hits):
        room -= size(hit)
        left -= items(hit)
        if min(room, left) < 0:
            if not kept:
                raise Refusal("payload_too_large", "the best hit alone is too large for a reply")
            return {"hits": hits[:kept], "left_out": len(hits) - kept}
    return {"hits": hits}


def within_bounds(reply: Any) -> Value:  # noqa: ANN401 - as above
    """Return a reply that the mesh can carry.

    Raises:
        Refusal: `payload_too_large`.
    """
    taken = size(reply)
    if taken > MAX_BYTES:
        raise Refusal("payload_too_large", f"the reply would have {taken:,} bytes, of at most {MAX_BYTES:,}; ask for less")
    if taken > PAYLOAD_ITEMS and items(reply) > PAYLOAD_ITEMS:  # an item is a byte at least
        raise Refusal("payload_too_large", f"the reply would hold more than {PAYLOAD_ITEMS:,} values; ask for less")
    found: Value = reply
    return found
