"""The data sets: n rows of real text with real and random vectors, queries and their exact answers, kept in a cache.

The first rows are real chunks with vectors of the `local` embedder. Beyond them a text is a recombination of real sentences,
drawn evenly, so that words keep their frequencies; its vector is that of a real chunk plus noise of the real vectors'
covariance, scaled by a half, brought to unit length. `random` vectors are gaussian on the sphere. A smaller set is the
beginning of a larger one. Vectors of text are kept by the digest of the text, so that a change of the corpus costs
little.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.corpus import Corpus, commonest, sentences, words
from harness.protocol import DIM, Vectors
from rag_stdlib.contract.provenance import content_sha256
from rag_stdlib.embed.local import LocalEmbedder
from rag_stdlib.embed.protocol import Role
from rag_stdlib.embed.settings import EmbedderSettings
from rag_stdlib.text.chunker import chunk_text

CHUNK_CHARS = 400
MOST_REAL = 20_000  # chunks that are embedded
MOST_RANDOM = 100_000  # rows of a set that has random vectors too
NOISE = 0.5
QUERIES = 1_000
TIMED = 200  # of each set of words
TRUTH = 10
CHURNED = 200  # documents that a writer replaces
_BLOCK = 10_000
Doc = tuple[str, list[tuple[int, int]]]


class Embedded:
    """Vectors of texts by the `local` embedder, kept in a file by role and digest."""

    def __init__(self, file: Path) -> None:
        """Read the file, if there is one."""
        self._file = file
        self._known: dict[str, Vectors] = {}
        if file.is_file():
            with np.load(file) as kept:
                self._known = dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))

    def vectors(self, texts: Sequence[str], role: Role) -> Vectors:
        """Embed what is not known yet, saving every 2,000 texts, and return all vectors in order."""
        keys = [f"{role}:{content_sha256(text)}" for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        embedder = LocalEmbedder(EmbedderSettings(provider="local"))
        todo = sorted(missing.items(), key=lambda item: len(item[1]))
        start = time.perf_counter()
        for at in range(0, len(todo), 2_000):
            part = todo[at:at + 2_000]
            self._known.update(zip([key for key, _ in part], embedder.embed([text for _, text in part], role), strict=True))
            self._save()
            print(f"  embedded {at + len(part):,} of {len(todo):,} texts, {time.perf_counter() - start:.0f} s", flush=True)
        embedder.close()
        return np.stack([self._known[key] for key in keys])

    def _save(self) -> None:
        part = self._file.with_suffix(".part.npz")
        np.savez(part, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))
        part.replace(self._file)


def cut(text: str) -> list[tuple[int, int]]:
    """Give the offsets of the chunks that the library cuts a text into."""
    return [(chunk.start_char, chunk.end_char) for chunk in chunk_text(text, CHUNK_CHARS)]


def real_documents(corpus: Corpus) -> list[Doc]:
    """Cut the corpus; a document with a chunk seen before is left out, so that a text stands for one row."""
    seen: set[str] = set()
    kept: list[Doc] = []
    for text in corpus.documents:
        spans = cut(text)
        chunks = [text[start:end] for start, end in spans]
        if len(set(chunks)) == len(chunks) and seen.isdisjoint(chunks) and len(seen) + len(chunks) <= MOST_REAL:
            seen.update(chunks)
            kept.append((text, spans))
    return kept


def recombined(corpus: Corpus) -> Iterator[Doc]:
    """Make documents of evenly drawn real sentences without end."""
    pool, draw = corpus.sentences(), random.Random(11)
    while True:
        text = " ".join(draw.choice(pool) for _ in range(60))
        yield text, cut(text)


def exactly(documents: Iterator[Doc], rows: int) -> Iterator[Doc]:
    """Give documents of exactly `rows` chunks in all: the last is cut off behind a chunk."""
    for text, spans in documents:
        if len(spans) <= rows:
            rows -= len(spans)
            yield text, spans
        else:
            shorter = text[:spans[rows - 1][1]] if rows else ""
            trimmed = cut(shorter)
            if len(trimmed) != rows:
                continue  # cut there, the chunks before it end elsewhere: the next document is tried
            rows = 0
            yield shorter, trimmed
        if not rows:
            return


def extended(real: Vectors, rows: int) -> Iterator[Vectors]:
    """Yield blocks of vectors: the real ones, then real ones with noise of their covariance, all of unit length."""
    yield real[:rows]
    values, axes = np.linalg.eigh(np.cov(real.astype(np.float64), rowvar=False))
    shape = (axes * np.sqrt(np.maximum(values, 0.0)) * NOISE).T.astype(np.float32)
    for number, at in enumerate(range(len(real), rows, _BLOCK)):
        draw = np.random.default_rng([7, number])
        source = real[draw.integers(len(real), size=_BLOCK)]
        block = source + draw.standard_normal((_BLOCK, DIM), dtype=np.float32) @ shape
        yield unit(block)[:rows - at]


def on_sphere(rows: int, seed: int) -> Iterator[Vectors]:
    """Yield blocks of gaussian vectors of unit length."""
    for number, at in enumerate(range(0, rows, _BLOCK)):
        draw = np.random.default_rng([seed, number])
        yield unit(draw.standard_normal((_BLOCK, DIM), dtype=np.float32))[:rows - at]


def unit(rows: npt.NDArray[Any]) -> Vectors:
    """Bring every row to unit length, in float64 and then rounded."""
    wide = rows.astype(np.float64)
    unit_rows: Vectors = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
    return unit_rows


def exact_top(matrix: Vectors, queries: Vectors, k: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Give the `k` best rows of each query and their products by brute force in float64, best first."""
    best = np.full((len(queries), 0), 0.0)
    rows = np.full((len(queries), 0), 0, np.int64)
    wide = queries.astype(np.float64)
    for at in range(0, len(matrix), _BLOCK):
        products = wide @ matrix[at:at + _BLOCK].astype(np.float64).T
        keep = min(k, products.shape[1])
        part = np.argpartition(-products, keep - 1, axis=1)[:, :keep]
        best = np.hstack([best, np.take_along_axis(products, part, 1)])
        rows = np.hstack([rows, part + at])
    order = np.stack([np.lexsort((rows[i], -best[i]))[:k] for i in range(len(queries))])
    return np.take_along_axis(rows, order, 1), np.take_along_axis(best, order, 1)


