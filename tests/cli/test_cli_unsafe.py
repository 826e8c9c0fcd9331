"""R202: what a document, an id, a source or a file name holds never reaches the terminal raw, in any command."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib import Runtime, SourceDocument, rag_ingest_document
from rag_stdlib.records import FrozenDict

Write = Callable[..., Path]
Rag = Any  # see conftest

POINTS = (
    *range(1, 0x20), *range(0x7F, 0xA0),  # C0 without NUL, which no document holds, DEL, C1
    0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A),  # bidirectional
    0x180E, *range(0x200B, 0x200E), *range(0x2060, 0x2066), *range(0x206A, 0x2070), 0xFEFF,  # zero width
    0x2028, 0x2029, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080),  # separators, interlinear, tags
)
EVIL = "".join(f"refund{chr(point)}fund" for point in POINTS) + " \x1b]0;title\x07 \x1b[2J <script>alert(1)</script>"
UNSAFE = re.compile("[" + "".join(re.escape(chr(point)) for point in POINTS if point not in (9, 10)) + "]")


def safe(outcome: Any) -> bool:
    return not UNSAFE.search(outcome.out) and not UNSAFE.search(outcome.err) and "\t" not in outcome.err


def test_r202_a_document_full_of_every_such_character(rag: Rag, write: Write, folder: Path) -> None:
    write("docs/evil.txt", EVIL)
    write("docs/evil.md", f"# {EVIL}\n\n{EVIL}\n")
    write("docs/evil.html", f"<title>{EVIL}</title><p>{EVIL}")
    named = f"id {EVIL[:400]}"
    with Runtime(root=folder):
        evil = SourceDocument(named, f"source {EVIL}", EVIL, f"text/{EVIL[:100]}", FrozenDict({"key" + EVIL[:100]: EVIL}))
        rag_ingest_document("x.db", evil, 1000).unwrap()
    commands: list[tuple[str, ...]] = [
        ("ingest", "x.db", "docs"), ("ingest", "x.db", "docs", "--dry-run"), ("search", "x.db", "refund"), ("search", "x.db", EVIL),
        ("search", "x.db", "refund", "--doc-id", EVIL[:500]), ("search", "x.db", "refund", "--where", EVIL[:500]),
        ("get", "x.db", named), ("get", "x.db", f"{named}:0"), ("get", "x.db", EVIL), ("get", "x.db", "docs/evil.md"),
        ("stats", "x.db"), ("stats", EVIL[:100]), ("check", "x.db"), ("compact", "x.db"), ("doctor", "x.db"), ("doctor", EVIL[:100]),
        ("reembed", "x.db"), ("import", "x.db", "y.db"), ("import", EVIL[:100], "y.db"), ("--config", EVIL[:100], "stats", "x.db"),
        ("ingest", "x.db", EVIL[:100]), ("search", "x.db", "refund", "--mode", EVIL[:100]), (EVIL[:100],), (f"--{EVIL[:100]}",),
        ("answer", "x.db", "refund"), ("answer", "x.db", EVIL), ("answer", "x.db", "refund", "--judge", "none", "--claims", "whole"), ("answer", EVIL[:100], "x"),
        ("answer", "x.db", "refund", "--certificate", EVIL[:100], "--keys", EVIL[:100]), ("verify", EVIL[:100], "--trust", EVIL[:100]), ("attack", EVIL[:100], "--trust", EVIL[:100]),
        ("keys", "show", EVIL[:100]), ("keys", "new", EVIL[:100], "--name", EVIL[:100]), ("log", "check", EVIL[:100]), ("log", "append", "a.log", EVIL[:100], "--keys", EVIL[:100]),
        ("log", "monitor", EVIL[:100], EVIL[:100], "--trust", EVIL[:100]), ("delete", "x.db", EVIL), ("delete", "x.db", named),
    ]
    for command in commands:
        for form in ((), ("--json",)):
            outcome = rag(*command, *form)
            assert safe(outcome), command
            assert "Traceback" not in outcome.err
    assert rag("search", "x.db", "refund", "--json").code == 0


def test_r202_what_is_shown_still_has_the_words(rag: Rag, write: Write) -> None:
    write("a.txt", "before \x1b[31mrefund\x1b[0m \u202eafter\u202c <b>bold</b>\r\nnext")
    rag("ingest", "x.db", "a.txt")
    assert "   before \ufffd[31mrefund\ufffd[0m \ufffdafter\ufffd <b>bold</b> next\n" in rag("search", "x.db", "bold").out
    assert rag("get", "x.db", "a.txt").out == "before \ufffd[31mrefund\ufffd[0m \ufffdafter\ufffd <b>bold</b>\nnext\n"
    assert rag("get", "x.db", "a.txt", "--json").json["text"].startswith("before \x1b[31m"), "JSON keeps what is stored, in escapes"


@pytest.mark.parametrize("name", ["esc\x1b[2J.txt", "bidi\u202etxt.exe", "bell\x07.md", "csi\x9b31m.txt", "tag\U000e0041.txt", "a\rb.txt"])
def test_r202_a_file_name(rag: Rag, write: Write, name: str) -> None:
    write(f"docs/{name}", "refund")
    write(f"bad/{name}", b"\xff")
    for command in (("ingest", "x.db", "docs", "bad"), ("ingest", "x.db", f"docs/{name}"), ("search", "x.db", "refund"),
                    ("get", "x.db", f"docs/{name}"), ("delete", "x.db", f"docs/{name}"), ("ingest", "x.db", "docs", "--dry-run")):
        assert safe(rag(*command)), command
