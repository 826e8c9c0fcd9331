"""Character references, against the standard library's and the HTML standard's tables."""

from __future__ import annotations

from html import unescape
from html.entities import html5

import pytest

from rag_stdlib.text.loaders.charref import decode_references


def test_every_name_of_the_standard_is_known() -> None:
    assert len(html5) > 2_000
    assert {name: decode_references(f"a&{name}=") for name in html5} == {name: f"a{text}=" for name, text in html5.items()}


@pytest.mark.parametrize(("source", "text"), [
    ("&notit; &notin; &ampere &AMPx", "¬it; ∉ &ere &x"),
    ("&nosuch; &; & &# &#; &#x; &#xg; &#zz", "&nosuch; &; & &# &#; &#x; &#xg; &#zz"),
    ("&#65;&#65&#x41;&#X41&#0065;", "AAAAA"),
    ("&#x80;&#150;&#x9f;&#x81;&#x8d;", "€–Ÿ\x81\x8d"),
    ("&#0;&#x0;&#xD800;&#xDFFF;&#x110000;&#99999999;", "\ufffd" * 6),
    ("&#x10FFFF;&#1;&#xFDD0;", "\U0010ffff\x01\ufdd0"),
    ("&#" + "9" * 100_000 + ";", "\ufffd"),
    ("&#" + "0" * 100_000 + "65;", "A"),
    ("&" + "a" * 100_000 + ";", "&" + "a" * 100_000 + ";"),
    ("&amp;lt;&amp;amp;", "&lt;&amp;"),
])
def test_references_are_decoded_once_as_the_standard_says(source: str, text: str) -> None:
    assert decode_references(source) == text


def test_numbers_agree_with_the_standard_library() -> None:
    references = [f"&#{number};" for number in (*range(0x80, 0x100), 0x2028, 0x1F44B)]
    assert list(map(decode_references, references)) == list(map(unescape, references))
