"""HTML: the text a reader sees, one line a block, with the original line of every part of it."""

from __future__ import annotations

import codecs
import re
from typing import Final

from rag_stdlib.errors import Failure
from rag_stdlib.records import FrozenDict, Scalar
from rag_stdlib.text.loaders.charref import decode_references
from rag_stdlib.text.loaders.decoding import Decoded, decode, has_mark, scrub, scrub_note
from rag_stdlib.text.loaders.html_tokens import Token, Tokenizer
from rag_stdlib.text.loaders.loaded import Loaded

MEDIA_TYPES: Final = {".html": "text/html", ".htm": "text/html", ".xhtml": "application/xhtml+xml"}

_BLOCKS: Final = frozenset({
    "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog", "dir",
    "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frameset", "h1", "h2", "h3", "h4",
    "h5", "h6", "head", "header", "hgroup", "hr", "html", "legend", "li", "listing", "main", "menu", "nav", "ol",
    "optgroup", "option", "p", "plaintext", "pre", "search", "section", "select", "summary", "table", "tbody",
    "textarea", "tfoot", "thead", "tr", "ul", "xmp",
})
_CELLS: Final = frozenset({"td", "th"})
_PREFORMATTED: Final = frozenset({"pre", "listing", "textarea"})
_VERBATIM: Final = frozenset({"textarea", "xmp", "plaintext"})
_WHITE: Final = re.compile(r"[\t\n\f\r ]+")
_NOTHING, _GAP, _CELL, _BREAK = range(4)
_SEPARATORS: Final = ("", " ", "\t", "\n")

_PRESCAN_BYTES: Final = 1024
_COMMENT: Final = re.compile(rb"<!--.*?-->", re.DOTALL)
_CHARSET: Final = re.compile(rb"<meta[\s/][^>]*?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
# WHATWG Encoding, section 4.2: these labels mean the larger encodings.
_MEANT: Final = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs",
}
_NO_CHARSETS: Final = frozenset({"unicode-escape", "raw-unicode-escape", "punycode", "idna", "undefined", "mbcs", "oem"})


def load(name: str, data: bytes, extension: str) -> Loaded:
    """Read an HTML file as its text.

    A block starts a line, cells of a row are parted by a tab, white space collapses outside of `<pre>` and
    `<textarea>`. Left out: scripts, styles, templates, `<noscript>`, frames' fallbacks and comments. The first
    `<title>` is `metadata["title"]`. Raises `Failure` as `decoding.decode` does.
    """
    text, notes = _decode(name, data)
    source = text.replace("\r\n", "\n").replace("\r", "\n")
    tokenizer = Tokenizer(source, xml=extension == ".xhtml")
    page = _Page(source)
    for token in tokenizer:
        page.take(token)
    if tokenizer.cut:
        what, at = tokenizer.cut
        line = source.count("\n", 0, at) + 1
        notes += (f"line {line:,}: nothing closes the {what} there, so it swallows the rest of the file",)
    found, lines = page.result()
    clean, replaced = scrub(found)
    metadata: dict[str, Scalar] = {"title": page.title} if page.title else {}
    return Loaded(clean, MEDIA_TYPES.get(extension, "text/html"), FrozenDict(metadata), lines,
                  notes=notes + scrub_note(replaced))


def _decode(name: str, data: bytes) -> Decoded:
    """Decode by byte order mark, then as UTF-8, then by the charset that a `<meta>` near the start declares."""
    try:
        return decode(name, data)
    except Failure as failure:
        if failure.error.code != "not_utf8" or has_mark(data) or (codec := _declared_codec(data)) is None:
            raise
        try:
            clean, replaced = scrub(data.decode(codec))
        except (LookupError, ValueError):  # a codec for something else than text, or bytes that it refuses
            raise failure from None
        return Decoded(clean, (f"decoded as {codec}, by its <meta charset>", *scrub_note(replaced)))


