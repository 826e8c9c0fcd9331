"""`rag ingest`."""



from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from embedder_double import EmbedderDouble
from interrupting import one_by_one

from rag_stdlib.cli import ingest as module
from rag_stdlib.cli import tally
from rag_stdlib.errors import fail, rag_error
from rag_stdlib.result import Err
from rag_stdlib.root import Root

Write = Callable[..., Path]
Rag = Any  # see conftest


def documents(rag: Rag, index: str = "x.db") -> int:
    found: int = rag("stats", index, "--json").json["documents"]
    return found


def test_files_and_folders_go_in_and_the_same_run_again_changes_nothing(rag: Rag, write: Write) -> None:
    write("docs/a.md", "# Refunds\n\nPaid in ten days.\n")
    write("docs/b.txt", "x" * 2500)
    write("single.rst", "One more.\n")
    first = rag("ingest", "x.db", "docs", "single.rst")
    assert (first.code, first.err) == (0, "")
    assert first.out == "3 documents ingested (5 chunks), 0 unchanged\n"
    before = rag("stats", "x.db", "--json").json
    again = rag("ingest", "x.db", "docs", "single.rst")
    assert (again.code, again.out) == (0, "0 documents ingested (0 chunks), 3 unchanged\n")
    assert rag("stats", "x.db", "--json").json == before


def test_a_bad_file_is_listed_at_the_end_and_does_not_stop_the_others(rag: Rag, write: Write) -> None:
    write("docs/a.txt")
    write("docs/b.txt", b"caf\xe9")
    write("docs/c.pdf", b"%PDF-1.7 broken")
    write("docs/d.txt", "in the end")
    done = rag("ingest", "x.db", "docs", "gone.txt", "picture.png")
    assert done.code == 1
    assert done.out == "2 documents ingested (2 chunks), 0 unchanged, 4 failed\n"
    lines = done.err.splitlines()
    assert [line.split("]")[0] for line in lines] == [
        "rag: failed [file_missing", "rag: failed [file_missing", "rag: failed [not_utf8", "rag: failed [file_unreadable"]
    assert lines[2] == "rag: failed [not_utf8]: 'docs/b.txt' is not UTF-8 text: byte 3 is 0xe9"
    assert rag("search", "x.db", "end", "--json").json[0]["doc_id"] == "docs/d.txt"


def test_a_failure_whose_message_names_no_file_gets_the_name_in_front(rag: Rag, write: Write) -> None:
    deep = "/".join(["d" * 220] * 5)
    write(f"{deep}/a.txt")
    done = rag("ingest", "x.db", deep)
    assert (done.code, done.out) == (1, "0 documents ingested (0 chunks), 0 unchanged, 1 failed\n")
    assert done.err == f"rag: failed [invalid_doc_id]: '{deep}/a.txt': doc_id is 1,110 bytes; the most is 1,024\n"


def test_json_tells_the_tally_and_the_failures(rag: Rag, write: Write) -> None:
    write("docs/a.txt")
    write("docs/b.txt", b"\xff")
    write("docs/c.png")
    done = rag("ingest", "x.db", "docs", "--json")
    assert done.code == 1
    assert done.json == {
        "documents": 1, "chunks": 1, "unchanged": 0, "deleted": 0, "passed_over": 1,
        "failed": [{"name": "docs/b.txt", "code": "not_utf8", "message": "'docs/b.txt' is not UTF-8 text: byte 0 is 0xff"}]}


