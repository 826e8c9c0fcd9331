"""Real text: the SQuAD paragraphs of a data folder, and the long descriptions of the packages that are installed.

SQuAD v1.1 dev (CC BY-SA 4.0) is not part of the repository; where the folder is absent the descriptions alone are the corpus
and their sentences the questions. A description is the part of a distribution's METADATA that PyPI shows as its page.
"""

from __future__ import annotations

import email
import gzip
import hashlib
import json
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PIECE = 6_000  # characters of a document, about 20 chunks
SHARED = Path(__file__).parents[3] / "shared" / "data"
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[a-z]+")


@dataclass
class Corpus:
    """Documents in a mixed but fixed order, questions, and what they come from."""

    documents: list[str]
    questions: list[str]
    sources: dict[str, object] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        """Give the sentences of 20 to 300 characters, in order, each once."""
        return list(dict.fromkeys(sentence for text in self.documents for sentence in sentences(text)))

    def digest(self) -> str:
        """Give the SHA-256 of documents and questions."""
        return hashlib.sha256(json.dumps([self.documents, self.questions]).encode()).hexdigest()


def sentences(text: str) -> Iterator[str]:
    """Yield the pieces between sentence ends or line ends that are 20 to 300 characters long and mostly letters."""
    for piece in _SENTENCE.split(text):
        kept = piece.strip()
        if 20 <= len(kept) <= 300 and sum(map(str.isalpha, kept)) >= 0.6 * len(kept):
            yield kept


def words(text: str) -> list[str]:
    """Give the words of plain letters, in lower case."""
    return _WORD.findall(text.lower())


def commonest(texts: Iterable[str], count: int) -> list[str]:
    """Give the words that occur in the most texts, most common first."""
    held: Counter[str] = Counter()
    for text in texts:
        held.update(set(words(text)))
    return [word for word, _ in sorted(held.items(), key=lambda item: (-item[1], item[0]))[:count]]


def descriptions(folders: Iterable[Path]) -> list[tuple[str, str]]:
    """Give (name-version, description) of every distribution installed in these site-packages folders, each once, in order."""
    found: dict[str, str] = {}
    for folder in folders:
        for file in folder.glob("*.dist-info/METADATA"):
            message = email.message_from_string(file.read_text(encoding="utf-8", errors="replace"))
            text = message.get_payload() if not message.is_multipart() else ""
            text = str(text).strip() or str(message.get("Description") or "").strip()
            if text:
                found.setdefault(file.parent.name.removesuffix(".dist-info").lower(), text)
    return sorted(found.items())


def squad(folder: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """Give (title, paragraphs joined) for every article, and the questions."""
    articles: dict[str, list[str]] = {}
    for read in _lines(folder / "squad_paragraphs.jsonl.gz"):
        articles.setdefault(str(read["title"]), []).append(str(read["text"]))
    return ([(title, "\n\n".join(paragraphs)) for title, paragraphs in articles.items()],
            [str(read["question"]) for read in _lines(folder / "squad_questions.jsonl.gz")])


def _lines(file: Path) -> Iterator[dict[str, object]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def pieces(text: str) -> Iterator[str]:
    """Cut a text at line ends into pieces of about `PIECE` characters."""
    held: list[str] = []
    size = 0
    for line in text.splitlines():
        held.append(line)
        size += len(line) + 1
        if size >= PIECE:
            yield "\n".join(held).strip()
            held, size = [], 0
    if any(line.strip() for line in held):
        yield "\n".join(held).strip()


def read_corpus(environments: Iterable[Path], shared: Path = SHARED) -> Corpus:
    """Read the corpus: descriptions from the running interpreter's packages and `environments`, and SQuAD if it is there."""
    folders = [Path(sysconfig.get_path("purelib")),
               *(folder for environment in sorted(environments) for folder in environment.glob("lib/python3*/site-packages"))]
    named = descriptions(folders)
    sources: dict[str, object] = {"descriptions": len(named), "squad": (shared / "squad_paragraphs.jsonl.gz").is_file()}
    questions: list[str] = []
    if sources["squad"]:
        articles, questions = squad(shared)
        named = named + articles
    texts = [piece for _, text in named for piece in pieces(text)]
    texts = sorted(set(texts), key=lambda text: hashlib.sha256(text.encode()).hexdigest())  # mixed, the same everywhere
    corpus = Corpus(texts, questions, sources)
    if not questions:
        corpus.questions = random.Random(5).sample(found := corpus.sentences(), min(5_000, len(found)))
    return corpus
