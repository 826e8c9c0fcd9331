"""The tokens of an HTML file with their offsets, as the HTML standard's tokenizer sees them.

This is the part of WHATWG HTML, section 13.2.5, that decides what is text: tags, comments, raw text elements, script
escapes and CDATA sections. It is no tree builder: text is in source order, and every step is linear in the input,
which tree building is not. `docs/decisions/0007-html-parser.md` says why it is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from rag_stdlib.text.loaders.foreign import ForeignContent

_SPACE: Final = r"\t\n\f\r "
_NAME: Final = re.compile(rf"[^{_SPACE}/>]+")
_BETWEEN: Final = re.compile(rf"[{_SPACE}/]*")
_ATTRIBUTE: Final = re.compile(rf"=?[^{_SPACE}/>=]*([{_SPACE}]*=[{_SPACE}]*)?")
_UNQUOTED: Final = re.compile(rf"[^{_SPACE}>]*")
_COMMENT_END: Final = re.compile(r"--!?>")
_SCRIPT_STEP: Final = re.compile(rf"<!--|-->|<(/?)script(?=[{_SPACE}/>])", re.IGNORECASE | re.ASCII)
_RCDATA: Final = frozenset({"title", "textarea"})
_RAW: Final = _RCDATA | {"style", "xmp", "iframe", "noembed", "noframes", "noscript"}
_CLOSE_OF: Final = {name: re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE | re.ASCII) for name in _RAW}


class Token(NamedTuple):
    """A start tag, an end tag, or a run of text.

    `name` is the tag's name in lower case, or for text the raw text element it fills ("" outside of one). `text` is the
    source of the text, and `references` says whether character references in it are to be decoded. `at` is the offset.
    """

    kind: Literal["start", "end", "text"]
    name: str
    text: str
    references: bool
    at: int


class Tokenizer:
    """One pass over `source`, whose line ends are LF.

    With `xml`, an element that closes itself (`<script/>`) is empty and CDATA sections are text everywhere, as XHTML
    has it. After the pass `cut` names the construct that nothing closed and that so swallowed the rest, and its offset.
    """

    def __init__(self, source: str, *, xml: bool = False) -> None:
        """Prepare the pass."""
        self._source = source
        self._xml = xml
        self._foreign = ForeignContent()
        self.cut: tuple[str, int] | None = None

    def __iter__(self) -> Iterator[Token]:
        """Yield the tokens in source order."""
        source, start, at = self._source, 0, 0
        while (opening := source.find("<", at)) >= 0:
            hidden = self._foreign.hidden  # before the markup changes it
            step = self._markup(opening)
            if step is None:  # a bare `<` is text
                at = opening + 1
                continue
            if start < opening and not hidden:
                yield Token("text", "", source[start:opening], references=True, at=start)
            start = at = step[0]
            yield from step[1]
        if start < len(source) and not self._foreign.hidden:
            yield Token("text", "", source[start:], references=True, at=start)

    def _markup(self, opening: int) -> tuple[int, list[Token]] | None:
        """Read what `<` at `opening` begins: the offset behind it and its tokens; None when it begins nothing."""
        first, second = self._source[opening + 1 : opening + 2], self._source[opening + 2 : opening + 3]
        if _is_letter(first):
            return self._start_tag(opening)
        if first == "/" and second:
            return self._end_tag(opening) if _is_letter(second) else self._bogus(opening, opening + 2)
        if first == "!":
            return self._declaration(opening)
        return self._bogus(opening, opening + 1) if first == "?" else None

    def _bogus(self, opening: int, at: int) -> tuple[int, list[Token]]:
        """Skip a bogus comment or a doctype, which the first `>` ends."""
        return self._behind(self._source.find(">", at), 1, "comment", opening), []

    def _behind(self, found: int, length: int, what: str, opening: int) -> int:
        """Return the offset behind what was found, or the end of the source where nothing was."""
        if found >= 0:
            return found + length
        self.cut = (what, opening)
        return len(self._source)

    def _declaration(self, opening: int) -> tuple[int, list[Token]]:
        source, body = self._source, opening + 4
        if source.startswith("<!--", opening):
            if source.startswith(">", body) or source.startswith("->", body):
                return source.index(">", body) + 1, []
            end = _COMMENT_END.search(source, body)
            return (end.end(), []) if end else (self._behind(-1, 0, "comment", opening), [])
        body = opening + len("<![CDATA[")
        if source.startswith("<![CDATA[", opening) and (self._xml or self._foreign.has_cdata):
            end_at = source.find("]]>", body)
            behind = self._behind(end_at, 3, "CDATA section", opening)
            text = source[body : end_at if end_at >= 0 else behind]
            hidden = self._foreign.hidden or not text
            return behind, [] if hidden else [Token("text", "", text, references=False, at=body)]
        return self._bogus(opening, opening + 2)

    def _start_tag(self, opening: int) -> tuple[int, list[Token]]:
        name, behind, self_closing = self._tag(opening, opening + 1)
        if self.cut:
            return behind, []
        token = Token("start", name, "", references=False, at=opening)
        if self._foreign.start(name, self_closing=self_closing):
            return behind, [token]
        if self._xml and self_closing:
            return behind, [token, token._replace(kind="end")]
        return self._raw(token, behind)

    def _end_tag(self, opening: int) -> tuple[int, list[Token]]:
        name, behind, _ = self._tag(opening, opening + 2)
        if self.cut:
            return behind, []
        self._foreign.end(name)
        return behind, [Token("end", name, "", references=False, at=opening)]

    def _tag(self, opening: int, at: int) -> tuple[str, int, bool]:
        """Read a tag whose name starts at `at`: the name, the offset behind its `>`, and whether it closes itself."""
        source = self._source
        name = _span(_NAME, source, at)
        at += len(name)
        while True:
            gap = _span(_BETWEEN, source, at)
            at += len(gap)
            if at >= len(source):
                return name, self._behind(-1, 0, f"<{name[:40]}> tag", opening), False
            if source[at] == ">":
                return _lower(name), at + 1, gap.endswith("/")
            at = self._attribute(at)

    def _attribute(self, at: int) -> int:
        """Return the offset behind the attribute that starts at `at`."""
        source = self._source
        match = _ATTRIBUTE.match(source, at)
        at = match.end() if match else at
        if match is None or match[1] is None or at >= len(source):
            return at
        if source[at] in "\"'":
            end = source.find(source[at], at + 1)
            return end + 1 if end >= 0 else len(source)
        return at + len(_span(_UNQUOTED, source, at))

    def _raw(self, token: Token, start: int) -> tuple[int, list[Token]]:
        """Add to the start tag of a raw text element its content and end tag (sections 13.2.5.2 to 13.2.5.31)."""
        name, source = token.name, self._source
        if name == "plaintext":
            return len(source), [token, *_content(name, source[start:], start)]
        if name == "script":
            close = self._script_close(start)
        elif name in _RAW:
            found = _CLOSE_OF[name].search(source, start)
            close = found.start() if found else -1
        else:
            return start, [token]
        if close < 0:
            behind = self._behind(-1, 0, f"<{name}>", token.at)
            return behind, [token, *_content(name, source[start:], start)]
        _, behind, _ = self._tag(close, close + 2)
        self._foreign.end(name)
        end = Token("end", name, "", references=False, at=close)
        return behind, [token, *_content(name, source[start:close], start), end]

    def _script_close(self, at: int) -> int:
        """Find the end tag of a script, minding its escaped states (sections 13.2.5.18 to 13.2.5.31); -1 for none."""
        escaped = double = False
        while step := _SCRIPT_STEP.search(self._source, at):
            at = step.end()
            if step[0] == "<!--":
                escaped = True
                at -= 2  # its dashes can be those of `-->`
            elif step[0] == "-->":
                escaped = double = False
            elif not step[1]:
                double = escaped
            elif double:
                double = False
            else:
                return step.start()
        return -1


def _content(name: str, text: str, at: int) -> list[Token]:
    return [Token("text", name, text, references=name in _RCDATA, at=at)] if text else []


def _span(pattern: re.Pattern[str], source: str, at: int) -> str:
    """Return what `pattern` matches at `at`, which may be nothing."""
    match = pattern.match(source, at)
    return match[0] if match else ""


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _lower(name: str) -> str:
    """Lower the ASCII letters only: a few others would become ASCII."""
    return name.lower() if name.isascii() else name
