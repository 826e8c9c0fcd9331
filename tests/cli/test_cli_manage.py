"""`rag delete`, `stats`, `check`, `compact` and `reembed`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from embedder_double import EmbedderDouble

from rag_stdlib import Ok
from rag_stdlib.cli import manage
from rag_stdlib.records import IndexStats

Write = Callable[..., Path]
Rag = Any  # see conftest


@pytest.fixture
def stored(rag: Rag, write: Write) -> Rag:
    """Three documents of four chunks in x.db."""
    write("docs/a.txt", "alpha")
    write("docs/b.txt", "beta " * 60)
    write("docs/c.txt", "gamma")
    assert rag("ingest", "x.db", "docs", "--chunk-chars", "200").out.startswith("3 documents ingested (4 chunks)")
    return rag


def sql(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("command", [
    ("delete", "gone.db", "a"), ("stats", "gone.db"), ("check", "gone.db"), ("compact", "gone.db"), ("get", "gone.db", "a"),
    ("delete", "folder", "a"), ("stats", "folder"), ("check", "folder"), ("compact", "folder"), ("get", "folder", "a"),
    ("stats", "../x.db"), ("check", "/etc/passwd"), ("compact", "corvid.toml"), ("get", "", "a"), ("stats", "a\x1b[2J.db"),
    ("stats", os.fsdecode(b"\xff.db")), ("stats", "x" * 300), ("stats", "a\nb.db"), ("stats", "\u202edb.x"),
])
def test_an_index_that_is_none_is_an_error_of_one_line_and_nothing_is_made(rag: Rag, folder: Path, command: tuple[str, ...]) -> None:
    (folder / "folder").mkdir()
    before = sorted(folder.iterdir())
    for form in ((), ("--json",)):
        refused = rag(*command, *form)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [")
        assert len(refused.err.splitlines()) == 1
        assert "\x1b" not in refused.err
        assert "\u202e" not in refused.err
    assert sorted(folder.iterdir()) == before


class TestDelete:
    """`rag delete`."""

    def test_documents_go_and_each_is_told(self, stored: Rag) -> None:
        done = stored("delete", "x.db", "docs/a.txt", "docs/b.txt", "docs/a.txt")
        assert (done.code, done.err) == (0, "")
        assert done.out == "deleted docs/a.txt (1 chunk)\ndeleted docs/b.txt (2 chunks)\n"
        assert stored("stats", "x.db", "--json").json["documents"] == 1

    def test_an_id_that_is_not_there_does_not_stop_the_others(self, stored: Rag) -> None:
        done = stored("delete", "x.db", "nope", "docs/a.txt", "", "\udcff", "nada")
        assert (done.code, done.out) == (1, "deleted docs/a.txt (1 chunk)\n")
        assert [line.split(":")[1] for line in done.err.splitlines()] == [
            " error [not_found]", " error [invalid_doc_id]", " error [invalid_text]", " error [not_found]"]

    def test_json_names_what_went(self, stored: Rag) -> None:
        done = stored("delete", "x.db", "docs/b.txt", "nope", "--json")
        assert (done.code, done.json) == (1, {"docs/b.txt": 2})

    def test_what_would_fail_for_each_is_told_once(self, rag: Rag) -> None:
        refused = rag("delete", "gone.db", "a", "b", "c")
        assert refused.code == 1
        assert len(refused.err.splitlines()) == 1


class TestStats:
    """`rag stats`."""

    def test_figures_stand_in_a_column(self, stored: Rag) -> None:
        shown = stored("stats", "x.db")
        assert (shown.code, shown.err) == (0, "")
        rows = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
        assert list(rows) == ["documents", "chunks", "vectors", "text", "file", "content", "schema", "SQLite"]
        assert (rows["documents"], rows["chunks"], rows["vectors"], rows["text"]) == ("3", "4", "0", "310 B")
        assert rows["schema"].startswith("version 1, generation 3")
        assert all(line[:12].rstrip() in rows for line in shown.out.splitlines())
        assert rows["content"] == stored("stats", "x.db", "--json").json["content"][:16] + "\u2026"

    def test_a_digest_that_is_not_kept_yet_is_said(self, stored: Rag, folder: Path) -> None:
        sql(folder / "x.db", "DELETE FROM rag_meta WHERE key = 'content'")
        assert "\ncontent     not known before the next change\n" in stored("stats", "x.db").out

    def test_json_is_the_record(self, stored: Rag) -> None:
        found = stored("stats", "x.db", "--json").json
        assert (found["documents"], found["chunks"], found["vectors"], found["text_bytes"]) == (3, 4, 0, 310)

    def test_the_embedder_and_notices_are_told(self, stored: Rag, folder: Path, configure: Callable[[Any], None]) -> None:
        configure(EmbedderDouble())
        stored("reembed", "x.db")
        assert "4 (hashing/words-sha256" in stored("stats", "x.db").out
        sql(folder / "x.db", "DELETE FROM rag_lexical_docsize WHERE id = (SELECT min(id) FROM rag_lexical_docsize)")
        assert "rag: note: the lexical index has 3 rows for 4 chunks; run check\n" in stored("stats", "x.db").err

    def test_a_log_is_shown_beside_the_file(self, rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        figures = IndexStats(1, 2, 0, 30, 4000, 5000, 1, 6, "", "wal", "3.51.3")
        monkeypatch.setattr(manage, "rag_stats", lambda _index: Ok(figures))
        assert "\nfile        4.0 kB + 5.0 kB log\n" in rag("stats", "x.db").out


class TestCheck:
    """`rag check`."""

    def test_a_clean_index(self, stored: Rag) -> None:
        checked = stored("check", "x.db")
        assert (checked.code, checked.out, checked.err) == (0, "clean: 3 documents, 4 chunks, 0 vectors\n", "")
        assert stored("check", "x.db", "--json").json == {
            "documents": 3, "chunks": 4, "vectors": 0, "problems": [], "notices": []}

    def test_damage_is_listed_and_the_exit_code_says_so(self, stored: Rag, folder: Path) -> None:
        sql(folder / "x.db", "UPDATE rag_chunks SET text = 'forged\x1b[2J' WHERE doc_id = 'docs/a.txt'")
        checked = stored("check", "x.db")
        assert checked.code == 1
        lines = checked.out.splitlines()
        assert all(line.startswith("problem: ") for line in lines[:-1])
        assert "docs/a.txt" in checked.out
        assert lines[-1].endswith("3 documents, 4 chunks, 0 vectors")
        assert lines[-1].split(":")[0] == (f"{len(lines) - 1} problems" if len(lines) > 2 else "1 problem")
        as_json = stored("check", "x.db", "--json")
        assert as_json.code == 1
        assert len(as_json.json["problems"]) == len(lines) - 1

    def test_notices_are_no_damage(self, stored: Rag, write: Write, folder: Path, configure: Callable[[Any], None]) -> None:
        configure(EmbedderDouble())
        stored("reembed", "x.db")
        (folder / "corvid.toml").write_text('[io]\nroot = "."\n')
        write("docs/d.txt", "without a vector")
        stored("ingest", "x.db", "docs", "--chunk-chars", "200")
        checked = stored("check", "x.db")
        assert (checked.code, checked.out) == (0, "clean: 4 documents, 5 chunks, 4 vectors\n")
        assert checked.err.startswith("rag: note: ")


class TestCompact:
    """`rag compact`."""

    def test_bytes_come_back_once(self, rag: Rag, write: Write) -> None:
        write("big.txt", os.urandom(400_000).hex())
        rag("ingest", "x.db", "big.txt")
        rag("delete", "x.db", "big.txt")
        done = rag("compact", "x.db")
        assert (done.code, done.err) == (0, "")
        assert done.out.endswith(" given back)\n")
        assert "MB -> " in done.out
        assert rag("compact", "x.db").out.endswith("(nothing to give back)\n")
        figures = rag("compact", "x.db", "--json").json
        assert figures["bytes_before"] == figures["bytes_after"] > 0


class TestReembed:
    """`rag reembed`: its form; what it does is tested with the index."""

    def test_vectors_are_made_and_a_second_run_makes_none(self, stored: Rag, configure: Callable[[Any], None]) -> None:
        double = EmbedderDouble()
        configure(double)
        done = stored("reembed", "x.db")
        assert (done.code, done.out, done.err) == (0, "4 chunks with vectors; 4 texts embedded\n", "")
        assert stored("reembed", "x.db", "--json").json == {"chunks": 4, "embedded": 0}
        assert double.texts == 4

    def test_without_an_embedder_it_says_what_to_configure(self, stored: Rag) -> None:
        refused = stored("reembed", "x.db")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [embedder_unconfigured]: no embedder is configured to embed with; put [rag]")

    def test_a_missing_index_is_refused_before_the_embedder_is_asked(self, rag: Rag, configure: Callable[[Any], None], folder: Path) -> None:
        double = EmbedderDouble()
        configure(double)
        refused = rag("reembed", "gone.db")
        assert refused.err.startswith("rag: error [index_missing]")
        assert (double.calls, (folder / "gone.db").exists()) == ([], False)

    def test_ctrl_c_leaves_the_old_state_and_the_next_run_goes_on(self, stored: Rag, configure: Callable[[Any], None]) -> None:
        def stop(_texts: Any) -> None:
            raise KeyboardInterrupt

        configure(EmbedderDouble(before=stop))
        stopped = stored("reembed", "x.db")
        assert (stopped.code, stopped.out, stopped.err) == (130, "", "rag: stopped\n")
        configure(EmbedderDouble())
        assert stored("reembed", "x.db").out == "4 chunks with vectors; 4 texts embedded\n"
        assert stored("check", "x.db").code == 0
