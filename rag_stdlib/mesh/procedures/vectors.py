"""Vectors that come over the mesh, as the index scores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from rag_stdlib.mesh.errors import Refusal

if TYPE_CHECKING:
    import numpy.typing as npt

_UNIT: Final = 1e-6  # how far from 1 the rounding of float32 leaves a length, with room


def unit(numbers: Sequence[float], name: str) -> npt.NDArray[np.float32]:
    """Bring finite numbers to unit length; those that have it keep their bits, so that they score as they would where they come from.

    Raises:
        Refusal: `bad_params` for numbers that are all zero; `name` is the parameter.
    """
    wide = np.array(numbers, np.float64)
    largest = np.abs(wide).max(initial=0.0)
    if not largest:
        raise Refusal("bad_params", f"{name} is zero, which has no direction")
    if largest <= 1.0 + _UNIT and abs(np.sqrt(wide @ wide) - 1.0) <= _UNIT:
        return wide.astype(np.float32)
    wide /= largest  # so that squares neither overflow nor vanish
    return (wide / np.sqrt(wide @ wide)).astype(np.float32)
