"""R12, R13, R14, R100, R193 for an embedder that the program brings itself: nothing it gives is stored unchecked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedder_double import EmbedderDouble

from rag_stdlib import (
    Config,
    Err,
    QueryOptions,
    Result,
    Runtime,
    rag_check,
    rag_ingest,
    rag_query,
    rag_reembed,
    rag_stats,
)
from rag_stdlib.embed.boundary import embedded, identified
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.embed.protocol import EmbedderIdentity, Role
from rag_stdlib.errors import Failure, fail

PATH = "index.db"
DIM = 8
TEXT = "First words here. Second words here. Third words here."
Spoil = Callable[[np.ndarray], Any]


class Own:
    """A program's own embedder: sound rows, spoilt by a function before they are given."""

    def __init__(self, spoil: Spoil = lambda rows: rows, identity: Any = None) -> None:
        self.spoil = spoil
        self.remote = False
        self._identity = identity or EmbedderIdentity("own", "model", DIM)

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:  # noqa: ARG002 - the protocol's
        return self._identity() if callable(self._identity) else self._identity

    def embed(self, texts: Sequence[str], role: Role) -> Any:
        return self.spoil(HashingEmbedder(DIM).embed(texts, role))


def at(row: int, value: Any) -> Spoil:
    def spoil(rows: np.ndarray) -> np.ndarray:
        rows[min(row, len(rows) - 1)] = value
        return rows

    return spoil


def explode(_rows: np.ndarray) -> Any:
    raise RuntimeError("out of memory on\ndevice 0, key sk-abcdef123456")


BAD: list[tuple[Spoil, str]] = [
    (at(1, np.nan), "the vector holds NaN or infinity"), (at(1, [1, np.inf] * 4), "the vector holds NaN or infinity"),
    (at(0, np.nan), "the vector holds NaN or infinity"), (at(1, -np.inf), "the vector holds NaN or infinity"),
    (lambda rows: rows[:, :5], "a vector has 5 dimensions where 8 were asked for"),
    (lambda rows: np.hstack([rows, rows]), "a vector has 16 dimensions where 8 were asked for"),
    (lambda rows: rows[:-1], "it holds"), (lambda rows: np.vstack([rows, rows]), "it holds"), (lambda _rows: [], "it holds 0 vectors"),
    (lambda rows: rows.ravel(), "the vector is no row of numbers"), (lambda rows: rows[None], "it holds 1 vectors|no row of numbers"),
    (lambda _rows: None, "it is no list of rows of numbers"), (lambda _rows: 7, "it is no list of rows of numbers"),
    (lambda rows: [["a"] * DIM for _ in rows], "the vector is no row of numbers"),
    (lambda rows: rows.astype(complex), "the vector is no row of numbers"), (lambda rows: rows > 0, "the vector is no row of numbers"),
    (lambda rows: [[10**400] * DIM for _ in rows], "the vector is no row of numbers"),
    (lambda rows: [[1.0, [2.0]] for _ in rows], "it is no list of rows of numbers"),
    (lambda rows: [row[:DIM - position] for position, row in enumerate(rows)] if len(rows) > 1 else [rows[0][:3]], "dimensions where 8"),
    (explode, "it raised RuntimeError: out of memory on\\ndevice 0, key [redacted]"),
]


def refused(result: Result[Any]) -> str:
    assert isinstance(result, Err), result
    assert "\n" not in result.error
    return f"{result.error.code}: {result.error}"


@pytest.mark.parametrize(("spoil", "said"), [*BAD, (at(1, 0.0), "the vector is zero")])
def test_r12_r13_r14_r100_what_is_no_set_of_vectors_is_neither_stored_nor_searched_with(tmp_path: Path, spoil: Spoil, said: str) -> None:
    own = Own()
    with Runtime(Config(), root=tmp_path, embedder=own):
        chunks = rag_ingest(PATH, "old", "s", TEXT, 20).unwrap()
        own.spoil = spoil
        messages = [refused(rag_ingest(PATH, name, "s", TEXT + " Fourth.", 20)) for name in ("new", "old")]
        if "zero" not in said:
            messages += [refused(rag_query(PATH, "words", 3, QueryOptions(mode=mode))) for mode in ("vector", "hybrid")]
        for message in messages:
            assert message.startswith("embedder_reply: Own sent an unusable reply"), message
            assert any(part in message for part in said.split("|")), message
        assert rag_stats(PATH).unwrap().vectors == chunks
        assert rag_check(PATH).unwrap().problems == ()
    with Runtime(Config(), root=tmp_path, embedder=Own(spoil, EmbedderIdentity("own", "second", DIM))):
        assert refused(rag_reembed(PATH)).startswith("embedder_reply: Own")
    own.spoil = lambda rows: rows
    with Runtime(Config(), root=tmp_path, embedder=own):
        assert len(rag_query(PATH, "words", 50, QueryOptions(mode="vector")).unwrap()) == chunks


