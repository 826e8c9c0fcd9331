"""F3 through rag_search: any string is a query, and what a person would expect is found."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_stdlib import Err, Ok, QueryOptions, Runtime, rag_delete, rag_ingest, rag_query, rag_search

PATH = "index.db"


def found(query: str, *texts: str, limit: int = 50) -> list[str]:
    """Ingest texts as d0, d1 …, and return the ids that a query finds."""
    for number, text in enumerate(texts):
        assert rag_ingest(PATH, f"d{number}", "s", text, 2_000).is_ok
    result = rag_search(PATH, query, limit)
    assert isinstance(result, Ok), result
    return [chunk.doc_id for chunk in result.value]


@pytest.mark.parametrize(("words", "notes"), [
    (80, ["terms_cut: 80 distinct words, the first 64 count"]), (65, ["terms_cut: 65 distinct words, the first 64 count"]), (64, []), (1, [])])
def test_words_that_do_not_count_are_told_of(hybrid: Runtime, words: int, notes: list[str]) -> None:
    query = " ".join(f"w{number}" for number in range(words))
    rag_ingest(PATH, "d", "s", "w0 and w64", 100)
    for mode in ("lexical", "hybrid", "vector"):
        result = rag_query(PATH, f"{query} {query}", 5, QueryOptions(mode=mode))  # type: ignore[arg-type]
        assert isinstance(result, Ok)
        assert [note for note in result.notes if note.startswith("terms_cut")] == (notes if mode != "vector" else [])
    only = rag_query(PATH, query.replace("w0 ", "x ", 1) if words > 1 else "x", 5, QueryOptions(mode="lexical")).unwrap()
    assert only == []  # w64 is the 65th word
    assert hybrid.has_embedder


@pytest.mark.parametrize("query", ["BENCH-100821", "bench-100821", "100821", "BENCH", "-100821", "BENCH--100821"])
def test_r44_hyphenated_identifier(lexical: Runtime, query: str) -> None:
    assert found(query, "The ticket BENCH-100821 is open.", "Another ticket.") == ["d0"]
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("query", ["don't use agents", "don't", "'", "it''s agents'", "'agents'"])
def test_r45_apostrophes(lexical: Runtime, query: str) -> None:
    assert found(query, "Please don't use agents here.", "Nothing else.") == ([] if query == "'" else ["d0"])
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("query", [".", "...", "?!", "-", "*", '"', '""', "()", "^", "{}", ":", ";", "\\", "/", "'''", "、。", "\u200b"])
def test_r46_r50_punctuation_alone_has_no_terms(lexical: Runtime, query: str) -> None:
    assert found(query, "A park. Or not.", "All rows?") == []
    result = rag_search(PATH, query, 5)
    assert isinstance(result, Ok)
    assert any(note.startswith("no_terms") for note in result.notes)
    assert lexical.mode == "lexical"


@pytest.mark.parametrize(("query", "ids"), [
    ("park.", ["d0"]), ("grammar::fa", ["d1"]), ("price:", ["d2"]), ("price:12", ["d2"]), ("terms:price", ["d2"]), ("fa:", ["d1"]),
    ("rowid:1", []), ("rag_lexical", [])])
def test_r46_r48_colons_and_stops_are_literal(lexical: Runtime, query: str, ids: list[str]) -> None:
    assert found(query, "In the park.", "Use grammar::fa today", "The price: twelve") == ids
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("query", ["AND", "OR", "NOT", "NEAR", "hello AND", "AND AND", "hello OR NOT", "NEAR(hello world)", "NOT hello",
                                   "near(hello, 3)"])
def test_r49_operators_are_words(lexical: Runtime, query: str) -> None:
    ids = found(query, "hello world and or not near", "unrelated content")
    assert ids == ["d0"]
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("query", ['"unbalanced', '"quoted words"', 'say "unbalanced', 'unbalanced"', '""unbalanced""', '"a" "unbalanced'])
def test_r50_quotes_are_literal(lexical: Runtime, query: str) -> None:
    assert found(query, "an unbalanced and quoted text", "something different") == ["d0"]
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("query", ["", "   ", "\t\n", "\u3000", "\u00a0"])
def test_r52_a_blank_query_finds_nothing(lexical: Runtime, query: str) -> None:
    assert found(query, "some text") == []
    result = rag_search(PATH, query, 5)
    assert isinstance(result, Ok)
    assert "the query is blank" in result.notes
    assert lexical.mode == "lexical"


@pytest.mark.parametrize(("query", "first"), [("C++", "d0"), ("c++", "d0"), ("C#", "d1"), ("what is C++?", "d0"), ("F#", "d5"),
                                              ("user@example.com", "d3"), ("a\\b", "d4"), ("C++ (2020)", "d0")])
def test_r53_names_with_signs(lexical: Runtime, query: str, first: str) -> None:
    ids = found(query, "A book on C++ here.", "A book on C# here.", "Vitamin c is c and c again.", "Mail user@example.com now",
                "the path a\\b is", "A book on F# here.")
    assert ids[0] == first
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("query", ["(" * 300, "(" * 300 + "needle" + ")" * 300, "^needle", "{needle}", "needle*", "-needle", "+needle",
                                   " ".join(f"x{n}" for n in range(5_000)), '"' * 999, "needle " * 2_000, "NEAR(" * 200 + "needle"])
def test_r54_nothing_is_syntax_however_deep_or_long(lexical: Runtime, query: str) -> None:
    ids = found(query, "a needle in the hay", "only hay")
    assert ids == (["d0"] if "needle" in query else [])
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("bad", ["a\x00b", "\x00", "ends\x00"])
def test_r56_nul_is_refused_in_text_and_query(lexical: Runtime, bad: str) -> None:
    for result in (rag_search(PATH, bad, 5), rag_ingest(PATH, "d", "s", bad, 10), rag_ingest(PATH, bad, "s", "t", 10),
                   rag_ingest(PATH, "d", bad, "t", 10)):
        assert isinstance(result, Err)
        assert result.error.code == "text_nul"
        assert f"at character {bad.index(chr(0))}" in result.error
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("bad", ["\ud83d", "ab\udfff", "\ud83d\ud83d"])
def test_r57_a_lone_surrogate_is_refused_with_its_place(lexical: Runtime, bad: str) -> None:
    for result in (rag_search(PATH, bad, 5), rag_ingest(PATH, "d", "s", bad, 10), rag_ingest(PATH, bad, "s", "t", 10)):
        assert isinstance(result, Err)
        assert result.error.code == "invalid_text"
        assert f"at character {len(bad) - 1 if bad[0] == 'a' else 0}" in result.error
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("query", ["悬空", "itgc", "引用", "步2", "重跑", "gen-itgc", "50", "清零", "零"])
def test_r58_words_and_identifiers_inside_chinese(lexical: Runtime, query: str) -> None:
    assert found(query, "步2 重跑gen-itgc后50条悬空引用清零", "别的话题在这里。") == ["d0"]
    assert lexical.mode == "lexical"


@pytest.mark.parametrize(("query", "text"), [("營造", "中國營造學社彙刊"), ("다라", "가나다라마바"), ("造", "中國營造學社"), ("東京都", "今日は東京都にいる"),
                                             ("ない", "わからない"), ("สวัส", "สวัสดีครับ")])
def test_r60_scripts_without_spaces(lexical: Runtime, query: str, text: str) -> None:
    assert found(query, text, "없음 other", "別話") == ["d0"]
    assert lexical.mode == "lexical"


@pytest.mark.parametrize(("query", "text"), [("file", "the ﬁle"), ("ﬁle", "the file"), ("strasse", "Die Straße"), ("Straße", "die STRASSE"),
                                             ("cafe", "un café"), ("CAFÉ", "un cafe\u0301"), ("ＡＢＣ", "abc"), ("ελλαδα", "Ελλάδα"),
                                             ("zerowidth", "zero\u200bwidth"), ("zero\u200dwidth", "zerowidth"), ("soft\u00adhyphen", "softhyphen")])
def test_r61_r62_folding_on_both_sides_and_the_original_kept(lexical: Runtime, query: str, text: str) -> None:
    assert found(query, text, "nothing of it") == ["d0"]
    assert rag_search(PATH, query, 1).unwrap()[0].text == text
    assert lexical.mode == "lexical"


@pytest.mark.parametrize("query", ["🎉", "party 🎉", "€", "→"])
def test_symbols_and_emoji_are_terms(lexical: Runtime, query: str) -> None:
    assert found(query, "party 🎉 costs 5 € → now", "nothing here") == ["d0"]
    assert lexical.mode == "lexical"


def test_r64_a_term_in_every_document_scores_little_and_above_nothing(lexical: Runtime) -> None:
    ids = found("common", *["common words"] * 6)
    assert ids == [f"d{n}" for n in range(6)]
    scores = [chunk.score for chunk in rag_search(PATH, "common", 10).unwrap()]
    assert all(score is not None and 0 < score < 1e-4 for score in scores)
    assert len(set(scores)) == 1
    assert lexical.mode == "lexical"


def test_r65_r66_empty_documents_and_a_limit_above_the_corpus(lexical: Runtime) -> None:
    assert found("anything", "", "  ", "\n") == []
    assert found("word", "a word", "no", limit=10**9) == ["d0"]
    assert lexical.mode == "lexical"


def test_r68_r69_deleted_terms_are_not_found_and_new_ones_are(lexical: Runtime) -> None:
    assert found("unique", "a unique term", "others") == ["d0"]
    assert rag_delete(PATH, "d0").is_ok
    assert found("unique") == []
    assert found("unique", "another unique term") == ["d0"]
    assert lexical.mode == "lexical"


def test_r197_a_query_of_no_known_word_is_an_empty_page_that_names_its_mode(lexical: Runtime) -> None:
    assert found("qqxzvwmpl", "some words", "more words") == []
    hit = rag_search(PATH, "words", 1)
    assert isinstance(hit, Ok)
    assert hit.notes == ("lexical search: no [rag] embedder is configured",)
    assert (hit.value[0].mode, hit.value[0].vector_score) == ("lexical", None)
    assert hit.value[0].lexical_score == hit.value[0].score
    assert lexical.mode == "lexical"


@settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40), st.text(
    st.sampled_from("\"'()*^{}:+-#.\\ ANDORT步가é🎉\u200b"), max_size=20))
def test_any_string_is_a_query_and_finds_itself(lexical: Runtime, text: str, signs: str) -> None:
    assert rag_ingest(PATH, "d", "s", text, 2_000).is_ok
    for query in (text, signs, text + signs, signs + text, f"{signs} {text}"):
        result = rag_search(PATH, query, 3)
        assert isinstance(result, Ok), result
    hit = rag_search(PATH, text, 3)
    assert isinstance(hit, Ok)
    assert hit.value or not text.strip() or any(note.startswith("no_terms") for note in hit.notes)
    assert lexical.mode == "lexical"
