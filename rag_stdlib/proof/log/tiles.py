"""A log as static files (C2SP tlog-tiles): their names, their bytes, and a tree read back from them.

A tile holds 256 neighbouring hashes, at level 0 of leaves, above of full tiles of the level below; on the right edge it is partial, with
as many as there are. Bundles hold the entries themselves. With the checkpoint, every proof is computed from such files, which never
change once they are full, so any web server can publish a log.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from rag_stdlib.proof.log import merkle
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import LogError, ProofError
from rag_stdlib.proof.log.merkle import HASH_BYTES
from rag_stdlib.proof.log.notes import MAX_NOTE_BYTES, Note

CHECKPOINT: Final = "checkpoint"
HEIGHT: Final = 8  # levels of the tree in one tile
WIDTH: Final = 1 << HEIGHT
TILE_BYTES: Final = WIDTH * HASH_BYTES
MAX_ENTRY_BYTES: Final = 65_535
MAX_BUNDLE_BYTES: Final = WIDTH * (MAX_ENTRY_BYTES + 2)

_KEPT: Final = 256  # tiles in memory: a path through a huge log and its neighbours

Fetch: TypeAlias = Callable[[str, int], "bytes | None"]  # a file by its name below the log's prefix, of at most so many bytes; None if there is none


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile, or with `level` None a bundle of entries.

    Attributes:
        level: 0 to 63; None for entries.
        index: Among the tiles of the level, from 0.
        width: 1 to 256, which is full.
    """

    level: int | None
    index: int
    width: int = WIDTH

    @property
    def path(self) -> str:
        """Its name below the log's prefix: the index in groups of three digits, all but the last with an ``x`` before them."""
        digits = str(self.index)
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        groups = [digits[start:start + 3] for start in range(0, len(digits), 3)]
        level = "entries" if self.level is None else self.level
        partial = f".p/{self.width}" if self.width < WIDTH else ""
        return f"tile/{level}/{'/'.join([*(f'x{group}' for group in groups[:-1]), groups[-1]])}{partial}"


def level_width(level: int, size: int) -> int:
    """Return how many hashes the tiles of a level hold, all together, in a log of `size` entries."""
    return size >> HEIGHT * level


