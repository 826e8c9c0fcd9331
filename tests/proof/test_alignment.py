"""Spans of the retrieved texts for a claim: exact places, the unit that the claim repeats first, and nothing without its context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replay
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.proof.alignment import MOST_SPANS, Aligned, Aligner, align
from rag_stdlib.proof.units import form, units
from rag_stdlib.text.chunker import WHITE_SPACE

TEXTS = ["Refunds are paid within ten days of the return. A receipt is needed. You may not:\n- copy it;\n- sell it.",
         "Goods are shipped on the next working day. No refund is paid for opened goods."]


def embed(texts: Sequence[str]) -> Any:
    return HashingEmbedder(256).embed(texts, "passage")


def said(claim: str, texts: Sequence[str] = TEXTS, **options: Any) -> list[str]:
    return [texts[span.item][span.start:span.end] for span in align(claim, texts, **options)]


def test_the_nearest_sentences_come_first_with_their_places() -> None:
    found = align("A refund is paid for goods that were opened.", TEXTS)
    assert found[0] == Aligned(1, 43, 78, 1.0)
    assert [span.item for span in found] == [1, 0, 1]
    assert found[0].score > found[1].score > found[2].score > 0


def test_a_sentence_of_a_text_is_aligned_to_itself() -> None:
    for item, text in enumerate(TEXTS):
        for unit in units(text):
            if unit.alone:
                assert align(text[unit.start:unit.end], TEXTS)[0] == Aligned(item, unit.start, unit.end, 1.0)


def test_a_span_brings_what_it_stands_under() -> None:
    assert said("sell it")[0] == "You may not:\n- copy it;\n- sell it."
    assert said("Cats bark.", ["Cats bark. That is false."])[0] == "Cats bark. That is false."


def test_an_item_that_begins_small_brings_its_mark_to_show_where_it_begins() -> None:
    assert said("restart it", ["Steps.\n\n- restart it\n- Stop it"])[0] == "- restart it"
    assert said("Stop it", ["Steps.\n\n- restart it\n- Stop it"])[0] == "Stop it"


def test_one_that_can_be_read_alone_comes_before_the_same_in_context() -> None:
    assert said("Stop it.", ["Never:\n- Stop it.", "Stop it."]) == ["Stop it.", "Never:\n- Stop it."]


def test_several_sentences_of_a_claim_are_found_side_by_side() -> None:
    assert said("Refunds are paid within ten days of the return.\nA receipt is needed", most=1) == [TEXTS[0][:68]]
    assert said("A receipt is needed. Goods are shipped on the next working day.")[0] != TEXTS[0][48:]
    assert said("A receipt is needed. You may not:\n- copy it;")[0] == "A receipt is needed. You may not:\n- copy it;"
    assert said("Goes on. B is.", ["A\0Goes on.", "B is. Goes on. B is. Goes on.\nB is."])[0] == "Goes on. B is."


@pytest.mark.parametrize("claim", ["", " ", "---", "zzzz qqqq"])
def test_nothing_is_aligned_to_what_has_nothing_to_do_with_it(claim: str) -> None:
    assert align(claim, TEXTS) == []
    assert align(claim, []) == []
    assert align(claim, ["", " \n"]) == []


def test_no_span_stands_twice() -> None:
    text = "You may not:\n- copy it.\n\n```\ncopy it\n```"
    found = align("You may not copy it", [text], most=5)
    assert len({(span.item, span.start, span.end) for span in found}) == len(found)


def test_most_is_held_to_what_a_certificate_takes() -> None:
    many = " ".join(f"Word {number} is paid." for number in range(40))
    assert len(align("Is a word paid?", [many], most=MOST_SPANS)) == MOST_SPANS
    for most in (0, 17):
        with pytest.raises(ValueError, match="most is 1 to 16"):
            align("x", TEXTS, most=most)


def test_by_embeddings_cosines_order_and_score() -> None:
    claim = "opened goods bring no refund"
    found = align(claim, TEXTS, embed=embed)
    assert TEXTS[1][found[0].start:found[0].end] == "No refund is paid for opened goods."
    sentence, asked = embed(["No refund is paid for opened goods.", claim])
    assert found[0].score == pytest.approx(float(sentence @ asked), abs=1e-5)
    assert said(TEXTS[0][:47], embed=embed)[0] == TEXTS[0][:47]


def test_texts_are_embedded_once_for_all_claims_and_scores_stay_shares() -> None:
    calls: list[list[str]] = []

    def counting(texts: Sequence[str]) -> Any:
        calls.append(list(texts))
        rows = np.zeros((len(texts), 2), dtype=np.float32)
        rows[:, 0] = [1.0000001 if "a" in text else -1.0 for text in texts]
        return rows

    aligner = Aligner(["a one. B two.", "Z."], embed=counting)
    assert aligner.align("x a") == [Aligned(0, 0, 6, 1.0)]
    assert aligner.align("zzz", most=2) == [Aligned(0, 7, 13, 1.0), Aligned(1, 0, 2, 1.0)]
    assert [len(call) for call in calls] == [3, 1, 1]


def test_by_embeddings_a_recorded_run_needs_no_embedder(tmp_path: Path) -> None:
    def fails(texts: Sequence[str]) -> Any:
        raise AssertionError(texts)

    trace = tmp_path / "run.jsonl"
    with replay.record(trace):
        recorded = align("refund", TEXTS, embed=embed)
    with replay.substitute(trace):
        assert align("refund", TEXTS, embed=fails) == recorded != []


WORDS = st.lists(st.sampled_from(["paid", "refunds", "goods", "within", "ten", "days", "when", "receipt"]), min_size=1, max_size=4)
SENTENCES = st.lists(st.builds(lambda words: f"{' '.join(words).capitalize()}.", WORDS), min_size=1, max_size=5)


@given(st.lists(SENTENCES, min_size=1, max_size=3), st.data())
def test_a_verbatim_sentence_is_always_aligned_to_itself(texts: list[list[str]], data: st.DataObject) -> None:
    joined = [" ".join(text) for text in texts]
    whole = [(item, text[unit.start:unit.end], unit) for item, text in enumerate(joined) for unit in units(text) if unit.alone]
    if whole:
        _, claim, _ = data.draw(st.sampled_from(whole))
        first = align(claim, joined)[0]
        assert form(joined[first.item][first.start:first.end]) == form(claim)
        assert first.score == 1.0


@given(st.text(alphabet='aB. \n-:"é', max_size=30), st.lists(st.text(alphabet='aB. \n-:"é', max_size=40), max_size=3))
def test_spans_are_trimmed_places_of_the_texts(claim: str, texts: list[str]) -> None:
    for item, start, end, score in align(claim, texts):
        assert 0 <= start < end <= len(texts[item])
        assert texts[item][start] not in WHITE_SPACE
        assert texts[item][end - 1] not in WHITE_SPACE
        assert 0 < score <= 1
