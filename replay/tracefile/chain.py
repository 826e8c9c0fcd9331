"""The chain: each line of a trace carries its number, the digest of the line before it, and its own digest.

    {"kind":"tool_call",…,"seq":3,"prev":"<64 hex>","sha256":"<64 hex>"}

``sha256`` is over the line's bytes in front of ``,"sha256":"``, and ``prev`` is the ``sha256`` of the line before (64 zeros in the
first). So a changed byte shows at its own line, the last one included, and a line that was dropped, doubled, moved or
inserted at the first line that does not follow. A seal (see `replay.tracefile.seal`) stands between ``prev`` and ``sha256``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

START: Final = "0" * 64

_MARK: Final = b',"sha256":"'
_TAIL_BYTES: Final = len(_MARK) + 64 + len(b'"}')
_DIGEST: Final = re.compile(rb',"sha256":"([0-9a-f]{64})"\}$')
_SEAL: Final = re.compile(rb',"seal":(\{[^{}]*\})$')
_SEAL_BYTES: Final = 1024  # more than a seal takes
_END: Final = re.compile(rb',"seq":(\d{1,19}),"prev":"([0-9a-f]{64})"(?:,"seal":\{[^{}]*\})?,"sha256":"([0-9a-f]{64})"\}$')


def link(front: bytes, body: bytes, seq: int, prev: str, seal: Callable[[str], bytes] | None = None) -> tuple[memoryview, bytes, str]:
    """Make a line of `front` and what is between the braces of the JSON object `body`, which has at least one field.

    Return what follows `front`, in two parts, the second with a line end; and the line's digest (hex). `seal` seals the line,
    given its digest without a seal. Nothing of the body is copied.
    """
    fields = memoryview(body)[1:-1]
    tail = b',"seq":%d,"prev":"%b"' % (seq, prev.encode())
    hashed = sha256(front)
    hashed.update(fields)
    if seal is not None:
        unsealed = hashed.copy()
        unsealed.update(tail)
        tail = with_seal(tail, seal(unsealed.hexdigest()))
    hashed.update(tail)
    digest = hashed.hexdigest()
    return fields, b'%b%b%b"}\n' % (tail, _MARK, digest.encode()), digest


def end(linked: bytes) -> tuple[bytes, str]:
    """Return what ends a line that has all but its digest (without a line end), and that."""
    digest = sha256(linked).hexdigest()
    return b'%b%b"}' % (_MARK, digest.encode()), digest


def stamp(body: bytes, seq: int, prev: str, seal: bytes | None = None) -> tuple[bytes, str]:
    """Return the line of `body` (a JSON object with at least one field), without a line end, and its digest (hex)."""
    fields, tail, digest = link(b"{", body, seq, prev, None if seal is None else lambda _digest: seal)
    return b"".join((b"{", fields, tail[:-1])), digest


def with_seal(linked: bytes, seal: bytes) -> bytes:
    """Return a linked line with the JSON object of a seal."""
    return b'%b,"seal":%b' % (linked, seal)


def unseal(line: bytes) -> tuple[bytes, bytes | None]:
    """Take a whole line apart: what a seal is made over, and the JSON object of the seal it carries, if any."""
    hashed = line[:-_TAIL_BYTES]
    found = _SEAL.search(hashed, max(0, len(hashed) - _SEAL_BYTES))
    return (hashed, None) if found is None else (hashed[:found.start()], found[1])


def read_end(line: bytes) -> tuple[int, str] | None:
    """Return the number and the digest that a line claims in its last bytes, or None where it carries none."""
    found = _END.search(line, max(0, len(line) - 2 * _SEAL_BYTES))
    return (int(found[1]), found[3].decode()) if found is not None else None


class Chain:
    """Follows the chain, line by line. A trace that has none is followed as well, and `chained` stays False."""

    def __init__(self) -> None:
        """Begin before the first line."""
        self.count = 0
        self.head = START
        self.chained = False

    def problem(self, line: bytes, event: Mapping[str, Any]) -> str:
        """Take the next line (without its line end) and the object in it; say why it does not hold, or ""."""
        has_chain = "sha256" in event or "prev" in event or "seq" in event
        if self.count == 0:
            self.chained = has_chain
        elif has_chain != self.chained:
            return "the line carries a hash chain, those before it do not" if has_chain else "the line carries no hash chain, those before it do"
        problem = self._problem(line, event) if self.chained else ""
        self.count += 1
        return problem

    def _problem(self, line: bytes, event: Mapping[str, Any]) -> str:
        found = _DIGEST.match(line, max(0, len(line) - _TAIL_BYTES))
        if found is None:
            return "the line does not end with its digest"
        digest = sha256(memoryview(line)[:-_TAIL_BYTES]).hexdigest()
        if found[1] != digest.encode():
            return "the line was changed: its bytes do not give the digest it carries"
        seq = event.get("seq")
        if type(seq) is not int or seq != self.count:
            return f"a line is missing, doubled or out of place: this one is number {seq!r}, number {self.count} is due here"
        if event.get("prev") != self.head:
            return "the line before this one is not the one that it was written after"
        self.head = digest
        return ""
