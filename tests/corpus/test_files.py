"""A file of a repository as a document: lines are the file's own, bytes are kept, and what has no words is not found."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib import Failure
from rag_stdlib.corpus.files import MAX_BYTES, RULES, is_binary, lossy_text, new_file, watermark
from rag_stdlib.index.corpora import ServedRepo
from rag_stdlib.index.prepare import CHUNK_COLUMNS

REPO = ServedRepo("alpha", "https://example.org/alpha.git", "main", "a" * 40)
BAD = "\N{REPLACEMENT CHARACTER}"
PROSE = "Apples are sweet and they keep well in a cool cellar over winter.\n"


def chunks(data: bytes) -> list[dict[str, object]]:
    values, width = new_file(REPO, "a.md", "b", data).prepared.values, len(CHUNK_COLUMNS)
    return [dict(zip(CHUNK_COLUMNS, values[start:start + width], strict=True)) for start in range(0, len(values), width)]


@pytest.mark.parametrize(("data", "text"), [
    (b"plain", "plain"), ("Grüße 返金".encode(), "Grüße 返金"), (b"a\xaeb", f"a{BAD}b"), (b"\xe4\xb8", BAD * 2), (b"\xed\xa0\x80", BAD * 3),
    (b"a\0b", f"a{BAD}b"), (b"\xef\xbb\xbfx", "\ufeffx"), (b"\xf8\x88", BAD * 2), (b"", ""),
])
def test_b7_each_byte_that_is_no_text_becomes_one_replacement_character(data: bytes, text: str) -> None:
    assert lossy_text(data) == text


@given(st.binary())
def test_any_bytes_can_be_read_and_text_is_taken_as_it_is(data: bytes) -> None:
    text = lossy_text(data)
    assert "\0" not in text
    text.encode()
    assert text.count("\n") == data.count(b"\n"), "lines stay where they are"


@given(st.text().filter(lambda text: "\0" not in text))
def test_text_comes_back_as_it_was(text: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    assert lossy_text(data) == text


@pytest.mark.parametrize(("data", "binary"), [
    (b"text", False), (b"", False), (b"\0", True), (b"x" * 7_999 + b"\0", True), (b"x" * 8_000 + b"\0", False), (b"\xff\xfe", False)])
def test_a_nul_near_the_start_makes_a_file_binary(data: bytes, binary: bool) -> None:
    assert is_binary(data) is binary


def test_the_document_names_its_repository_commit_and_path() -> None:
    made = new_file(REPO, "docs/a b.md", watermark("c" * 40), f"# A\n\n{PROSE}".encode())
    doc_id, source, media_type, digest, metadata, *_ = made.prepared.row
    assert (doc_id, source, media_type) == ("corpus:alpha/docs/a b.md", "alpha/docs/a b.md", "text/markdown")
    assert digest == hashlib.sha256(f"# A\n\n{PROSE}".encode()).hexdigest()
    assert metadata == f'{{"commit":"{"a" * 40}","kind":"corpus","path":"alpha/docs/a b.md","repo_id":"alpha"}}'
    assert (made.blob, made.original) == (f"{RULES}:{'c' * 40}", None)


def test_bytes_are_kept_only_where_the_text_does_not_give_them() -> None:
    assert new_file(REPO, "a.md", "b", PROSE.encode()).original is None
    odd = PROSE.encode() + b"\xff"
    assert new_file(REPO, "a.md", "b", odd).original == odd


def test_x5_lines_are_those_of_the_file_behind_a_licence_too() -> None:
    header = "<!--\nCopyright of somebody.\nLicensed under some terms.\n-->\n\n"
    text = f"{header}# Title\r\n\r\n{PROSE}\r\n## Next\r\n\r\n{PROSE}"
    lines = text.replace("\r\n", "\n").split("\n")
    for chunk in chunks(text.encode()):
        first, last = int(str(chunk["start_line"])), int(str(chunk["end_line"]))
        assert str(chunk["text"]).replace("\r\n", "\n") == "\n".join(lines[first - 1:last])
        assert "Copyright" not in str(chunk["text"])
    assert [chunk["start_line"] for chunk in chunks(text.encode())] == [6, 10]


def test_sections_go_with_their_chunks() -> None:
    text = f"# Title\n\n{PROSE}\n## Inner\n\n{PROSE}\n```sh\npip install apples\n```\n\n---\n"
    made = new_file(REPO, "a.md", "b", text.encode())
    assert len(made.sections) == made.prepared.chunks
    assert [tuple(section) for section in made.sections] == [("Title", "prose"), ("Title > Inner", "prose"), ("Title > Inner", "code")]
    assert [chunk["ordinal"] for chunk in chunks(text.encode())] == [0, 1, 2]


def test_b5_what_has_no_words_is_kept_with_the_document_and_is_no_chunk() -> None:
    text = "[![badge](https://example.org/b.svg)](https://example.org)\n\n# A\n"
    made = new_file(REPO, "a.md", "b", text.encode())
    assert (made.prepared.chunks, made.sections) == (0, ())
    assert made.prepared.row[-1] == text, "all of it is in the rest"


def test_short_code_is_found_and_a_rule_of_dashes_is_not() -> None:
    assert [chunk["text"] for chunk in chunks(b"```\nnpm i foo\n```\n")] == ["```\nnpm i foo\n```"]
    assert chunks(b"```\n----\n```\n") == []


def test_no_chunk_is_larger_than_the_bound() -> None:
    data = ("# Long\n\n" + "word " * 3_000 + "\n\n```\n" + "x = 1\n" * 2_000 + "```\n").encode()
    sizes = [len(str(chunk["text"]).encode()) for chunk in chunks(data)]
    assert len(sizes) > 8
    assert max(sizes) <= MAX_BYTES


def test_a_name_too_long_for_an_id_is_refused() -> None:
    with pytest.raises(Failure) as caught:
        new_file(REPO, "x" * 1_100 + ".md", "b", PROSE.encode())
    assert caught.value.error.code == "invalid_doc_id"
