"""Answers without a model: whole sentences of the texts, each quotable, and none where nothing fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import replay
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.errors import Failure
from rag_stdlib.proof.alignment import align
from rag_stdlib.proof.claims import split
from rag_stdlib.proof.generators import make_generator
from rag_stdlib.proof.generators.extractive import ExtractiveGenerator
from rag_stdlib.proof.judges import make_judge

TEXTS = ["Refunds are paid within ten days of the return. A receipt is needed.\n\n## When are refunds paid?\n\nWhen are refunds paid? Myth: Refunds are paid at once. They are paid in cash.",
         "Goods are shipped on the next working day. No refund is paid for opened goods. You may not:\n- claim that refunds are paid.\n\nrefunds are paid late."]


def answers(question: str, texts: list[str] = TEXTS, **options: Any) -> list[str]:
    said = ExtractiveGenerator(**options).generate(question, texts)
    return said.split("\n\n") if said else []


def test_the_sentences_that_hold_most_of_the_question_are_copied() -> None:
    assert answers("When are refunds paid?") == ["Refunds are paid within ten days of the return.", "Myth: Refunds are paid at once.", "No refund is paid for opened goods."]
    assert answers("Is a refund paid for opened goods?", most=1) == ["No refund is paid for opened goods."]


def test_what_cannot_be_read_alone_is_not_copied() -> None:
    said = answers("When are refunds paid in cash at once, as claimed?", most=9)
    assert "They are paid in cash." not in said
    assert not any(sentence.startswith(("claim", "refunds", "When")) for sentence in said)
    assert answers("paid", ["Refunds paid", "Are they paid?", "# Paid.\n", "x " * 600 + "paid.", "```\npaid.\n```", "\u2026."]) == ["Paid."]


@pytest.mark.parametrize("question", ["zzzz qqqq", "What is the capital of France?", "", " ", "???", "Who wrote this and when?"])
def test_where_nothing_fits_there_is_no_answer(question: str) -> None:
    assert answers(question) == []
    assert answers("When are refunds paid?", []) == []
    assert answers("When are refunds paid?", [" \n"]) == []


def test_a_sentence_of_overlapping_texts_is_copied_once() -> None:
    assert answers("paid", ["It is paid. One.", "It  is paid. Two."]) == ["It is paid."]


def test_by_embeddings_the_nearest_sentences_are_copied() -> None:
    embedder = HashingEmbedder(256)
    assert answers("opened goods refund paid", embedder=embedder)[0] == "No refund is paid for opened goods."
    assert answers("zzzz qqqq", embedder=embedder) == []


def test_by_embeddings_a_recorded_run_needs_no_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = make_generator(embedder=HashingEmbedder(256))
    with replay.record(tmp_path / "t.jsonl"):
        live = generator.generate("opened goods refund paid", TEXTS), generator.identity
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_given: pytest.fail("it embedded again"))
    monkeypatch.setattr(HashingEmbedder, "identity", lambda *_given: pytest.fail("it was asked again"))
    with replay.substitute(tmp_path / "t.jsonl"):
        assert (generator.generate("opened goods refund paid", TEXTS), generator.identity) == live


def test_the_identity_is_of_rules_number_and_embedder() -> None:
    identities = [ExtractiveGenerator().identity, ExtractiveGenerator(most=2).identity, ExtractiveGenerator(embedder=HashingEmbedder(8)).identity,
                  ExtractiveGenerator(embedder=HashingEmbedder(16)).identity]
    assert len({each.digest for each in identities}) == 4
    assert {(each.name, each.model) for each in identities} == {("extractive", None)}
    assert make_generator().identity == identities[0]


def test_what_is_no_question_is_refused() -> None:
    with pytest.raises(Failure):
        ExtractiveGenerator().generate("\ud800", TEXTS)
    with pytest.raises(ValueError, match="most must be at least 1"):
        ExtractiveGenerator(most=0)


@given(st.lists(st.text(alphabet='Abc dE1.: \n-*"()?|`#>é。', max_size=80), max_size=3), st.sampled_from(["b", "c d", "1"]))
def test_every_sentence_of_an_answer_is_a_quotation(texts: list[str], question: str) -> None:
    said = ExtractiveGenerator(most=9).generate(question, texts)
    for start, end in split(said):
        claim = said[start:end]
        spans = [texts[span.item][span.start:span.end] for span in align(claim, texts)]
        assert make_judge("quotation").judge(claim, spans).label == "quoted"


def test_a_megabyte_of_text_is_no_trouble() -> None:
    text = "The quick brown fox jumps. " * 20_000 + "Refunds are paid at once."
    assert answers("When are refunds paid?", [text]) == ["Refunds are paid at once."]
