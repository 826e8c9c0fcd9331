"""`rag shard split` and `of`; what a shard holds is tested with the index."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_sources import Repo, needs_git
from embedder_double import EmbedderDouble

from rag_stdlib.contract import NodeKey
from rag_stdlib.index import splitting
from rag_stdlib.index.sharding import shard_of
from rag_stdlib.keyfile import save_new_key

Write = Callable[..., Path]
Rag = Any  # see conftest

DOC_IDS = [f"docs/{number}.txt" for number in range(9)]


@pytest.fixture
def stored(rag: Rag, write: Write) -> Rag:
    """Nine documents in x.db."""
    for number, doc_id in enumerate(DOC_IDS):
        write(doc_id, f"document {number} about refunds\n")
    assert rag("ingest", "x.db", "docs").code == 0
    return rag


def beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith((".x", "x-")))


class TestSplit:
    """`rag shard split`."""

    def test_the_shards_stand_in_a_table(self, stored: Rag, folder: Path) -> None:
        done = stored("shard", "split", "x.db", "-n", "2")
        counts = [sum(shard_of(doc_id, 2) == number for doc_id in DOC_IDS) for number in range(2)]
        assert (done.code, done.err) == (0, "")
        assert done.out == ("shard   documents     chunks\n"
                            f"x-0.db  {counts[0]:>9}  {counts[0]:>9}\n"
                            f"x-1.db  {counts[1]:>9}  {counts[1]:>9}\n")
        assert beside(folder) == ["x-0.db", "x-1.db"]
        for number in range(2):
            assert stored("check", f"x-{number}.db").out == f"clean: {counts[number]} documents, {counts[number]} chunks, 0 vectors\n"
        assert stored("stats", "x-1.db").err == "rag: note: shard 1/2 of an index that was split by documents\n"

    def test_json_lists_them_by_their_paths_below_the_root(self, stored: Rag, folder: Path) -> None:
        (folder / "out").mkdir()
        done = stored("shard", "split", "x.db", "-n", "3", "--to", "out", "--json")
        assert (done.code, done.err) == (0, "")
        assert [(shard["index"], shard["shard"]) for shard in done.json] == [(f"out/x-{number}.db", f"{number}/3") for number in range(3)]
        assert sum(shard["documents"] for shard in done.json) == sum(shard["chunks"] for shard in done.json) == 9
        assert {shard["vectors"] for shard in done.json} == {0}

    @pytest.mark.parametrize(("arguments", "named"), [(("../x.db",), "../x-0.db"), (("../x.db", "--to", "."), "x-0.db"), (("../x.db", "--to", "../docs"), "../docs/x-0.db")])
    def test_the_table_names_files_as_they_are_reached_from_here(
            self, stored: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], named: str) -> None:
        (folder / "sub").mkdir()
        monkeypatch.chdir(folder / "sub")
        done = stored("shard", "split", "-n", "2", *arguments)
        assert done.out.splitlines()[1].split()[0] == named
        assert Path(named).exists()
        assert stored("check", named).code == 0

    def test_files_are_not_written_over(self, stored: Rag, folder: Path) -> None:
        (folder / "x-1.db").write_text("mine")
        refused = stored("shard", "split", "x.db", "-n", "2")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [index_exists]: there is a file 'x-1.db' already")
        assert len(refused.err.splitlines()) == 1
        assert (beside(folder), (folder / "x-1.db").read_text()) == (["x-1.db"], "mine")

    @pytest.mark.parametrize(("arguments", "code"), [
        (("gone.db", "-n", "2"), "index_missing"), (("docs", "-n", "2"), "path_special"), (("corvid.toml", "-n", "2"), "not_an_index"),
        (("../x.db", "-n", "2"), "path_parent"), (("x.db", "-n", "2", "--to", "nowhere"), "path_folder_missing"),
        (("x.db", "-n", "2", "--to", ""), "path_empty"), (("x.db", "-n", "2", "--to", "../.."), "path_parent")])
    def test_a_refusal_is_one_line_and_nothing_is_made(self, stored: Rag, folder: Path, arguments: tuple[str, ...], code: str) -> None:
        for form in ((), ("--json",)):
            refused = stored("shard", "split", *arguments, *form)
            assert (refused.code, refused.out) == (1, "")
            assert refused.err.startswith(f"rag: error [{code}]: ")
            assert len(refused.err.splitlines()) == 1
        assert beside(folder) == []

    @pytest.mark.parametrize("arguments", [(), ("-n", "1"), ("-n", "1025"), ("-n", "four"), ("-n", "2", "y.db")])
    def test_wrong_usage(self, stored: Rag, folder: Path, arguments: tuple[str, ...]) -> None:
        refused = stored("shard", "split", "x.db", *arguments)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
        assert refused.err.startswith("rag: usage: ")
        assert beside(folder) == []

    def test_it_reads_and_writes(self, stored: Rag, folder: Path) -> None:
        for grant in ("rag_read", "rag_write"):
            (folder / "corvid.toml").write_text(f'[io]\nroot = "."\n[effects]\ngrant = ["{grant}"]\n')
            refused = stored("shard", "split", "x.db", "-n", "2")
            assert refused.err.startswith("rag: error [effect_not_granted]: rag shard split uses the effect ")
        assert beside(folder) == []

    def test_without_a_root_it_is_refused(self, rag: Rag, folder: Path) -> None:
        (folder / "corvid.toml").unlink()
        assert rag("shard", "split", "x.db", "-n", "2").err.startswith("rag: error [root_unconfigured]: ")

    def test_ctrl_c_leaves_no_shard(self, stored: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def stop(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(splitting, "_put", stop)
            stopped = stored("shard", "split", "x.db", "-n", "2")
        assert (stopped.code, stopped.out, stopped.err) == (130, "", "rag: stopped; no shard was made\n")
        assert beside(folder) == []
        assert stored("shard", "split", "x.db", "-n", "2").code == 0

    def test_a_real_signal_leaves_no_shard(self, rag: Rag, folder: Path, write: Write) -> None:
        write("big.txt", "".join(f"line {number} about refunds and returns\n" for number in range(60_000)))
        rag("ingest", "x.db", "big.txt")
        child = subprocess.Popen([sys.executable, "-m", "rag_stdlib", "shard", "split", "x.db", "-n", "200"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (folder / ".x-3.db.unfinished").exists():
            time.sleep(0.005)
        child.send_signal(signal.SIGINT)
        assert (*child.communicate(timeout=30), child.returncode) == ("", "rag: stopped; no shard was made\n", 130)
        assert beside(folder) == []

    def test_nothing_is_embedded(self, rag: Rag, write: Write, configure: Callable[[Any], None]) -> None:
        double = EmbedderDouble()
        configure(double)
        write("docs/a.txt", "some words")
        rag("ingest", "x.db", "docs")
        asked = len(double.calls)
        assert sum(shard["vectors"] for shard in rag("shard", "split", "x.db", "-n", "2", "--json").json) == 1
        assert len(double.calls) == asked


class TestOf:
    """`rag shard of`."""

    def test_it_finds_the_shard_of_a_document(self, stored: Rag) -> None:
        stored("shard", "split", "x.db", "-n", "3")
        for doc_id in DOC_IDS:
            found = stored("shard", "of", doc_id, "-n", "3")
            assert (found.code, found.out, found.err) == (0, f"{shard_of(doc_id, 3)}\n", "")
            assert stored("get", f"x-{found.out.strip()}.db", doc_id).code == 0

    def test_it_needs_no_configuration(self, rag: Rag, folder: Path) -> None:
        (folder / "corvid.toml").unlink()
        assert rag("shard", "of", "docs/a.md", "-n", "1024").out == "90\n"

    @pytest.mark.parametrize(("doc_id", "code"), [("", "invalid_doc_id"), ("\udcff", "invalid_text"), ("x" * 2000, "invalid_doc_id")])
    def test_what_no_document_is_called_is_an_error(self, rag: Rag, doc_id: str, code: str) -> None:
        refused = rag("shard", "of", doc_id, "-n", "4")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith(f"rag: error [{code}]: ")

    @pytest.mark.parametrize("arguments", [("a",), ("a", "-n", "1"), ("a", "-n", "1025"), ("-n", "2")])
    def test_wrong_usage(self, rag: Rag, arguments: tuple[str, ...]) -> None:
        assert rag("shard", "of", *arguments).code == 2


def test_every_page_of_the_group_fits_and_shows_the_bounds(rag: Rag) -> None:
    for command in ("split", "of"):
        page = rag("shard", command, "--help")
        assert (page.code, page.err) == (0, "")
        assert "[2<=x<=1024]" in page.out
        assert all(len(line) <= 100 for line in page.out.splitlines())
    assert [line.split()[0] for line in rag("shard", "--help").out.partition("Commands:\n")[2].splitlines()] == ["split", "of"]


@needs_git
def test_a_shard_of_a_corpus_is_no_corpus(rag: Rag, folder: Path, configure: Callable[[Any], None]) -> None:
    configure(EmbedderDouble())
    source = Repo(folder / "src" / "handbook.git")
    pin = source.commit({f"{number}.md": f"# Refunds\n\nRefunds of kind {number} are paid within ten days of the return.\n" for number in range(6)})
    (folder / "corpus-repos.json").write_text(json.dumps({"repos": [{"id": "handbook", "url": source.url, "branch": "main", "commit": pin}]}))
    save_new_key(folder / "node.key", NodeKey.generate("pq_pure", puzzle_bits=0))
    assert rag("corpus", "sync", "kb.db").code == 0
    assert rag("shard", "split", "kb.db", "-n", "2").code == 0
    for command in (("describe",), ("hash",), ("sign", "--key", "node.key", "--profile", "pq_pure"), ("sync",), ("status",)):
        refused = rag("corpus", *command, "kb-1.db")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [index_is_shard]: the index 'kb-1.db' is shard 1/2 of a larger one: ")
        assert len(refused.err.splitlines()) == 1
    hits = [hit for number in range(2) for hit in rag("search", f"kb-{number}.db", "refunds", "--json").json]
    assert len(hits) == 6
    assert {(hit["metadata"]["kind"], hit["metadata"]["repo_id"], hit["metadata"]["commit"]) for hit in hits} == {("corpus", "handbook", pin)}
    assert not (folder / ".rag" / "kb-1.db").exists(), "nothing was fetched"
    assert rag("corpus", "status", "kb.db").code == 0
