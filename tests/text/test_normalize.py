"""F3 at the level of terms: what a query must share with a text to be found in it."""

from __future__ import annotations

import hashlib
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from untraced import untraced

from rag_stdlib.text import normalize
from rag_stdlib.text.normalize import MAX_QUERY_TERMS, MAX_TERM_BYTES, NORMALIZER, index_terms, query_terms
from rag_stdlib.text.unicode13 import unassigned

ASSIGNED = st.characters(exclude_categories=["Cs", "Cn"])
TEXTS = st.one_of(
    st.text(ASSIGNED, max_size=40),
    st.lists(st.sampled_from(["a", "B", " ", "é", "ß", "ﬁ", "漢", "字", "かな", "カ", "ﾊﾟ", "한글", "ไทย", "++", "#", "c", "C", "1", ".", "'", "-",
                              "😀", "€", "\u0301", "\u200b", "\u00ad", "İ", "Σ", "ς", "½", "㎏", "\n", "١"]), max_size=24).map("".join),
)


def found(query: str, text: str) -> bool:
    """Tell whether every term of the query is among the text's terms: what a conjunctive search would find."""
    terms = index_terms(text).split(" ")
    wanted = query_terms(query)
    return bool(wanted) and all(
        any(term.startswith(want) for term in terms) if prefix else want in terms for want, prefix in wanted)


@pytest.mark.parametrize(("query", "text"), [
    ("BENCH-100821", "see BENCH-100821 there"), ("bench-100821", "BENCH-100821."), ("100821", "BENCH-100821"), ("x-y-z", "X-Y-Z"),
])
def test_r44_hyphenated_identifier(query: str, text: str) -> None:
    assert found(query, text)


@pytest.mark.parametrize(("query", "text"), [
    ("don't use agents", "Don't use agents!"), ("don't", "they don't"), ("l'été", "L'ÉTÉ"), ("o'brien's", "O'Brien's"),
])
def test_r45_apostrophes(query: str, text: str) -> None:
    assert found(query, text)


@pytest.mark.parametrize("query", [".", "...", "?!", "-", "—", "()", "、。", "'\"", "/\\", "…", "\u200b", "\u0301"])
def test_r46_punctuation_alone_has_no_terms(query: str) -> None:
    assert query_terms(query) == ()
    assert index_terms(query) == ""


@pytest.mark.parametrize(("query", "text"), [("park.", "the park"), ("park", "park."), ("end…", "the end")])
def test_r46_a_final_stop_is_no_part_of_a_word(query: str, text: str) -> None:
    assert found(query, text)


@pytest.mark.parametrize(("query", "text"), [
    ("grammar::fa", "in grammar::fa we"), ("price:", "the price"), ("text:refund", "text: refund"), (":", ""),
])
def test_r48_colons_name_no_column(query: str, text: str) -> None:
    assert found(query, text) or query_terms(query) == ()


@pytest.mark.parametrize("word", ["AND", "OR", "NOT", "NEAR", "hello AND", "NOT NEAR(", "and"])
def test_r49_operators_are_words(word: str) -> None:
    assert query_terms(word) == tuple((term.strip("(").lower(), False) for term in word.split())
    assert found(word, f"say {word} there")


@pytest.mark.parametrize("query", ['"', '""', '"""'])
def test_r50_quotes_alone_have_no_terms(query: str) -> None:
    assert query_terms(query) == ()


@pytest.mark.parametrize("query", ['"unbalanced', 'un"balanced', '"unbalanced"'])
def test_r50_quotes_are_no_syntax(query: str) -> None:
    assert all(term.isalnum() for term, _ in query_terms(query))
    assert found(query, 'they "unbalanced" it, un balanced')


@pytest.mark.parametrize("query", ["", " ", "   ", "\t\n", "\u3000", "''", "'   '"])
def test_r52_a_blank_query_has_no_terms(query: str) -> None:
    assert query_terms(query) == ()


@pytest.mark.parametrize(("query", "text", "other"), [
    ("C++", "written in C++.", "the letter c"), ("C#", "C# code", "c minor"), ("what is C++?", "what is C++", "what is C"),
    ("F#", "f#!", "f"), ("c++17", "c++17", "d"), ("g++", "(g++)", "g"),
])
def test_r53_signed_words_are_terms_of_their_own(query: str, text: str, other: str) -> None:
    assert found(query, text)
    assert not found(query, other)


