"""Effects: an algebra, and grants that only ever narrow."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib import Config, Runtime, rag_ingest, rag_search
from rag_stdlib.edge import TOOLS
from rag_stdlib.effects import (
    EFFECTS,
    RAG_READ,
    RAG_WRITE,
    Effect,
    authority,
    carry,
    compose,
    deterministic,
    grant,
    refusal,
    uses,
)
from rag_stdlib.result import RagError

BOTH = frozenset(EFFECTS)
DYADIC = st.integers(0, 1000).map(lambda number: number / 8)  # sums of these are exact, in any order
PROFILES = st.builds(
    Effect, st.sampled_from(["a", "b", "c", "rag_read"]), reversible=st.booleans(),
    data=st.frozensets(st.sampled_from(["external", "pii", "untrusted"])),
    trust=st.sampled_from(["autonomous", "supervisor_required", "human_required"]),
    cost=DYADIC, tokens=st.integers(0, 100), latency_ms=DYADIC,
    confidence=st.integers(0, 8).map(lambda number: number / 8))


def may(*row: Effect, configured: frozenset[str] = BOTH) -> bool:
    return refusal("tool", row, configured) is None


def rights() -> tuple[bool, bool]:
    """Tell whether this context may read and may write."""
    return may(RAG_READ), may(RAG_WRITE)


def in_thread(function: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


# --- the rows ---

def test_the_rows_of_std_rag() -> None:
    assert Effect("rag_read", reversible=True, data=frozenset()) == RAG_READ
    assert Effect("rag_write", reversible=False, data=frozenset({"external"})) == RAG_WRITE
    assert EFFECTS == {"rag_read": RAG_READ, "rag_write": RAG_WRITE}
    assert rag_ingest.__effects__ == (RAG_WRITE,)  # type: ignore[attr-defined]
    assert rag_search.__effects__ == (RAG_READ,)  # type: ignore[attr-defined]


def test_every_tool_has_a_row_that_can_be_read() -> None:
    from rag_stdlib import tools

    assert {"rag_ingest", "rag_search", "rag_delete", "rag_stats", "rag_check", "rag_compact", "rag_reembed", "rag_get", "rag_query"} <= set(TOOLS)
    for name, spec in TOOLS.items():
        assert spec.effects
        assert getattr(tools, name).__effects__ == spec.effects
        writes = name.startswith(("rag_ingest", "rag_delete", "rag_compact", "rag_reembed"))
        assert (RAG_WRITE in spec.effects) is writes, name


# --- the algebra of compose ---

@settings(deadline=None, max_examples=80, derandomize=True)
@given(PROFILES, PROFILES, PROFILES)
def test_compose_is_associative_commutative_and_has_a_neutral_element(a: Effect, b: Effect, c: Effect) -> None:
    assert compose(compose(a, b), c) == compose(a, compose(b, c)) == compose(a, b, c)
    assert compose(a, b) == compose(b, a)
    assert compose(a, Effect("")) == compose(Effect(""), a) == compose(a) == a


@settings(deadline=None, max_examples=100, derandomize=True)
@given(PROFILES)
def test_compose_is_idempotent_but_for_what_adds_up(a: Effect) -> None:
    twice = compose(a, a)
    assert (twice.name, twice.reversible, twice.data, twice.trust, twice.confidence) == (a.name, a.reversible, a.data, a.trust, a.confidence)
    assert (twice.cost, twice.tokens, twice.latency_ms) == (2 * a.cost, 2 * a.tokens, 2 * a.latency_ms)


def test_compose_by_dimension() -> None:
    one = Effect("x", reversible=True, data=frozenset({"p"}), trust="supervisor_required", cost=1, tokens=2, latency_ms=3, confidence=0.9)
    two = Effect("a", reversible=False, data=frozenset({"q"}), trust="human_required", cost=10, tokens=20, latency_ms=30, confidence=0.5)
    assert compose(one, two) == Effect(
        "a+x", reversible=False, data=frozenset({"p", "q"}), trust="human_required", cost=11, tokens=22, latency_ms=33, confidence=0.5)
    assert compose() == Effect("")
    assert compose(RAG_READ, RAG_WRITE).name == "rag_read+rag_write"


# --- grants ---

def test_without_a_block_only_the_configuration_decides() -> None:
    assert rights() == (True, True)
    assert may(RAG_READ, configured=frozenset({"rag_read"}))
    assert not may(RAG_WRITE, configured=frozenset({"rag_read"}))
    assert not may(RAG_READ, configured=frozenset())


@pytest.mark.parametrize(("outer", "inner", "expected"), [
    (("rag_read",), ("rag_read", "rag_write"), (True, False)), (("rag_read",), ("rag_write",), (False, False)), ((), ("rag_read",), (False, False)),
    ((RAG_READ, RAG_WRITE), (RAG_WRITE,), (False, True)), (("rag_read", RAG_WRITE), ("rag_read", "rag_write"), (True, True)),
])
def test_nested_grants_only_narrow(outer: tuple[Any, ...], inner: tuple[Any, ...], expected: tuple[bool, bool]) -> None:
    with grant(*outer):
        before = rights()
        with grant(*inner):
            assert rights() == expected
        assert rights() == before
    assert rights() == (True, True)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(st.sets(st.sampled_from(sorted(EFFECTS))), max_size=5))
def test_any_nesting_is_the_intersection(blocks: list[set[str]]) -> None:
    from contextlib import ExitStack

    with ExitStack() as stack:
        for block in blocks:
            stack.enter_context(grant(*block))
        allowed = set(EFFECTS).intersection(*blocks)
        assert rights() == ("rag_read" in allowed, "rag_write" in allowed)
    assert rights() == (True, True)


def test_a_block_left_by_an_exception_is_left() -> None:
    with pytest.raises(ZeroDivisionError), grant():
        raise ZeroDivisionError
    assert rights() == (True, True)


@pytest.mark.parametrize("make", [lambda: grant("rag_raed").__enter__(), lambda: uses("rag_read", "write"), lambda: uses(Effect("other"))])
def test_an_unknown_effect_is_a_mistake_of_the_program(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"no such effect: (rag_raed|write|other) \(there are: rag_read, rag_write\)"):
        make()


def test_a_refusal_says_what_is_missing_and_where() -> None:
    with grant("rag_read"):
        error = refusal("rag_ingest", (RAG_WRITE,), BOTH)
    assert isinstance(error, RagError)
    assert (error.code, str(error)) == ("effect_not_granted", "rag_ingest uses the effect rag_write, which is not granted here")
    configured = refusal("rag_ingest", (RAG_WRITE,), frozenset())
    assert configured is not None
    assert "see [effects] grant in corvid.toml" in configured


# --- threads, tasks and contexts ---

def test_a_thread_without_a_context_gets_nothing_and_is_told_why() -> None:
    assert in_thread(rights) == (False, False)
    assert "start its function through rag_stdlib.carry" in in_thread(lambda: refusal("t", (RAG_READ,), BOTH))


def test_a_bare_thread_cannot_help_itself() -> None:
    def helping() -> tuple[bool, bool]:
        with grant("rag_read", "rag_write"):
            return rights()

    assert in_thread(helping) == (False, False)


def test_carry_takes_the_grant_along_and_gives_it_back() -> None:
    assert in_thread(carry(rights)) == (True, True)
    with grant("rag_read"):
        carried = carry(rights)
        with deterministic():
            strict = carry(rights)
    assert carried() == (True, False), "the grant of where it was bound"
    assert in_thread(carried) == (True, False)
    assert in_thread(strict) == (False, False)
    assert rights() == (True, True)
    assert carried.__name__ == "rights"


def test_carry_in_a_bare_thread_carries_nothing() -> None:
    assert in_thread(lambda: in_thread(carry(rights))) == (False, False)


def test_a_copied_context_carries_the_grant() -> None:
    with grant("rag_read"):
        context = contextvars.copy_context()
    assert in_thread(lambda: context.run(rights)) == (True, False)
    assert in_thread(lambda: contextvars.Context().run(rights)) == (False, False)


def test_asyncio_tasks_and_to_thread_inherit() -> None:
    async def look() -> tuple[bool, bool]:
        await asyncio.sleep(0)
        return rights()

    async def main() -> list[tuple[bool, bool]]:
        with grant("rag_read"):
            tasks = [asyncio.create_task(look()), asyncio.create_task(asyncio.to_thread(rights))]
        assert rights() == (True, True)
        with grant("rag_write"):
            return [*await asyncio.gather(*tasks), await asyncio.to_thread(rights)]

    assert asyncio.run(main()) == [(True, False), (True, False), (False, True)]


def test_authority_is_for_bare_contexts_only() -> None:
    def inside() -> tuple[bool, bool]:
        with authority():
            return rights()

    assert in_thread(inside) == (True, True)
    assert in_thread(lambda: (inside(), rights())[1]) == (False, False), "given back at the end"
    with grant("rag_read"):
        assert inside() == (True, False), "it widens no grant"


# --- @uses ---

@uses("rag_read")
def reader() -> tuple[bool, bool]:
    return rights()


@uses(RAG_READ)
async def async_reader() -> tuple[bool, bool]:
    await asyncio.sleep(0)
    return rights()


@uses("rag_write", "rag_read")
def caller() -> tuple[bool, bool]:
    return reader()


def test_uses_tags_and_narrows() -> None:
    assert reader.__effects__ == (RAG_READ,)  # type: ignore[attr-defined]
    assert async_reader.__effects__ == (RAG_READ,)  # type: ignore[attr-defined]
    assert caller.__effects__ == (RAG_READ, RAG_WRITE)  # type: ignore[attr-defined]
    assert uses()(rights).__effects__ == ()  # type: ignore[attr-defined]
    assert reader() == caller() == (True, False)
    assert asyncio.run(async_reader()) == (True, False)
    assert uses()(rights)() == (False, False)
    with grant("rag_write"):
        assert reader() == (False, False)
    assert in_thread(reader) == (False, False)
    assert (reader.__name__, asyncio.iscoroutinefunction(async_reader)) == ("reader", True)


def test_uses_reaches_imported_functions_and_nested_calls(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path):
        refused = uses("rag_read")(lambda: rag_ingest("i.db", "d", "s", "text", 10))()
        assert refused.unwrap_or("refused") == "refused"
        assert refused.error.code == "effect_not_granted"
        assert list(tmp_path.iterdir()) == [], "refused before anything is opened"
        assert uses("rag_write")(lambda: rag_ingest("i.db", "d", "s", "text", 10))().unwrap() == 1


def test_a_generator_is_not_held_to_a_row_and_says_so() -> None:
    def rows() -> Iterator[int]:
        yield 1

    async def async_rows() -> AsyncIterator[int]:
        yield 1

    for function in (rows, async_rows):
        with pytest.raises(TypeError, match="put grant"):
            uses("rag_read")(function)


# --- deterministic ---

def test_no_tool_runs_in_a_deterministic_block(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path), deterministic():
        result = rag_search("i.db", "q", 1)
        assert result.error.code == "deterministic_context"  # type: ignore[union-attr]
        with grant("rag_read"):
            assert rights() == (False, False)
        assert asyncio.run(async_reader()) == (False, False)
    assert rights() == (True, True)
