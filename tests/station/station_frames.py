"""Frames between a node and its station: four bytes of length, big-endian, then a map in deterministic CBOR."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from rag_stdlib.contract import cbor

VERSION = 5  # of every frame of wire 1.0
MAX_FRAME = 16 * 1024 * 1024
IDLE_S = 120.0  # of a link, by default

_LENGTH = struct.Struct(">I")


class BrokenProtocol(Exception):  # noqa: N818 - what a peer did
    """A peer did what the protocol does not have; its connection ends."""


def encoded(frame_type: str, **fields: object) -> bytes:
    """Encode a frame without its length, as proofs take its digest."""
    return cbor.encode({"version": VERSION, "frame_type": frame_type, **fields}, max_bytes=MAX_FRAME)


def framed(body: bytes) -> bytes:
    """Put a frame's length before it."""
    return _LENGTH.pack(len(body)) + body


def decoded(body: bytes) -> dict[str, Any]:
    """Read a frame's map."""
    value = cbor.decode(body, max_bytes=MAX_FRAME)
    if not isinstance(value, Mapping):
        raise BrokenProtocol("a frame holds no map")
    return dict(value)


class FrameReader:
    """Cuts the bytes of a stream into frames, however they come."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take bytes, and give the frames that are whole now."""
        self._held += data
        while len(self._held) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._held)
            if length > MAX_FRAME:
                raise BrokenProtocol(f"a frame announces {length:,} bytes")
            end = _LENGTH.size + length
            if len(self._held) < end:
                return
            body = bytes(self._held[_LENGTH.size:end])
            del self._held[:end]
            yield body