def test_dry_run_says_what_would_be_done_and_writes_nothing(rag: Rag, write: Write, folder: Path) -> None:
    write("docs/a.txt")
    write("docs/b\x1b[31m.txt")
    before = sorted(folder.iterdir())
    done = rag("ingest", "x.db", "docs", "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert done.out == "would ingest docs/a.txt\nwould ingest docs/b\ufffd[31m.txt\n"
    done = rag("ingest", "x.db", "docs/a.txt", "gone.txt", "--dry-run", "--json")
    assert done.code == 1
    assert done.json == {"ingest": ["docs/a.txt"], "delete": [], "passed_over": 0, "failed": [
        {"name": "gone.txt", "code": "file_missing", "message": "there is no file 'gone.txt' below the [io] root"}]}
    assert sorted(folder.iterdir()) == before


def test_nothing_to_do_is_said(rag: Rag, write: Write, folder: Path) -> None:
    (folder / "empty").mkdir()
    write("docs/.hidden.txt")
    dry = rag("ingest", "x.db", "empty", "--dry-run")
    assert (dry.code, dry.out, dry.err) == (0, "", "rag: note: there is nothing to do\n")
    none = rag("ingest", "x.db", "empty")
    assert (none.code, none.out) == (0, "0 documents ingested (0 chunks), 0 unchanged\n")
    assert none.err == "rag: note: there is nothing to ingest\n"
    left_out = rag("ingest", "x.db", "docs")
    assert left_out.out == "0 documents ingested (0 chunks), 0 unchanged, 1 passed over\n"
    assert "every entry is hidden, a link" in left_out.err
    assert not (folder / "x.db").exists()


def test_a_changed_file_replaces_its_document(rag: Rag, write: Write) -> None:
    write("a.txt", "first words")
    rag("ingest", "x.db", "a.txt")
    write("a.txt", "second thoughts")
    assert rag("ingest", "x.db", "a.txt").out == "1 document ingested (1 chunk), 0 unchanged\n"
    assert documents(rag) == 1
    assert rag("search", "x.db", "first", "--json").json == []


def test_chunk_chars_sets_the_size_and_is_checked(rag: Rag, write: Write, folder: Path) -> None:
    write("a.txt", "word " * 100)
    assert "(1 chunk)" in rag("ingest", "x.db", "a.txt", "--chunk-chars", "9" * 30).out
    assert "1 document ingested" in rag("ingest", "x.db", "a.txt", "--chunk-chars", "100").out
    for wrong in ("0", "-5", "ten", "1.5"):
        refused = rag("ingest", "new.db", "a.txt", "--chunk-chars", wrong)
        assert refused.code == 2
        assert refused.err.startswith("rag: usage: Invalid value for '--chunk-chars'")
        assert len(refused.err.splitlines()) == 1
    assert not (folder / "new.db").exists()


def test_an_unchanged_run_asks_no_embedder(rag: Rag, write: Write, configure: Callable[[Any], None]) -> None:
    double = EmbedderDouble()
    configure(double)
    write("docs/a.txt", "one")
    write("docs/b.txt", "two")
    assert rag("ingest", "x.db", "docs").code == 0
    assert double.texts == 2
    assert rag("ingest", "x.db", "docs").out == "0 documents ingested (0 chunks), 2 unchanged\n"
    assert double.texts == 2


def test_the_index_is_not_ingested_into_itself(rag: Rag, write: Write) -> None:
    write("docs/a.txt")
    assert rag("ingest", "docs/notes", "docs").code == 0
    for spelling in ("docs/notes", "./docs//notes"):
        again = rag("ingest", spelling, ".", "docs")
        assert again.err == ""
        assert again.code == 0
    assert documents(rag, "docs/notes") == 2, "a.txt and corvid.toml"


def test_a_root_elsewhere_than_the_working_directory(rag: Rag, write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("data/docs/a.txt")
    monkeypatch.setenv("CORVID_IO_ROOT", "data")
    assert rag("ingest", "x.db", "docs").code == 0
    assert rag("get", "x.db", "docs/a.txt", "--json").json["id"] == "docs/a.txt"
    assert (folder / "data/x.db").exists()


def test_a_working_directory_below_the_root(rag: Rag, write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("docs/inner/a.txt")
    monkeypatch.chdir(folder / "docs")
    assert rag("ingest", "x.db", ".").code == 0
    assert (folder / "docs/x.db").exists()
    assert rag("ingest", "../x.db", "./inner/", "inner//a.txt").out == "1 document ingested (1 chunk), 0 unchanged\n"
    assert rag("get", "../x.db", "docs/inner/a.txt").code == 0


def test_absolute_paths_inside_the_root_are_the_same_documents(rag: Rag, write: Write, folder: Path) -> None:
    write("docs/a.txt")
    rag("ingest", "x.db", "docs")
    assert rag("ingest", f"{folder}/x.db", f"{folder}/docs", f"{folder}/docs/a.txt").out == (
        "0 documents ingested (0 chunks), 1 unchanged\n")


@pytest.mark.parametrize("outside", ["/etc/passwd", "/etc", "../x.txt", "docs/../../x.txt", ".."])
def test_paths_outside_the_root_are_errors(rag: Rag, folder: Path, outside: str) -> None:
    refused = rag("ingest", "x.db", outside)
    assert refused.code == 1
    assert refused.err.startswith("rag: failed [path_")
    assert not (folder / "x.db").exists()


@pytest.mark.parametrize("index", ["docs", "docs/", "../x.db", "/x.db", "no/folder/x.db", "", "file:x.db", ":memory:"])
def test_an_index_that_cannot_be_one_stops_the_run_with_one_line(rag: Rag, write: Write, index: str) -> None:
    for name in ("a", "b", "c"):
        write(f"docs/{name}.txt")
    refused = rag("ingest", index, "docs")
    assert refused.code == 1
    assert refused.out == ""
    assert refused.err.startswith("rag: error [path_")
    assert len(refused.err.splitlines()) == 1


def test_another_programs_file_is_left_alone(rag: Rag, write: Write) -> None:
    write("docs/a.txt")
    other = write("notes.md", "not an index")
    refused = rag("ingest", "notes.md", "docs")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("rag: error [not_an_index]: the file 'notes.md' is no rag-stdlib index: ")
    assert other.read_text() == "not an index"


def test_vectors_of_another_embedder_stop_the_run_but_what_was_done_is_told(
        rag: Rag, write: Write, configure: Callable[[Any], None]) -> None:
    configure(EmbedderDouble())
    write("docs/a.txt", "one")
    rag("ingest", "x.db", "docs")
    configure(EmbedderDouble(model="another"))
    write("docs/b.txt", "two")
    write("docs/c.txt", "three")
    refused = rag("ingest", "x.db", "docs")
    assert refused.code == 1
    assert "rag: error [embedding_mismatch]" in refused.err
    assert "rag reembed x.db" in refused.err
    assert len(refused.err.splitlines()) == 1


def test_an_error_that_would_come_back_stops_the_run_after_telling_the_tally(
        rag: Rag, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        write(f"docs/{name}.txt", name)
    one_by_one(monkeypatch)
    store = module.Tally.store
    calls = []

    def full(self: module.Tally, *arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            self.fail("docs/b.txt", rag_error("disk_full", path="x.db"))
        store(self, *arguments)

    monkeypatch.setattr(module.Tally, "store", full)
    stopped = rag("ingest", "x.db", "docs")
    assert stopped.code == 1
    assert stopped.out == "1 document ingested (1 chunk), 0 unchanged\n"
    assert stopped.err == "rag: error [disk_full]: the disk is full; the index 'x.db' is unchanged\n"
    assert len(calls) == 2


def test_an_embedder_that_refuses_one_text_does_not_stop_the_others(
        rag: Rag, write: Write, configure: Callable[[Any], None]) -> None:
    def poisoned(texts: Any) -> None:
        if any("poison" in text for text in texts):
            raise fail("embedder_rejected", provider="double", status=400, detail="no")

    configure(EmbedderDouble(before=poisoned))
    for name, text in (("a", "one"), ("b", "poison"), ("c", "three")):
        write(f"docs/{name}.txt", text)
    done = rag("ingest", "x.db", "docs")
    assert done.code == 1
    assert done.out == "2 documents ingested (2 chunks), 0 unchanged, 1 failed\n"
    assert done.err == "rag: failed [embedder_rejected]: 'docs/b.txt': double rejected the request (HTTP 400): no\n"


def test_many_files_are_stored_in_few_transactions_and_a_bad_one_costs_only_itself(
        rag: Rag, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    many = tally.rag_ingest_many

    def noting(index: str, documents: list[Any], *rest: Any) -> Any:
        calls.append(len(documents))
        return many(index, documents, *rest)

    monkeypatch.setattr(tally, "rag_ingest_many", noting)
    for number in range(30):
        write(f"docs/{number:02}.{'md' if number % 3 else 'txt'}", f"text {number}")
    assert rag("ingest", "x.db", "docs").out == "30 documents ingested (30 chunks), 0 unchanged\n"
    assert calls == [10, 20], "text and Markdown are cut by different rules"
    deep = "docs/" + "/".join(["d" * 220] * 5)
    write(f"{deep}/a.md", "too deep")
    write("docs/08.md", "another text 8")
    done = rag("ingest", "x.db", "docs")
    assert done.out == "1 document ingested (1 chunk), 29 unchanged, 1 failed\n"
    assert done.err.startswith(f"rag: failed [invalid_doc_id]: '{deep}/a.md': ")
    assert rag("get", "x.db", "docs/08.md").out == "another text 8\n"
    assert rag("check", "x.db").code == 0


def test_an_error_that_is_no_documents_stops_a_batch_too(rag: Rag, write: Write, configure: Callable[[Any], None]) -> None:
    def refuse(_texts: Any) -> None:
        raise fail("embedder_auth", provider="double", status=401, detail="no")

    configure(EmbedderDouble(before=refuse))
    for name in ("a", "b", "c"):
        write(f"docs/{name}.txt", name)
    stopped = rag("ingest", "x.db", "docs")
    assert (stopped.code, stopped.out) == (1, "")
    assert stopped.err == "rag: error [embedder_auth]: double refused the credentials (HTTP 401): no\n"


def test_a_root_that_vanishes_stops_the_run(rag: Rag, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("docs/a.txt")
    write("docs/b.txt")

    def gone(_self: Root, _path: str) -> bytes:
        raise fail("root_unusable", detail="No such file or directory")

    monkeypatch.setattr(Root, "read_file", gone)
    stopped = rag("ingest", "x.db", "docs")
    assert (stopped.code, stopped.out) == (1, "")
    assert stopped.err.startswith("rag: error [root_unusable]")
    assert len(stopped.err.splitlines()) == 1


def test_remarks_about_a_document_are_told_once_when_it_is_stored(rag: Rag, write: Write) -> None:
    write("docs/bom.txt", "\ufeffwords".encode("utf-16-le"))
    write("docs/caf\u00e9.txt")
    write("docs/cafe\u0301.txt")
    told = rag("ingest", "x.db", "docs").err
    assert "rag: note: docs/bom.txt: the UTF-16LE byte order mark" in told
    assert "differs only in Unicode normal form" in told
    assert rag("ingest", "x.db", "docs").err == ""


class TestPrune:
    """`--prune` deletes the documents whose file is gone, and no others."""

    def test_it_takes_only_what_came_from_files_below_the_named_folders(self, rag: Rag, write: Write, folder: Path) -> None:
        from rag_stdlib import Runtime, rag_ingest

        for name in ("docs/gone.txt", "docs/kept.txt", "docs/sub/gone.txt", "docs2/gone.txt", "other/gone.txt"):
            write(name, name)
        rag("ingest", "x.db", "docs", "docs2", "other")
        with Runtime(root=folder):
            rag_ingest("x.db", "docs/typed.txt", "docs/typed.txt", "from a program", 100).unwrap()
        for name in ("docs/gone.txt", "docs/sub/gone.txt", "docs2/gone.txt", "other/gone.txt"):
            (folder / name).unlink()
        (folder / "docs/sub").rmdir()
        dry = rag("ingest", "x.db", "docs", "--prune", "--dry-run")
        assert dry.out == "would ingest docs/kept.txt\nwould delete docs/gone.txt\nwould delete docs/sub/gone.txt\n"
        assert documents(rag) == 6
        done = rag("ingest", "x.db", "docs", "--prune")
        assert (done.code, done.out) == (0, "0 documents ingested (0 chunks), 1 unchanged, 2 deleted\n")
        left = {hit["doc_id"] for hit in rag("search", "x.db", "docs", "docs2", "other", "from", "--json").json}
        assert left == {"docs/kept.txt", "docs/typed.txt", "docs2/gone.txt", "other/gone.txt"}

    def test_a_file_that_is_there_but_left_out_keeps_its_document(self, rag: Rag, write: Write) -> None:
        for name in ("docs/a.md", "docs/b.txt", "docs/sub/c.txt"):
            write(name)
        rag("ingest", "x.db", "docs")
        write("docs/.gitignore", "b.txt\nsub/\n")
        assert "deleted" not in rag("ingest", "x.db", "docs", "--prune", "--include", "*.md").out
        assert documents(rag) == 3

    def test_the_root_as_the_folder(self, rag: Rag, write: Write, folder: Path) -> None:
        write("a.txt")
        rag("ingest", "x.db", ".", "--exclude", "corvid.toml")
        (folder / "a.txt").unlink()
        done = rag("ingest", "x.db", ".", "--prune", "--json", "--exclude", "corvid.toml")
        assert (done.json["deleted"], documents(rag)) == (1, 0)

    def test_named_files_prune_nothing(self, rag: Rag, write: Write, folder: Path) -> None:
        write("docs/a.txt")
        write("docs/b.txt")
        rag("ingest", "x.db", "docs")
        (folder / "docs/a.txt").unlink()
        assert "deleted" not in rag("ingest", "x.db", "docs/b.txt", "--prune").out

    def test_where_there_is_no_index_nothing_is_pruned(self, rag: Rag, write: Write, folder: Path) -> None:
        write("docs/a.txt")
        assert rag("ingest", "x.db", "docs", "--prune", "--dry-run").out == "would ingest docs/a.txt\n"
        assert not (folder / "x.db").exists()

    def test_an_index_that_cannot_be_read_is_an_error(self, rag: Rag, write: Write) -> None:
        write("docs/a.txt")
        write("x.db", "not an index")
        refused = rag("ingest", "x.db", "docs", "--prune")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [not_an_index]")

    def test_a_path_that_may_still_be_there_is_kept(self, rag: Rag, write: Write, folder: Path) -> None:
        write("docs/sub/a.txt")
        rag("ingest", "x.db", "docs")
        (folder / "docs/sub").rename(folder / "moved")
        (folder / "docs/sub").symlink_to(folder / "moved")
        assert "deleted" not in rag("ingest", "x.db", "docs", "--prune").out

    def test_it_needs_the_grant_to_read(self, rag: Rag, write: Write, folder: Path) -> None:
        write("docs/a.txt")
        (folder / "corvid.toml").write_text('[io]\nroot = "."\n[effects]\ngrant = ["rag_write"]\n')
        refused = rag("ingest", "x.db", "docs", "--prune")
        assert refused.code == 1
        assert refused.err.startswith("rag: error [effect_not_granted]: rag ingest --prune uses the effect rag_read")
        assert rag("ingest", "x.db", "docs").code == 0

    def test_a_failing_deletion_is_told(self, rag: Rag, write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write("docs/a.txt")
        write("docs/b.txt")
        rag("ingest", "x.db", "docs")
        (folder / "docs/a.txt").unlink()
        missing = Err(rag_error("not_found", kind="document", id="docs/a.txt"))
        monkeypatch.setattr(module, "rag_delete", lambda _index, _doc_id: missing)
        done = rag("ingest", "x.db", "docs", "--prune")
        assert (done.code, done.out) == (1, "0 documents ingested (0 chunks), 1 unchanged, 1 failed\n")
        assert done.err.startswith("rag: failed [not_found]")


def test_a_program_without_an_ending_is_passed_over_in_a_folder_and_refused_by_name(rag: Rag, write: Write) -> None:
    write("docs/a.txt", "words")
    write("docs/tool").write_bytes(b"\x7fELF\x02\x01\x00\x00" + bytes(200))
    done = rag("ingest", "x.db", "docs")
    assert done.code == 0
    assert done.out == "1 document ingested (1 chunk), 0 unchanged, 1 passed over\n"
    refused = rag("ingest", "x.db", "docs/tool")
    assert refused.code == 1
    assert "[file_unsupported]" in refused.err