@pytest.mark.parametrize(("query", "text"), [
    ("user@example.com", "mail user@example.com now"), (r"a\b", r"the path a\b"), ("C:\\temp", "C:\\temp"), ("c", "C++"), ("100%", "100 %"),
])
def test_r53_addresses_and_paths_are_their_words(query: str, text: str) -> None:
    assert found(query, text)


@pytest.mark.parametrize("query", ["(" * 300, "^z", "{y}", "((((z", "z*", "+z", "-z", "z:y^2"])
def test_r54_no_character_is_syntax(query: str) -> None:
    assert all(term.isalnum() and not prefix for term, prefix in query_terms(query))


def test_r54_the_number_of_query_terms_is_capped() -> None:
    query = " ".join(f"word{number}" for number in range(500))
    assert query_terms(query) == tuple((f"word{number}", False) for number in range(MAX_QUERY_TERMS))
    assert query_terms("same " * 500) == (("same", False),)
    assert len(query_terms("".join(chr(0x4E00 + number) for number in range(500)))) == MAX_QUERY_TERMS
    assert len(index_terms(query).split()) == 500, "texts are not capped"


@pytest.mark.parametrize("text", ["a\x00b", "a\x01b", "a\x1fb", "a\x7fb", "a\x85b"])
def test_r56_control_characters_separate(text: str) -> None:
    assert index_terms(text) == "a b"


@pytest.mark.parametrize("query", ["悬空", "itgc", "gen-itgc", "步2", "空引", "重跑", "50", "清零", "零", "步"])
def test_r58_identifiers_inside_cjk_and_pairs_of_characters(query: str) -> None:
    assert found(query, "步2 重跑gen-itgc后50条悬空引用清零")


@pytest.mark.parametrize(("query", "text"), [
    ("營造", "宋代營造法式"), ("다라", "가나다라"), ("나다라", "가나다라마"), ("カナ", "カタカナ"), ("かな", "ひらかな"), ("ไทย", "ภาษาไทย"), ("ລາວ", "ພາສາລາວ"),
    ("ខ្មែរ", "ភាសាខ្មែរ"), ("ﾊﾟﾝ", "パン"), ("ㄅㄆ", "ㄅㄆㄇ"), ("한", "한글"), ("글", "한글"), ("字", "漢字"), ("漢", "漢字"),
    ("\U00020000\U00020001", "x\U00020000\U00020001"),
])
def test_r60_scripts_without_spaces_match_inside_a_run(query: str, text: str) -> None:
    assert found(query, text)


@pytest.mark.parametrize(("query", "text"), [("造營", "營造"), ("ไป", "ไทย"), ("다가", "가나다")])
def test_r60_pairs_keep_their_order(query: str, text: str) -> None:
    assert not found(query, text)


def test_r60_a_run_becomes_pairs_and_its_last_character() -> None:
    assert index_terms("漢字典") == "漢字 字典 典"
    assert query_terms("漢字典") == (("漢字", False), ("字典", False))
    assert query_terms("漢") == (("漢", True),)
    assert index_terms("漢 字") == "漢 字"


@pytest.mark.parametrize(("one", "other"), [
    ("file", "ﬁle"), ("strasse", "Straße"), ("STRASSE", "ﬆraße"), ("cafe", "café"), ("CAFÉ", "cafe\u0301"), ("İstanbul", "istanbul"),
    ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("\uff21\uff22\uff23", "abc"), ("①", "1"), ("so™", "sotm"), ("x²", "x2"), ("Ångström", "angstrom"), ("Й", "и"), ("ё", "е"), ("㎏", "kg"),
    ("שָׁלוֹם", "שלום"), ("مُحَمَّد", "محمد"), ("ǆ", "dž"), ("ﷺ", "صلى الله عليه وسلم"),
])
def test_r61_compatibility_forms_case_and_diacritics_are_folded(one: str, other: str) -> None:
    assert index_terms(one) == index_terms(other) != ""
    assert query_terms(one) == query_terms(other)


