"""HTML: what is text, where it stood, and how it was encoded."""

from __future__ import annotations

import re

import pytest
from anchors import line_of, lines_of
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.errors import Failure
from rag_stdlib.text.loaders import Loaded, load


def html(source: str) -> Loaded:
    return load("a.html", source.encode())


@pytest.mark.parametrize(("source", "text"), [
    ("<h1>Title</h1><script>x()</script><style>p{}</style><p>Hello&nbsp;<b>world</b> &amp; friends</p>Next   line",
     "Title\nHello\xa0world & friends\nNext line"),
    # the list of std/rag's faults: each of these lost or garbled text there
    ("<scripture>In the beginning</scripture> was", "In the beginning was"),
    ("<stylesheet>s</stylesheet><templates>t</templates>", "st"),
    ("a<br/>b<br>c<BR />d", "a\nb\nc\nd"),
    ("&amp;lt; &amp;amp;amp; &lt;b&gt;", "&lt; &amp;amp; <b>"),
    ("&eacute;&mdash;&hellip;&#8364;&#x20ac;&copy 2024", "é—…€€© 2024"),
    ("a<!-- <b>hidden</b> > still hidden -->b", "ab"),
    ("a<!-- x --!>b<!-->c<!--->d<!---->e", "abcde"),
    ("1 < 2 and 3 > 2, a <3 b", "1 < 2 and 3 > 2, a <3 b"),
    ('<p title="a>b" class=\'c>d\'>shown</p>', "shown"),
    ("before<script>if (a < b) '</p>' unclosed", "before"),
    ("<script><!-- <script> </script> hidden --></script>after", "after"),
    ("<script><!--><script></script>after", "after"),
    ("<script>a</scripture>b</script >c", "c"),
    ("<SCRIPT>x</ScRiPt\n>y<STYLE>z</STYLE>", "y"),
    ("<script/>x</script>y", "y"),
    # what is not shown
    ("a<template><p>b<template>c</template>d</p></template>e</template>f", "aef"),
    ("a<noscript><img src=x>Enable JavaScript</noscript>b", "ab"),
    ("<iframe><p>x</iframe><noframes>y</noframes><noembed>z</noembed>w", "w"),
    ("a<!doctype html>b<?php echo '<p>' ?>c<!x>d</ x>e</>f", "ab' ?>cdef"),
    ("<![CDATA[x]]>y", "y"),
    ("<svg><![CDATA[a<b]]><title>s</title><script>h</script><style>i</style><path/>t</svg>u", "a<bstu"),
    ("<svg><style><p>out</p></style>b", "out\nb"),
    ("<svg><foreignobject><p>x<script>1<2</script></p></foreignobject></svg><title>t</title>y", "x\ny"),
    ("<math><mi>x</mi><mo>&lt;</mo></math><div><svg><g></div><script>1<2</script>z", "x<\nz"),
    ("<svg><title><![CDATA[a<b]]></title><desc><i><![CDATA[c]]></i></desc><desc><![CDATA[d]]></desc></svg>e", "a<bde"),
    ("<section><svg><g></section><script>1<2</script>j", "j"),
    ("<i><textarea>k</textarea><svg></i></textarea><![CDATA[<]]>l", "k\nl"),
    ("<svg></div><![CDATA[<]]>m</svg>", "<m"),
    ("<svg><a></b></a><script><g>h</g></script></svg>i", "i"),
    # blocks, cells, white space
    ("<ul><li>a<li>b</ul><dl><dt>c<dd>d</dl><hr>e<section>f</section>g", "a\nb\nc\nd\ne\nf\ng"),
    ("<table>\n<tr>\n<td>a</td>\n<td>b <i>c</i></td>\n</tr>\n<tr><th>d<th>e</tr></table>f", "a\tb c\nd\te\nf"),
    ("  a \n\t b\r\nc  <i> d </i> e<p> f </p>", "a b c d e\nf"),
    ("wor<b>d</b>s, n<wbr>o gap", "words, no gap"),
    ("<pre>\n  a\n\tb  \n\n c</pre>d", "  a\n\tb  \n\n c\nd"),
    ("<pre>\n\nx</pre>", "x"),
    ("a<pre>\n\nx</pre>", "a\n\nx"),
    ("<pre>a<b>\n b</b></pre> c  d", "a\n b\nc d"),
    ("<textarea>\n a\n  <b> &lt;</textarea>c", " a\n  <b> <\nc"),
    ("<xmp>a\n <b>&lt;</xmp>c<plaintext>d\n</plaintext>", "a\n <b>&lt;\nc\nd\n</plaintext>"),
    ("a&#10;b&#32; &#32;c&#13;d<pre>e&#10;f&#13;g</pre>", "a b c d\ne\nf\ng"),
    ("</pre>a  b</template>c", "a bc"),
    ("<p>a</p>\n<pre> </pre>\n", "a"),
    ("", ""),
    ("<", "<"), ("a</", "a</"), ("a<!", "a"), ("a<?", "a"), ("a<b", "a"), ("a</b x='", "a"), ("<a b=>c", "c"),
    ("<a =x ==y / b = c/>d", "d"), ("<a x=\"1\"y='2'z>d", "d"), ("<a/b/>d", "d"),
])
def test_the_text_is_what_a_reader_sees(source: str, text: str) -> None:
    assert html(source).text == text