def word_sets(texts: Sequence[str], pool: Sequence[str]) -> dict[str, list[str]]:
    """Make the lexical queries.

    `five`: words of a sentence, none of the commonest 20, no word twice in all. `stop`: words in a row, two or more of those 20.
    """
    common = set(commonest(texts, 20))
    draw = random.Random(3)
    mixed = draw.sample(list(pool), len(pool))
    used: set[str] = set()
    plain: list[str] = []
    stopped: list[str] = []
    for sentence in mixed:
        line = words(sentence)
        fresh = [word for word in dict.fromkeys(line) if len(word) > 1 and word not in common and word not in used]
        if len(plain) < TIMED and len(fresh) >= 5:
            chosen = draw.sample(fresh, 5)
            used.update(chosen)
            plain.append(" ".join(chosen))
        if len(stopped) < TIMED and len(line) >= 5:
            start = draw.randrange(len(line) - 4)
            row = line[start:start + 5]
            if len(set(row)) == 5 and len(common.intersection(row)) >= 2:
                stopped.append(" ".join(row))
    return {"five": plain, "stop": stopped, "common": sorted(common)}


def make(folder: Path, corpus: Corpus, rows: int, embedded: Embedded) -> None:
    """Write a data set of `rows` rows into a new folder; the manifest comes last and makes it valid."""
    folder.mkdir(parents=True, exist_ok=True)
    known = real_documents(corpus)
    real_texts = [text[start:end] for text, spans in known for start, end in spans]
    real = embedded.vectors(real_texts, "passage")
    digits = len(str(rows))
    row = size = 0
    churn: list[dict[str, Any]] = []
    texts: list[str] = []
    first: dict[str, int] = {}
    twins: list[tuple[int, int]] = []
    with (folder / "documents.jsonl").open("w", encoding="utf-8") as out:
        for text, spans in exactly(_chained(known, corpus), rows):
            named = {"id": f"d{row:0{digits}d}", "text": text, "spans": spans}
            out.write(json.dumps(named) + "\n")
            if row < _BLOCK:
                texts.append(text)
            if len(churn) < CHURNED and (changed := _changed(text, spans)) is not None:
                churn.append({**named, "first_row": row, "revised": changed})
            for place, (start, end) in enumerate(spans, row):
                earlier = first.setdefault(text[start:end], place)
                if earlier != place:
                    twins.append((place, earlier))
            row += len(spans)
            size += sum(len(text[start:end].encode()) for start, end in spans)
    (folder / "churn.json").write_text(json.dumps(churn), encoding="utf-8")
    asked = random.Random(9).sample(corpus.questions, min(QUERIES, len(corpus.questions)))
    _write_kind(folder, "real", extended(real, rows), rows, embedded.vectors(asked, "query"), twins)
    if rows <= MOST_RANDOM:
        _write_kind(folder, "random", on_sphere(rows, 17), rows, np.concatenate(list(on_sphere(len(asked), 23))), twins)
    sets = word_sets(texts, [sentence for text in texts for sentence in sentences(text)])
    (folder / "queries.json").write_text(json.dumps({"questions": asked, **sets}), encoding="utf-8")
    (folder / "manifest.json").write_text(json.dumps({
        "rows": rows, "real_rows": min(rows, len(real)), "corpus_sha256": corpus.digest(), **corpus.sources,
        "text_mb": size / 1e6,
        "chunk_chars": CHUNK_CHARS}, indent=1), encoding="utf-8")


def _chained(known: Sequence[Doc], corpus: Corpus) -> Iterator[Doc]:
    yield from known
    yield from recombined(corpus)


def _changed(text: str, spans: Sequence[tuple[int, int]]) -> dict[str, Any] | None:
    """Give a version of the document in which every chunk is another and their number the same."""
    revised = f"A revised edition. {text}"
    again = cut(revised)
    return {"text": revised, "spans": again} if len(again) == len(spans) else None


def _write_kind(folder: Path, kind: str, blocks: Iterator[Vectors], rows: int, queries: Vectors,
                twins: Sequence[tuple[int, int]]) -> None:
    """Write vectors, queries and the exact answers to those that are timed.

    `twins` are rows whose text an earlier row has: they get its vector, as an embedder would give it.
    """
    matrix = np.lib.format.open_memmap(folder / f"vectors-{kind}.npy", mode="w+", dtype=np.float32, shape=(rows, DIM))
    at = 0
    for block in blocks:
        matrix[at:at + len(block)] = block
        at += len(block)
    for row, earlier in twins:
        matrix[row] = matrix[earlier]
    matrix.flush()
    np.save(folder / f"queries-{kind}.npy", queries)
    top, products = exact_top(matrix, queries[:TIMED], TRUTH)
    np.savez(folder / f"truth-{kind}.npz", rows=top, products=products)


def ready(folder: Path, rows: int) -> bool:
    """Tell whether a complete set of so many rows is in the folder."""
    manifest = folder / "manifest.json"
    return manifest.is_file() and json.loads(manifest.read_text(encoding="utf-8"))["rows"] == rows