def test_the_text_to_blame_is_named() -> None:
    with pytest.raises(Failure, match=r'unusable reply for text 2 of 3 \("b b"\): the vector holds NaN'):
        embedded(Own(at(1, np.nan)), ["a", "b b", "c"], "passage")


def test_r14_a_query_without_a_direction_has_its_own_code() -> None:
    for zero in (0.0, -0.0):
        with pytest.raises(Failure) as caught:
            embedded(Own(at(0, zero)), ["q"], "query")
        assert caught.value.error.code == "zero_query_vector"


@pytest.mark.parametrize("spoil", [
    lambda rows: rows * 3.5, lambda rows: (rows * 1e30).tolist(), lambda rows: rows.astype(np.float64) * 1e-300, lambda rows: list(rows.astype(np.float64) * 1e300),
    lambda rows: tuple(map(tuple, rows.tolist())),
    lambda rows: rows.astype(">f4"), np.asfortranarray, lambda rows: (row for row in rows),
    lambda rows: np.rint(rows * np.sqrt((rows != 0).sum(1))[:, None] * 50).astype(np.int64)])
def test_r193_rows_of_numbers_of_any_make_become_unit_rows(spoil: Spoil) -> None:
    rows = embedded(Own(spoil), ["one word", "two other words"], "passage")
    assert rows.dtype == np.float32
    assert (rows.shape, rows.flags.c_contiguous) == ((2, DIM), True)
    assert np.abs(np.linalg.norm(rows.astype(np.float64), axis=1) - 1).max() < 1e-6


def test_unit_rows_keep_their_bytes_whatever_stands_beside_them() -> None:
    texts = ["one word", "two other words", "three"]
    sound = HashingEmbedder(DIM).embed(texts, "passage")
    assert embedded(Own(), texts, "passage").tobytes() == sound.tobytes()
    assert embedded(Own(lambda rows: rows.tolist()), texts, "passage").tobytes() == sound.tobytes()
    beside = embedded(Own(at(1, [2.0, *[0.0] * 7])), texts, "passage")
    assert beside[[0, 2]].tobytes() == sound[[0, 2]].tobytes()
    assert beside[1].tolist() == [1.0, *[0.0] * 7]


def test_rows_are_a_copy_that_a_later_call_does_not_change() -> None:
    buffer = np.zeros((1, DIM), np.float32)

    def same_buffer(rows: np.ndarray) -> np.ndarray:
        buffer[:] = rows
        return buffer

    own = Own(same_buffer)
    first = embedded(own, ["one"], "passage")
    kept = first.tobytes()
    embedded(own, ["two"], "passage")
    assert first.tobytes() == kept


def test_vectors_of_any_length_answer_as_unit_ones_do(tmp_path: Path) -> None:
    answers = []
    for name, spoil in (("a", lambda rows: rows), ("b", lambda rows: (rows.astype(np.float64) * 7).tolist())):
        (tmp_path / name).mkdir()
        with Runtime(Config(), root=tmp_path / name, embedder=Own(spoil)):
            assert rag_ingest(PATH, "d", "s", TEXT, 20).is_ok
            answers.append([(hit.chunk_id, round(hit.score or 0.0, 5)) for hit in rag_query(PATH, "second words", 9, QueryOptions(mode="vector")).unwrap()])
            assert rag_check(PATH).unwrap().clean
    assert answers[0] == answers[1]


def test_an_embedders_own_failure_passes_as_it_is() -> None:
    def failing(_rows: np.ndarray) -> Any:
        raise fail("embedder_timeout", provider="mine", seconds=3)

    with pytest.raises(Failure) as caught:
        embedded(Own(failing), ["a"], "passage")
    assert caught.value.error.code == "embedder_timeout"


def test_an_interrupt_is_no_fault_of_the_embedder() -> None:
    def interrupted(_rows: np.ndarray) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embedded(Own(interrupted), ["a"], "passage")


def raising() -> Any:
    raise ValueError("no model")


@pytest.mark.parametrize(("identity", "said"), [
    ("own/model", "no EmbedderIdentity"), (EmbedderIdentity("own", "m", 0), "no EmbedderIdentity"), (EmbedderIdentity("own", "m", True), "no EmbedderIdentity"),
    (EmbedderIdentity("own", "m", 8.0), "no EmbedderIdentity"), (raising, "it raised ValueError: no model")])  # type: ignore[arg-type]
def test_r194_what_is_no_identity_is_refused(tmp_path: Path, identity: Any, said: str) -> None:
    own = Own(identity=identity)
    with pytest.raises(Failure, match=said):
        identified(own)
    with Runtime(Config(), root=tmp_path, embedder=own):
        message = refused(rag_ingest(PATH, "d", "s", TEXT, 20))
        assert message.startswith("embedder_reply: Own")
        assert list(tmp_path.iterdir()) == []


def test_a_sound_embedder_is_asked_once_a_call() -> None:
    double = EmbedderDouble(dim=DIM)
    embedded(double, ["a", "b"], "passage")
    assert double.calls == [("passage", ("a", "b"))]
    assert identified(double) == double.identity()