@pytest.mark.parametrize(("source", "title"), [
    ("<title>  A &amp; <b>B</b>\n c </title><p>x", "A & <b>B</b> c"),
    ("<TITLE>one</TITLE><title>two</title>x", "one"),
    ("<title></title><title>two</title>x", "two"),
    ("<template><title>no</title></template>x", None),
    ("<svg><title>no</title></svg><p>x", None),
    ("<title>&#0;</title>x", "\ufffd"),
])
def test_the_title_is_metadata_and_no_text(source: str, title: str | None) -> None:
    loaded = html(source)
    assert loaded.metadata == ({} if title is None else {"title": title})
    assert loaded.text.splitlines()[-1] == "x"


@pytest.mark.parametrize(("source", "what", "line"), [
    ("a\n<!-- open", "comment", "2"), ("a\n\n<p title='x", "<p> tag", "3"), ("a\r\n<script>x", "<script>", "2"),
    ("<title>x", "<title>", "1"), ("\n<svg><![CDATA[x", "CDATA section", "2"), ("a<style></style", "<style>", "1"),
    ("a<style></style x", "<style> tag", "1"),
])
def test_what_nothing_closes_is_noted_with_its_line(source: str, what: str, line: str) -> None:
    assert html(source).notes == (f"line {line}: nothing closes the {what} there, so it swallows the rest of the file",)


def test_xhtml_closes_its_empty_elements_and_has_cdata() -> None:
    source = "<?xml version='1.0'?><html><head><title/><script src='x'/></head><p>a<![CDATA[<&amp;]]></p></html>"
    loaded = load("a.xhtml", source.encode())
    assert (loaded.text, loaded.media_type, loaded.notes) == ("a<&amp;", "application/xhtml+xml", ())
    assert load("a.HTM", b"x").media_type == "text/html"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_each_part_is_on_its_line_in_a_long_file(end: str) -> None:
    rows = ["<!doctype html><title>t</title>", "<!--", "-->", "<script>", "1<2", "</script>", "<pre>", "w7", " w8", "</pre>"]
    blocks = [*range(10, 1_000, 5), *range(65_000, 67_000, 5)]
    for number in blocks:
        rows += [""] * (number - len(rows))
        rows += ["<p class='a", f"b'>w{number + 1} and", f"w{number + 2} <b>w{number + 2}", "", f"</b>w{number + 4}<br/>w{number + 4}"]
    rows.append("<textarea>")
    start = len(rows)
    rows += [f"w{start}", f" w{start + 1} &amp;", "</textarea>", f"w{start + 3}"]
    loaded = html(end.join(rows))
    assert start > 65_535
    lines = lines_of(loaded)
    words = list(re.finditer(r"w(\d+)", loaded.text))
    assert len(words) == 2 + 5 * len(blocks) + 3
    assert [int(word[1]) + 1 for word in words] == [lines[word.start()] for word in words]


