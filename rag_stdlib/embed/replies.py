"""A provider's reply, judged before anything of it is used: JSON, count, order, dimension, numbers; then unit rows.

Nothing is repaired or skipped. A short list, an index gap, a NaN or a zero vector means that some vector would belong
to another text or to none (R12, R13, R14, R100), so the whole reply is refused and the text is named where it is one.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Matrix


class BadReply(Exception):  # noqa: N818 - it is no error of the program but a verdict on a reply
    """The reply cannot be used; `row` is the position in the batch of the text concerned, where it is one text."""

    def __init__(self, detail: str, row: int | None = None) -> None:
        """Keep what is wrong, for the message."""
        super().__init__(detail)
        self.detail = detail
        self.row = row


def json_object(body: bytes) -> dict[str, Any]:
    """Decode a JSON object. NaN and Infinity are let through here: `unit_rows` refuses them with the text's name."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        kind = "an HTML page" if body.lstrip()[:1] == b"<" else "no JSON"
        raise BadReply(f"it is {kind}") from None
    if not isinstance(payload, dict):
        raise BadReply(f"it is a JSON {type(payload).__name__}, not an object")
    return payload


def vector_list(payload: Mapping[str, Any], name: str) -> list[Any]:
    """Take the list `name` of a reply."""
    value = payload.get(name)
    if not isinstance(value, list):
        raise BadReply(f"it has no `{name}` list")
    return value


def by_index(entries: Sequence[Any], asked: int) -> list[Any]:
    """Order OpenAI's entries ``{"index": i, "embedding": v}``: the indexes must be 0 to asked-1, each once.

    Servers that send no index at all are taken to answer in order; an index on some entries only is refused.
    """
    _check_count(len(entries), asked)
    if not all(isinstance(entry, dict) and "embedding" in entry for entry in entries):
        raise BadReply("an entry of `data` has no `embedding`")
    indexes = [entry.get("index") for entry in entries]
    if all(index is None for index in indexes):
        return [entry["embedding"] for entry in entries]
    placed = {index: entry["embedding"] for index, entry in zip(indexes, entries, strict=True) if type(index) is int}
    if placed.keys() != set(range(asked)):
        raise BadReply(f"its indexes are not 0 to {asked - 1}, each once")
    return [placed[index] for index in range(asked)]


def unit_rows(vectors: Sequence[Any], *, asked: int, dim: int | None) -> Matrix:
    """Turn vectors (number lists, or base64 of little-endian float32; R101, R102) into float32 (asked, dim), unit rows.

    The norm is taken in float64 and every row is divided by it, as no provider's normalisation is relied on (R193).
    `dim=None` accepts any dimension that all rows share. Raises BadReply.
    """
    _check_count(len(vectors), asked)
    rows = [_numbers(vector, row) for row, vector in enumerate(vectors)]
    wanted = dim if dim is not None else rows[0].size
    for row, values in enumerate(rows):
        if values.size != wanted:
            rest = "were asked for" if dim is not None else "came for the first text"
            raise BadReply(f"a vector has {values.size} dimensions where {wanted} {rest}", row)
    matrix = np.stack(rows)
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        raise BadReply("the vector holds NaN or infinity", int(np.argmin(finite)))
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    if not largest.all():
        raise BadReply("the vector is zero, which has no direction", int(np.argmin(largest[:, 0])))
    # Scaled by the largest component first, squares neither overflow nor vanish.
    matrix /= largest
    matrix /= np.sqrt(np.einsum("ij,ij->i", matrix, matrix))[:, np.newaxis]
    return matrix.astype(np.float32)


def _check_count(got: int, asked: int) -> None:
    if got != asked:
        raise BadReply(f"it holds {got} vectors for {asked} texts")


def _numbers(vector: Any, row: int) -> npt.NDArray[np.float64]:  # noqa: ANN401 - whatever the JSON holds
    if isinstance(vector, str):
        values = _from_base64(vector, row)
    elif isinstance(vector, list) and set(map(type, vector)) <= {int, float}:
        try:
            values = np.array(vector, dtype=np.float64)
        except OverflowError:  # an integer beyond float64
            raise BadReply("the vector holds NaN or infinity", row) from None
    else:
        raise BadReply("a vector is neither a list of numbers nor base64", row)
    if values.size == 0:
        raise BadReply("the vector is empty", row)
    return values


def _from_base64(vector: str, row: int) -> npt.NDArray[np.float64]:
    try:
        data = base64.b64decode(vector, validate=True)
    except (binascii.Error, ValueError):
        raise BadReply("a vector is neither a list of numbers nor base64", row) from None
    if len(data) % 4:
        raise BadReply(f"a base64 vector has {len(data)} bytes, no multiple of 4", row)
    return cast("npt.NDArray[np.float64]", np.frombuffer(data, dtype="<f4").astype(np.float64))
