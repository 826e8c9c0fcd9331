"""A caller and what providers, honest and other, can make it believe."""

from __future__ import annotations

import asyncio
import hashlib
import math
import threading
import time
from collections.abc import Callable, Coroutine
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_stdlib.contract.answers import RefusedAnswer, SignedAnswer, UnsignedAnswer
from rag_stdlib.contract.corpus import corpus_hash, sign_corpus
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.contract.verdicts import HitVerdict, Membership, Refused, Signed, Unsigned
from rag_stdlib.mesh.caller import Caller, Chunk, Document, Source
from rag_stdlib.mesh.errors import (
    CallError,
    CallTimeout,
    InvalidCall,
    NoProvider,
    PayloadRefused,
    ProviderError,
    Refusal,
    RelayError,
    ReplyRefused,
)
from rag_stdlib.mesh.memory import MemoryMesh
from rag_stdlib.mesh.transport import PinnedReply, Request, UnpinnedReply

Run = Callable[[Coroutine[Any, Any, Any]], Any]
Handlers = dict[str, Callable[[Request], object]]

OLD, NEW = "1" * 40, "2" * 40
PLANTED = {"in_corpus": 1, "content_verified": 1, "corpus_reason": "trust me"}


def description(commit: str = OLD, key: NodeKey | None = None, **other: object) -> dict[str, object]:
    """Describe a corpus of one repository, signed where there is a key."""
    repos = [{"id": "alpha", "url": "https://example.org/alpha.git", "branch": "main", "commit": commit}]
    whole: dict[str, object] = {"model": "hash-64", "dim": 64, "repos": repos, **other}
    whole["corpus_hash"] = corpus_hash(whole)
    if key is not None:
        whole |= {"signature": sign_corpus(str(whole["corpus_hash"]), key), "signed_by": key.node_id}
    return whole


def hit(content: str = "some text", commit: str = OLD, **other: object) -> dict[str, object]:
    digest = hashlib.sha256(content.encode()).hexdigest()
    provenance = {"kind": "corpus", "path": "alpha/a.md", "repo_id": "alpha", "commit": commit, "content_sha256": digest}
    return {"chunk_id": "c1", "score": 0.5, "content": content, "provenance": provenance, **other}


def answer(described: dict[str, object], *hits: dict[str, object]) -> dict[str, object]:
    return {"corpus_hash": described["corpus_hash"], "hits": list(hits or (hit(),))}


def says(value: object) -> Callable[[Request], object]:
    """Make a handler that answers this, or raises it."""
    def handler(_request: Request) -> object:
        if isinstance(value, Exception):
            raise value
        return value

    return handler


def replies(described: object, answered: object) -> Handlers:
    return {"describe_corpus": says(described), "answer_query": says(answered)}


async def asked(handlers: Handlers, key: NodeKey, question: Callable[[Caller], Coroutine[Any, Any, Any]], profile: Any = "pq_pure") -> Any:
    """Serve by these handlers under a key, ask, and leave the mesh."""
    mesh = MemoryMesh()
    provider, mine = mesh.node(key=key), mesh.node(profile=profile)
    try:
        for name, handler in handlers.items():
            await provider.serve(f"acme/{name}", handler)
        return await question(Caller(mine, "acme"))
    finally:
        await provider.close()
        await mine.close()


@pytest.fixture
def ask(run: Run, pure_key: Callable[[int], NodeKey]) -> Callable[..., Any]:
    """Ask the provider with the first key a question."""
    def one(handlers: Handlers, *, key: int = 1, profile: str = "pq_pure", pinned: bool = True, **options: Any) -> Any:
        provider = pure_key(key).node_id if pinned else None
        return run(asked(handlers, pure_key(key), lambda caller: caller.ask("what?", provider=provider, **options), profile))

    return one


@pytest.fixture
def a(pure_key: Callable[[int], NodeKey]) -> NodeKey:
    return pure_key(1)


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


class Station:
    """A transport whose replies are those of a mesh that does not bind them to the node they are asked of."""

    node_id = "ee" * 32
    profile = "pq_pure"

    def __init__(self, reply: Callable[[object, str], object], described: dict[str, object]) -> None:
        self._reply, self._described = reply, described

    async def call_pinned(self, procedure: str, _payload: object = None, *, provider: str, **_: object) -> object:
        return self._reply(self._described if procedure.endswith("describe_corpus") else answer(self._described), provider)


