"""The runtime: what the tools of a context work with, and when the ambient one is made anew."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from embedder_double import EmbedderDouble

import replay
from rag_stdlib import (
    RAG_READ,
    Config,
    Err,
    Ok,
    RagConfig,
    Runtime,
    carry,
    current_runtime,
    grant,
    rag_ingest,
    rag_search,
    rag_stats,
)
from rag_stdlib.errors import Failure
from rag_stdlib.runtime import active_recorder

PATH = "index.db"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CORVID_IO_ROOT", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def code(result: object) -> str:
    return result.error.code if isinstance(result, Err) else "ok"


def test_the_ambient_runtime_is_found_upward_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corvid.toml").write_text('[io]\nroot = "data"\n')
    (tmp_path / "data").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    assert rag_ingest(PATH, "d", "s", "words", 10) == Ok(1)
    assert (tmp_path / "data" / PATH).exists()
    assert current_runtime() is current_runtime()


def test_the_ambient_runtime_follows_the_file_the_folder_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "elsewhere/data", "elsewhere/env"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert code(rag_stats(PATH)) == "root_unconfigured"
    toml = tmp_path / "corvid.toml"
    toml.write_text('[io]\nroot = "one"\n')
    first = current_runtime()
    assert rag_ingest(PATH, "d", "s", "words", 10).is_ok
    toml.write_text('[io]\nroot = "two"\n')  # the same length, a moment later
    assert current_runtime() is not first
    assert code(rag_stats(PATH)) == "index_missing"
    assert not (tmp_path / "one" / f"{PATH}-wal").exists()  # the runtime of before was closed
    toml.write_text('[io]\nroot = "one"\n[effects]\ngrant = ["rag_read"]\n')
    assert (code(rag_stats(PATH)), code(rag_ingest(PATH, "d", "s", "w", 10))) == ("ok", "effect_not_granted")
    toml.write_text("[io]\nroots = 1\n")
    broken = rag_stats(PATH)
    assert code(broken) == "config_invalid"
    assert "did you mean 'root'?" in str(broken)
    toml.unlink()
    assert code(rag_stats(PATH)) == "root_unconfigured"
    monkeypatch.setenv("CORVID_IO_ROOT", "elsewhere/env")
    assert code(rag_stats(PATH)) == "index_missing"
    assert rag_ingest(PATH, "d", "s", "words", 10).is_ok
    assert (tmp_path / "elsewhere" / "env" / PATH).exists()
    monkeypatch.setenv("CORVID_IO_ROOT", str(tmp_path / "one"))
    assert code(rag_stats(PATH)) == "ok"
    monkeypatch.delenv("CORVID_IO_ROOT")
    (tmp_path / "elsewhere" / "corvid.toml").write_text('[io]\nroot = "data"\n')
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert code(rag_stats(PATH)) == "index_missing"


def test_a_key_that_is_missing_and_then_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corvid.toml").write_text('[io]\nroot = "."\n[rag]\nembedder = "openai"\ndim = 256\n')
    monkeypatch.chdir(tmp_path)
    assert code(rag_stats(PATH)) == "key_missing"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-of-no-use")
    assert code(rag_stats(PATH)) == "index_missing"
    assert current_runtime().has_embedder
    assert current_runtime().embedder is current_runtime().embedder
    embedder = current_runtime().embedder
    assert embedder is not None
    assert (current_runtime().mode, embedder.identity().describe()) == ("hybrid", "openai/text-embedding-3-small, 256 dimensions")


def test_a_working_folder_that_is_gone_is_an_err(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = rag_search(PATH, "q", 1)
    assert code(result) == "config_invalid"
    assert "working directory" in str(result)


def test_blocks_nest_and_each_restores_the_one_before(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    outer, inner = Runtime(Config(), root=tmp_path / "a"), Runtime(Config(), root=tmp_path / "b")
    before = os.environ.get("CORVID_IO_ROOT")
    with outer:
        assert rag_ingest(PATH, "outer", "s", "words", 10).is_ok
        with inner:
            assert current_runtime() is inner
            assert rag_ingest(PATH, "inner", "s", "words", 10).is_ok
            with outer:
                assert [chunk.doc_id for chunk in rag_search(PATH, "words", 5).unwrap()] == ["outer"]
            assert [chunk.doc_id for chunk in rag_search(PATH, "words", 5).unwrap()] == ["inner"]
        assert [chunk.doc_id for chunk in rag_search(PATH, "words", 5).unwrap()] == ["outer"]
        with pytest.raises(ZeroDivisionError), inner:
            raise ZeroDivisionError
        assert current_runtime() is outer
    assert os.environ.get("CORVID_IO_ROOT") == before
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [PATH, PATH]


def test_one_runtime_serves_blocks_in_many_threads_at_once(tmp_path: Path) -> None:
    runtime = Runtime(Config(), root=tmp_path)
    barrier = threading.Barrier(6)

    def work(number: int) -> str:
        barrier.wait(10)
        with runtime:  # holding the runtime is authority, so no carry is needed
            result = rag_ingest(PATH, f"d{number}", "s", "words", 10)
            barrier.wait(10)
            with grant(RAG_READ):
                refused = rag_ingest(PATH, f"e{number}", "s", "words", 10)
        return f"{code(result)} {code(refused)} {code(rag_stats(PATH))}"

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(work, range(6)))
    assert set(outcomes) == {"ok effect_not_granted effect_not_granted"}
    with runtime:
        assert rag_stats(PATH).unwrap().documents == 6


def test_one_runtime_serves_blocks_in_many_tasks_at_once(tmp_path: Path) -> None:
    runtime, other = Runtime(Config(), root=tmp_path), Runtime(Config())

    async def work(number: int) -> bool:
        with runtime if number % 2 else other:
            await asyncio.sleep(0.001 * (7 - number))
            result = current_runtime() is (runtime if number % 2 else other)
            await asyncio.sleep(0.001 * number)
            return result

    async def main() -> list[bool]:
        return await asyncio.gather(*(work(number) for number in range(8)))

    assert all(asyncio.run(main()))


def test_carry_takes_the_runtime_and_the_grant_along(lexical: Runtime) -> None:
    assert rag_ingest(PATH, "d", "s", "words", 10).is_ok
    with grant(RAG_READ):
        carried = carry(lambda: (code(rag_search(PATH, "words", 1)), code(rag_ingest(PATH, "e", "s", "t", 5)), current_runtime()))
    with ThreadPoolExecutor(4) as pool:
        assert {future.result() for future in [pool.submit(carried) for _ in range(8)]} == {("ok", "effect_not_granted", lexical)}


def test_what_is_given_overrides_what_is_configured(tmp_path: Path, embedder: EmbedderDouble) -> None:
    file = tmp_path / "my.toml"
    file.write_text('[io]\nroot = "."\n[rag]\nembedder = "ollama"\nmode = "vector"\n')
    assert Runtime(file).mode == "vector"
    assert Runtime(str(file), mode="lexical").mode == "lexical"
    assert Runtime(file).config.root == str(tmp_path)
    assert Runtime(file, root=tmp_path / "x").config.root == str(tmp_path / "x")
    assert Runtime(file, embedder=embedder).embedder is embedder
    assert Runtime(Config(), embedder=embedder).mode == "hybrid"
    assert (Runtime(Config()).mode, Runtime(Config()).embedder, Runtime(Config()).has_embedder) == ("lexical", None, False)
    assert Runtime(Config(rag=RagConfig(embedder="ollama", mode="hybrid"))).has_embedder
    with pytest.raises(Failure) as failed:
        Runtime(tmp_path / "none.toml")
    assert failed.value.error.code == "config_missing"
    with pytest.raises(Failure) as failed:
        _ = Runtime(Config()).store
    assert failed.value.error.code == "root_unconfigured"


def test_a_closed_runtime_can_be_used_again(tmp_path: Path) -> None:
    runtime = Runtime(Config(), root=tmp_path)
    for turn in range(3):
        with runtime:
            assert rag_ingest(PATH, f"d{turn}", "s", "words", 10).is_ok
            assert len(rag_search(PATH, "words", 9).unwrap()) == turn + 1
        assert [path.name for path in tmp_path.iterdir()] == [PATH]
        runtime.close()


def test_a_block_that_is_left_in_another_context_only_closes(tmp_path: Path) -> None:
    runtime = Runtime(Config(), root=tmp_path)
    context = contextvars.copy_context()
    context.run(runtime.__enter__)
    assert context.run(rag_ingest, PATH, "d", "s", "words", 10).is_ok
    runtime.__exit__(None, None, None)
    assert [path.name for path in tmp_path.iterdir()] == [PATH]
    assert context.run(current_runtime) is runtime


def test_full_synchronous_is_set_on_every_connection(tmp_path: Path) -> None:
    for wanted, level in (("full", 2), ("normal", 1)):
        with Runtime(Config(), root=tmp_path, synchronous=wanted) as runtime:  # type: ignore[arg-type]
            rag_ingest(PATH, "d", "s", "words", 10)
            with runtime.store.writing(PATH) as connection:
                assert connection.pragma("synchronous") == level
            with runtime.store.reading(PATH) as connection:
                assert connection.pragma("synchronous") == level


def test_progress_is_told_by_a_tool_that_takes_long(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    with Runtime(Config(), root=tmp_path):
        rag_ingest(PATH, "d", "s", "some words. other words.", 12)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(), progress=lambda *step: steps.append(step)):
        from rag_stdlib import rag_reembed

        done = rag_reembed(PATH).unwrap()
    assert steps[-1] == (done.embedded, done.embedded)


@pytest.mark.parametrize("written", ["kx7-of-no-use-at-all", "  kx8-of-no-use-at-all\n"])
def test_the_configured_key_gets_into_no_trace(tmp_path: Path, written: str) -> None:
    key = written.strip()
    with replay.record(tmp_path / "before.jsonl"), Runtime(Config(), root=tmp_path):
        rag_search(PATH, f"who knows {key}?", 1)
    assert key in (tmp_path / "before.jsonl").read_text()
    with replay.record(tmp_path / "after.jsonl"), Runtime(Config(openai_key=written), root=tmp_path):
        rag_search(PATH, f"who knows {key}?", 1)
    assert key not in (tmp_path / "after.jsonl").read_text()
    assert "<redacted>" in (tmp_path / "after.jsonl").read_text()


@pytest.mark.parametrize("key", ["", "abc", " \t\n "])
def test_what_is_too_short_for_a_key_is_not_hidden(tmp_path: Path, key: str) -> None:
    assert Runtime(Config(openai_key=key), root=tmp_path).config.openai_key == key


def test_the_recorder_of_a_context_is_found_without_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corvid.toml").write_text("[io")
    monkeypatch.chdir(tmp_path)
    assert active_recorder() is None
    with replay.record(tmp_path / "t.jsonl") as session:
        assert active_recorder() is session
        with Runtime(Config(), recorder=session) as runtime:
            assert active_recorder() is runtime.recorder is session
        with replay.live():
            assert active_recorder() is None
    with Runtime(Config()):
        assert active_recorder() is None
