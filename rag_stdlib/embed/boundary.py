"""What any embedder gives, checked before the index uses it: an embedder may be the program's own, and is not trusted.

Every call the index makes to an embedder goes through here. Rows that are of unit length already keep their bytes; all
others are brought to it, each by itself, so that a text's vector never depends on its company.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rag_stdlib.embed.announce import announce
from rag_stdlib.embed.inputs import name_text
from rag_stdlib.embed.protocol import Embedder, EmbedderIdentity, Role
from rag_stdlib.embed.redact import one_line, redact
from rag_stdlib.errors import Failure, fail
from replay.errors import ReplayError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_stdlib.embed.protocol import Matrix

T = TypeVar("T")
_LOG: Final = logging.getLogger("rag_stdlib")
_UNIT: Final = 1e-6  # how far from 1 the rounding of float32 leaves a length, with room
_NUMBERS: Final = "fiu"  # numpy's kinds of real numbers


def identified(embedder: Embedder, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:
    """Ask an embedder for its identity; see `Embedder.identity`.

    Raises:
        Failure: `embedder_reply` for what is no identity or an exception of the embedder's own; its own Failure.
    """
    identity: Any = _asked(embedder, lambda: embedder.identity(stored))
    if not isinstance(identity, EmbedderIdentity) or type(identity.dim) is not int or identity.dim < 1:
        raise _unusable(embedder, "its identity is no EmbedderIdentity with a dimension of at least 1")
    return identity


def embedded(embedder: Embedder, texts: Sequence[str], role: Role) -> Matrix:
    """Embed non-blank texts: float32 of shape (len(texts), identity().dim), every row finite and of unit length.

    The embedder may give any sequence of rows of numbers; the result is a copy that nobody else holds.

    Raises:
        Failure: `embedder_reply` for a wrong count or dimension, what is no number, NaN, infinity or a zero vector, with
            the text named, and for an exception of the embedder's own; `zero_query_vector` for a query that has no
            direction; the embedder's own Failure.
    """
    from rag_stdlib.embed.replies import BadReply

    announce(embedder, texts)
    given = _asked(embedder, lambda: embedder.embed(texts, role))
    dim = identified(embedder).dim  # asked now that the embedder has seen the true dimension
    try:
        return _unit_matrix(given, len(texts), dim, role)
    except BadReply as bad:
        where = "" if bad.row is None else f" for {name_text(texts, bad.row)}"
        raise _unusable(embedder, bad.detail, where) from None


def _asked(embedder: Embedder, call: Callable[[], T]) -> T:
    try:
        return call()
    except (Failure, ReplayError):  # a session's refusal is no failure of the embedder
        raise
    except Exception as error:
        _LOG.info("the embedder %s raised", type(embedder).__name__, exc_info=True)
        raise _unusable(embedder, f"it raised {type(error).__name__}: {error}") from error


def _unusable(embedder: Embedder, detail: str, where: str = "") -> Failure:
    return fail("embedder_reply", provider=type(embedder).__name__, where=where, detail=one_line(redact(detail, ())))


def _unit_matrix(given: Any, asked: int, dim: int, role: Role) -> Matrix:  # noqa: ANN401 - whatever an embedder returns
    import numpy as np

    from rag_stdlib.embed.replies import unit_rows

    if isinstance(given, np.ndarray) and (given.dtype, given.shape) == (np.float32, (asked, dim)) and _is_unit(given).all():
        return np.array(given, np.float32, order="C")
    lists = _number_lists(given)
    if role == "query" and lists == [[0.0] * dim]:
        raise fail("zero_query_vector")
    rows = unit_rows(lists, asked=asked, dim=dim)
    wide = np.array(lists, np.float64)
    unit = _is_unit(wide)
    rows[unit] = wide[unit].astype(np.float32)
    return rows


def _is_unit(rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    import numpy as np

    with np.errstate(all="ignore"):  # a length beyond float64 is not 1 either
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        return np.asarray(np.abs(lengths - 1.0) <= _UNIT)


def _number_lists(given: Any) -> list[list[float]]:  # noqa: ANN401 - whatever an embedder returns
    """Give rows of numbers, of whatever make, as lists of floats; raises BadReply."""
    import numpy as np

    from rag_stdlib.embed.replies import BadReply

    lists: list[list[float]] = []
    try:
        for vector in given:
            row = np.asarray(vector)
            if row.ndim != 1 or row.dtype.kind not in _NUMBERS:
                raise BadReply("the vector is no row of numbers", len(lists))
            lists.append(row.astype(np.float64).tolist())
    except (TypeError, ValueError, ArithmeticError, RuntimeError):  # not iterable, ragged, or not to be copied here
        raise BadReply("it is no list of rows of numbers") from None
    return lists