@pytest.mark.parametrize("reply", [lambda value, _provider: PinnedReply(value, "dd" * 32), lambda value, _provider: UnpinnedReply(value)])
def test_a_reply_that_is_not_the_pinned_nodes_does_not_count(reply: Callable[[object, str], object], run: Run, a: NodeKey) -> None:
    caller = Caller(Station(reply, description(key=a)), "acme")  # type: ignore[arg-type]
    for act in (caller.ask("what?", provider=a.node_id), caller.describe_corpus(a.node_id), caller.get_chunk(a.node_id, "c1")):
        async def body(act: Coroutine[Any, Any, Any] = act) -> None:
            with pytest.raises(ReplyRefused) as caught:
                await act
            assert caught.value.name == "unbound_reply"

        run(body())


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


# --- the other calls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "verdict"), [
    (lambda _signed: None, None),
    (lambda signed: [signed.pop("signature")], Unsigned()),
    (lambda signed: signed.update(dim=768), Refused("corpus_hash_mismatch")),
])
def test_a_description_comes_with_its_verdict(change: Callable[[Any], object], verdict: object, run: Run, a: NodeKey) -> None:
    described = description(key=a)
    change(described)
    got = run(asked({"describe_corpus": says(described)}, a, lambda caller: caller.describe_corpus(a.node_id)))
    assert got.description == described
    assert got.verdict == (Signed(a.node_id) if verdict is None else verdict)


def as_bytes(value: Any) -> Any:
    """Write every value that is text as a byte string, as some peers do."""
    if isinstance(value, dict):
        return {key: as_bytes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_bytes(item) for item in value]
    return value.encode() if isinstance(value, str) else value


META = {"header_path": "A > B", "topics": ["one", "two"], "start_line": 3}


@pytest.mark.parametrize("form", [lambda value: value, as_bytes])
def test_a_chunk_is_what_its_provenance_names(form: Callable[[Any], Any], run: Run, a: NodeKey) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> object:
        seen.append(request)
        return form({**hit("naïve text"), "meta": META})

    got = run(asked({"get_chunk_by_id": handler}, a, lambda caller: caller.get_chunk(a.node_id, "c1")))
    assert got == Chunk("c1", "naïve text", hit("naïve text")["provenance"], META)  # type: ignore[arg-type]
    assert seen[0].payload == {"chunk_id": "c1"}


def test_a_chunk_without_meta_is_a_chunk(run: Run, a: NodeKey) -> None:
    got = run(asked({"get_chunk_by_id": says(hit())}, a, lambda caller: caller.get_chunk(a.node_id, "c1")))
    assert got.meta == {}


@pytest.mark.parametrize(("reply", "name"), [
    (None, "malformed_reply"),
    ([hit()], "malformed_reply"),
    ({**hit(), "chunk_id": "c2"}, "malformed_reply"),
    ({**hit(), "chunk_id": None}, "malformed_reply"),
    ({**hit(), "content": None}, "malformed_reply"),
    ({**hit(), "content": b"\xff"}, "malformed_reply"),
    ({**hit(), "content": "another text"}, "content_mismatch"),
    ({**hit(), "provenance": None}, "malformed_provenance"),
    ({**hit(), "provenance": {"kind": "corpus"}}, "malformed_provenance"),
])
def test_a_chunk_that_is_not_is_refused(reply: object, name: str, run: Run, a: NodeKey) -> None:
    with pytest.raises(ReplyRefused) as caught:
        run(asked({"get_chunk_by_id": says(reply)}, a, lambda caller: caller.get_chunk(a.node_id, "c1")))
    assert caught.value.name == name


def document(raw: bytes, path: str = "alpha/a.md") -> dict[str, object]:
    provenance = {"kind": "deposit", "path": path, "content_sha256": hashlib.sha256(raw).hexdigest()}
    return {"source_path": path, "raw_bytes": raw, "provenance": provenance}


@pytest.mark.parametrize("raw", [b"", b"text\r\n", b"\xff\x00\xfe", "é".encode() * 500_000], ids=["empty", "text", "bytes", "large"])
def test_a_document_arrives_byte_for_byte(raw: bytes, run: Run, a: NodeKey) -> None:
    got = run(asked({"get_document_verbatim": says(document(raw))}, a, lambda caller: caller.get_document(a.node_id, "alpha/a.md")))
    assert got == Document("alpha/a.md", raw, document(raw)["provenance"])  # type: ignore[arg-type]


