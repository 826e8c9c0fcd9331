"""Word documents: order, tables, what is not shown, and archives that are refused."""

from __future__ import annotations

import io
import sys
import zipfile
from typing import Any

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from rag_stdlib.errors import Failure
from rag_stdlib.text.loaders import Loaded, load
from rag_stdlib.text.loaders.docx import MAX_UNPACKED_BYTES

NESTED_CONTROLS = (
    "<w:tbl><w:tblPr/><w:sdt><w:sdtContent><w:tr><w:trPr/><w:sdt><w:sdtContent><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc>"
    "</w:sdtContent></w:sdt><w:tc><w:p/></w:tc></w:tr></w:sdtContent></w:sdt></w:tbl><w:p><w:r><w:t>z</w:t></w:r></w:p>"
)
TEXT_BOX = (
    "<w:p><w:r><w:t>out</w:t><mc:AlternateContent><mc:Choice Requires='wps'><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p>"
    "</w:txbxContent></mc:Choice><mc:Fallback><w:p><w:r><w:t>again</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent></w:r></w:p>"
)


def saved(document: Any) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def from_xml(body: str) -> Loaded:
    document = docx.Document()
    names = nsdecls("w") + ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    for element in parse_xml(f"<w:body {names}>{body}</w:body>"):
        document.element.body.append(element)
    return load("a.docx", saved(document))


def refused(data: bytes) -> str:
    with pytest.raises(Failure) as caught:
        load("a.docx", data)
    error = caught.value.error
    assert error.code == "file_unreadable"
    assert error.startswith("'a.docx' cannot be read as DOCX: ")
    assert "\n" not in error
    return str(error)


def archive(**entries: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return out.getvalue()


def test_paragraphs_headings_and_tables_come_in_document_order() -> None:
    document = docx.Document()
    document.core_properties.title = " The \n Title "
    document.add_heading("Heading", level=1)
    document.add_paragraph("Before the table").add_run(" in bold").bold = True
    table = document.add_table(rows=2, cols=2)
    for row, texts in zip(table.rows, (("a", "b\nb"), ("", "d")), strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    table.cell(1, 1).add_table(rows=1, cols=2).cell(0, 1).text = "inner"
    document.add_paragraph("After\tit\nnext")
    loaded = load("a.docx", saved(document))
    assert loaded.text == "Heading\nBefore the table in bold\na\tb b\n\td inner\nAfter\tit\nnext"
    assert loaded.metadata == {"title": "The Title"}
    assert loaded.media_type == "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    assert (loaded.lines, loaded.pages, loaded.notes) == ((), (), ())


@pytest.mark.parametrize(("body", "text"), [
    ("<w:p><w:hyperlink><w:r><w:t>link</w:t></w:r></w:hyperlink><w:r><w:noBreakHyphen/><w:t>x</w:t></w:r></w:p>", "link-x"),
    ("<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del></w:p>", "new"),
    ("<w:p><w:pPr><w:tabs><w:tab w:val='left' w:pos='1'/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t/><w:cr/><w:t>b</w:t></w:r></w:p>",
     "a\t\nb"),
    ("<w:sdt><w:sdtPr/><w:sdtContent><w:p><w:r><w:t>control</w:t></w:r></w:p></w:sdtContent></w:sdt>", "control"),
    (NESTED_CONTROLS, "a\t\nz"),
    (TEXT_BOX, "out\nbox"),
    ("<w:p><w:r><w:instrText>TOC</w:instrText><w:t>shown</w:t></w:r></w:p><!-- no --><?no no?>", "shown"),
])
def test_what_word_shows_is_text(body: str, text: str) -> None:
    assert from_xml(body).text == text


def test_a_document_without_properties_has_no_title() -> None:
    document = docx.Document()
    document.add_paragraph("x")
    data = io.BytesIO(saved(document))
    out = io.BytesIO()
    with zipfile.ZipFile(data) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == "_rels/.rels":
                start = content.index(b"<Relationship ", content.index(b"core-properties") - 200)
                parts = [part for part in content[start:].split(b"/>") if b"core-properties" not in part]
                content = content[:start] + b"/>".join(parts)
            if entry.filename != "docProps/core.xml":
                new.writestr(entry, content)
    loaded = load("a.docx", out.getvalue())
    assert (loaded.text, loaded.metadata) == ("x", {})


@pytest.mark.parametrize("data", [
    b"", b"text", b"PK\x03\x04", b"PK\x03\x04 and no more of it", archive(a=b"x"), archive(**{"word/document.xml": b"<x/>"}),
    saved(docx.Document())[:-30], saved(docx.Document())[:5000],
])
def test_what_is_damaged_or_no_word_document_is_refused_in_one_line(data: bytes) -> None:
    refused(data)


def test_a_password_is_said_to_be_needed() -> None:
    assert "encrypted with a password" in refused(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    data = bytearray(archive(a=b"x"))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted with a password" in refused(bytes(data))


def test_a_zip_bomb_is_refused_before_it_unpacks() -> None:
    data = bytearray(archive(a=bytes(100), b=b"x"))
    entry = data.index(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = (MAX_UNPACKED_BYTES).to_bytes(4, "little")
    assert "536,870,913 bytes" in refused(bytes(data))


def test_an_entity_bomb_does_not_blow_up() -> None:
    bomb = b"<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'>" + b"".join(
        b"<!ENTITY %c '%s'>" % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9)) + b"]>"
    data = io.BytesIO(saved(docx.Document()))
    out = io.BytesIO()
    with zipfile.ZipFile(data) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == "word/document.xml":
                at = content.index(b"<w:document")
                content = content[:at] + bomb + content[at:].replace(b"<w:body>", b"<w:body><w:p><w:r><w:t>&j;</w:t></w:r></w:p>")
            new.writestr(entry, content)
    try:
        assert len(load("a.docx", out.getvalue()).text) < 1000
    except Failure as failure:
        assert failure.error.code == "file_unreadable"  # noqa: PT017 - either is right


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(docx.Document())
    monkeypatch.setitem(sys.modules, "docx", None)
    with pytest.raises(Failure) as caught:
        load("a.docx", data)
    assert caught.value.error.code == "loader_not_installed"
    assert "docx" in caught.value.error
