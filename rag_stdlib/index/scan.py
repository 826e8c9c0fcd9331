"""Exact vector search over int8 codes.

A search quantises the rows to int8 codes, scans the codes, and rescores in float64 every row whose error bound could put it
into the answer; the result is the float ranking itself. Sums for fusion are taken over the codes' integer products, so that
they depend on the stored vectors alone: not on row order, batch size or the machine's vector unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rag_stdlib.index.lexical import DECIMALS

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_stdlib.embed.protocol import Matrix

    Floats = npt.NDArray[np.float64]
    Seqs = npt.NDArray[np.int64]
    Positions = npt.NDArray[np.int64]

_LEVELS: Final = 127.0
_SLACK: Final = 1e-6  # float32 rounding of scales, errors and norms, and the rounding of final scores
_EXACT_FLOAT32: Final = 1040  # up to this dimension sums of int8 products are exact in float32 (127² · dim < 2²⁴)


def exact_scores(rows: Matrix, query: npt.NDArray[np.float32]) -> Floats:
    """Score rows against the query: THE function every final vector score comes from.

    Products of float32 are exact in float64; each row is summed by itself, so a score does not depend on the other rows.
    """
    products = rows.astype(np.float64) * query.astype(np.float64)
    scores: Floats = np.clip(products.sum(axis=1), -1.0, 1.0).round(DECIMALS)
    return scores


@dataclass(frozen=True, slots=True)
class Codes:
    """int8 codes of unit rows: ``row ≈ scale · code``; `error` bounds the length of what the code leaves out."""

    code: npt.NDArray[np.int8]
    scale: Floats
    error: Floats


def encode(rows: Matrix) -> Codes:
    """Quantise rows of shape (n, dim) to 127 levels each side of zero, scaled per row."""
    scale = (np.abs(rows).max(axis=1, initial=0.0) / np.float32(_LEVELS)).astype(np.float32)
    scale[scale == 0.0] = 1.0
    levels = np.rint(rows / scale[:, None])
    rest = rows - levels * scale[:, None]
    error = np.sqrt(np.einsum("ij,ij->i", rest, rest, dtype=np.float64))
    return Codes(levels.astype(np.int8), scale.astype(np.float64), error)


def _products(codes: npt.NDArray[np.int8], query: npt.NDArray[np.int8]) -> Floats:
    """Exact integer dot products of every code with the query's."""
    try:
        import simsimd
    except ImportError:
        exact = np.float32 if codes.shape[1] <= _EXACT_FLOAT32 else np.float64
        return np.asarray(codes.astype(exact) @ query.astype(exact), np.float64)
    found: Any = simsimd.cdist(query[None], codes, "dot", out_dtype="float64")
    return np.asarray(found, np.float64).reshape(-1)


@dataclass(frozen=True, slots=True)
class Scan:
    """One query against all rows: approximate scores and, per row, how far the true score can lie from them.

    `rows` gives the float rows at positions, from memory or, where they are too many to keep, from the index again.
    """

    seqs: Seqs
    rows: Callable[[Positions], Matrix]
    query: npt.NDArray[np.float32]
    score: Floats
    bound: Floats

    def rescore(self, positions: Positions) -> Floats:
        """Return the exact scores at the given positions."""
        return exact_scores(self.rows(positions), self.query)


def scan(blocks: Iterable[tuple[Seqs, Matrix]], query: npt.NDArray[np.float32], again: Callable[[Seqs], Matrix],
         keep_bytes: int) -> Scan:
    """Score every row approximately, with proven bounds, for a unit query vector of shape (dim,).

    Float rows are kept up to `keep_bytes` in all; beyond that none are, and those to rescore are read by `again(seqs)`.
    """
    asked = encode(query[None])
    seqs, scores, bounds = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
    kept, size = [np.empty((0, len(query)), np.float32)], 0
    for some, rows in blocks:
        codes = encode(rows)
        seqs.append(some)
        scores.append(_products(codes.code, asked.code[0]) * codes.scale * asked.scale[0])
        bounds.append(codes.error + asked.error[0] * (1.0 + codes.error) + _SLACK)
        size += rows.nbytes
        if size <= keep_bytes:
            kept.append(rows)
        else:
            kept.clear()
    all_seqs, whole = np.concatenate(seqs), np.concatenate(kept) if kept else None

    def rows_at(positions: Positions) -> Matrix:
        return whole[positions] if whole is not None else again(all_seqs[positions])

    return Scan(all_seqs, rows_at, query, np.concatenate(scores), np.concatenate(bounds))
