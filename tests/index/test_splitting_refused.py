"""What is not cut, and what a cut that ends early leaves: nothing of it, and the index as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from splits import WHOLE, cut, files, ingest, refused

from rag_stdlib import Failure, Runtime
from rag_stdlib.index import writer


class TestRefusals:
    """What is refused, before anything is made."""

    @pytest.mark.parametrize("shards", [-1, 0, 1, 1025])
    def test_too_few_or_too_many(self, lexical: Runtime, tmp_path: Path, shards: int) -> None:
        ingest(3)
        before = files(tmp_path)
        assert refused(lexical, shards) == "invalid_option"
        assert files(tmp_path) == before

    @pytest.mark.parametrize(("path", "code"), [("gone.db", "index_missing"), ("no/folder.db", "index_missing"), ("text.db", "not_an_index"),
                                                ("../x.db", "path_parent"), ("", "path_empty"), ("folder", "path_special"), ("link.db", "path_symlink")])
    def test_what_is_no_index(self, lexical: Runtime, tmp_path: Path, path: str, code: str) -> None:
        (tmp_path / "text.db").write_text("words " * 200)
        (tmp_path / "folder").mkdir()
        (tmp_path / "link.db").symlink_to("text.db")
        before = files(tmp_path)
        assert refused(lexical, 2, path) == code
        assert files(tmp_path) == before

    @pytest.mark.parametrize(("folder", "code"), [("nowhere", "path_folder_missing"), ("..", "path_parent"), ("", "path_empty"), ("/", "path_outside_root"),
                                                  ("text", "path_folder_missing"), ("link", "path_symlink"), ("a\0", "path_nul"), ("C:", "path_form")])
    def test_a_folder_that_is_none(self, lexical: Runtime, tmp_path: Path, folder: str, code: str) -> None:
        ingest(3)
        (tmp_path / "text").write_text("words")
        (tmp_path / "link").symlink_to("..", target_is_directory=True)
        before = files(tmp_path)
        assert refused(lexical, 2, folder=folder) == code
        assert files(tmp_path) == before

    def test_a_file_in_the_way(self, lexical: Runtime, tmp_path: Path) -> None:
        ingest(3)
        (tmp_path / "whole-1.db").write_text("mine")
        before = files(tmp_path)
        assert refused(lexical, 2) == "index_exists"
        assert files(tmp_path) == before
        (tmp_path / "whole-1.db").unlink()
        cut(lexical, 2, folder=".")
        assert refused(lexical, 2) == "index_exists"

    def test_a_shard(self, lexical: Runtime, tmp_path: Path) -> None:
        ingest(3)
        cut(lexical, 2)
        assert refused(lexical, 2, "whole-0.db") == "index_is_shard"
        assert not any("whole-0-" in name for name in files(tmp_path))

    @pytest.mark.parametrize(("statement", "what"), [
        ("UPDATE rag_chunks SET doc_id = 'nobody' WHERE doc_id = 'd1'", "chunks"),
        ("DELETE FROM rag_documents WHERE id = 'd1'", "chunks"),
        ("INSERT INTO rag_vectors_rowids(rowid, chunk_id, chunk_offset) VALUES (999, 1, 0)", "vectors"),
    ])
    def test_rows_that_are_of_no_document(self, hybrid: Runtime, tmp_path: Path, statement: str, what: str) -> None:
        ingest(6)
        hybrid.close()
        connection = apsw.Connection(str(tmp_path / WHOLE))
        connection.execute(statement)
        connection.close()
        before = files(tmp_path)
        with pytest.raises(Failure, match=f"of which \\d+ are of its documents; run: rag check {WHOLE}") as caught:
            cut(hybrid, 2)
        assert (caught.value.error.code, f" {what}, of which" in str(caught.value)) == ("index_corrupt", True)
        hybrid.close()
        assert files(tmp_path) == before

    @pytest.mark.parametrize("statement", ["UPDATE rag_chunks SET text = CAST(x'ff' AS TEXT) WHERE doc_id = 'd1'", "DELETE FROM rag_vectors_vector_chunks00",
                                           "UPDATE rag_vectors_rowids SET chunk_offset = 999"])
    def test_damage_is_told_of_the_index_that_has_it(self, hybrid: Runtime, tmp_path: Path, statement: str) -> None:
        ingest(6)
        hybrid.close()
        connection = apsw.Connection(str(tmp_path / WHOLE))
        connection.execute(statement)
        connection.close()
        with pytest.raises(Failure, match=f"^the index '{WHOLE}' is damaged") as caught:
            cut(hybrid, 2)
        assert caught.value.error.code == "index_corrupt"
        hybrid.close()
        assert sorted(files(tmp_path)) == [WHOLE]


class TestEndings:
    """Whatever ends it early leaves no shard; nothing ever changes the index."""

    def test_the_index_is_as_it_was(self, hybrid: Runtime, tmp_path: Path) -> None:
        ingest(20)
        hybrid.close()
        before = files(tmp_path)
        cut(hybrid, 3)
        hybrid.close()
        assert sorted(files(tmp_path)) == ["whole-0.db", "whole-1.db", "whole-2.db", WHOLE]
        assert files(tmp_path)[WHOLE] == before[WHOLE]

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), OSError(5, "broken")])
    @pytest.mark.parametrize("call", [1, 2, 5])
    def test_stopped_in_the_middle(self, hybrid: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, call: int) -> None:
        ingest(20)
        add, calls = writer.add, list[str]()

        def stopping(*given: Any) -> range:
            calls.append(given[1])
            if len(calls) == call:
                raise error
            return add(*given)

        with monkeypatch.context() as patch:
            patch.setattr(writer, "add", stopping)
            with pytest.raises(type(error)):
                cut(hybrid, 5)
        assert calls[-1].endswith(".unfinished")
        assert [name for name in sorted(files(tmp_path)) if not name.startswith(WHOLE)] == []
        assert sum(shard.documents for shard in cut(hybrid, 5)) == 20

    def test_a_full_disk_is_told_of_the_index(self, lexical: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ingest(40)
        add = writer.add

        def full(connection: apsw.Connection, *rest: Any) -> range:
            connection.pragma("max_page_count", connection.pragma("page_count"))
            return add(connection, *rest)

        monkeypatch.setattr(writer, "add", full)
        with pytest.raises(Failure, match=f"^the disk is full; the index '{WHOLE}' is unchanged$") as caught:
            cut(lexical, 2)
        assert caught.value.error.code == "disk_full"
        assert [name for name in sorted(files(tmp_path)) if not name.startswith(WHOLE)] == []

    @pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system of a few megabytes needs root")
    def test_a_really_full_file_system(self, lexical: Runtime, tmp_path: Path) -> None:
        ingest(400, words=400)
        (tmp_path / "small").mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path / "small")], check=False, capture_output=True)
        if mounted.returncode:
            pytest.skip("this system lets nobody mount a small file system")
        try:
            assert refused(lexical, 2, folder="small") in ("disk_full", "index_io")
            assert files(tmp_path / "small") == {}
        finally:
            subprocess.run(["umount", str(tmp_path / "small")], check=True)

    @pytest.mark.parametrize("call", [1, 3])
    def test_killed_and_done_again(self, hybrid: Runtime, tmp_path: Path, call: int) -> None:
        ingest(20)
        hybrid.close()
        before = files(tmp_path)
        program = f"""
import os
from rag_stdlib import Config, Runtime
from rag_stdlib.index import splitting, writer
add, calls = writer.add, []
def killing(*given):
    calls.append(given)
    if len(calls) == {call}:
        os.kill(os.getpid(), 9)
    return add(*given)
writer.add = killing
with Runtime(Config(), root={str(tmp_path)!r}) as runtime:
    splitting.split(runtime.root, runtime.store, {WHOLE!r}, 4)
"""
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
        left = [name for name in files(tmp_path) if not name.startswith(WHOLE)]
        assert ".whole-0.db.unfinished" in left
        assert all(name.startswith(".whole-") for name in left)
        assert sum(shard.documents for shard in cut(hybrid, 4)) == 20
        hybrid.close()
        after = files(tmp_path)
        assert sorted(after) == [*(f"whole-{number}.db" for number in range(4)), WHOLE]
        assert after[WHOLE] == before[WHOLE]
