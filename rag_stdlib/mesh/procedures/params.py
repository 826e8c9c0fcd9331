"""The parameters of a call, read with the tolerance that callers of many makes need (RAG service contract §1.3, §1.4).

A key may be text or bytes, a string text or bytes, and null is the same as absent. What is then out of range is taken as the
contract says, parameter by parameter: some values become the default, some are clamped, and only what is named so is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from rag_stdlib.contract import loose
from rag_stdlib.mesh.errors import Refusal

DEFAULT_TOP_K: Final = 10
MOST_TOP_K: Final = 100
_LARGEST: Final = 2**63 - 1
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,1000}", re.ASCII)


class Params:
    """What a call was asked with; what is no map holds no parameters."""

    __slots__ = ("_given",)

    def __init__(self, payload: object) -> None:
        """Read a payload as it came, of any type; nothing is refused yet."""
        self._given: Mapping[object, object] | None = payload if isinstance(payload, Mapping) else None

    @property
    def is_map(self) -> bool:
        """Whether the payload is a map at all."""
        return self._given is not None

    def value(self, name: str) -> object:
        """Return a parameter as it came; None where it is absent or null."""
        return loose.field(self._given, name) if self._given is not None else None

    def text(self, name: str) -> str | None:
        """Return a parameter that is text, or bytes that are UTF-8; None for anything else."""
        return loose.text(self.value(name))

    def required(self, name: str, refusal: str) -> str:
        """Return a text that must be given and not be empty.

        Raises:
            Refusal: `refusal`.
        """
        text = self.text(name)
        if not text:
            raise Refusal(refusal)
        return text

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return a list of texts; None where the parameter is no list, which is the same as absent.

        Raises:
            Refusal: `bad_params` for an element that is no text: leaving it out would answer another question.
        """
        given = self.value(name)
        if not isinstance(given, list | tuple):
            return None
        read = tuple(map(loose.text, given))
        for number, text in enumerate(read):
            if text is None:
                raise Refusal("bad_params", f"{name}[{number}] is no text")
        return tuple(text for text in read if text is not None)

    def top_k(self) -> int:
        """Return how many hits are asked for: an integer of 1..100; everything else, digits as text too, is 10."""
        value = self.value("top_k")
        return value if type(value) is int and 1 <= value <= MOST_TOP_K else DEFAULT_TOP_K

    def offset(self) -> int:
        """Return the rows to pass over: an integer from 0, or its digits as text; everything else is 0."""
        value = self._integer("offset")
        return value if value is not None and value >= 0 else 0

    def limit(self, default: int, most: int) -> int:
        """Return the rows of a page: an integer from 1, or its digits as text, clamped to `most`; everything else is `default`."""
        value = self._integer("limit")
        return min(value, most) if value is not None and value >= 1 else default

    def _integer(self, name: str) -> int | None:
        value = self.value(name)
        if type(value) is int:
            return min(value, _LARGEST)
        digits = loose.text(value)
        return min(int(digits), _LARGEST) if digits is not None and _DIGITS.fullmatch(digits) else None

    def vector(self, name: str, dim: int) -> list[float] | None:
        """Return a list of `dim` numbers; None where the parameter is no list, which is the same as absent.

        Raises:
            Refusal: `dimension_mismatch` with the two lengths; `bad_params` for an element that is no finite number.
        """
        given = self.value(name)
        if not isinstance(given, list | tuple):
            return None
        if len(given) != dim:
            raise Refusal("dimension_mismatch", f"expected {dim} numbers, got {len(given)}", dim, len(given))
        for number, element in enumerate(given):
            if type(element) not in (int, float) or not _is_finite(element):
                raise Refusal("bad_params", f"{name}[{number}] is no finite number")
        return [float(element) for element in given]


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond every float
        return False
