"""PDF: pages, titles, and files that are none."""

from __future__ import annotations

import io
import logging
import sys

import pypdf
import pytest
from anchors import page_of
from pdf_builder import build_pdf

from rag_stdlib.errors import Failure
from rag_stdlib.text.loaders import load


def refused(data: bytes) -> str:
    with pytest.raises(Failure) as caught:
        load("a.pdf", data)
    error = caught.value.error
    assert error.code == "file_unreadable"
    assert error.startswith("'a.pdf' cannot be read as PDF: ")
    assert "\n" not in error
    return str(error)


def encrypted(user: str, owner: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(build_pdf([["secret"]])))
    writer.encrypt(user, owner, algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_pages_are_joined_by_a_blank_line_and_anchored() -> None:
    loaded = load("a.pdf", build_pdf([["First page", "second line"], ["Café on two"], ["three"]], title="The  Title"))
    assert loaded.text == "First page\nsecond line\n\nCafé on two\n\nthree"
    assert loaded.pages == ((0, 1), (24, 2), (37, 3))
    assert [page_of(loaded, loaded.text.index(word)) for word in ("second", "Café", "three")] == [1, 2, 3]
    assert (loaded.media_type, loaded.metadata, loaded.lines, loaded.notes) == (
        "application/pdf", {"title": "The Title"}, (), ())


def test_pages_without_text_are_counted_and_keep_their_numbers() -> None:
    loaded = load("a.pdf", build_pdf([[], ["shown"], [], [" "], ["more"]]))
    assert loaded.text == "shown\n\nmore"
    assert loaded.pages == ((0, 2), (7, 5))
    assert loaded.notes == ("3 of 5 pages hold no text; scanned pages need OCR",)
    assert loaded.metadata == {}


@pytest.mark.parametrize("target", ["0000", "D800", "00660000"])
def test_r86_nul_and_surrogates_of_the_extractor_are_replaced(target: str) -> None:
    loaded = load("a.pdf", build_pdf([["speciXcation"]], to_unicode={ord("X"): target}))
    assert "\x00" not in loaded.text
    loaded.text.encode()
    assert loaded.text.startswith("speci")
    assert loaded.text.endswith("cation")
    assert "\ufffd" in loaded.text


def test_r86_what_was_replaced_is_noted() -> None:
    loaded = load("a.pdf", build_pdf([["speciXcation"], []], to_unicode={ord("X"): "0000"}))
    assert loaded.text == "speci\ufffdcation"
    assert loaded.notes[0].startswith("1 of 2 pages")
    assert loaded.notes[1].startswith("1 character ")


def test_a_file_encrypted_with_a_password_is_refused() -> None:
    assert refused(encrypted("open sesame", "owner")).endswith("it is encrypted and needs a password")


def test_a_file_that_only_restricts_printing_is_read() -> None:
    assert load("a.pdf", encrypted("", "owner")).text == "secret"


@pytest.mark.parametrize("data", [
    b"", b"just text", b"%PDF-1.7\n", b"%PDF-1.7\nnothing here\n%%EOF\n", b"\x00\x01binary", b"PK\x03\x04zip",
    build_pdf([["x"]])[:200], b"%PDF-1.4\ntrailer << /Root 1 0 R >>\nstartxref\n0\n%%EOF",
])
def test_what_is_damaged_or_no_pdf_is_refused_in_one_line(data: bytes) -> None:
    refused(data)


def test_a_page_that_cannot_be_read_refuses_the_file() -> None:
    data = build_pdf([["x"]]).replace(b"<< /Length", b"<< /Filter /NoSuchFilter /Length")
    assert "NoSuchFilter" in refused(data)


def test_junk_before_the_header_is_allowed() -> None:
    assert load("a.pdf", b"\r\n mail header\r\n" + build_pdf([["shown"]])).text == "shown"


def test_no_pages_is_no_text() -> None:
    loaded = load("a.pdf", build_pdf([]))
    assert (loaded.text, loaded.pages, loaded.notes) == ("", (), ("0 of 0 pages hold no text; scanned pages need OCR",))


def test_the_parsers_remarks_stay_inside(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    data = build_pdf([["shown"]]).replace(b"startxref\n", b"startxref\n9")
    noisy = logging.getLogger("pypdf")
    noisy.setLevel(logging.DEBUG)
    try:
        assert load("a.pdf", data).text == "shown"
        assert noisy.level == logging.DEBUG
        with caplog.at_level(logging.DEBUG):
            pypdf.PdfReader(io.BytesIO(data))
        assert caplog.records, "the file no longer makes pypdf complain, so this test shows nothing"
        caplog.clear()
        load("a.pdf", data)
        assert not caplog.records
    finally:
        noisy.setLevel(logging.NOTSET)
    assert capfd.readouterr().err == ""


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(Failure) as caught:
        load("a.pdf", build_pdf([["x"]]))
    assert caught.value.error.code == "loader_not_installed"
    assert "rag-stdlib[loaders]" in caught.value.error
    assert "pypdf" in caught.value.error
