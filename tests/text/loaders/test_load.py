"""Which loader reads what, and that nothing but `Failure` ever comes out."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile

import docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pdf_builder import build_pdf

from rag_stdlib.errors import Failure
from rag_stdlib.records import FrozenDict
from rag_stdlib.text.loaders import SUPPORTED, Loaded, is_supported, load


def word(text: str) -> bytes:
    document = docx.Document()
    document.add_paragraph(text)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


@pytest.mark.parametrize("name", [
    "README", "LICENSE", "Makefile", "METADATA", "Dockerfile", ".env", "a/b.c/NOTES", "a.md", "A.MARKDOWN", "x.mdx", "i.html",
    "i.htm", "i.xhtml", "p.pdf", "w.docx", "s.py", "s.rs", "s.cor", "t.TXT", "r.rst", "d.json", "d.yaml", "d.tex",
])
def test_supported_names(name: str) -> None:
    assert is_supported(name)


@pytest.mark.parametrize("name", ["a.png", "a.exe", "a.doc", "a.zip", "a.tar.gz", "lib.so.1", "a.sqlite", "README.unknown"])
def test_other_extensions_are_unsupported_whatever_they_hold(name: str) -> None:
    assert not is_supported(name)
    for data in (b"plain text", build_pdf([["x"]]), b""):
        with pytest.raises(Failure) as caught:
            load(name, data)
        assert caught.value.error.code == "file_unsupported"
        assert "no loader reads" in caught.value.error


def test_every_supported_extension_has_a_dot_and_is_lower_case() -> None:
    assert all(extension.startswith(".") and extension == extension.lower() for extension in SUPPORTED)
    assert len(SUPPORTED) > 80


@pytest.mark.parametrize("name", ["report", "report.txt", "report.html", "report.md"])
def test_the_content_beats_a_text_name(name: str) -> None:
    assert load(name, build_pdf([["from a pdf"]])).media_type == "application/pdf"
    loaded = load(name, word("from word"))
    assert (loaded.text, loaded.media_type.rpartition(".")[2]) == ("from word", "document")


@pytest.mark.parametrize("data", [b"PK\x03\x04 no archive", b"PK\x03\x04\x00\x00"])
def test_another_archive_under_a_text_name_is_unsupported(data: bytes) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("a.txt", "x")
    for content in (data, out.getvalue()):
        with pytest.raises(Failure) as caught:
            load("a.txt", content)
        assert caught.value.error.code == "file_unsupported"
        assert "ZIP" in caught.value.error


def test_a_pdf_under_a_docx_name_is_unreadable() -> None:
    with pytest.raises(Failure) as caught:
        load("a.docx", build_pdf([["x"]]))
    assert caught.value.error.code == "file_unreadable"


@pytest.mark.parametrize("name", ["a.md", "a.txt", "README", "a.py", "a.html"])
def test_r85_every_text_loader_is_strict(name: str) -> None:
    with pytest.raises(Failure) as caught:
        load(name, b"caf\xe9 au lait")
    assert caught.value.error.code == "not_utf8"
    assert f"{name!r} is not UTF-8 text: byte 3 is 0xe9" in caught.value.error


@pytest.mark.parametrize("name", ["a.md", "a.txt", "README", "a.py", "a.html"])
def test_r214_utf16_without_a_mark_is_never_text(name: str) -> None:
    with pytest.raises(Failure) as caught:
        load(name, "<p>words</p>".encode("utf-16-le"))
    assert caught.value.error.code == "file_unsupported"


def holds(loaded: Loaded) -> None:
    loaded.text.encode("utf-8")
    assert "\x00" not in loaded.text
    assert isinstance(loaded.metadata, FrozenDict)
    for value in loaded.metadata.values():
        assert value is None or isinstance(value, (str, int, float, bool))
    for anchors in (loaded.lines, loaded.pages):
        offsets = [at for at, _ in anchors]
        assert offsets == sorted(set(offsets))
        assert all(0 <= at <= len(loaded.text) and number >= 1 for at, number in anchors)


PREFIXES = [b"", b"%PDF-1.7\n", b"PK\x03\x04", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff", b"\xef\xbb\xbf",
            b"---\n", b"+++\na = ", b"<meta charset=koi8-r>", b"<meta charset=cp932>", b"<script>", b"<svg><![CDATA["]
NAMES = st.sampled_from(["README", "a.xyz", *sorted({".md", ".html", ".xhtml", ".pdf", ".docx", ".txt", ".py", ".rst"})])


@settings(max_examples=160, deadline=None)
@given(NAMES, st.sampled_from(PREFIXES), st.binary(max_size=200))
def test_random_bytes_give_a_text_or_a_failure(name: str, prefix: bytes, data: bytes) -> None:
    try:
        holds(load("a" + name, prefix + data))
    except Failure:
        return


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([("a.pdf", build_pdf([["one", "two"], ["three"]], title="t")), ("a.docx", word("words"))]),
       st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 255)), max_size=8), st.integers(0, 40_000))
def test_damaged_files_give_a_text_or_a_failure(file: tuple[str, bytes], changes: list[tuple[int, int]], cut: int) -> None:
    name, data = file[0], bytearray(file[1])
    for at, byte in changes:
        data[at % len(data)] = byte
    try:
        holds(load(name, bytes(data[: cut or None])))
    except Failure as failure:
        assert failure.error.code == "file_unreadable"  # noqa: PT017 - the code is half of the claim


def test_importing_the_loaders_imports_no_parser() -> None:
    program = ("import sys, rag_stdlib.text.loaders\n"
               "print([name for name in ('pypdf', 'docx', 'lxml', 'selectolax') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert done.stdout.strip() == "[]"
