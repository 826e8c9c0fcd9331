"""A filter of topics and frequent terms, for the `bloom` of a summary: who asks for topics can leave out shards that hold none of them.

Macula_rag carries these bytes and defines nothing of them. This is version 1 of a format of ours; a reader takes every other value for "not
known", and a shard of which nothing is known is asked::

    offset  bytes
    0       8      the ASCII text RAGBLOOM
    8       1      version, 1
    9       1      k, the number of bits that an entry sets, 1 to 16
    10      2      zero
    12      4      m, the number of bits, big-endian: a multiple of 8, 8 to 4,194,304
    16      m / 8  the bits; bit i is the one of value 1 << (i mod 8) in byte i // 8

    entry   "topic" or "term", 00, the UTF-8 of the text without outer blanks, case-folded
    h1, h2  the first and the second 8 bytes of the SHA-256 of the entry, big-endian; of h2, the lowest bit is set
    bits    (h1 + i * h2) mod m, for i from 0 to k - 1

An entry that was put in is always found. One that was not is found with a probability that `expected_rate` computes from the bits that are
set, and `measured_rate` counts.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["topic", "term"]

VERSION: Final = 1
MOST_BITS: Final = 4 * 1024 * 1024
MOST_HASHES: Final = 16
RATE: Final = 0.01  # of false positives, where nobody says otherwise

_MAGIC: Final = b"RAGBLOOM"
_HEADER: Final = struct.Struct(">8sBBHI")
_BYTE: Final = 8
_PROBES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Bloom:
    """A filter as it was built or read: `hashes` bits for each entry, over `bits`."""

    hashes: int
    bits: bytes

    @classmethod
    def of(cls, topics: Iterable[str], terms: Iterable[str] = (), *, rate: float = RATE) -> Bloom:
        """Build a filter of topics and terms, as large as this rate of false positives takes, and at most 512 KiB.

        Raises:
            ValueError: a rate that is not between 0 and 1.
        """
        if not 0.0 < rate < 1.0:
            raise ValueError(f"a rate of false positives lies between 0 and 1, not at {rate!r}")
        entries = {_entry("topic", topic) for topic in topics} | {_entry("term", term) for term in terms}
        wanted = math.ceil(-max(1, len(entries)) * math.log(rate) / math.log(2) ** 2)
        size = min(-(-wanted // _BYTE) * _BYTE, MOST_BITS)
        hashes = min(max(1, round(size / max(1, len(entries)) * math.log(2))), MOST_HASHES)
        bits = bytearray(size // _BYTE)
        for entry in entries:
            for place in _places(entry, hashes, size):
                bits[place // _BYTE] |= 1 << place % _BYTE
        return cls(hashes, bytes(bits))

    @classmethod
    def read(cls, data: bytes) -> Bloom | None:
        """Read a filter; None for what is none of this format and version, whole."""
        if len(data) < _HEADER.size:
            return None
        magic, version, hashes, zero, size = _HEADER.unpack_from(data)
        if (magic, version, zero) != (_MAGIC, VERSION, 0) or not 1 <= hashes <= MOST_HASHES:
            return None
        if size % _BYTE or not _BYTE <= size <= MOST_BITS or len(data) != _HEADER.size + size // _BYTE:
            return None
        return cls(hashes, data[_HEADER.size:])

    def to_bytes(self) -> bytes:
        """Write the filter, header and bits."""
        return _HEADER.pack(_MAGIC, VERSION, self.hashes, 0, len(self.bits) * _BYTE) + self.bits

    def may_hold(self, kind: Kind, text: str) -> bool:
        """Tell whether a topic or term may have been put in; False is certain."""
        places = _places(_entry(kind, text), self.hashes, len(self.bits) * _BYTE)
        return all(self.bits[place // _BYTE] >> place % _BYTE & 1 for place in places)

    @property
    def expected_rate(self) -> float:
        """The probability that an entry which was not put in is found: the share of bits that are set, to the power of k."""
        ones = int.from_bytes(self.bits, "big").bit_count()
        share = ones / (len(self.bits) * _BYTE)
        return math.pow(share, self.hashes)


def measured_rate(bloom: Bloom, held: Collection[str], kind: Kind = "topic", probes: int = _PROBES) -> float:
    """Count how many of so many made-up topics or terms, none of which is among those `held`, the filter takes for held: 0.0 to 1.0.

    The probes are the same each time.

    Raises:
        ValueError: no probe is asked for.
    """
    if probes < 1:
        raise ValueError("a rate is measured with at least one probe")
    known = {_folded(text) for text in held}
    made = (hashlib.sha256(b"probe %d" % number).hexdigest()[:16] for number in range(probes + len(known)))
    asked = [probe for probe in made if probe not in known][:probes]
    return sum(bloom.may_hold(kind, probe) for probe in asked) / len(asked)


def rules_out(data: bytes, topics: Iterable[str]) -> bool:
    """Tell whether the `bloom` of a summary says for certain that its shard holds none of these topics.

    Blank topics count for nothing. Without any topic, and for bytes that are no filter of this format, nothing is ruled out.
    """
    wanted = [topic for topic in topics if topic.strip()]
    bloom = Bloom.read(data) if wanted else None
    return bloom is not None and not any(bloom.may_hold("topic", topic) for topic in wanted)


def _folded(text: str) -> str:
    return text.strip().casefold()


def _entry(kind: Kind, text: str) -> bytes:
    return hashlib.sha256(kind.encode() + b"\0" + _folded(text).encode(errors="surrogatepass")).digest()


def _places(entry: bytes, hashes: int, size: int) -> Iterator[int]:
    first, step = struct.unpack(">QQ", entry[:16])
    step |= 1
    return ((first + number * step) % size for number in range(hashes))
