"""The judge of quotations: whole sentences in their own context, and nothing that only looks like one."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rag_stdlib.proof.decisions import is_quotation
from rag_stdlib.proof.judges import Judge, Label, make_judge
from rag_stdlib.proof.judges.quotation import QuotationJudge

JUDGE: Judge = QuotationJudge()


def label(claim: str, *spans: str) -> Label:
    return JUDGE.judge(claim, spans).label


@pytest.mark.parametrize(("claim", "span"), [
    ("Paris is in France.", "Paris is in France."), ("Paris is in France.", "Rome is in Italy. Paris  is in\nFrance. Bern is not."), ("Paris is in France", "Paris is in France."),
    ("Paris is in France .", "Paris is in France ."), ("A is so. B\nis so.", "A is so. B is so. C is so."), ("Refunds: ten days", "- Refunds: ten days\n- Shipping: two"),
    ("restart it", "Steps.\n\n- restart it"), ("restart it", "- restart it"), ("Restart it.", "1. Restart it.\n2. Go."), ("1. Restart it.", "1. Restart it."),
    ("巴黎在法国。", "巴黎在法国。罗马在意大利。"), ("巴黎在法国", "巴黎在法国。"), ("It is false that Paris is in Germany.", "It is false that Paris is in Germany."),
    ("You may not:\n- copy it.", "You may not:\n- copy it.\n- sell it."), ('"I left," he said.', '"I left," he said. He had.'), ("Is it paid?", "Is it paid? Yes."),
    ("```\nrm -rf x\n```", "Text.\n\n```\nrm -rf x\n```"), ("64 MB are needed.", "64 MB are needed."), ("Cats bark. That is false.", "Cats bark. That is false."),
])
def test_whole_sentences_are_quoted(claim: str, span: str) -> None:
    judgement = JUDGE.judge(claim, ["Something else.", span])
    assert (judgement.label, judgement.confidence, judgement.detail) == ("quoted", "1.000000", "it stands in span 2, whole")


IN_GERMANY = "Paris is in Germany."


@pytest.mark.parametrize("span", [
    "It is false that Paris is in Germany.", "There is no evidence that Paris is in Germany.", "The mayor denied that Paris is in Germany.", "Nobody believes that Paris is in Germany.",
    "He dreamed that Paris is in Germany.", "If maps lie, Paris is in Germany.", "Not all think that Paris is in Germany.", "In his novel, Paris is in Germany.", "Perhaps Paris is in Germany.",
    "Until 1944, Paris is in Germany.", "Smith: Paris is in Germany.", "Myth: Paris is in Germany.", 'They say: "Paris is in Germany."', 'They say: "Rome is. Paris is in Germany. Bern is."',
    'Rome is. Paris is in Germany. Bern is." Nobody believed him.', "He wrote:\n\n> Paris is in Germany.", "Common errors:\n- Rome is in Spain.\n- Paris is in Germany.",
    "You may not say\n\n- Paris is in Germany.", "Myth: Rome is in Spain. Paris is in Germany.", "The following claims are false. Paris is in Germany.", "Paris is in Germany. That is false.",
    "Paris is in Germany. This has been refuted.", "Paris is in Germany. Wrong.", "Nobody says ... Paris is in Germany.", "Neither says Mr. Smith nor anybody, Paris is in Germany.",
    "Un-Paris is in Germany.", "Paris is in Germany.com", "Paris is in Germany.\u0338", "(It is not so that Paris is in Germany.)", "Paris is in Germany.” he lied.",
])
def test_what_is_cut_out_of_its_context_is_not(span: str) -> None:
    assert is_quotation(IN_GERMANY, [span])
    judgement = JUDGE.judge(IN_GERMANY, [span])
    assert (judgement.label, judgement.detail) == ("not_supported", "it is cut out of what span 1 says")
    assert label(IN_GERMANY.rstrip("."), span) == "not_supported"


@pytest.mark.parametrize(("claim", "span"), [
    ("Refunds are paid", "Refunds are paid unless the goods were opened."), ("Refunds are paid.", "Refunds are paid. unless the goods were opened."), ("Refunds are paid", "Refunds are paid, it is said."),
    ("Refunds are paid", "Refunds are paid?"), ("Refunds are paid", "Refunds are paid..."), ("It has 64", "It has 640."), ("It has 64", "It has 64.5 MB."), ("40 MB are needed.", "640 MB are needed."),
    ("members get refunds.", "Only members get refunds."), ("He is a liar.", 'Is he sure? He is a liar. "No, he is not." He is a liar, they said.'[27:]), ("that Paris is in Germany.", "that Paris is in Germany."),
    ("paris is in germany.", "Paris is in Germany."), ("Paris is in France!", "Paris is in France."), ("Paris \u201cis\u201d in France.", 'Paris "is" in France.'), ("Paris is in Fran\u200bce.", "Paris is in France."),
    ("caf\u00e9 is open.", "cafe\u0301 is open."), ("Paris isin France.", "Paris is in France."), ("Rome is in Italy. Bern is.", "Rome is in Italy. Paris is. Bern is."),
    ("Rome is in Italy ... Bern is.", "Rome is in Italy. Paris is. Bern is."), ("if x:\n    a()\nb()", "if x:\n    a()\n    b()"), ("copy it.", "You may not:\n- copy it."),
    ("You may:\n- copy it.", "You may not:\n- copy it."), ("A is. B is.", "- A is.\n- B is."), ("It costs 1000 EUR.", "It costs 1,000 EUR."), ("It is 5 percent.", "It is 5 %."),
    ("...", "..."), ("", "Paris."), (" \n", "Paris."), ("2. Restart it.", "1. Restart it."),
])
def test_what_is_not_word_by_word_and_whole_is_not(claim: str, span: str) -> None:
    assert label(claim, span) in ("not_supported", "contradicted")


def test_r160_a_quotation_stitched_of_two_texts_is_none() -> None:
    assert label("Refunds are paid. Goods are shipped.", "Refunds are paid.", "Goods are shipped.") == "not_supported"
    assert label("Refunds are paid for all goods.", "Refunds are paid. It holds for all goods.") == "not_supported"
    assert label("Refunds are paid.") == "not_supported"


@pytest.mark.parametrize(("claim", "span", "wherein"), [
    ("The model needs 64 MB.", "The model needs 640 MB.", "number"), ("The model needs 64 MB.", "The model needs at least 640 MB.", "number"), ("It is safe.", "It is not safe.", "negation"),
    ("All refunds are paid.", "No refunds are paid.", "quantifier"), ("Refunds are paid.", "- One.\n- Refunds are never paid.", "quantifier"),
])
def test_r212_what_differs_in_one_respect_contradicts(claim: str, span: str, wherein: str) -> None:
    judgement = JUDGE.judge(claim, ["Another text.", span])
    assert (judgement.label, judgement.detail) == ("contradicted", f"span 2 says the same with another {wherein}")


@pytest.mark.parametrize(("claim", "span"), [
    ("It is safe.", "It is false that it is not safe."), ("It is safe.", "Myth: It is old. It is not safe."), ("It is safe. It is old.", "It is not safe. It is old."),
    ("It is safe.", "It is not safe. That is wrong."), ("it is safe", "it is not safe"),
])
def test_only_a_whole_sentence_contradicts(claim: str, span: str) -> None:
    assert label(claim, span) == "not_supported"


def test_a_quotation_is_one_whatever_else_is_said() -> None:
    assert label("It is safe.", "It is not safe.", "It is safe.") == "quoted"


def test_the_identity_is_of_the_rules() -> None:
    identity = QuotationJudge().identity
    assert (identity.name, identity.version) == ("quotation", "1")
    assert re.fullmatch("[0-9a-f]{64}", identity.digest)
    assert identity == make_judge("quotation").identity


WORDS = st.lists(st.sampled_from(["paid", "refund", "goods", "within", "ten", "days", "64", "7", "1992", "opened", "when", "receipt"]), min_size=1, max_size=6)
SENTENCE = st.builds(lambda first, words, stop: f"{first} {' '.join(words)}{stop}", st.sampled_from(["Refunds", "Paris", "It", "\u00c9t\u00e9"]), WORDS, st.sampled_from(".!?"))
PARAGRAPHS = st.text(alphabet="aB1.: \n-*\"'“”()|`é你。", max_size=80)


@given(SENTENCE)
def test_a_sentence_is_quoted_from_itself_and_not_with_another_digit_or_a_not(sentence: str) -> None:
    assert label(sentence, sentence) == "quoted"
    for found in re.finditer("[0-9]", sentence):
        changed = f"{sentence[:found.start()]}{(int(found.group()) + 1) % 10}{sentence[found.end():]}"
        assert label(changed, sentence) in ("not_supported", "contradicted")
    for found in re.finditer(" ", sentence):
        assert label(f"{sentence[:found.start()]} not{sentence[found.start():]}", sentence) in ("not_supported", "contradicted")


@given(PARAGRAPHS, PARAGRAPHS)
def test_what_is_quoted_passes_the_certificates_check(claim: str, span: str) -> None:
    for text in (claim, span[3:40], span):
        if label(text, span) == "quoted":
            assert is_quotation(text, [span])


@given(SENTENCE, st.sampled_from(["It is false that ", "Nobody says ", "He lied: ", "If so, ", '"A lie. ', "Un", "never "]), st.sampled_from(["", " That is false.", ' "He said.']))
def test_nothing_before_it_in_the_sentence_is_lost(sentence: str, before: str, behind: str) -> None:
    assume("not" not in sentence)
    assert label(sentence, f"{before}{sentence}{behind}") != "quoted"


def test_a_megabyte_is_judged_in_linear_time() -> None:
    def seconds(size: int) -> float:
        text = "The quick brown fox jumps over 3 dogs. " * (size // 39)
        start = time.process_time()
        assert label(text, text) == "quoted"
        return time.process_time() - start

    small = max(seconds(62_500), 0.01)
    assert seconds(1_000_000) < 16 * small * 5


@pytest.mark.parametrize("piece", ["one and ", "hundred ", "1,", "do not ", "5 May ", "(", "\"'", "\ud800", "\0", "- ", "> "])
def test_odd_inputs_are_judged_all_the_same(piece: str) -> None:
    assert label(piece * 3_000, piece * 3_000 + " Z.") in ("not_supported", "quoted")
    assert JUDGE.judge(f"{piece}a", [f"{piece}a."]).label in ("not_supported", "quoted")
