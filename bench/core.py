"""Speed of the parts a program waits for: chunking, ingest, re-ingest, import, one search from the command line.

Medians of one run on one machine; each figure stands beside a limit or plain alternative measured in the same run.
Run it on an idle machine: ``make bench`` or ``python bench/core.py``.
"""

from __future__ import annotations

import hashlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import apsw
import numpy as np  # noqa: F401 - loaded before anything is timed
from measure import Report, median_seconds

from rag_stdlib import Runtime, SourceDocument, content_sha256, provenance_key, rag_ingest, rag_ingest_document
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.text.chunker import chunk_text

WINDOW = 1_000
WORDS = 20_000


def english_like(characters: int, seed: int = 7) -> str:
    """Make text with the word lengths, word frequencies (Zipf) and sentence lengths of English prose."""
    draw = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(draw.choices(letters, k=max(1, int(draw.gauss(5, 2))))) for _ in range(WORDS)]
    weights = [1 / rank for rank in range(1, WORDS + 1)]
    picked = iter(draw.choices(words, weights, k=characters // 4))
    sentences: list[str] = []
    size = 0
    while size < characters:
        sentence = " ".join(next(picked) for _ in range(draw.randint(6, 24))).capitalize() + draw.choice("...?!")
        sentences.append(sentence + ("\n\n" if draw.random() < 0.15 else " "))
        size += len(sentences[-1])
    return "".join(sentences)


def chunking(report: Report) -> None:
    """Cut 10 MB of prose, without and with keys and digests."""
    text = english_like(10_000_000)
    size = len(text.encode()) / 1e6
    plain = median_seconds(lambda: chunk_text(text, WINDOW))
    digest = median_seconds(lambda: hashlib.sha256(text.encode()).hexdigest())

    def keyed() -> None:
        for chunk in chunk_text(text, WINDOW):
            provenance_key("d", chunk.start_char, chunk.end_char, chunk.text)
            content_sha256(chunk.text)

    both = median_seconds(keyed)
    report.add("chunking, English-like text", size / plain, "MB/s", least=100,
               beside=f"{digest / plain:.2f} x the speed of SHA-256 over the same text")
    report.add("chunking with keys and digests", size / both, "MB/s", least=40, beside=f"{plain / both:.2f} x chunking alone")


def ingest(report: Report, folder: Path) -> None:
    """Ingest 20,000 chunks of 800 characters, a hundred a document, lexical only."""
    text = english_like(20_000 * 640 + 200_000)
    documents = [text[start:start + 64_000] for start in range(0, 20_000 * 640, 64_000)]

    def ours() -> float:
        start, chunks = time.perf_counter(), 0
        with tempfile.TemporaryDirectory(dir=folder) as root, Runtime(root=root):
            for number, document in enumerate(documents):
                chunks += rag_ingest("i.db", f"d{number}", "bench", document, 800).unwrap()
        return chunks / (time.perf_counter() - start)

    pieces = [[text[start:start + 800] for start in range(begin, begin + 64_000, 640)] for begin in range(0, 20_000 * 640, 64_000)]

    def usual() -> float:
        start, chunks = time.perf_counter(), 0
        with tempfile.TemporaryDirectory(dir=folder) as root:
            connection = apsw.Connection(f"{root}/u.db")
            list(connection.execute("PRAGMA journal_mode = wal"))
            connection.execute("CREATE TABLE chunks(id INTEGER PRIMARY KEY, doc TEXT, text TEXT)")
            connection.execute("CREATE VIRTUAL TABLE words USING fts5(text, content='chunks', content_rowid='id')")
            connection.execute("CREATE TRIGGER added AFTER INSERT ON chunks BEGIN "
                               "INSERT INTO words(rowid, text) VALUES (new.id, new.text); END")
            for number, document in enumerate(pieces):
                with connection:
                    connection.executemany("INSERT INTO chunks(doc, text) VALUES (?, ?)",
                                           ((f"d{number}", piece) for piece in document))
                chunks += len(document)
            connection.close()
        return chunks / (time.perf_counter() - start)

    ours(), usual()
    mine, theirs = statistics.median(ours() for _ in range(3)), statistics.median(usual() for _ in range(3))
    report.add("lexical ingest, 800 characters a chunk", mine, "chunks/s", least=15_000,
               beside=f"{mine / theirs:.2f} x a chunk table with FTS5 kept by a trigger, without keys, digests or offsets")


def reingest(report: Report, folder: Path) -> None:
    """Ingest a document again that is stored just so, with an embedder that counts its calls."""
    calls = 0

    class Counting(HashingEmbedder):
        def embed(self, texts, role):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            nonlocal calls
            calls += 1
            return super().embed(texts, role)

    document = SourceDocument("d", "bench", english_like(64_000))
    with tempfile.TemporaryDirectory(dir=folder) as root, Runtime(root=root, embedder=Counting()):
        rag_ingest_document("i.db", document, 800).unwrap()
        calls = 0
        seconds = median_seconds(lambda: rag_ingest_document("i.db", document, 800).unwrap(), runs=50)
    report.add("unchanged document ingested again, 100 chunks", seconds * 1e3, "ms", most=2)
    report.add("embedder calls for it", calls, "calls", most=0)


def processes(report: Report, folder: Path) -> None:
    """Time whole processes: the bare interpreter, the import, one lexical search over 10,000 chunks."""
    text = english_like(10_000 * 640 + 100_000)
    with Runtime(root=folder):
        for number in range(100):
            rag_ingest("cli.db", f"d{number}", "bench", text[number * 64_000:(number + 1) * 64_000], 800).unwrap()
    words = " ".join(text.split()[1000:1004])

    def run(*command: str) -> float:
        return median_seconds(lambda: subprocess.run([sys.executable, *command], cwd=folder, check=True, capture_output=True,
                                                     env={"CORVID_IO_ROOT": str(folder)}), runs=9)

    bare, imported = run("-c", "pass"), run("-c", "import rag_stdlib")
    searched = run("-m", "rag_stdlib", "search", "cli.db", words, "--mode", "lexical", "--json")
    report.add("import rag_stdlib", (imported - bare) * 1e3, "ms", most=150, beside=f"{imported / bare:.1f} x a bare interpreter")
    report.add("rag search, one shot, 10,000 chunks", searched, "s", most=0.5, beside=f"{searched / bare:.1f} x a bare interpreter")


def main() -> int:
    """Measure everything; exit 1 if a bound is missed."""
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        chunking(report)
        ingest(report, Path(folder))
        reingest(report, Path(folder))
        processes(report, Path(folder))
    report.show()
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
