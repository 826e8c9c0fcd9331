"""How often the right paragraph comes first: SQuAD questions against SQuAD paragraphs, a chunk per paragraph.

Prints R@1, R@10 and MRR@10 of the three modes with the `local` embedder over the first 2,500 questions. The data (SQuAD
v1.1 dev, CC BY-SA 4.0) is not part of the repository: it is looked for in ``../shared/data`` or in the folder given as
the first argument. Nothing here is tuned on it.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import Report

from rag_stdlib import QueryOptions, Runtime, rag_ingest, rag_query
from rag_stdlib.config import RagConfig, load_config

QUESTIONS = 2_500
TARGETS = {"hybrid": 0.80, "lexical": 0.75, "vector": 0.61}


def read(path: Path) -> list[dict[str, Any]]:
    """Read gzipped JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def ranks(mode: str, questions: list[dict[str, Any]]) -> list[int | None]:
    """Return, per question, the rank of its paragraph among the first ten, or None."""
    found: list[int | None] = []
    for question in questions:
        hits = rag_query("squad.db", question["question"], 10, QueryOptions(mode=mode)).unwrap()
        ids = [hit.doc_id for hit in hits]
        wanted = str(question["paragraph"])
        found.append(ids.index(wanted) + 1 if wanted in ids else None)
    return found


def main() -> int:
    """Ingest the paragraphs, ask the questions in each mode; exit 1 if a target is missed."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared" / "data"
    if not (folder / "squad_paragraphs.jsonl.gz").is_file():
        print(f"no SQuAD data in {folder}: name the folder that holds squad_paragraphs.jsonl.gz and squad_questions.jsonl.gz")
        return 0
    paragraphs = read(folder / "squad_paragraphs.jsonl.gz")
    questions = read(folder / "squad_questions.jsonl.gz")[:QUESTIONS]
    report = Report()
    config = load_config(Path(__file__).parents[1] / "corvid.toml.example", env={})
    assert config.rag == RagConfig(embedder="local", mode="hybrid")
    with tempfile.TemporaryDirectory() as root, Runtime(config, root=root):
        start = time.perf_counter()
        for paragraph in paragraphs:
            rag_ingest("squad.db", str(paragraph["id"]), paragraph["title"], paragraph["text"], 100_000).unwrap()
        report.add("paragraphs ingested", len(paragraphs), "", beside=f"{time.perf_counter() - start:.0f} s")
        for mode, target in TARGETS.items():
            start = time.perf_counter()
            found = ranks(mode, questions)
            took = (time.perf_counter() - start) / len(questions) * 1e3
            reciprocal = [1 / rank if rank else 0.0 for rank in found]
            ten = sum(rank is not None for rank in found) / len(found)
            report.add(f"{mode} R@1", sum(rank == 1 for rank in found) / len(found), "", least=target,
                       beside=f"R@10 {ten:.3f}, MRR@10 {sum(reciprocal) / len(found):.3f}, {took:.1f} ms a question")
    report.show()
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
