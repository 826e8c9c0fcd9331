"""The asyncio twins: the same tools off the loop, with the caller's runtime and grant."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from embedder_double import EmbedderDouble

import rag_stdlib
from rag_stdlib import (
    RAG_READ,
    Config,
    Err,
    Ok,
    Runtime,
    ToolShapeError,
    arag_check,
    arag_ingest,
    arag_search,
    deterministic,
    grant,
    rag_ingest,
    rag_search,
)
from rag_stdlib.edge import TOOLS

PATH = "index.db"


def test_every_tool_has_a_twin_of_the_same_shape() -> None:
    for name, spec in TOOLS.items():
        twin, tool = getattr(rag_stdlib, f"a{name}"), getattr(rag_stdlib, name)
        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(twin) == inspect.signature(tool)
        assert (twin.__name__, twin.__effects__) == (f"a{name}", spec.effects)
        assert f"`{name}`" in (twin.__doc__ or "")


def test_fifty_searches_at_once_leave_the_loop_free(tmp_path: Path) -> None:
    def slow(_texts: Sequence[str]) -> None:
        time.sleep(0.02)

    async def main() -> tuple[list[object], int]:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.005)
                beats += 1

        heart = asyncio.create_task(beat())
        results = await asyncio.gather(*(arag_search(PATH, f"words {number}", 3) for number in range(50)))
        heart.cancel()
        return list(results), beats

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=slow)):
        for number in range(10):
            assert rag_ingest(PATH, f"d{number}", "s", f"some words {number}", 50).is_ok
        results, beats = asyncio.run(main())
        assert results == [rag_search(PATH, f"words {number}", 3) for number in range(50)]
    assert beats >= 10


def test_twins_carry_runtime_grant_and_determinism(lexical: Runtime) -> None:
    async def main() -> list[str]:
        results = [await arag_ingest(PATH, "d", "s", "words", 10)]
        with grant(RAG_READ):
            results += [await arag_ingest(PATH, "e", "s", "words", 10), await arag_check(PATH)]  # type: ignore[list-item]
        with deterministic():
            results += [await arag_search(PATH, "words", 1)]  # type: ignore[list-item]
        results += [await arag_search(PATH, "words", 1)]  # type: ignore[list-item]
        return [result.error.code if isinstance(result, Err) else "ok" for result in results]

    assert asyncio.run(main()) == ["ok", "effect_not_granted", "ok", "deterministic_context", "ok"]
    assert lexical.mode == "lexical"


def test_a_wrong_shape_is_raised_when_the_twin_is_awaited(lexical: Runtime) -> None:
    async def main() -> None:
        with pytest.raises(ToolShapeError):
            await arag_search(PATH, "words", True)
        with pytest.raises(ToolShapeError):
            await arag_search(PATH)  # type: ignore[call-arg]

    asyncio.run(main())
    assert lexical.mode == "lexical"


def test_a_cancelled_call_is_finished_in_its_thread_and_harms_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        task = asyncio.create_task(arag_ingest(PATH, "d", "s", "words of it", 50))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(before=lambda _texts: time.sleep(0.2))):
        asyncio.run(main())  # waits for the thread
        assert rag_search(PATH, "words", 1).unwrap()[0].doc_id == "d"
        assert isinstance(rag_ingest(PATH, "d", "s", "words of it", 50), Ok)
