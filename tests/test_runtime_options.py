"""What a program may say to `Runtime` and `RagConfig`, and that a fork in the middle of a first call leaves a child that works."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from embedder_double import EmbedderDouble

from rag_stdlib import Config, Err, RagConfig, Runtime, rag_ingest, rag_search
from rag_stdlib import runtime as runtime_module
from rag_stdlib.errors import Failure


@pytest.mark.parametrize(("options", "told"), [
    ({"mode": "vectr"}, "Runtime: mode is 'vectr', not one of hybrid, vector, lexical"),
    ({"synchronous": "fulll"}, "Runtime: synchronous is 'fulll', not one of normal, full"),
    ({"synchronous": None}, "Runtime: synchronous is None, not one of normal, full"),
    ({"root": ""}, "Runtime: root must not be blank"),
    ({"root": "  "}, "Runtime: root must not be blank"),
    ({"root": Path()}, None),
])
def test_options_outside_their_words_are_refused(options: dict[str, object], told: str | None) -> None:
    if told is None:
        assert Runtime(Config(), **options).root.path == str(Path.cwd())  # type: ignore[arg-type]
        return
    with pytest.raises(Failure) as refused:
        Runtime(Config(), **options)  # type: ignore[arg-type]
    assert refused.value.error.code == "config_invalid"
    assert str(refused.value.error).startswith(told)


@pytest.mark.parametrize(("values", "told"), [
    ({"embedder": "bogus"}, "RagConfig: embedder is 'bogus' (there are: openai, ollama, local)"),
    ({"embedder": "locl"}, "RagConfig: embedder is 'locl'; did you mean 'local'?"),
    ({"mode": "both"}, "RagConfig: mode is 'both'"),
    ({"dim": 0}, "RagConfig: dim must lie between 1 and 16384, not 0"),
    ({"timeout_s": "5"}, "RagConfig: timeout_s must be a number, not a string"),
    ({"vector_memory_mb": True}, "RagConfig: vector_memory_mb must be a whole number, not a boolean"),
])
def test_a_programs_rag_config_is_held_to_the_same_rules(values: dict[str, object], told: str) -> None:
    with pytest.raises(Failure) as refused:
        RagConfig(**values)  # type: ignore[arg-type]
    assert str(refused.value.error).startswith(told)


def test_the_mode_follows_the_embedder_unless_it_is_said() -> None:
    assert RagConfig().mode == "lexical"
    assert RagConfig(embedder="local").mode == "hybrid"
    assert RagConfig(embedder="local", mode="vector").mode == "vector"
    assert Runtime(Config(rag=RagConfig(embedder="local"))).mode == "hybrid"
    assert Runtime(Config(), embedder=EmbedderDouble()).mode == "hybrid"
    assert Runtime(Config(rag=RagConfig(mode="vector")), embedder=EmbedderDouble()).mode == "vector"


def test_a_blank_root_in_a_config_is_no_root() -> None:
    with Runtime(Config(root="")):
        result = rag_search("a.db", "x", 1)
    assert isinstance(result, Err)
    assert result.error.code == "root_unconfigured"


def test_a_working_folder_that_is_gone_is_a_failure_of_the_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(Failure) as refused:
        Runtime()
    assert refused.value.error.code == "config_invalid"
    assert "the working directory: cannot be used" in str(refused.value.error)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_while_another_thread_reads_the_configuration_leaves_a_child_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "corvid.toml").write_text('[io]\nroot = "."\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CORVID_IO_ROOT", raising=False)
    read, inside = runtime_module.load_config, threading.Event()

    def slow(*args: object) -> Config:
        inside.set()
        time.sleep(0.3)
        return read(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(runtime_module, "load_config", slow)
    thread = threading.Thread(target=runtime_module.current_runtime)
    thread.start()
    assert inside.wait(10)
    child = os.fork()
    if child == 0:  # pragma: no cover - measured by its exit code
        signal.alarm(20)
        os._exit(0 if rag_ingest("a.db", "d", "s", "from the child", 50).is_ok else 1)
    _, status = os.waitpid(child, 0)
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert rag_search("a.db", "child", 1).unwrap()[0].doc_id == "d"
