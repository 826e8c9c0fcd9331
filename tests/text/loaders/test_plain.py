"""Plain text, source code and reStructuredText stay verbatim."""

from __future__ import annotations

import pytest
from anchors import line_of, true_line
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.text.loaders import load

ROUGH = st.text(st.sampled_from("ab \r\n\t#-é👋"), max_size=60)


@pytest.mark.parametrize(("name", "media_type"), [
    ("notes.txt", "text/plain"), ("index.rst", "text/x-rst"), ("a.py", "text/x-python"), ("lib.rs", "text/x-rust"),
    ("main.cor", "text/plain"), ("a.json", "application/json"), ("deep/x.TOML", "application/toml"),
    ("a.csv", "text/csv"), ("app.tsx", "text/typescript"), ("x.erl", "text/x-erlang"), ("s.log", "text/plain"),
    ("README", "text/plain"), ("v1.2/Makefile", "text/plain"), (".gitignore", "text/plain"), ("a.R", "text/x-r"),
])
def test_the_extension_gives_the_media_type(name: str, media_type: str) -> None:
    loaded = load(name, b"x = 1\r\n\ty\n")
    assert (loaded.text, loaded.media_type, loaded.lines, loaded.pages, loaded.notes) == (
        "x = 1\r\n\ty\n", media_type, (), (), ())
    assert loaded.metadata == {}


@given(ROUGH)
def test_every_character_is_on_its_own_line(text: str) -> None:
    loaded = load("a.txt", text.encode())
    assert loaded.text == text
    assert [line_of(loaded, at) for at in range(len(text))] == [true_line(text, at) for at in range(len(text))]
