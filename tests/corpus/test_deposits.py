"""Deposits: named by what they are, so that none takes the place of another, nor of a corpus's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.corpus import deposits

NODE = "ab" * 32


def test_x1_two_notes_under_one_label_are_two_documents() -> None:
    one, other = deposits.deposit("first note"), deposits.deposit("second note")
    assert one.doc_id != other.doc_id
    assert (one.source, other.source) == (deposits.LABEL, deposits.LABEL)
    assert deposits.deposit("first note").doc_id == one.doc_id


@given(st.lists(st.tuples(st.text(), st.text(), st.text(max_size=3)), min_size=2, max_size=6, unique=True))
def test_x1_what_differs_in_anything_has_another_id(given: list[tuple[str, str, str]]) -> None:
    ids = {deposits.deposit(text, label, (), depositor).doc_id for text, label, depositor in given
           if not any("\ud800" <= char <= "\udfff" for char in text + label + depositor)}
    made = {part for part in given if not any("\ud800" <= char <= "\udfff" for char in "".join(part))}
    assert len(ids) == len(made)


@given(st.text(min_size=1), st.text())
def test_x1_no_label_and_no_name_leads_into_the_corpus(text: str, label: str) -> None:
    if any("\ud800" <= char <= "\udfff" for char in text + label):
        return
    assert deposits.deposit(text, label).doc_id.startswith("deposit:")
    assert deposits.upload_id(label).startswith("upload:")
    assert deposits.upload(label, b"x")[0].doc_id == deposits.upload_id(label)


def test_who_and_about_what_is_kept_where_it_is_known() -> None:
    plain, full = deposits.deposit("text"), deposits.deposit("text", "notes", [" Mesh  nodes", "", "RAG", "RAG"], NODE)
    assert dict(plain.metadata) == {"kind": "deposit"}
    assert dict(full.metadata) == {"kind": "deposit", "topics": "Mesh nodes\nRAG", "deposited_by": NODE}


def test_x13_an_upload_without_a_path_goes_by_its_id() -> None:
    document, original = deposits.upload("guide-1", "Grüße".encode())
    assert (document.doc_id, document.source, document.text, original) == ("upload:guide-1", "guide-1", "Grüße", None)
    named, _ = deposits.upload("guide-1", b"x", "docs/guide.md", "text/plain", NODE)
    assert (named.source, named.media_type, named.metadata["deposited_by"]) == ("docs/guide.md", "text/plain", NODE)
    assert deposits.upload_id("upload:guide-1") == "upload:guide-1"


def test_b7_bytes_that_are_no_text_are_kept_beside_it() -> None:
    document, original = deposits.upload("odd", b"a\xaeb \xe4\xb8")
    assert document.text == "a\N{REPLACEMENT CHARACTER}b \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    assert original == b"a\xaeb \xe4\xb8"
