"""What a repository holds for its own sake and nobody asks about: licences, templates, badges (RAG service contract §5.4).

What is left out is left out of search alone; the document keeps all of its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, TypeAlias

from rag_stdlib.text.mdblocks import Block, blocks
from rag_stdlib.text.mdlines import flat

Span: TypeAlias = tuple[int, int]

_LICENCE_FILE: Final = re.compile(r"(?:licen[cs]e|copying|notice)(?:[._-].*)?", re.IGNORECASE | re.ASCII | re.DOTALL)
_HOST_FOLDER: Final = ".github"

_BEGIN: Final = "%CopyrightBegin%"
_END: Final = "%CopyrightEnd%"
_TICKS: Final = re.compile("`+")
_MARK: Final = re.compile(rf"`+|<!--|{_BEGIN}|{_END}")
_LICENCE: Final = re.compile(
    rf"{_BEGIN}|licensed under|license-identifier|copyright|permission is hereby granted|general public license",
    re.IGNORECASE | re.ASCII)
_LINE_END: Final = re.compile(r"\r\n|\r|\n")

_LEAST_LETTERS: Final = 20
_BRACKET: Final = re.compile(r"\\.|[\[\]()]", re.DOTALL)
_DEFINITION: Final = re.compile(r"^ {0,3}\[(?!\^)[^\[\]\n]+\]:.*", re.MULTILINE)
_TAG: Final = re.compile(r"<[/!?]?[A-Za-z][^<>]*>")
_MARKUP: Final = re.compile(r"[\[<]|://|www\.")  # without any of these, a text holds nothing that does not count
_URL: Final = re.compile(r"(?<![A-Za-z0-9+.-])(?:[A-Za-z][A-Za-z0-9+.-]{1,15}://|www\.)[!-;=?-~]*")


def is_boilerplate_path(path: str) -> bool:
    """Tell whether the file at this path in its repository is not ingested: a licence text, or anything in a ``.github`` folder."""
    segments = path.split("/")
    return _HOST_FOLDER in segments or _LICENCE_FILE.fullmatch(segments[-1]) is not None


def licence_spans(text: str) -> list[Span]:
    """Find the licence notices of a Markdown text: half-open spans in code points, ascending and disjoint.

    These are the HTML comments that speak of a licence or a copyright, each with one line end behind it, and what stands from
    a bare ``%CopyrightBegin%`` to its ``%CopyrightEnd%``. What is code is none of them, whether fenced, indented or between
    backticks: a page about licence headers shows them. Nor is a comment that never ends, or that ends behind the paragraph
    in whose midst it begins. Time is linear in the text.
    """
    found: list[Span] = []
    begun = -1
    source = flat(text)
    if not _LICENCE.search(source):
        return found
    for block in blocks(source):
        if block.kind == "fence":
            begun = -1
        elif block.kind != "indented":
            for mark, start, end in _marks(source, block):
                if mark == _BEGIN:
                    begun = start if begun < 0 else begun
                elif mark == _END and begun >= 0:
                    while found and found[-1][0] >= begun:
                        found.pop()
                    found.append((begun, end))
                    begun = -1
                elif mark == "<!--" and _LICENCE.search(source, start, end):
                    line_end = _LINE_END.match(text, end)
                    found.append((start, line_end.end() if line_end else end))
    return found


def _marks(source: str, block: Block) -> Iterator[tuple[str, int, int]]:
    """Yield the copyright marks and the comments of a block, outside of code between backticks."""
    at, unclosed = block.start, False
    ticks = _ticks(source, block) if block.kind != "html" else {}
    while mark := _MARK.search(source, at, block.end):
        at = mark.end()
        if mark[0] == "<!--":
            closing = -1 if unclosed else source.find("-->", mark.start() + len("<!"), block.end)
            unclosed = closing < 0
            if not unclosed:
                at = closing + len("-->")
                yield mark[0], mark.start(), at
        elif mark[0] in {_BEGIN, _END}:
            yield mark[0], mark.start(), at
        else:
            at = next((end for end in ticks.get(len(mark[0]), ()) if end > at), at)


def _ticks(source: str, block: Block) -> dict[int, Iterator[int]]:
    """Return where the runs of backticks in a block end, by their length: code ends with a run as long as its first."""
    ends: dict[int, list[int]] = {}
    if "`" in source[block.start:block.end]:
        for run in _TICKS.finditer(source, block.start, block.end):
            ends.setdefault(len(run[0]), []).append(run.end())
    return {length: iter(places) for length, places in ends.items()}


def has_substance(text: str) -> bool:
    """Tell whether a chunk says anything: 20 letters (Unicode) besides images, links, tags, comments and bare addresses.

    In fenced code nothing is markup, so that there every letter counts. Time is linear in the text.
    """
    if not _MARKUP.search(text):
        return _letters(text) >= _LEAST_LETTERS
    source = flat(text)
    letters = 0
    for block in blocks(source):
        content = source[block.start:block.end]
        if block.kind != "fence":
            content = _URL.sub(" ", _TAG.sub(" ", _without_comments(_without_links(content))))
        letters += _letters(content)
        if letters >= _LEAST_LETTERS:
            return True
    return False


def _letters(content: str) -> int:
    """Count letters, no further than to as many as are asked for."""
    return sum(1 for _ in islice(filter(str.isalpha, content), _LEAST_LETTERS))


def _without_links(content: str) -> str:
    """Take out what ``[label](address)``, ``[label][reference]`` and ``[label]: address`` hold, labels of images among them."""
    content = _DEFINITION.sub(" ", content)
    links: list[Span] = []
    open_brackets: dict[str, list[Span]] = {"[": [], "(": []}  # where each stands, and where the link begins that it may end
    label_start, label_end = -1, -1
    for bracket in _BRACKET.finditer(content):
        at = bracket.start()
        if bracket[0] in open_brackets:
            open_brackets[bracket[0]].append((at, label_start if at == label_end else -1))
        elif len(bracket[0]) == 1 and (pending := open_brackets["[" if bracket[0] == "]" else "("]):
            opened, link = pending.pop()
            if link >= 0:
                while links and links[-1][0] >= link:
                    links.pop()
                links.append((link, at + 1))
            elif bracket[0] == "]":
                label_start, label_end = opened, at + 1
    pieces, at = [], 0
    for start, end in links:
        pieces.append(content[at:start])
        at = end
    return " ".join([*pieces, content[at:]])


def _without_comments(content: str) -> str:
    pieces, at = [], 0
    while (start := content.find("<!--", at)) >= 0 and (end := content.find("-->", start + len("<!"))) >= 0:
        pieces.append(content[at:start])
        at = end + len("-->")
    return " ".join([*pieces, content[at:]])