def _declared_codec(data: bytes) -> str | None:
    """Return the codec of the charset declared in the first 1024 bytes; None for none, an unknown or a Unicode one."""
    declared = _CHARSET.search(_COMMENT.sub(b"", data[:_PRESCAN_BYTES]))
    if declared is None:
        return None
    try:
        codec = codecs.lookup(declared[1].decode("ascii", "replace")).name
    except LookupError:
        return None
    return None if codec.startswith("utf") or codec in _NO_CHARSETS else _MEANT.get(codec, codec)


class _Page:
    """The text that grows from the tokens, and the anchors that lead back to their lines."""

    def __init__(self, source: str) -> None:
        self.title = ""
        self._source = source
        self._seen = 0
        self._line = 1  # of the source, at the offset `_seen`
        self._parts: list[str] = []
        self._length = 0
        self._anchors: list[tuple[int, int]] = []
        self._implied = 0  # the line that the anchors so far give the end of the text
        self._pending = _NOTHING
        self._templates = 0
        self._preformatted = 0
        self._skip_newline = False

    def take(self, token: Token) -> None:
        """Add a token."""
        if token.kind == "text":
            self._text(token)
            self._skip_newline = False
            return
        step = 1 if token.kind == "start" else -1
        if token.name == "template":
            self._templates = max(0, self._templates + step)
        if self._templates:
            return
        if token.name in ("pre", "listing"):
            self._preformatted = max(0, self._preformatted + step)
        self._skip_newline = step > 0 and token.name in _PREFORMATTED
        if token.name in _BLOCKS:
            self._pending = _BREAK
        elif token.name in _CELLS and step > 0:
            self._pending = max(self._pending, _CELL)

    def result(self) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return the text without white space at its end, and its anchors."""
        text = "".join(self._parts).rstrip("\t\n\f\r ")
        return text, tuple(anchor for anchor in self._anchors if anchor[0] < len(text))

    def _text(self, token: Token) -> None:
        if self._templates:
            return
        if token.name == "title":
            self.title = self.title or scrub(" ".join(decode_references(token.text).split()))[0]
        elif token.name in _VERBATIM or (self._preformatted and not token.name):
            self._verbatim(token)
        elif not token.name:
            self._flowing(token)

    def _line_of(self, at: int) -> int:
        """Return the source line of an offset; offsets come in ascending order."""
        self._line += self._source.count("\n", self._seen, at)
        self._seen = at
        return self._line

    def _flowing(self, token: Token) -> None:
        for line, row in enumerate(token.text.split("\n"), start=self._line_of(token.at)):
            if line > self._line:
                self._pending = max(self._pending, _GAP)
            words = _WHITE.sub(" ", decode_references(row) if token.references else row)
            if words.startswith(" "):
                self._pending = max(self._pending, _GAP)
            self._put(words.strip(" "), line)
            if words.endswith(" "):
                self._pending = max(self._pending, _GAP)

    def _verbatim(self, token: Token) -> None:
        text = token.text
        line = self._line_of(token.at)
        for number, row in enumerate(text.split("\n"), start=line):
            if number > line and not (number == line + 1 and self._skip_newline and text.startswith("\n")):
                self._break()
            shown = decode_references(row) if token.references else row
            for position, piece in enumerate(shown.replace("\r", "\n").split("\n")):
                if position:
                    self._break()
                self._put(piece, number)

    def _break(self) -> None:
        """Write a line break that is part of the text."""
        if self._length:
            self._separate()
            self._write("\n")

    def _put(self, piece: str, line: int) -> None:
        """Write a piece that stems from one source line, behind the separator that is due, and anchor it."""
        if not piece:
            return
        self._separate()
        if line != self._implied:
            self._anchors.append((self._length, line))
            self._implied = line
        self._write(piece)

    def _separate(self) -> None:
        pending, self._pending = self._pending, _NOTHING
        if pending and self._length and not self._parts[-1].endswith("\n"):
            self._write(_SEPARATORS[pending])

    def _write(self, piece: str) -> None:
        self._parts.append(piece)
        self._length += len(piece)
        self._implied += piece == "\n"
