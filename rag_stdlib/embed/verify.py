"""A probe of a configured embedder, for `rag doctor`: does the same text get the same vector, wherever it stands?

Servers have answered identical requests with unlike vectors (R105) and large batches in another order (R100). Neither
shows in a single reply, so a few texts are embedded several times, in other company and other places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rag_stdlib.errors import Failure

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Embedder, Matrix

LEAST_COSINE: Final = 0.999
_TEXTS: Final = (
    "The invoice is due within thirty days.",
    "Tigers live alone and hunt at night.",
    "Restart the database after changing its port.",
    "Bake the bread until its crust is dark.",
    "The train to the coast leaves from platform nine.",
)


def verify_embedder(embedder: Embedder, *, rounds: int = 3) -> tuple[str, ...]:
    """Embed the probe texts together `rounds` + 1 times, each time rotated, and each text alone; return the problems.

    An empty tuple: vectors are stable (cosine over 0.999), in order, and of the dimension the identity states. A Failure
    of the embedder is a problem too. Costs `rounds` + 7 requests at most.
    """
    try:
        return tuple(_problems(embedder, rounds))
    except Failure as failure:
        return (str(failure.error),)


def _problems(embedder: Embedder, rounds: int) -> list[str]:
    reference = embedder.embed(_TEXTS, "passage")
    problems: list[str] = []
    if (stated := embedder.identity().dim) != reference.shape[1]:
        problems.append(f"the identity states {stated} dimensions, vectors have {reference.shape[1]}")
    alone = [embedder.embed([text], "passage") for text in _TEXTS]
    if any(row.shape != (1, reference.shape[1]) for row in alone):
        return [*problems, "the dimension changes between requests"]
    for place, row in enumerate(alone):
        problems += _compare(reference, row, [place], "alone")
    for turn in range(1, rounds + 1):
        places = [(place + turn) % len(_TEXTS) for place in range(len(_TEXTS))]
        again = embedder.embed([_TEXTS[place] for place in places], "passage")
        problems += _compare(reference, again, places, f"in another order (round {turn})")
    return problems


def _compare(reference: Matrix, rows: Matrix, places: list[int], how: str) -> list[str]:
    cosines = rows @ reference.T
    problems = []
    for row, place in enumerate(places):
        same, nearest = float(cosines[row, place]), int(cosines[row].argmax())
        if same > LEAST_COSINE:
            continue
        if nearest != place and float(cosines[row, nearest]) > LEAST_COSINE:
            problems.append(f"text {place + 1} embedded {how} got the vector of text {nearest + 1}: order is not kept")
        else:
            problems.append(f"text {place + 1} embedded {how} got another vector: cosine {same:.4f}")
    return problems
