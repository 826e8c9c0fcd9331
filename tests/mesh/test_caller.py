"""A caller and what providers, honest and other, can make of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from caller_doubles import NEW, Run, Station, answer, asked, description, hit, replies
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.contract.answers import RefusedAnswer, SignedAnswer, UnsignedAnswer
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.contract.verdicts import HitVerdict, Membership, Refused
from rag_stdlib.mesh.caller import Caller
from rag_stdlib.mesh.errors import (
    ReplyRefused,
)
from rag_stdlib.mesh.memory import MemoryMesh
from rag_stdlib.mesh.transport import PinnedReply, UnpinnedReply

PLANTED = {"in_corpus": 1, "content_verified": 1, "corpus_reason": "trust me"}


# --- honest providers ----------------------------------------------------------------------------------------------------------


def test_a_signed_corpus_makes_a_signed_answer(ask: Callable[..., Any], a: NodeKey) -> None:
    described = description(key=a)
    got = ask(replies(described, {**answer(described), "index_content": "e" * 64}))
    assert isinstance(got, SignedAnswer)
    assert (got.provider, got.corpus_hash, got.index_content) == (a.node_id, described["corpus_hash"], "e" * 64)
    checked, = got.hits
    assert (checked.hit, checked.content_verified, checked.in_corpus) == (hit(), HitVerdict.OK, Membership.IN_CORPUS)


def test_an_unsigned_corpus_makes_an_unsigned_answer(ask: Callable[..., Any], a: NodeKey) -> None:
    described = {**description(), "signed_by": a.node_id}
    got = ask(replies(described, answer(described)))
    assert isinstance(got, UnsignedAnswer)
    assert got.provider == a.node_id
    assert got.hits[0].content_verified


def test_an_unpinned_answer_is_never_signed(ask: Callable[..., Any], a: NodeKey) -> None:
    described = description(key=a)
    got = ask(replies(described, answer(described)), pinned=False)
    assert isinstance(got, UnsignedAnswer)
    assert got.provider is None


def test_a_provider_in_upper_case_is_the_same_node(run: Run, a: NodeKey) -> None:
    described = description(key=a)
    got = run(asked(replies(described, answer(described)), a, lambda caller: caller.ask("what?", provider=a.node_id.upper())))
    assert isinstance(got, SignedAnswer)


# --- lying providers -------------------------------------------------------------------------------------------------------------


def test_r185_a_copy_of_anothers_signed_description_is_refused(ask: Callable[..., Any], a: NodeKey, pure_key: Callable[[int], NodeKey]) -> None:
    for copied in (description(key=a), {**description(key=a), "signed_by": pure_key(2).node_id}):
        got = ask(replies(copied, answer(copied)), key=2)
        assert isinstance(got, RefusedAnswer)
        assert got.reason == Refused("signer_not_provider")
        assert got.hits == (hit(),)


def tampered(signed: dict[str, object]) -> dict[str, object]:
    return {**signed, "dim": 768}


def rehashed(signed: dict[str, object]) -> dict[str, object]:
    return {**signed, **description(NEW)}


def garbage(signed: dict[str, object]) -> dict[str, object]:
    return {**signed, "signature": b"not cbor"}


def flipped(signed: dict[str, object]) -> dict[str, object]:
    signature = bytearray(signed["signature"])  # type: ignore[arg-type]
    signature[3_000] ^= 1
    return {**signed, "signature": bytes(signature)}


@pytest.mark.parametrize(("lie", "reason"), [
    (tampered, Refused("corpus_hash_mismatch")),
    (rehashed, Refused("signature_hash_mismatch")),
    (garbage, Refused("signature", "malformed")),
    (flipped, Refused("signature", "signature_invalid")),
])
def test_a_signature_that_does_not_hold_refuses_the_answer(lie: Callable[..., dict[str, object]], reason: Refused, ask: Callable[..., Any],
                                                           a: NodeKey) -> None:
    described = lie(description(key=a))
    got = ask(replies(described, answer(described)))
    assert isinstance(got, RefusedAnswer)
    assert (got.reason, got.provider) == (reason, a.node_id)
    assert got.hits == (hit(),)


def test_a_key_of_another_profile_does_not_count(ask: Callable[..., Any], a: NodeKey) -> None:
    described = description(key=a)
    got = ask(replies(described, answer(described)), profile="pq_hybrid")
    assert isinstance(got, RefusedAnswer)
    assert got.reason == Refused("signature", "malformed")


def test_changed_hits_are_marked_whatever_the_provider_wrote_on_them(ask: Callable[..., Any], a: NodeKey) -> None:
    described = description(key=a)
    lies = [{**hit("the truth"), "content": "a lie", **PLANTED}, {**hit(commit=NEW), **PLANTED}, {**hit(), "provenance": {"kind": "corpus"}, **PLANTED}]
    got = ask(replies(described, answer(described, *lies)))
    assert isinstance(got, SignedAnswer)
    assert [(each.content_verified, each.in_corpus) for each in got.hits] == [
        (HitVerdict.CONTENT_MISMATCH, Membership.IN_CORPUS),
        (HitVerdict.OK, Membership.COMMIT_NOT_IN_CORPUS),
        (HitVerdict.MALFORMED_PROVENANCE, Membership.MALFORMED_PROVENANCE),
    ]
    assert all(PLANTED.keys().isdisjoint(each.hit) for each in got.hits)


@pytest.mark.parametrize("described", [None, 7, "text", [], {}, {"repos": None}, {**description(), "corpus_hash": None}])
def test_a_malformed_description_refuses_the_answer(described: object, ask: Callable[..., Any]) -> None:
    got = ask(replies(described, answer(description())))
    assert isinstance(got, RefusedAnswer)
    assert got.reason.reason == "malformed_description"
    assert got.hits == (hit(),)


@pytest.mark.parametrize("answered", [None, 7, [], {}, {"corpus_hash": "x"}, {"hits": []}, {"corpus_hash": description()["corpus_hash"], "hits": [1]}])
def test_a_malformed_answer_is_refused(answered: object, ask: Callable[..., Any], a: NodeKey) -> None:
    got = ask(replies(description(key=a), answered))
    assert isinstance(got, RefusedAnswer)
    assert got.reason.reason == "malformed_answer"
    assert got.hits == ()


KEYS = st.sampled_from(["corpus_hash", "hits", "model", "dim", "repos", "signature", "content", "provenance", "id", "x"])


JUNK = st.recursive(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8)


@given(described=JUNK, answered=JUNK, good=st.sampled_from(["neither", "description", "answer"]))
@settings(max_examples=40)
def test_whatever_a_provider_sends_the_caller_gets_a_judgement(described: Any, answered: Any, good: str) -> None:
    node = "ab" * 32

    async def body() -> Any:
        mesh = MemoryMesh()
        provider, mine = mesh.node(node_id=node), mesh.node()
        handlers = replies(description() if good == "description" else described, answer(description()) if good == "answer" else answered)
        for name, handler in handlers.items():
            await provider.serve(f"acme/{name}", handler)
        got = await Caller(mine, "acme").ask("what?", provider=node)
        await provider.close()
        return got

    assert isinstance(asyncio.run(body()), RefusedAnswer)


@pytest.mark.parametrize("reply", [lambda value, _provider: PinnedReply(value, "dd" * 32), lambda value, _provider: UnpinnedReply(value)])
def test_a_reply_that_is_not_the_pinned_nodes_does_not_count(reply: Callable[[object, str], object], run: Run, a: NodeKey) -> None:
    caller = Caller(Station(reply, description(key=a)), "acme")  # type: ignore[arg-type]
    for act in (caller.ask("what?", provider=a.node_id), caller.describe_corpus(a.node_id), caller.get_chunk(a.node_id, "c1")):
        async def body(act: Coroutine[Any, Any, Any] = act) -> None:
            with pytest.raises(ReplyRefused) as caught:
                await act
            assert caught.value.name == "unbound_reply"

        run(body())