@pytest.mark.parametrize("sign", ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u200e", "\u202e", "\u2066"])
def test_r62_format_characters_vanish(sign: str) -> None:
    assert index_terms(f"zero{sign}width") == "zerowidth"
    assert query_terms(f"zero{sign}width") == (("zerowidth", False),)


@pytest.mark.parametrize("symbol", ["😀", "€", "→", "∑", "👍", "♥"])
def test_symbols_beyond_ascii_are_found(symbol: str) -> None:
    assert found(symbol, f"so{symbol}it is")
    assert not found(symbol, "so it is")


def test_long_terms_are_cut_alike_on_both_sides() -> None:
    word = "x" * 1000
    pieces = index_terms(word).split()
    assert "".join(pieces) == word
    assert max(map(len, pieces)) == MAX_TERM_BYTES
    assert [term for term, _ in query_terms(word)] == list(dict.fromkeys(pieces))
    assert max(len(term.encode()) for term in index_terms("ж" * 500).split()) <= MAX_TERM_BYTES
    assert index_terms("я" * 59 + " b") == "я" * 59 + " b"


@settings(deadline=None, max_examples=100, derandomize=True)
@given(TEXTS)
@example("ﬅ\u0345")
def test_terms_normalise_to_themselves(text: str) -> None:
    singles = [term for term in index_terms(text).split(" ") if not term.endswith(("+", "#"))]
    for term in singles:
        assert term in index_terms(term).split(" ") or term == ""


@settings(deadline=None, max_examples=100, derandomize=True)
@given(TEXTS)
def test_every_normal_form_and_case_gives_the_same_terms(text: str) -> None:
    terms = index_terms(text)
    for form in ("NFC", "NFD"):
        assert index_terms(unicodedata.normalize(form, text)) == terms


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.data())
def test_what_stands_between_blanks_is_found_by_itself(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    terms = index_terms(text).split(" ")
    for term, prefix in query_terms(" ".join(words[first:last + 1])):
        assert any(known.startswith(term) for known in terms) if prefix else term in terms


@settings(deadline=None, max_examples=100, derandomize=True)
@given(TEXTS, TEXTS)
def test_terms_are_joined_by_single_blanks_and_never_empty(before: str, text: str) -> None:
    terms = index_terms(f"{before} {text}")
    assert terms == " ".join(terms.split())
    assert not any(char.isspace() or char == '"' or ord(char) < 32 for char in terms.replace(" ", ""))
    assert len(query_terms(text)) <= MAX_QUERY_TERMS


def test_code_points_unassigned_in_unicode_13_are_passed_through_alone() -> None:
    newer = [point for point in (0x1F979, 0x0870, 0x11F00, 0x1FAE0, 0x2C2F, 0x10FFFE - 2, 0x0378) if unassigned(point)]
    assert len(newer) >= 6
    for point in newer:
        assert index_terms(f"a{chr(point)}b") == f"a {chr(point)} b", hex(point)
        assert found(chr(point), f"x{chr(point)}y")


def test_case_of_a_letter_newer_than_unicode_13_is_left_alone() -> None:
    assert index_terms("\u2c2f") == "\u2c2f", "U+2C2F got its lower case U+2C5F in Unicode 14"


def test_the_terms_of_every_code_point_are_the_same_under_every_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index holds the name of these rules; whoever changes what they give must give them a new name.

    Of the planes without an assigned character, or for private use, all of whose code points are alike, one in 61 is taken.
    """
    monkeypatch.setattr(normalize, "_FOLDING", type(normalize._FOLDING)())  # it keeps what it has seen, which is all of Unicode here
    points = [*range(0xD800), *range(0xE000, 0x40000), *range(0x40000, 0xE0000, 61), *range(0xE0000, 0xF0000), *range(0xF0000, 0x110000, 61)]
    digest = hashlib.sha256()
    with untraced():
        for start in range(0, len(points), 256):
            digest.update(index_terms(" ".join(f"a{chr(point)}b" for point in points[start:start + 256])).encode() + b" ")
    assert (NORMALIZER, digest.hexdigest()[:16]) == ("rag-terms/1", "f945b8a24ab128b8")
