"""Replies that are almost right: whatever a provider sends, what a caller hands out is borne out by it, or it is an error by name."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_stdlib.contract import corpus_hash, sign_corpus, verify_corpus
from rag_stdlib.contract.answers import RefusedAnswer, SignedAnswer, UnsignedAnswer
from rag_stdlib.contract.nodekeys import NodeKey, Profile
from rag_stdlib.contract.verdicts import Refused, Signed
from rag_stdlib.mesh.caller import Caller, Chunk, Document, Source
from rag_stdlib.mesh.errors import ReplyRefused
from rag_stdlib.mesh.transport import PinnedReply, UnpinnedReply
from rag_stdlib.mesh.wire import unpack

NODE = "ab" * 32
TEXT = "some text"
DIGEST = hashlib.sha256(TEXT.encode()).hexdigest()
COMMIT = "1" * 40
MARKS = {"content_verified", "in_corpus", "corpus_reason"}
KEYS = ("chunk_id", "content", "provenance", "kind", "repo_id", "commit", "content_sha256", "meta", "raw_bytes", "signature", "x", 3)
LEAF = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4) | st.binary(max_size=4)
JUNK = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4), max_leaves=6)


def or_junk(*right: object) -> st.SearchStrategy[Any]:
    """One of these values, and sometimes anything else."""
    return st.sampled_from([*right] * 6) | JUNK


PROVENANCE = st.fixed_dictionaries(
    {"kind": or_junk("corpus", b"corpus", "deposit"), "path": or_junk("alpha/a.md"), "content_sha256": or_junk(DIGEST, DIGEST.encode(), DIGEST.upper())},
    optional={"repo_id": or_junk("alpha", b"alpha", "beta", None), "commit": or_junk(COMMIT, "2" * 40), "start_line": LEAF})
NEAR = st.fixed_dictionaries(
    {"chunk_id": or_junk("c", b"c"), "source_path": or_junk("s", b"s"), "content": or_junk(TEXT, TEXT.encode(), "another"),
     "raw_bytes": or_junk(TEXT.encode(), TEXT), "provenance": PROVENANCE},
    optional=dict.fromkeys(sorted(MARKS), st.just(1)) | {"meta": JUNK, "score": LEAF})


class Lying:
    """A transport whose provider gives these replies."""

    node_id = "0" * 64
    profile: Profile = "pq_pure"

    def __init__(self, replies: Mapping[str, Any]) -> None:
        self.replies = replies

    async def call(self, procedure: str, _payload: object = None, *, timeout_s: float = 5.0) -> UnpinnedReply:
        assert timeout_s > 0
        return UnpinnedReply(self.replies[procedure])

    async def call_pinned(self, procedure: str, payload: object = None, *, provider: str, timeout_s: float = 5.0) -> PinnedReply:
        return PinnedReply((await self.call(procedure, payload, timeout_s=timeout_s)).value, provider)


def ask(replies: Mapping[str, Any], question: Callable[[Caller], Coroutine[Any, Any, Any]]) -> Any:
    transport: Any = Lying(replies)

    async def body() -> Any:
        return await question(Caller(transport, "acme"))

    return asyncio.run(body())


QUICKLY = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICKLY
@given(data=st.data())
def test_an_answer_is_signed_only_where_the_description_is_and_its_marks_are_the_callers(data: st.DataObject, pure_key: Callable[[int], NodeKey]) -> None:
    key, other = pure_key(1), pure_key(2)
    corpus: dict[str, Any] = {"model": "m", "dim": 3, "repos": [{"id": "alpha", "url": "u", "branch": "b", "commit": COMMIT}]}
    digest = corpus_hash(corpus)
    signatures = [sign_corpus(each, signer) for signer in (key, other) for each in (digest, "0" * 64)]
    description = data.draw(st.fixed_dictionaries(
        {**{name: or_junk(value) for name, value in corpus.items()}, "corpus_hash": or_junk(digest, digest.encode(), digest.upper())},
        optional={"signature": or_junk(*signatures), "signed_by": JUNK}))
    answer = data.draw(st.fixed_dictionaries({"corpus_hash": or_junk(digest), "hits": st.lists(NEAR | JUNK, max_size=2)}, optional={"index_content": JUNK}))
    replies = {"acme/describe_corpus": description, "acme/answer_query": answer}
    pinned, unpinned = (ask(replies, lambda caller, node=node: caller.ask("what?", provider=node)) for node in (key.node_id, None))
    assert isinstance(pinned, SignedAnswer) <= isinstance(verify_corpus(description, key.node_id, "pq_pure"), Signed)
    assert isinstance(unpinned, (UnsignedAnswer, RefusedAnswer))
    for judged in (pinned, unpinned):
        if isinstance(judged, RefusedAnswer):
            assert isinstance(judged.reason, Refused)
            assert not any(MARKS & hit.keys() for hit in judged.hits)
            continue
        assert judged.corpus_hash == digest
        assert judged.index_content is None or isinstance(judged.index_content, str)
        for hit in judged.hits:
            assert not MARKS & hit.hit.keys()
            if hit.content_verified:
                assert hit.hit["content"] in (TEXT, TEXT.encode())
            if hit.in_corpus:
                assert hit.hit["provenance"]["commit"] == COMMIT


def attempt(replies: Mapping[str, Any], question: Callable[[Caller], Coroutine[Any, Any, Any]]) -> Any:
    """Return what the caller hands out, or the name of its refusal."""
    try:
        return ask(replies, question)
    except ReplyRefused as refused:
        return refused.name


@QUICKLY
@given(NEAR | JUNK)
def test_a_chunk_or_document_that_is_handed_out_is_what_its_provenance_names(reply: Any) -> None:
    replies = {"acme/get_chunk_by_id": reply, "acme/get_document_verbatim": reply}
    chunk = attempt(replies, lambda caller: caller.get_chunk(NODE, "c"))
    if isinstance(chunk, Chunk):
        assert (chunk.chunk_id, chunk.content, chunk.provenance["content_sha256"]) == ("c", TEXT, DIGEST)
    document = attempt(replies, lambda caller: caller.get_document(NODE, "s"))
    if isinstance(document, Document):
        assert (document.source_path, document.raw_bytes, document.provenance["content_sha256"]) == ("s", TEXT.encode(), DIGEST)
    for got in (chunk, document):
        assert isinstance(got, (Chunk, Document)) or got in ("malformed_reply", "malformed_provenance", "content_mismatch")


@QUICKLY
@given(st.lists(NEAR | JUNK, max_size=3) | JUNK)
def test_a_listing_that_goes_on_for_ever_or_is_malformed_ends_by_a_name(page: Any) -> None:
    async def walk(caller: Caller) -> list[Source]:
        return [row async for row in caller.list_sources(NODE, most=30)]

    walked = attempt({"acme/list_sources_page": page}, walk)
    assert walked == [] == page or walked in ("malformed_reply", "endless_listing")


def test_as_many_and_as_deep_hits_as_the_mesh_carries_are_judged_in_little_time() -> None:
    hits = unpack(b"\x99\x07\xd0" + (b"\xa1\x61x" + b"\x81" * 60 + b"\x80") * 2_000)
    replies = {"acme/describe_corpus": None, "acme/answer_query": {"corpus_hash": "x", "hits": hits}}
    judged = ask(replies, lambda caller: caller.ask("what?", provider=NODE, timeout_s=10.0))
    assert judged.reason == Refused("malformed_description", "it is no map")
    assert len(judged.hits) == 2_000
