"""A support desk: answers a customer's question from the shop's policies, with citations, or hands it to a person.

`draft` stands for a call to a language model: it costs time and money, and words its reply differently each day. As a
`@replay.tool` it is recorded like the retrieval tools, so that the tests need neither the model nor the index.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import replay
from rag_stdlib import Runtime, SourceDocument, rag_ingest_document, rag_search

INDEX = "desk.db"
CLOSE_ENOUGH = 0.35  # cosine; below it a passage is about something else
POLICIES = {
    "refunds": "Send the goods back within thirty days. We refund the price within ten days of the return, to the card that was charged.",
    "shipping": "Orders placed before noon leave our warehouse the same day. Parcels to islands take two days longer.",
    "warranty": "Every lamp has a warranty of three years. If it breaks, we repair or replace it; keep the receipt.",
}


@dataclass(frozen=True)
class Reply:
    """What the customer gets: a text with the places it rests on, or word that a person will answer."""

    text: str
    cites: tuple[str, ...] = ()


HANDED_OVER = Reply("A colleague will answer you tomorrow.")


def open_desk() -> None:
    """Put the policies into the index."""
    for name, text in POLICIES.items():
        rag_ingest_document(INDEX, SourceDocument(name, f"policies/{name}.md", text), 300).unwrap()


def answer(question: str) -> Reply:
    """Answer one question."""
    chunks = [chunk for chunk in rag_search(INDEX, question, 2).unwrap() if chunk.score >= CLOSE_ENOUGH]
    if not chunks:
        return HANDED_OVER
    text = draft(question, [chunk.text for chunk in chunks])
    return Reply(text, tuple(f"{chunk.source}:{chunk.start_line}" for chunk in chunks))


async def answer_all(questions: list[str]) -> list[Reply]:
    """Answer many questions at the same time."""
    return await asyncio.gather(*(asyncio.to_thread(answer, question) for question in questions))


@replay.tool(kind="llm")
def draft(question: str, passages: list[str]) -> str:
    """Word a reply that says what the passages say."""
    greeting = random.choice(["Thank you for writing.", "Good question!", "Happy to help."])  # noqa: S311 - a model's whim
    return f"{greeting} You asked: {question} {passages[0]}"


def runtime(root: Path) -> Runtime:
    """Return what the tools work with: this folder's corvid.toml, and an index below `root`."""
    return Runtime(Path(__file__).with_name("corvid.toml"), root=root)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, runtime(Path(folder)):
        open_desk()
        print(answer(" ".join(sys.argv[1:]) or "When do I get my money back?"))
