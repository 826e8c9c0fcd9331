"""int8 codes of unit vectors, their exact integer products, and how far a product can lie from the true score.

A row is ``scale * level`` with whole levels from -127 to 127, each kept as the unsigned byte ``level + 128``: the kernels for
unsigned bytes are the faster ones on most processors, and what the shift adds to a product is known in advance. A product is
exact, so it depends on the stored vectors alone: not on row order, batch size or the machine's vector unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_stdlib.embed.protocol import Matrix

    Floats = npt.NDArray[np.float64]
    Bytes = npt.NDArray[np.uint8]

SLACK: Final = 1e-6  # float32 rounding of scales, errors and lengths, and the rounding of final scores
_LEVELS: Final = 127
SHIFT: Final = 128
_EXACT_FLOAT32: Final = 1040  # up to this dimension sums of int8 products are exact in float32 (127² · dim < 2²⁴)
_SMALL_PRODUCT: Final = 262_144  # multiplications; BLAS libraries use one thread for matrix products up to here


@dataclass(frozen=True, slots=True)
class Codes:
    """Codes of n rows: `code` (n, dim), `scale` and `shifted` (n,), `error` (n,) bounds the length of what a code leaves out.

    `shifted` is what the shift adds to the products of a row, but for the query's own part.
    """

    code: Bytes
    scale: Floats
    shifted: Floats
    error: npt.NDArray[np.float32]

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.scale)

    def take(self, start: int, stop: int) -> Codes:
        """Give a view of some rows."""
        return Codes(self.code[start:stop], self.scale[start:stop], self.shifted[start:stop], self.error[start:stop])

    def at(self, positions: npt.NDArray[np.int64]) -> Codes:
        """Copy the rows at positions."""
        return Codes(self.code[positions], self.scale[positions], self.shifted[positions], self.error[positions])


def empty(rows: int, dim: int) -> Codes:
    """Make room for codes; memory is taken as it is filled."""
    return Codes(np.empty((rows, dim), np.uint8), np.empty(rows), np.empty(rows), np.empty(rows, np.float32))


def encode(rows: Matrix) -> Codes:
    """Quantise float32 rows of shape (n, dim)."""
    codes = empty(*rows.shape)
    encode_into(codes, rows)
    return codes


def encode_into(codes: Codes, rows: Matrix) -> None:
    """Quantise float32 rows into codes of the same number of rows.

    Raises:
        ValueError: a row that holds what is no finite number.
    """
    with np.errstate(all="ignore"):  # which shows in the error of such a row
        _encode_into(codes, rows)
    if not np.isfinite(codes.error).all():
        raise ValueError("a vector holds what is no finite number")


def _encode_into(codes: Codes, rows: Matrix) -> None:
    levels = np.abs(rows)
    scale = levels.max(axis=1, initial=0.0) / np.float32(_LEVELS)
    scale[scale == 0.0] = 1.0
    np.divide(rows, scale[:, None], out=levels)
    np.rint(levels, out=levels)
    codes.shifted[:] = levels.sum(axis=1)  # whole numbers below 2²⁴, in float32 exact
    codes.shifted[:] *= SHIFT
    np.add(levels, np.float32(SHIFT), out=codes.code, casting="unsafe")
    levels *= scale[:, None]
    levels -= rows
    codes.scale[:] = scale
    np.sqrt(np.einsum("ij,ij->i", levels, levels), out=codes.error)
    codes.error[:] *= _rounded(rows.shape[1])


def _rounded(dim: int) -> float:
    """By how much a float32 sum of so many squares can fall short."""
    return 1.0 + dim * 2.0**-24


@dataclass(frozen=True, slots=True)
class Asked:
    """A unit query vector of shape (dim,) and its code."""

    vector: npt.NDArray[np.float32]
    code: Bytes
    scale: float
    error: float
    own_shift: float  # what the shift adds to every product

    @classmethod
    def of(cls, vector: npt.NDArray[np.float32]) -> Asked:
        """Quantise a query."""
        scale = float(max(vector.max(initial=0.0), -vector.min(initial=0.0))) / _LEVELS or 1.0
        levels = np.rint(vector / np.float32(scale))
        rest = vector - levels * np.float32(scale)
        own = float(levels.sum()) * SHIFT + float(SHIFT * SHIFT * len(vector))
        code = (levels + np.float32(SHIFT)).astype(np.uint8)
        return cls(vector, code[None], scale, math.sqrt(float(np.einsum("i,i->", rest, rest))) * _rounded(len(rest)), own)

    def score(self, codes: Codes, out: Floats) -> None:
        """Write the approximate score of each row to `out`: product times both scales, in this order of operations on every path."""
        np.subtract(_products(self.code, codes.code), codes.shifted, out=out)
        np.subtract(out, self.own_shift, out=out)
        self.scaled(codes, out)

    def scaled(self, codes: Codes, out: Floats) -> None:
        """Turn the products in `out` into scores."""
        np.multiply(out, codes.scale, out=out)
        np.multiply(out, self.scale, out=out)

    def bound(self, error: npt.NDArray[np.float32]) -> Floats:
        """Return how far the true scores of rows with these errors can lie from the approximate ones (Cauchy-Schwarz)."""
        return error + self.error * (1.0 + error.astype(np.float64)) + SLACK

    def closer(self, codes: Codes) -> tuple[Floats, Floats]:
        """Return the scores of a few rows by the query itself instead of its code, and how far the true ones can lie from them."""
        levels = codes.code.astype(np.float64) - SHIFT
        scores: Floats = np.einsum("ij,j->i", levels, self.vector.astype(np.float64)) * codes.scale
        return scores, codes.error.astype(np.float64) + SLACK


def _products(query: Bytes, codes: Bytes) -> Floats:
    """Return the dot product of each row of bytes with the query's; whole numbers, exact."""
    if not len(codes):  # which the library would refuse
        return np.empty(0)
    try:
        import simsimd
    except ImportError:  # no wheel for this machine
        products: Floats = np.einsum("ij,j->i", codes, query[0], dtype=np.float64)
        return products
    found: Any = simsimd.cdist(query, codes, "dot", out_dtype="float64")  # its own `out` loses a reference to None each time
    return np.asarray(found, np.float64).reshape(-1)


def score_many(asked: Sequence[Asked], codes: Codes, out: Floats) -> None:
    """Write the approximate scores of rows (n) for several queries (q) to `out` of shape (q, n); the same bits as `Asked.score`.

    One matrix product over the levels as floats, which hold such sums exactly. It is cut into products so small that a BLAS
    library does each in the calling thread.
    """
    exact: Any = np.float32 if codes.code.shape[1] <= _EXACT_FLOAT32 else np.float64
    queries = np.concatenate([query.code for query in asked]).astype(exact) - exact(SHIFT)
    width, dim = queries.shape
    levels = np.subtract(codes.code, exact(SHIFT), dtype=exact, casting="unsafe")
    step = max(1, _SMALL_PRODUCT // (dim * width))
    whole = len(levels) // step * step
    if whole:
        products = np.matmul(queries, levels[:whole].reshape(-1, step, dim).transpose(0, 2, 1))
        out[:, :whole].reshape(width, -1, step)[:] = products.transpose(1, 0, 2)
    if whole < len(levels):
        np.matmul(queries, levels[whole:].T, out=out[:, whole:], casting="same_kind")
    for row, query in enumerate(asked):
        query.scaled(codes, out[row])
