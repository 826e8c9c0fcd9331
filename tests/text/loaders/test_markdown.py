"""Markdown: front matter and lines."""

from __future__ import annotations

import time

import pytest
from anchors import line_of, true_line
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.text.loaders import load


def metadata(front: str) -> dict[str, object]:
    loaded = load("a.md", f"---\n{front}\n---\nbody\n".encode())
    assert loaded.text == "body\n"
    return dict(loaded.metadata)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("closing", ["---", "...", "--- \t"])
def test_yaml_front_matter_is_set_aside_and_lines_are_the_files(end: str, closing: str) -> None:
    source = end.join(["---", "title: Tea", closing, "# One", "", "two"])
    loaded = load("a.md", source.encode())
    assert loaded.text == end.join(["# One", "", "two"])
    assert loaded.metadata == {"title": "Tea"}
    assert loaded.lines == ((0, 4),)
    assert line_of(loaded, loaded.text.index("two")) == 6
    assert loaded.media_type == "text/markdown"


def test_a_byte_order_mark_may_stand_before_front_matter() -> None:
    loaded = load("a.md", b"\xef\xbb\xbf---\na: 1\n---\nx")
    assert (loaded.text, loaded.metadata, len(loaded.notes)) == ("x", {"a": 1}, 1)


@pytest.mark.parametrize("source", [
    "---\n\nprose between\n\n---\n\nmore",
    "---\nno closing line\n",
    "---",
    "----\na: 1\n---\n",
    " ---\na: 1\n---\n",
    "\n---\na: 1\n---\n",
    "text\n---\na: 1\n---\n",
    "+++\nnot toml\n+++\nbody",
    "+++\na = 1\n---\nbody",
    "---\na: 1\n+++\nbody",
    "---\na: " + "x" * 70_000 + "\n---\nbody",
    "+++\na = " + "[" * 5_000 + "\n+++\nbody",
    "",
])
def test_what_is_no_front_matter_stays_text(source: str) -> None:
    loaded = load("a.markdown", source.encode())
    assert (loaded.text, loaded.metadata, loaded.lines) == (source, {}, ())


def test_empty_front_matter_is_set_aside() -> None:
    loaded = load("a.mdx", b"---\n---\nbody")
    assert (loaded.text, loaded.metadata, loaded.lines) == ("body", {}, ((0, 3),))


@pytest.mark.parametrize(("line", "value"), [
    ("k: v", "v"), ("k:    spaced out  ", "spaced out"), ("k: v # comment", "v"), ("k: C# and a#b", "C# and a#b"),
    ("k: # comment", None), ("k:", None), ("k: ~", None), ("k: null", None), ("k: true", True), ("k: False", False),
    ("k: yes", "yes"), ("k: 12", 12), ("k: -3", -3), ("k: 007", "007"), ("k: 1.50", 1.5), ("k: 2e3", 2000.0),
    ("k: 1e999", "1e999"), ("k: .inf", ".inf"), ("k: .nan", ".nan"), ("k: 123456789012345678901", "123456789012345678901"),
    ("k: 2024-05-01", "2024-05-01"), ("k: 12:30", "12:30"), ("k: https://x.org/a", "https://x.org/a"),
    ('k: "a: b \\u00e9\\n" # c', "a: b é\n"), ("k: 'it''s' # c", "it's"), ('"k": v', "v"), ("'k' : v", "v"),
    ("k: 'true'", "true"), ('k: "12"', "12"), ("k : v", "v"), ('k: "\\u0000"', "\ufffd"), ('k: "\\ud800"', "\ufffd"),
    ("k: -dash", "-dash"),
])
def test_a_plain_scalar_is_read(line: str, value: object) -> None:
    found = metadata(line)
    assert found == {"k": value}
    assert type(found["k"]) is type(value)


@pytest.mark.parametrize("block", [
    "k:\n  nested: 1", "k:\n- a\n- b", "k: [a, b]", "k: {a: 1}", "k: |\n  text", "k: >\n  text", "k: &anchor v",
    "k: *alias", "k: !tag v", "k: first\n  second", 'k: "open', "k: 'open", 'k: "\\x41"', "k: a: b", "k: ends:",
    "k: @x", "k: %x", "k: - a", "just words", "[a]: b", "? k", "k: [\n]",
])
def test_what_is_no_plain_scalar_is_skipped(block: str) -> None:
    assert metadata(f"a: 1\n{block}\nz: 2\n# comment\n\n") == {"a": 1, "z": 2}


def test_a_key_given_twice_has_its_last_value() -> None:
    assert metadata("k: 1\nk: 2") == {"k": 2}
    assert metadata("k: 1\nk: [2]") == {}


def test_toml_front_matter_gives_scalars_and_iso_dates() -> None:
    front = ('title = "T\\u0000"\nn = 3\nx = 1.5\nok = true\nday = 2024-05-01\nat = 07:32:00\n'
             "when = 1979-05-27T07:32:00Z\nbad = nan\nfar = inf\nhuge = 99999999999999999999\nlist = [1]\n[table]\na = 1\n")
    loaded = load("a.md", f"+++\r\n{front}+++\r\nbody".encode())
    assert loaded.text == "body"
    assert loaded.metadata == {
        "title": "T\ufffd", "n": 3, "x": 1.5, "ok": True, "day": "2024-05-01", "at": "07:32:00",
        "when": "1979-05-27T07:32:00+00:00",
    }
    assert loaded.lines == ((0, 16),)


def test_the_metadata_cannot_be_changed() -> None:
    loaded = load("a.md", b"---\na: 1\n---\n")
    with pytest.raises(TypeError):
        loaded.metadata["a"] = 2  # type: ignore[index]


FRONT = st.lists(st.sampled_from(["a: 1", "b: [x]", "  c: 2", "", "# n", "- d", "e"]), max_size=5)
BODY = st.text(st.sampled_from("ab \r\n-+.é"), max_size=40)


@given(FRONT, BODY, st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["---", "+++", ""]))
def test_every_character_is_on_the_line_of_the_file(front: list[str], body: str, end: str, fence: str) -> None:
    source = end.join([fence, *front, fence, ""]) + body
    loaded = load("a.md", source.encode())
    assert source.endswith(loaded.text)
    start = len(source) - len(loaded.text)
    assert [line_of(loaded, at) for at in range(len(loaded.text))] == [
        true_line(source, start + at) for at in range(len(loaded.text))]


@pytest.mark.parametrize("line", [
    "a" + " " * 60_000, "k: " + "'" * 60_000, 'k: "' + "\\" * 60_000, "k: a" + " " * 60_000 + "b", "k: " + "1" * 60_000,
    "k: " + "#" * 60_000, "k: " + " #" * 30_000,
])
def test_front_matter_takes_linear_time(line: str) -> None:
    source = f"---\na: 1\n{line}\n---\nbody".encode()
    start = time.process_time()
    assert load("a.md", source).text == "body"
    assert time.process_time() - start < 5  # quadratic time would be minutes
