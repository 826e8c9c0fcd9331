"""Where sentences end: never so that a piece of one passes for a whole one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.proof.sentences import closes, closes_surely, cut
from rag_stdlib.text.chunker import WHITE_SPACE


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in cut(text, 0, len(text))]


@pytest.mark.parametrize("text", [
    "One is paid.| Two is not!| Is it three?| Four",
    "It rose by 3.5.| Then it fell.",
    "Version 2.0.1 is out.| It needs 1,000 MB.",
    "It was 1992.| A year later it was not.",
    'He said "I left."| Then he did.| And now?',
    "She asked (twice).| Nobody knew.",
    'The 5" pipe is long.| It fits.',
    "The students' work is good.| Isn't it?",
    "The answer is no.| Then he left.",
    "Paris (capital of France) is large.| It is old.",
    "*Never* do it.* |Always ask.*",
    "你好。|他走了！|她呢？|“好。”她说。|再见",
    "これは本です。|「行く。」と言った。", '他走了！|"好。"她说。|再见',
    "यह एक है।| वह दो है।",
    "هل هذا صحيح؟| نعم",
    "３．５ 倍です。|終わり",
    "A line\nthat goes on.| Another\r\none.",
])
def test_sentences_end_at_their_stops(text: str) -> None:
    assert sentences(text.replace("|", "")) == [part.strip() for part in text.split("|")]


@pytest.mark.parametrize("text", [
    "It is false, says Mr. Smith, that Paris is in Germany.",
    "Dr. J. K. Rowling and Prof. Dr. Müller of the U.S. Senate met at 5 p.m. Tuesday.",
    "See e.g. Paris, i.e. France, cf. Fig. 3 and No. 5 in Vol. 2, pp. 3 ff. Then go.",
    "1. Restart the database.",
    "iv. Restart the database.",
    "Nobody believes ... Paris is in Germany.",
    "Nobody believes … Paris is in Germany.",
    "Nobody believes . . . Paris is in Germany.",
    "Nobody believes [. . .] Paris is in Germany.",
    "Yahoo! is not a liar.",
    "He works for Apple Inc. Microsoft sued it.",
    "He owns example.com. Nobody else does.",
    "Nothing here, etc., is right.",
    "The rate is 5 approx. 6 times that.",
    "He said . , and left.",
])
def test_in_doubt_a_sentence_goes_on(text: str) -> None:
    assert sentences(text) == [text]


@pytest.mark.parametrize("quoted", [
    '"I was there. Paris is in Germany. We left."', "“I was there. Paris is in Germany. We left.”", "„I was there. Paris is in Germany. We left.“",
    "«I was there. Paris is in Germany. We left.»", "« I was there. Paris is in Germany. We left. »", "»I was there. Paris is in Germany. We left.«",
    "'I was there. Paris is in Germany. We left.'", "‘I was there. Paris is in Germany. We left.’", "`` I was there . Paris is in Germany . We left . ''",
    "「I was there. Paris is in Germany. We left.」", '"I was there. “Paris is in Germany.” We left."', "(I was there. Paris is in Germany. We left.)",
    "~~I was there. Paris is in Germany. We left.~~", "<del>I was there. Paris is in Germany. We left.</del>", "<q lang=en>I was there. Paris is in Germany. We left.</q>",
    "<!-- I was there. Paris is in Germany. We left. -->",
])
def test_what_somebody_says_is_not_cut(quoted: str) -> None:
    assert "Paris is in Germany." not in sentences(f"He said: {quoted} Then he died. All wept.")
    assert any(quoted in sentence for sentence in sentences(f"He said: {quoted} Then he died. All wept."))


@pytest.mark.parametrize("text", [
    "I was there. Paris is in Germany. We left.” Nobody believed him.", 'I was there. Paris is in Germany. We left." Nobody believed him.',
    "I was there. Paris is in Germany. We left.» Nobody believed him.", "I was there。Paris is in Germany。We left」と言った。",
    "He said: “I was there. Paris is in Germany. We left.", 'He said: "I was there. Paris is in Germany. We left.',
    "He said: 「I was there。Paris is in Germany。We left。", "I was there. Paris is in Germany. We left.</s> Nobody believed him.",
    "Nobody said <!-- I was there. Paris is in Germany. We left.", "I was there. Paris is in Germany. --> We left.",
    '"Paris is in Germany." Bob said.', "“Paris is in Germany.” That is what he said.",
])
def test_a_quotation_that_was_cut_is_one_as_well(text: str) -> None:
    assert not {"Paris is in Germany.", "Paris is in Germany。", '"Paris is in Germany."', "“Paris is in Germany.”"} & set(sentences(text))


def test_a_bracket_without_its_other_half_is_none() -> None:
    assert sentences("a) Stop. Go :) now. It is (so.") == ["a) Stop.", "Go :) now.", "It is (so."]
    assert sentences("(One. Two) Three. Four (five. Six). Seven") == ["(One. Two) Three.", "Four (five. Six).", "Seven"]
    assert sentences("(a (b. C) d. E) f. G") == ["(a (b. C) d. E) f. G"]


def test_only_the_stretch_that_is_asked_for_is_cut() -> None:
    text = "Zero. One is. Two is. Three."
    assert [text[start:end] for start, end in cut(text, 6, 21)] == ["One is.", "Two is."]
    assert cut(text, 5, 6) == []


@given(st.text(alphabet="aB1. \n!?\"'“”()。…「」,`", max_size=80))
def test_sentences_are_disjoint_trimmed_and_hold_everything(text: str) -> None:
    places = cut(text, 0, len(text))
    behind = 0
    for start, end in places:
        assert behind <= start < end <= len(text)
        assert text[behind:start].strip(WHITE_SPACE) == ""
        assert text[start] not in WHITE_SPACE
        assert text[end - 1] not in WHITE_SPACE
        behind = end
    assert text[behind:].strip(WHITE_SPACE) == ""


WORDS = st.lists(st.sampled_from(["paid", "refunds", "goods", "within", "ten", "days", "when", "receipt"]), min_size=2, max_size=5)


@given(st.lists(st.builds(lambda words, stop: f"{' '.join(words).capitalize()}{stop}", WORDS, st.sampled_from(".!?")), max_size=6))
def test_sentences_side_by_side_come_apart(parts: list[str]) -> None:
    assert sentences(" ".join(parts)) == parts


@pytest.mark.parametrize(("text", "ends", "surely"), [
    ("It is paid.", True, True), ("It is paid", False, False), ('It is paid!"', True, True), ("是。", True, True), ("It is paid.)  ", True, True),
    ("It costs 3.", True, False), ("He knows Mr.", True, False), ("He saw J.", True, False), ("See e.g.", True, False), ("He waited...", True, False),
    ("Why?", True, True), ("", False, False), ("It is at example.com.", True, False), ('It was 3."', True, True), ("He waited…", True, True),
])
def test_whether_a_text_ends_as_a_sentence(text: str, ends: bool, surely: bool) -> None:
    assert (closes(text), closes_surely(text)) == (ends, surely)
