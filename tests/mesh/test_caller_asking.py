"""What a caller asks, and how description and answer belong together."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from caller_doubles import NEW, OLD, Handlers, Run, Station, answer, asked, description, hit, replies, says

from rag_stdlib.contract.answers import RefusedAnswer, SignedAnswer
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.contract.verdicts import Refused
from rag_stdlib.mesh.caller import Caller
from rag_stdlib.mesh.errors import (
    CallTimeout,
    InvalidCall,
    NoProvider,
    PayloadRefused,
    ProviderError,
    Refusal,
)
from rag_stdlib.mesh.memory import MemoryMesh
from rag_stdlib.mesh.transport import PinnedReply, Request

# --- the description and the answer belong together --------------------------------------------------------------------------------


def test_a_head_that_moved_in_between_is_described_once_more(ask: Callable[..., Any], a: NodeKey) -> None:
    old, new = description(OLD, a), description(NEW, a)
    turns = iter([old, new])
    got = ask({"describe_corpus": lambda _request: next(turns), "answer_query": says(answer(new, hit(commit=NEW)))})
    assert isinstance(got, SignedAnswer)
    assert got.hits[0].in_corpus
    assert list(turns) == []


def test_an_answer_of_another_corpus_is_refused_after_the_second_look(ask: Callable[..., Any], a: NodeKey) -> None:
    seen: list[Request] = []

    def describe(request: Request) -> object:
        seen.append(request)
        return description(OLD, a)

    got = ask({"describe_corpus": describe, "answer_query": says(answer(description(NEW)))})
    assert isinstance(got, RefusedAnswer)
    assert got.reason.reason == "not_the_answering_corpus"
    assert len(seen) == 2


def test_a_second_description_that_fails_leaves_the_answer_unchecked(ask: Callable[..., Any], a: NodeKey) -> None:
    turns = iter([description(OLD, a)])

    def describe(_request: Request) -> object:
        for described in turns:
            return described
        raise Refusal("store_opening")

    got = ask({"describe_corpus": describe, "answer_query": says(answer(description(NEW)))})
    assert isinstance(got, RefusedAnswer)
    assert got.reason.reason == "unchecked"
    assert "store_opening" in got.reason.detail


@pytest.mark.parametrize("pinned", [True, False])
def test_a_failing_description_leaves_the_answer_unchecked(pinned: bool, ask: Callable[..., Any], a: NodeKey) -> None:
    got = ask(replies(Refusal("corpus_list_refused", "duplicate_id alpha"), answer(description())), pinned=pinned)
    assert isinstance(got, RefusedAnswer)
    assert got.reason == Refused("unchecked", "the provider answered handler_error: corpus_list_refused: duplicate_id alpha")
    assert got.provider == (a.node_id if pinned else None)
    assert got.hits == (hit(),)


def test_a_provider_that_describes_nothing_leaves_the_answer_unchecked(ask: Callable[..., Any]) -> None:
    got = ask({"answer_query": says(answer(description()))})
    assert isinstance(got, RefusedAnswer)
    assert got.reason.reason == "unchecked"


def test_a_failing_question_is_no_answer(ask: Callable[..., Any], a: NodeKey) -> None:
    for described in (description(key=a), Refusal("store_opening")):
        with pytest.raises(ProviderError) as caught:
            ask(replies(described, Refusal("dimension_mismatch", "expected 384 numbers, got 3")))
        assert caught.value.name == "dimension_mismatch"


def test_nobody_to_ask(ask: Callable[..., Any]) -> None:
    for pinned in (True, False):
        with pytest.raises(NoProvider):
            ask({}, pinned=pinned)


def test_a_failing_question_does_not_wait_for_the_description(run: Run, a: NodeKey) -> None:
    gate = threading.Event()

    def describe(_request: Request) -> object:
        gate.wait(10)
        return description()

    async def question(caller: Caller) -> float:
        begin = time.perf_counter()
        with pytest.raises(ProviderError):
            await caller.ask("what?", provider=a.node_id)
        took = time.perf_counter() - begin
        gate.set()
        return took

    assert run(asked({"describe_corpus": describe, "answer_query": says(Refusal("no_embed_model"))}, a, question)) < 5


def test_both_are_asked_at_once(ask: Callable[..., Any], a: NodeKey) -> None:
    described, both = description(key=a), threading.Barrier(2, timeout=10)

    def handler(request: Request) -> object:
        both.wait()
        return described if request.procedure == "acme/describe_corpus" else answer(described)

    assert isinstance(ask({"describe_corpus": handler, "answer_query": handler}), SignedAnswer)


@pytest.mark.parametrize("slow", ["describe_corpus", "answer_query"])
def test_the_time_is_for_everything_together(slow: str, run: Run, a: NodeKey) -> None:
    gate, described = threading.Event(), description(key=a)

    def late(_request: Request) -> object:
        gate.wait(10)
        return described

    async def question(caller: Caller) -> Any:
        begin = time.perf_counter()
        try:
            return await caller.ask("what?", provider=a.node_id, timeout_s=0.05)
        except CallTimeout as error:
            return error
        finally:
            gate.set()
            assert time.perf_counter() - begin < 5

    got = run(asked({**replies(described, answer(described)), slow: late}, a, question))
    if slow == "answer_query":
        assert isinstance(got, CallTimeout)
    else:
        assert isinstance(got, RefusedAnswer)
        assert got.reason.reason == "unchecked"
        assert "within 0.0" in got.reason.detail


def test_no_time_left_for_a_second_look_leaves_the_answer_unchecked(run: Run, a: NodeKey) -> None:
    described: list[str] = []

    class Late(Station):
        async def call_pinned(self, procedure: str, _payload: object = None, *, provider: str, **_: object) -> object:
            if procedure.endswith("describe_corpus"):
                described.append(procedure)
                return PinnedReply(description(OLD, a), provider)  # type: ignore[arg-type]
            await asyncio.sleep(0.03)
            return PinnedReply(answer(description(NEW)), provider)  # type: ignore[arg-type]

    caller = Caller(Late(lambda *_: None, {}), "acme")  # type: ignore[arg-type]
    got = run(caller.ask("what?", provider=a.node_id, timeout_s=0.02))
    assert isinstance(got, RefusedAnswer)
    assert got.reason == Refused("unchecked", "no reply from acme/describe_corpus within 0.02 s")
    assert len(described) == 1


def test_a_cancelled_question_leaves_no_task(run: Run, a: NodeKey) -> None:
    gate = threading.Event()

    async def question(caller: Caller) -> None:
        asking = asyncio.create_task(caller.ask("what?", provider=a.node_id))
        await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert asyncio.all_tasks() - before == set()
        gate.set()

    before: set[Any] = set()

    async def body(caller: Caller) -> None:
        before.update(asyncio.all_tasks())
        await question(caller)

    run(asked({name: lambda _request: gate.wait(10) and None for name in ("describe_corpus", "answer_query")}, a, body))


# --- what is asked ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("question", "payload"), [
    ({"query": "what?"}, {"query_text": "what?", "top_k": 10}),
    ({"query": ""}, {"query_text": "", "top_k": 10}),
    ({"vector": [1, 0.5]}, {"query_vector": [1.0, 0.5], "top_k": 10}),
    ({"vector": np.array([1, 0.5], dtype=np.float32)}, {"query_vector": [1.0, 0.5], "top_k": 10}),
    ({"vector": (Fraction(1, 4),)}, {"query_vector": [0.25], "top_k": 10}),
    ({"query": "q", "vector": [1.0], "top_k": 100}, {"query_text": "q", "query_vector": [1.0], "top_k": 100}),
    ({"query": "q", "top_k": 1, "topics": ("erlang", "mesh")}, {"query_text": "q", "top_k": 1, "topics": ["erlang", "mesh"]}),
    ({"query": "q", "topics": "erlang"}, {"query_text": "q", "top_k": 10, "topics": ["erlang"]}),
])
def test_a_question_crosses_as_the_contract_has_it(question: dict[str, Any], payload: dict[str, Any], run: Run, a: NodeKey) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> object:
        seen.append(request)
        return answer(description())

    run(asked({"describe_corpus": says(description()), "answer_query": handler}, a, lambda caller: caller.ask(provider=a.node_id, **question)))
    assert [request.payload for request in seen] == [payload]


@pytest.mark.parametrize("question", [
    {}, {"query": 7}, {"query": b"what?"}, {"query": "q", "top_k": 0}, {"query": "q", "top_k": 101}, {"query": "q", "top_k": -(10**5_000)},
    {"query": "q", "top_k": True}, {"query": "q", "top_k": 5.0}, {"query": "q", "top_k": "5"}, {"query": "q", "topics": [7]},
    {"query": "q", "topics": [b"erlang"]}, {"query": "q", "timeout_s": 0}, {"query": "q", "provider": "zz"}, {"query": "q", "provider": ""},
    {"vector": []}, {"vector": "1.0"}, {"vector": b"abc"}, {"vector": bytearray(b"abc")}, {"vector": {1.0, 2.0}}, {"vector": {1.0: 2}}, {"vector": [True]}, {"vector": [None]}, {"vector": [math.nan]}, {"vector": [math.inf]},
    {"vector": [10**400]}, {"vector": [[1.0]]}, {"vector": np.zeros((2, 2))}, {"vector": ["1"]}, {"vector": 7}, {"query": "q", "topics": 7},
    {"query": "q", "topics": None},
])
def test_what_no_provider_could_be_asked_is_refused_here(question: dict[str, Any], run: Run, a: NodeKey) -> None:
    called: list[Request] = []
    handlers: Handlers = dict.fromkeys(("describe_corpus", "answer_query"), called.append)

    async def body(caller: Caller) -> None:
        with pytest.raises(InvalidCall):
            await caller.ask(**{"provider": a.node_id, **question})

    run(asked(handlers, a, body))
    assert called == []


def test_a_question_that_is_no_unicode_is_refused_before_it_is_sent(ask: Callable[..., Any]) -> None:
    with pytest.raises(PayloadRefused):
        ask(replies(description(), answer(description())), topics=["\ud83d"])


@pytest.mark.parametrize("org", ["", "_", "a/b", "~", "~ab", "é" * 300, "\ud83d"])
def test_an_organisation_is_a_name_without_a_slash(org: str) -> None:
    with pytest.raises(InvalidCall):
        Caller(MemoryMesh().node(), org)


def test_a_nodes_own_namespace_is_asked_like_an_organisation(run: Run, a: NodeKey) -> None:
    described = description(key=a)

    async def body() -> Any:
        mesh = MemoryMesh()
        provider, mine = mesh.node(key=a), mesh.node()
        for name, handler in replies(described, answer(described)).items():
            await provider.serve(f"~{a.node_id}/{name}", handler)
        got = await Caller(mine, f"~{a.node_id}").ask("what?", provider=a.node_id)
        await provider.close()
        return got

    assert isinstance(run(body()), SignedAnswer)
