"""The data sets: what they are made of, and that answers to their queries are exact."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import ROWS  # type: ignore[attr-defined]
from harness import corpus as corpora
from harness import data
from harness.protocol import DIM, Feed, fused

TEXT = "The first sentence is here. And the second one follows it!\nhttps://x.y/123456789012345678901234567890\nA third stands on a line"


def test_sentences_are_pieces_of_prose() -> None:
    assert list(corpora.sentences(TEXT)) == ["The first sentence is here.", "And the second one follows it!", "A third stands on a line"]


def test_descriptions_are_read_once_and_in_order(tmp_path: Path) -> None:
    for site, name, body in (("a", "Zeta-1.0", "About zeta."), ("a", "alpha-2.0", "About alpha."), ("b", "alpha-2.0", "Again."), ("b", "empty-1", "")):
        folder = tmp_path / site / f"{name}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\n\n{body}\n", encoding="utf-8")
    assert corpora.descriptions([tmp_path / "a", tmp_path / "b"]) == [("alpha-2.0", "About alpha."), ("zeta-1.0", "About zeta.")]


def test_paragraphs_are_joined_by_article_and_questions_read(tmp_path: Path) -> None:
    for name, lines in (("paragraphs", [{"title": "T", "text": "One."}, {"title": "U", "text": "Two."}, {"title": "T", "text": "Three."}]),
                        ("questions", [{"question": "Which?"}])):
        with gzip.open(tmp_path / f"squad_{name}.jsonl.gz", "wt", encoding="utf-8") as out:
            out.write("".join(json.dumps(line) + "\n" for line in lines))
    assert corpora.squad(tmp_path) == ([("T", "One.\n\nThree."), ("U", "Two.")], ["Which?"])
    read = corpora.read_corpus((), shared=tmp_path)
    assert read.sources["squad"] is True
    assert read.questions == ["Which?"]


def test_without_the_data_folder_the_descriptions_are_the_corpus(corpus: corpora.Corpus) -> None:
    assert corpus.sources["squad"] is False
    assert len(corpus.documents) == 40
    assert all(len(text) <= 4 * corpora.PIECE for text in corpus.documents)
    assert set(corpus.questions)


def test_pieces_hold_every_line() -> None:
    lines = [f"line {number} of the text" for number in range(1_000)]
    cut = list(corpora.pieces("\n".join(lines)))
    assert [line for piece in cut for line in piece.splitlines()] == lines
    assert len(cut) == 4


def test_the_commonest_words_are_counted_by_texts() -> None:
    assert corpora.commonest(["the the the cat", "a cat", "a dog, a cat", "The end"], 2) == ["cat", "a"]


def test_a_set_has_exactly_its_rows_and_every_chunk_is_a_slice(data_folder: Path) -> None:
    feed = Feed(data_folder, "real")
    documents = list(feed.documents())
    assert len(feed) == sum(len(document.spans) for document in documents) == ROWS
    assert [row for document in documents for row in document.rows] == list(range(ROWS))
    chunks = [chunk for document in documents for chunk in document.chunks]
    assert len(set(chunks)) == ROWS
    assert all(0 < len(chunk) <= data.CHUNK_CHARS for chunk in chunks)
    assert all(data.cut(document.text) == [tuple(span) for span in document.spans] for document in documents)
    assert int(documents[1].id[1:]) == documents[1].first_row
    batches = list(feed.batches(50))
    assert [text for batch in batches for text in batch.texts] == chunks
    assert all(len(batch.rows) >= 50 for batch in batches[:-1])
    assert np.array_equal(np.concatenate([batch.vectors for batch in batches]), feed.matrix)
    assert feed.seconds > 0


def test_a_smaller_set_is_the_beginning_of_a_larger(corpus: corpora.Corpus) -> None:
    known = data.real_documents(corpus)[:5]
    stream = lambda: itertools.chain(known, data.recombined(corpus))  # noqa: E731
    small, large = list(data.exactly(stream(), 150)), list(data.exactly(stream(), 700))
    assert small[:-1] == large[:len(small) - 1]
    assert (sum(len(spans) for _, spans in small), sum(len(spans) for _, spans in large)) == (150, 700)
    real = data.unit(np.random.default_rng(1).standard_normal((50, DIM)))
    few, many = (np.concatenate(list(data.extended(real, rows))) for rows in (200, 20_100))
    assert np.array_equal(few, many[:200])
    assert len(many) == 20_100


def test_extended_vectors_are_near_real_ones_and_of_their_spectrum() -> None:
    draw = np.random.default_rng(2)
    scales = np.linspace(3, 0.01, DIM)
    real = data.unit(draw.standard_normal((400, DIM)) * scales)
    extra = np.concatenate(list(data.extended(real, 2_400)))[400:]
    assert np.allclose(np.linalg.norm(extra, axis=1), 1, atol=1e-6)
    assert np.median((extra @ real.T).max(axis=1)) > 0.8
    assert extra[:, :50].var() > 4 * extra[:, -50:].var()


@pytest.mark.parametrize("k", [1, 10])
def test_exact_answers_are_those_of_a_plain_loop(k: int) -> None:
    draw = np.random.default_rng(3)
    matrix, queries = data.unit(draw.standard_normal((500, DIM))), data.unit(draw.standard_normal((4, DIM)))
    rows, products = data.exact_top(matrix, queries, k)
    for query, found, values in zip(queries, rows, products, strict=True):
        true = [float(sum(a * b for a, b in zip(row.tolist(), query.tolist(), strict=True))) for row in matrix]
        assert found.tolist() == sorted(range(500), key=true.__getitem__, reverse=True)[:k]
        assert values == pytest.approx(sorted(true, reverse=True)[:k])


def test_word_queries_are_of_the_text_and_use_no_word_twice(data_folder: Path) -> None:
    read = json.loads((data_folder / "queries.json").read_text(encoding="utf-8"))
    common = set(read["common"])
    held = {word for document in Feed(data_folder, "real").documents() for word in corpora.words(document.text)}
    asked = [word for text in read["five"] for word in text.split()]
    assert len(read["five"]) > 20
    assert len(set(asked)) == len(asked) == 5 * len(read["five"])
    assert common.isdisjoint(asked)
    assert held.issuperset(asked)
    assert all(len(common.intersection(text.split())) >= 2 for text in read["stop"])


def test_revised_documents_have_as_many_chunks_all_of_them_new(data_folder: Path) -> None:
    pairs = json.loads((data_folder / "churn.json").read_text(encoding="utf-8"))
    assert pairs
    for each in pairs:
        old, new = ({text["text"][start:end] for start, end in text["spans"]} for text in (each, each["revised"]))
        assert len(each["spans"]) == len(each["revised"]["spans"])
        assert new - old


def test_an_unfinished_set_is_not_ready(data_folder: Path, tmp_path: Path) -> None:
    assert data.ready(data_folder, ROWS)
    assert not data.ready(data_folder, ROWS + 1)
    assert not data.ready(tmp_path, ROWS)


def test_vectors_are_embedded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Double:
        def __init__(self, settings: object) -> None: ...

        def embed(self, texts: list[str], role: str) -> np.ndarray:  # type: ignore[type-arg]  # noqa: ARG002
            asked.extend(texts)
            return np.array([[len(text), 0.0] for text in texts], np.float32)

        def close(self) -> None: ...

    monkeypatch.setattr(data, "LocalEmbedder", Double)
    first = data.Embedded(tmp_path / "kept.npz").vectors(["bb", "a", "bb"], "passage")
    assert first.tolist() == [[2, 0], [1, 0], [2, 0]]
    again = data.Embedded(tmp_path / "kept.npz").vectors(["a", "ccc"], "passage")
    assert again.tolist() == [[1, 0], [3, 0]]
    assert asked == ["a", "bb", "ccc"]


def test_fused_ranks_add_up() -> None:
    assert fused([[1, 2, 3], [3, 4]], 3) == [3, 1, 2]