SOUP = st.lists(st.sampled_from([
    "w", " w ", "\n", "\nw\n w", "<p>", "</p>", "<b>", "<br/>", "<pre>", "</pre>", "<td>", "<tr>", "<!-- w\n -->", "<i\n>",
    "<textarea>\nw\n</textarea>", "<template>\n", "</template>", "<script>\nw</script>", "&amp;", "&#10;", "&#13;w", "<", "<title>\nt</title>",
    "<svg>", "</svg>", "<![CDATA[\nw]]>",
]), max_size=25)


@given(SOUP)
def test_every_word_is_on_the_line_it_came_from(pieces: list[str]) -> None:
    source = ""
    for number, piece in enumerate(pieces):
        for part in re.split("(w)", piece):
            source += f"w{source.count(chr(10)) + 1}.{number}" if part == "w" else part
    loaded = html(source)
    for match in re.finditer(r"w(\d+)\.", loaded.text):
        assert line_of(loaded, match.start()) == int(match[1])
    assert [at for at, _ in loaded.lines] == sorted({at for at, _ in loaded.lines})


@pytest.mark.parametrize(("data", "text", "codec"), [
    ('<meta charset="windows-1252">© “q” €'.encode("cp1252"), "© “q” €", "cp1252"),
    ("<meta charset=iso-8859-1><p>“é”".encode("cp1252"), "“é”", "cp1252"),
    ('<META http-equiv="Content-Type" content="text/html; charset=koi8-r">Привет'.encode("koi8-r"), "Привет", "koi8-r"),
    ("<meta charset='Shift_JIS'>日本①".encode("cp932"), "日本①", "cp932"),
    ("<meta charset=gb2312>营造".encode("gb18030"), "营造", "gb18030"),
])
def test_a_declared_charset_is_used_where_utf8_fails(data: bytes, text: str, codec: str) -> None:
    loaded = load("a.html", data)
    assert loaded.text == text
    assert loaded.notes == (f"decoded as {codec}, by its <meta charset>",)


@pytest.mark.parametrize("data", [
    b"caf\xe9",
    b"<meta charset=utf-8>caf\xe9",
    b"<meta charset=utf-16>caf\xe9",
    b"<meta charset=utf-16-le>caf\xe9",
    b"<meta charset=no-such>caf\xe9",
    b"<meta charset=hex>caf\xe9",
    b"<meta charset=rot13>caf\xe9",
    b"<meta charset=unicode_escape>caf\xe9",
    b"<meta charset=raw-unicode-escape>caf\xe9",
    b"<meta charset=idna>caf\xe9",
    b"<meta charset=windows-1252>\x81\xe9",
    b"<meta charset=us-ascii>\x9d",
    b"<!-- <meta charset=koi8-r> -->caf\xe9",
    b" " * 1100 + b"<meta charset=koi8-r>caf\xe9",
])
def test_r85_no_usable_charset_is_not_utf8(data: bytes) -> None:
    with pytest.raises(Failure) as caught:
        load("a.html", data)
    assert caught.value.error.code == "not_utf8"


def test_utf8_beats_the_declared_charset() -> None:
    loaded = load("a.html", "<meta charset=koi8-r>é".encode())
    assert (loaded.text, loaded.notes) == ("é", ())


def test_a_mark_beats_the_declared_charset() -> None:
    with pytest.raises(Failure) as caught:
        load("a.html", b"\xef\xbb\xbf<meta charset=koi8-r>caf\xe9")
    assert caught.value.error.code == "not_utf8"


@pytest.mark.parametrize("source", ["spe\x00ci", "<pre>a\x00b</pre>", "<t\x00>&#0;", "&#xD800;\x00"])
def test_r86_nul_never_comes_out(source: str) -> None:
    assert "\x00" not in html("long enough to be text: " + source).text
    assert "\ufffd" in html("long enough to be text: " + source).text


def test_binary_under_an_html_name_is_refused() -> None:
    with pytest.raises(Failure) as caught:
        load("a.html", b"<meta charset=koi8-r>\x00\xe9")
    assert caught.value.error.code == "file_unsupported"
