"""The calls of tools as JSON: what a recorder keeps of arguments and results, and results made from it again.

A result is encoded by `result.to_json` with its records in it as they are, since encoders know dataclasses; arguments become
plain JSON of exact types. An argument that is no JSON, and so will be refused as a value, is kept as ``{"not_json": what}``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from rag_stdlib.records import Record
from rag_stdlib.result import Ok, Result, from_json
from rag_stdlib.text.chunker import ChunkOptions

MAX_DEPTH: Final = 32  # of values inside an argument; what is deeper is refused as a value anyway
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


def argument(value: Any, depth: int = MAX_DEPTH) -> Any:  # noqa: ANN401 - any argument
    """Give an argument as JSON of exact types: a subclass of str, int or float as what it holds."""
    if isinstance(value, (str, int, float)) or value is None:
        return _leaf(value)
    if depth and isinstance(value, Record):
        return {name: argument(part, depth - 1) for name, part in vars(value).items()}
    if depth and isinstance(value, Mapping):
        return _mapping(value, depth - 1)
    if depth and isinstance(value, (list, tuple)):
        return [argument(item, depth - 1) for item in value]
    if isinstance(value, ChunkOptions):
        return asdict(value)
    return {"not_json": type(value).__name__}


def _leaf(value: str | float | None) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return _string(str.__str__(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _whole(int.__int__(value))
    number = float.__float__(value)
    return number if math.isfinite(number) else {"not_json": float.__repr__(number)}


def _string(text: str) -> Any:  # noqa: ANN401 - JSON
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return {"not_json": f"str with a lone surrogate at character {error.start}",
                "sha256": hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()}
    return text


def _whole(number: int) -> Any:  # noqa: ANN401 - JSON
    if _INT_MIN <= number <= _INT_MAX:
        return number
    bits = number.bit_length()
    return {"not_json": f"int of {bits} bits",
            "sha256": hashlib.sha256(number.to_bytes(bits // 8 + 1, "little", signed=True)).hexdigest()}


def _mapping(value: Mapping[Any, Any], depth: int) -> Any:  # noqa: ANN401 - JSON
    pairs = [(argument(key, depth), argument(item, depth)) for key, item in value.items()]
    if all(isinstance(key, str) for key, _ in pairs):
        return dict(pairs)
    return {"not_json": f"{type(value).__name__} with keys that are no JSON strings", "items": [list(pair) for pair in pairs]}


def decode(make: Callable[[Any], Any], recorded: dict[str, Any]) -> Result[Any]:
    """Make a result from the JSON of what `to_json` gave; `make` makes its value."""
    result = from_json(recorded)
    return Ok(make(result.value), notes=result.notes) if isinstance(result, Ok) else result


def as_it_is(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Make a value that is JSON already."""
    return value


def ranking(encoded: Any) -> list[tuple[str, float | None]] | None:  # noqa: ANN401 - JSON
    """Read (chunk id, score) out of the JSON of a list of chunks, in order; None for an Err and what is no such list."""
    if not isinstance(encoded, dict) or encoded.get("tag") != "ok" or not isinstance(encoded.get("value"), list):
        return None
    try:
        return [(chunk["chunk_id"], chunk["score"]) for chunk in encoded["value"]]
    except (KeyError, TypeError):
        return None