def tiles_of(size: int, since: int = 0) -> Iterator[Tile]:
    """Name the tiles and bundles of a log of `size` entries that one of `since` entries did not have."""
    level = 0
    while level_width(level, size):
        width, before = level_width(level, size), level_width(level, since)
        for index in range(before // WIDTH, -(-width // WIDTH)):
            tile_width = min(WIDTH, width - index * WIDTH)
            if index * WIDTH + tile_width > before:
                if level == 0:
                    yield Tile(None, index, tile_width)
                yield Tile(level, index, tile_width)
        level += 1


def bundle(entries: list[bytes]) -> bytes:
    """Write entries as a bundle: each behind its length in two bytes, big-endian."""
    return b"".join(struct.pack(">H", len(entry)) + entry for entry in entries)


def read_bundle(data: bytes, width: int) -> list[bytes]:
    """Read a bundle of `width` entries.

    Raises:
        ProofError: ``tile_malformed``.
    """
    entries: list[bytes] = []
    at = 0
    while at < len(data) and len(entries) < width:
        start = at + 2
        at = start + int.from_bytes(data[at:start], "big")
        if start > len(data) or at > len(data):
            break
        entries.append(data[start:at])
    if len(entries) != width or at != len(data):
        raise ProofError("tile_malformed", f"the bundle does not hold {width} entries")
    return entries


class TiledLog:
    """A log that is read from its files. Nothing is believed of them: proofs made here are for verifying against a signed root.

    It is a `HashSource` of the tree of `size` entries, which a checkpoint named.
    """

    def __init__(self, fetch: Fetch, size: int) -> None:
        """Read by `fetch`."""
        self._fetch = fetch
        self._size = size
        self._tiles: dict[tuple[int, int], bytes] = {}

    def hash_at(self, level: int, index: int) -> bytes:
        """Compute the hash of a complete subtree from one tile.

        Raises:
            LogError: ``missing`` where the file is; as the fetching function raises.
            ProofError: ``tile_malformed``.
        """
        tile_level, inner = divmod(level, HEIGHT)
        start = index << inner
        number, place = divmod(start, WIDTH)
        tile = self._tile(tile_level, number)[place * HASH_BYTES:(place + (1 << inner)) * HASH_BYTES]
        hashes = [tile[at:at + HASH_BYTES] for at in range(0, len(tile), HASH_BYTES)]
        if len(hashes) != 1 << inner:
            raise LogError("out_of_range", f"a log of {self._size} entries has no complete subtree {index} at level {level}")
        while len(hashes) > 1:
            hashes = [merkle.node_hash(*hashes[at:at + 2]) for at in range(0, len(hashes), 2)]
        return hashes[0]

    def entries(self, start: int, stop: int) -> Iterator[bytes]:
        """Iterate over entries as they are in the bundles.

        Raises:
            LogError: ``missing`` where a file is; as the fetching function raises.
            ProofError: ``tile_malformed``.
        """
        for index in range(start // WIDTH, -(-stop // WIDTH)):
            tile = Tile(None, index, min(WIDTH, self._size - index * WIDTH))
            data, width = self._file(tile, MAX_BUNDLE_BYTES)
            found = read_bundle(data, width)
            yield from found[max(0, start - index * WIDTH):min(tile.width, stop - index * WIDTH)]

    def _tile(self, level: int, index: int) -> bytes:
        kept = self._tiles.get((level, index))
        if kept is None:
            tile = Tile(level, index, min(WIDTH, max(0, level_width(level, self._size) - index * WIDTH)))
            if not tile.width:
                raise LogError("out_of_range", f"a log of {self._size} entries has no tile {index} at level {level}")
            kept, width = self._file(tile, TILE_BYTES)
            if len(kept) != width * HASH_BYTES:
                raise ProofError("tile_malformed", f"{tile.path} does not hold {width} hashes")
            kept = kept[:tile.width * HASH_BYTES]
            if len(self._tiles) >= _KEPT:
                self._tiles.clear()
            self._tiles[level, index] = kept
        return kept

    def _file(self, tile: Tile, most: int) -> tuple[bytes, int]:
        """Fetch a file, and say how wide it is: a partial one may be gone once the full one is there."""
        data, width = self._fetch(tile.path, most), tile.width
        if data is None and width < WIDTH:
            data, width = self._fetch(Tile(tile.level, tile.index).path, most), WIDTH
        if data is None:
            raise LogError("missing", f"the log lacks {tile.path}")
        return data, width


class PublishedLog:
    """A log that is published as files, as whoever watches it reads it. Nothing is believed of it here."""

    def __init__(self, fetch: Fetch, place: str | None = None) -> None:
        """Read by `fetch`; `place` names for people where that is."""
        self._fetch = fetch
        self._at = "there" if place is None else f"at {place!r}"

    def checkpoint(self) -> bytes:
        """Return the note of its checkpoint.

        Raises:
            LogError: ``missing``; as the fetching function raises.
            ProofError: ``note_malformed``, ``checkpoint_malformed``: it is none.
        """
        note = self._fetch(CHECKPOINT, MAX_NOTE_BYTES)
        if note is None:
            raise LogError("missing", f"there is no published log {self._at}")
        try:
            Checkpoint.parse(Note.parse(note).text)
        except ProofError as error:
            raise ProofError(error.code, f"what is {self._at} as a checkpoint is none: {error.words}") from None
        return note

    def entries(self, start: int, stop: int) -> Iterator[bytes]:
        """Iterate over the entries from `start` on of the tree of `stop` entries; as `TiledLog.entries`."""
        return TiledLog(self._fetch, stop).entries(start, stop)

    def consistency_path(self, old_size: int, new_size: int) -> list[bytes]:
        """Prove that one tree is the beginning of another; as `TiledLog.hash_at`."""
        return merkle.consistency_path(old_size, new_size, TiledLog(self._fetch, new_size))

    def comparison_path(self, old_size: int, new_size: int) -> list[bytes]:
        """Return what leads to the roots of both trees (`merkle.comparison_path`); as `TiledLog.hash_at`."""
        return merkle.comparison_path(old_size, new_size, TiledLog(self._fetch, new_size))
