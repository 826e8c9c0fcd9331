"""Bytes to text: marks, strictness, NULs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.errors import Failure
from rag_stdlib.text.loaders.decoding import decode, scrub


def refused(data: bytes) -> Failure:
    with pytest.raises(Failure) as caught:
        decode("a.txt", data)
    return caught.value


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_r214_a_byte_order_mark_decides_and_is_stripped_and_recorded(codec: str) -> None:
    text = "naïve\r\n悬空 👋🏻 end"
    marked = text if codec in ("utf-8-sig", "utf-16") else "\ufeff" + text
    decoded = decode("a.txt", marked.encode(codec))
    assert decoded.text == text
    assert len(decoded.notes) == 1
    assert "byte order mark" in decoded.notes[0]
    assert codec.split("-")[1] in decoded.notes[0]


def test_r84_only_the_first_byte_order_mark_goes() -> None:
    assert decode("a.txt", b"\xef\xbb\xbf\xef\xbb\xbfx\xef\xbb\xbf").text == "\ufeffx\ufeff"


@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1", "de_DE.CP1252"])
def test_r84_the_locale_has_no_say(locale: str) -> None:
    program = ("from rag_stdlib.text.loaders import load\n"
               "print(ascii(load('a.txt', bytes.fromhex('c2a9e284a2')).text))")
    done = subprocess.run([sys.executable, "-X", "utf8=0", "-c", program], capture_output=True, text=True, check=True,
                          env={**os.environ, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0"})
    assert done.stdout.strip() == r"'\xa9\u2122'"


@pytest.mark.parametrize(("data", "offset", "byte"), [
    ("©™".encode("cp1252"), 0, 0xA9),
    ("price 5 €".encode("cp1252"), 8, 0x80),
    ("abc é".encode("latin-1"), 4, 0xE9),
    (b"ok \xed\xa0\x80", 3, 0xED),
    (b"ok \xc0\xaf", 3, 0xC0),
    (b"cut \xe2\x84", 4, 0xE2),
    (b"\xef\xbb\xbfab\xff", 5, 0xFF),
    (b"\xff\xfea\x00\x00\xd8b\x00", 4, 0x00),
    (b"\xfe\xff\x00a\xdc\x00", 4, 0xDC),
    (b"\xff\xfea\x00b", 4, 0x62),
    (b"\xff\xfe\x00\x00a\x00\x00\x00\x00\x00\x11\x00", 8, 0x00),
    (b"\x00\x00\xfe\xff\x00\x00\x00a\x00\x00\xd8\x00", 8, 0x00),
])
def test_r85_a_bad_byte_is_named_with_its_offset_in_the_file(data: bytes, offset: int, byte: int) -> None:
    error = refused(data).error
    assert error.code == "not_utf8"
    assert f"byte {offset} is 0x{byte:02x}" in error


@pytest.mark.parametrize(("data", "text", "count"), [
    (b"speci\x00cation", "speci\ufffdcation", "1 character "),
    (b"a\x00b", "a\ufffdb", "1 character "),
    (b"\x00left\x00right and more\x00", "\ufffdleft\ufffdright and more\ufffd", "3 characters "),
    (b"\xef\xbb\xbf\x00", "\ufffd", "1 character "),
    ("\ufeffoffice \x00".encode("utf-16-le"), "office \ufffd", "1 character "),
])
def test_r86_a_stray_nul_is_replaced_and_counted(data: bytes, text: str, count: str) -> None:
    decoded = decode("a.txt", data)
    assert decoded.text == text
    assert decoded.notes[-1].startswith(count)
    assert "U+0000" in decoded.notes[-1]


@pytest.mark.parametrize("text", ["plain words", "Ab", "Привет, мир. Это обычный текст на русском языке.", "café au lait\n" * 9])
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_r214_utf16_without_a_mark_is_refused_as_such(text: str, codec: str) -> None:
    error = refused(text.encode(codec)).error
    assert error.code == "file_unsupported"
    assert "UTF-16 without a byte order mark" in error


@pytest.mark.parametrize("data", [
    b"\x7fELF\x02\x01\x01\x00\x00\x00\xff\x00\x01\xfe",
    b"\x00" * 40,
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    bytes(range(256)),
    "plain".encode("utf-32-le"),
])
def test_binary_data_is_refused(data: bytes) -> None:
    error = refused(data).error
    assert error.code == "file_unsupported"
    assert "binary" in error


def test_line_ends_stay_as_they_are() -> None:
    assert decode("a.txt", b"a\r\nb\rc\nd\x0c\xe2\x80\xa8e").text == "a\r\nb\rc\nd\x0c\u2028e"


def test_empty_is_empty() -> None:
    assert decode("a.txt", b"") == ("", ())


def test_scrub_replaces_nul_and_lone_surrogates_only() -> None:
    assert scrub("a\x00b\ud83dc\udc00👋\ufffd") == ("a\ufffdb\ufffdc\ufffd👋\ufffd", 3)


@given(st.text())
def test_utf8_comes_back_as_it_was(text: str) -> None:
    data = text.encode()
    if b"\x00" in data or data.startswith((b"\xef\xbb\xbf", b"\xff", b"\xfe")):
        return
    assert decode("a.txt", data) == (text, ())
