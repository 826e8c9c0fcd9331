"""The tokenizer against Lexbor, a whole HTML5 parser, and against the clock."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_time import takes_linear_time
from selectolax.lexbor import LexborHTMLParser

from rag_stdlib.text.loaders import load
from rag_stdlib.text.loaders.charref import decode_references
from rag_stdlib.text.loaders.html_tokens import Token, Tokenizer

# Elements that a tree builder neither moves nor drops text for, so that source order is its order.
PIECES = st.lists(st.sampled_from([
    "<", ">", "/", "!", "-", "--", "-->", "--!>", "<!--", "<!-->", "<!--->", "=", "'", '"', "&", "&amp;", "&lt", ";", " ", "\n", "a", "b",
    "x1", "x2", "x3", "<i>", "</i>", "<p>", "</p>", "<p a=b>", "<p a='", '<b c="', "<br/>", "<div", "</div", "<script>", "</script>", "</script", "<script",
    "<style>", "</style>", "<textarea>", "</textarea>", "<title>", "</title>", "<xmp>", "</xmp>", "<scripture>", "</scripture>",
    "<![CDATA[", "]]>", "<!doctype html>", "<?", "</", "<svg><path/><![CDATA[<i>&lt;]]]></svg>",
    "<svg><title>a</title><script>b</script><style><g>c</g></style></svg>", "<svg><p>", "<svg/>",
]), max_size=30).map("".join)


def lexbor_text(source: str) -> str:
    """Return all text but that of scripts and styles, without white space; the title's too."""
    parser = LexborHTMLParser(source)
    for hidden in parser.css("script, style"):
        hidden.decompose()
    nodes = parser.root.traverse(include_text=True) if parser.root else ()
    return re.sub(r"\s+", "", "".join(node.text_content or "" for node in nodes if node.is_text_node))


def our_text(source: str) -> str:
    found = [decode_references(token.text) if token.references else token.text for token in Tokenizer(source)
             if token.kind == "text" and token.name not in ("script", "style")]
    return re.sub(r"\s+", "", "".join(found))


@settings(max_examples=200, deadline=None)
@given(PIECES)
def test_the_text_agrees_with_lexbor(source: str) -> None:
    assert our_text("<body><p>" + source) == lexbor_text("<body><p>" + source)


def test_tokens_carry_their_offsets() -> None:
    source = "ab<p x>c<title>d</title ></i>"
    assert list(Tokenizer(source)) == [
        Token("text", "", "ab", references=True, at=0), Token("start", "p", "", references=False, at=2),
        Token("text", "", "c", references=True, at=7), Token("start", "title", "", references=False, at=8),
        Token("text", "title", "d", references=True, at=15), Token("end", "title", "", references=False, at=16),
        Token("end", "i", "", references=False, at=25),
    ]


@pytest.mark.parametrize("name", ["ſcript", "ſtyle", "lin\u212a"])
def test_only_ascii_letters_make_names(name: str) -> None:
    source = f"<script>x</{name}>y</script>z"
    assert our_text(source) == "z"
    assert next(iter(Tokenizer("<a" + name + ">"))).name == "a" + name


@pytest.mark.parametrize("piece", [
    "<div>", "<b><p>", "<p><b id=%d>", "<", "</", "&", "&a", "<!--", "<!", "<script>", "<script><!--", "</p>", '<a b="', "<a b='", "<a x", "<a =",
    "<svg>", "<svg><g>", "<svg><x></y>", "<svg><desc><svg>", "<svg><![CDATA[", "<template>", "<pre>", "<pre>\n", "<td>", "<title>", "<title></title",
    "<script><!--<script>", "&#", "&#x1", " ", "\n", "\n ", "<x/", "<x =  ", "<textarea>\n", "</svg>", "-->", "<![CDATA[", "<p>a b\n",
])
def test_the_time_is_linear(piece: str) -> None:
    def work(length: int) -> None:
        load("a.html", "".join(piece.replace("%d", str(number)) for number in range(length // len(piece))).encode())

    assert takes_linear_time(work, 25_000)