@pytest.mark.parametrize(("reply", "name"), [
    (None, "malformed_reply"),
    (document(b"text", "alpha/b.md"), "malformed_reply"),
    ({**document(b"text"), "raw_bytes": None}, "malformed_reply"),
    ({**document(b"text"), "raw_bytes": [1]}, "malformed_reply"),
    ({**document(b"text"), "raw_bytes": "text"}, "malformed_reply"),
    ({**document(b"text"), "raw_bytes": b"other"}, "content_mismatch"),
    ({**document(b"text"), "provenance": {}}, "malformed_provenance"),
])
def test_a_document_that_is_another_is_refused(reply: object, name: str, run: Run, a: NodeKey) -> None:
    with pytest.raises(ReplyRefused) as caught:
        run(asked({"get_document_verbatim": says(reply)}, a, lambda caller: caller.get_document(a.node_id, "alpha/a.md")))
    assert caught.value.name == name


def rows(count: int) -> list[dict[str, object]]:
    return [{"document_id": str(number), "source_path": f"alpha/{number}.md", "provenance": document(b"", f"alpha/{number}.md")["provenance"]}
            for number in range(count)]


def paging(listed: list[Any], at_most: int) -> Callable[[Request], object]:
    """Make a provider's handler that gives no more than `at_most` rows a page."""
    def handler(request: Request) -> object:
        assert isinstance(request.payload, dict)
        offset, limit = request.payload["offset"], request.payload["limit"]
        assert isinstance(offset, int)
        assert isinstance(limit, int)
        return listed[offset:offset + min(limit, at_most)]

    return handler


async def listing(caller: Caller, provider: str, **options: Any) -> list[Source]:
    return [source async for source in caller.list_sources(provider, **options)]


@pytest.mark.parametrize(("count", "at_most"), [(0, 200), (1, 200), (200, 200), (401, 200), (7, 1), (450, 50)])
def test_b2_a_listing_is_walked_to_its_end(count: int, at_most: int, run: Run, a: NodeKey) -> None:
    got = run(asked({"list_sources_page": paging(rows(count), at_most)}, a, lambda caller: listing(caller, a.node_id)))
    assert [source.source_path for source in got] == [f"alpha/{number}.md" for number in range(count)]
    assert [source.row for source in got] == rows(count)


def test_a_listing_of_as_many_rows_as_allowed_ends_well(run: Run, a: NodeKey) -> None:
    got = run(asked({"list_sources_page": paging(rows(400), 200)}, a, lambda caller: listing(caller, a.node_id, most=400)))
    assert len(got) == 400


def test_a_listing_without_end_is_given_up(run: Run, a: NodeKey) -> None:
    taken: list[Source] = []

    async def body(caller: Caller) -> None:
        async for source in caller.list_sources(a.node_id, most=1_000):
            taken.append(source)  # noqa: PERF401 - what came before the end is to be seen

    with pytest.raises(ReplyRefused) as caught:
        run(asked({"list_sources_page": says(rows(200))}, a, body))
    assert caught.value.name == "endless_listing"
    assert len(taken) == 1_000


@pytest.mark.parametrize("page", [
    None, {}, {"rows": []}, rows(201), [1], [{}], [{**rows(1)[0], "source_path": None}], [{**rows(1)[0], "provenance": {"kind": "corpus"}}],
], ids=["null", "map", "wrapped", "long", "number", "empty", "pathless", "unproven"])
def test_a_page_that_is_none_is_refused(page: object, run: Run, a: NodeKey) -> None:
    with pytest.raises(ReplyRefused) as caught:
        run(asked({"list_sources_page": says(page)}, a, lambda caller: listing(caller, a.node_id)))
    assert caught.value.name == "malformed_reply"


def test_every_call_names_its_provider_or_fails(run: Run, a: NodeKey) -> None:
    async def body(caller: Caller) -> None:
        for act in (caller.describe_corpus("zz"), caller.get_chunk("zz", "c"), caller.get_document("zz", "p"), listing(caller, "zz")):
            with pytest.raises(InvalidCall):
                await act
        for act in (caller.describe_corpus(a.node_id), caller.get_chunk(a.node_id, "c"), caller.get_document(a.node_id, "p"),
                    listing(caller, a.node_id)):
            with pytest.raises(CallError):
                await act

    run(asked({}, a, body))


def test_a_withdrawn_provider_is_a_relay_error(run: Run, a: NodeKey) -> None:
    async def body() -> None:
        mesh = MemoryMesh()
        provider, mine = mesh.node(key=a), mesh.node()
        await provider.serve("acme/answer_query", says(1))
        await provider.close()
        with pytest.raises(RelayError, match="unknown_next_peer"):
            await Caller(mine, "acme").ask("what?", provider=a.node_id)

    run(body())
