"""The provider as a whole: which procedures it serves, to whom, under which authority, and how it refuses."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest
import serving
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import ALPHA, CALLER, INDEX, OPERATOR, outcome, refusal_of

from rag_stdlib import Config, Failure, Runtime, deterministic, grant
from rag_stdlib.contract.answers import SignedAnswer, UnsignedAnswer
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.errors import fail
from rag_stdlib.mesh.caller import Caller
from rag_stdlib.mesh.errors import CallError, ProviderError, Refusal, ServeRefused
from rag_stdlib.mesh.memory import MemoryMesh
from rag_stdlib.mesh.provider import Provider
from rag_stdlib.mesh.transport import Request
from rag_stdlib.mesh.wire import pack, unpack

Run = Callable[[Coroutine[Any, Any, Any]], Any]

READS = ("describe_corpus", "answer_query", "get_chunk_by_id", "get_document_verbatim", "list_sources_page", "list_chunks_by_source", "get_source_by_id")
GATED = ("upload_knowledge", "prune_chunks", "retire_document")
PAYLOAD = {"query_text": "raven", "chunk_id": "x", "source_path": "alpha/guide.md", "source_id": "x", "document_id": "x", "raw_bytes": b"x", "text": "x",
           "query_id": "q", "hits": []}


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with serving.runtime(tmp_path) as made:
        yield made


@pytest.fixture
def provider(runtime: Runtime) -> Provider:
    return serving.with_corpus(runtime, deposits="open", operators=[OPERATOR])


# --- which procedures ---

def test_deposits_are_served_only_where_they_are_open(runtime: Runtime) -> None:
    closed, opened = serving.served(runtime), serving.served(runtime, deposits="open")
    assert {*READS, *GATED, "rerank_results", "ingest_status"} == set(closed.procedures)
    assert set(opened.procedures) - set(closed.procedures) == {"add_knowledge"}
    assert refusal_of(closed, "add_knowledge", {"text": "x"}).detail == "unknown_method: add_knowledge"


@pytest.mark.parametrize("name", ["", "describe", "acme/describe_corpus", "__init__", "x" * 1_000])
def test_what_is_not_served_is_an_unknown_method(provider: Provider, name: str) -> None:
    refusal = refusal_of(provider, name)
    assert refusal.name == "unknown_method"
    assert len(refusal.detail.encode()) <= 256


@pytest.mark.parametrize(("options", "words"), [
    ({"org": ""}, "1 to 512 bytes"), ({"org": "a/b"}, "is no organisation"), ({"org": "_"}, "is no organisation"),
    ({"org": "~me"}, "64 hex digits"), ({"org": "x" * 500}, "512 bytes"), ({"org": "\ud800"}, "no Unicode text"),
    ({"operators": ["a" * 63]}, "not_64_hex"), ({"operators": ["me"]}, "not_64_hex"), ({"regime": "follow"}, "not one of pinned, head"),
    ({"deposits": "on"}, "not one of off, open"),
])
def test_a_provider_that_is_set_up_wrongly_does_not_start(runtime: Runtime, options: dict[str, Any], words: str) -> None:
    with pytest.raises(Failure) as caught:
        serving.served(runtime, **options)
    assert caught.value.error.code == "config_invalid"
    assert words in caught.value.error


# --- the gate ---

@pytest.mark.parametrize("caller", [None, CALLER, "", "0" * 64, OPERATOR[:-1], f" {OPERATOR}", "*"])
def test_b33_what_changes_other_documents_is_for_operators(provider: Provider, caller: str | None) -> None:
    spoofed = {**PAYLOAD, "caller": OPERATOR, b"caller": OPERATOR.encode(), "deposited_by": OPERATOR, "Caller": OPERATOR}
    for name in GATED:
        for payload in (spoofed, None, {}, {"document_id": None}):
            assert refusal_of(provider, name, payload, caller).detail == "not_an_operator", "before the parameters are looked at"


def test_an_operator_passes_whatever_the_case_of_the_id(runtime: Runtime) -> None:
    provider = serving.with_corpus(runtime, operators=[OPERATOR.upper()])
    for caller in (OPERATOR, OPERATOR.upper()):
        for name in GATED:
            assert refusal_of(provider, name, None, caller).detail == "missing_document_id"


def test_by_default_nobody_is_an_operator(runtime: Runtime) -> None:
    for name in GATED:
        assert refusal_of(serving.with_corpus(runtime), name, PAYLOAD, OPERATOR).detail == "not_an_operator"
        break


def test_what_is_open_asks_for_no_operator(provider: Provider) -> None:
    for caller in (None, CALLER):
        for name in ("describe_corpus", "answer_query", "list_sources_page", "ingest_status", "add_knowledge"):
            provider.handle(name, PAYLOAD, caller)


# --- authority ---

@pytest.mark.parametrize(("granted", "refused"), [
    (frozenset({"rag_read"}), (*GATED, "add_knowledge")), (frozenset({"rag_write"}), (*READS, "ingest_status")),
    (frozenset(), (*READS, "ingest_status", *GATED, "add_knowledge")),
])
def test_the_configuration_grants_reads_and_writes(tmp_path: Path, granted: frozenset[str], refused: tuple[str, ...]) -> None:
    with serving.runtime(tmp_path) as whole:
        serving.with_corpus(whole)
    with serving.runtime(tmp_path, config=Config(grant=granted)) as runtime:
        provider = serving.served(runtime, deposits="open", operators=[OPERATOR])
        for name in refused:
            assert refusal_of(provider, name, PAYLOAD, OPERATOR).detail == "effect_not_granted"
        for name in set(provider.procedures) - set(refused):
            found = outcome(provider, name, PAYLOAD, OPERATOR)
            assert not isinstance(found, Refusal) or found.name in ("not_found", "not_ingested")


def test_grants_around_a_call_narrow_it_and_deterministic_refuses_it(provider: Provider) -> None:
    with grant("rag_read"):
        provider.handle("answer_query", PAYLOAD)
        assert refusal_of(provider, "add_knowledge", PAYLOAD).detail == "effect_not_granted"
    with deterministic():
        assert refusal_of(provider, "answer_query", PAYLOAD).detail == "deterministic_context"


def test_a_thread_without_a_context_works_under_the_runtimes_authority(provider: Provider) -> None:
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.append(provider.handle("answer_query", PAYLOAD)))
    thread.start()
    thread.join()
    assert replies[0]["hits"]


# --- refusals ---

def test_b24_b25_while_the_index_is_not_there_every_procedure_refuses_and_none_gives_a_stand_in(tmp_path: Path) -> None:
    serving.write_list(tmp_path, ALPHA)
    with serving.runtime(tmp_path) as runtime:
        provider = serving.served(runtime, operators=[OPERATOR], list_file=serving.LIST)
        for name in set(provider.procedures) - {"rerank_results", "ingest_status", "upload_knowledge"}:
            assert refusal_of(provider, name, PAYLOAD, OPERATOR).detail == "store_opening", name
        status: Any = provider.handle("ingest_status", None)
        assert status["scan"]["store_opening"] == 1


def test_b24_while_the_index_is_locked_writes_are_refused(tmp_path: Path) -> None:
    from rag_stdlib.index.store import Store

    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime, deposits="open")
        runtime.close()
        runtime._store = Store(runtime.root, busy_seconds=0.05)
        other = apsw.Connection(str(tmp_path / INDEX))
        other.execute("BEGIN IMMEDIATE")
        assert refusal_of(provider, "add_knowledge", {"text": "a raven"}).detail == "store_opening"
        other.execute("ROLLBACK")
        assert provider.handle("add_knowledge", {"text": "a raven"}) == {"chunks": 1}


@pytest.mark.parametrize("name", [*READS, "ingest_status"])
def test_no_refusal_tells_a_stranger_what_the_index_is_called(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / INDEX).write_bytes(b"no index" * 200)
    with serving.runtime(tmp_path) as runtime:
        detail = refusal_of(serving.served(runtime), name, PAYLOAD).detail
    assert detail == "not_an_index"
    assert INDEX in caplog.text, "the operator is told"


def test_a_defect_is_internal_and_its_traceback_goes_to_the_log(provider: Provider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("rag_stdlib.index.served.sources_page", broken)
    with caplog.at_level(logging.ERROR):
        refusal = refusal_of(provider, "list_sources_page")
    assert refusal.detail == "internal"
    assert "ZeroDivisionError: secret" in caplog.text


def test_a_failure_of_another_code_keeps_its_own_name(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise fail("disk_full", path=INDEX)

    monkeypatch.setattr("rag_stdlib.index.writer.ingest", broken)
    monkeypatch.setattr("rag_stdlib.index.writer.add", broken)
    assert refusal_of(provider, "add_knowledge", {"text": "a raven"}).detail == "disk_full"


ANYTHING = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
                        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(sorted(PAYLOAD)) | st.binary(), inner, max_size=4), max_leaves=8)


NEARLY = st.fixed_dictionaries({}, optional={name: st.sampled_from([value, str(value).encode()]) | ANYTHING for name, value in PAYLOAD.items()} | {
    "query_vector": st.lists(st.floats() | st.integers(), min_size=serving.DIM, max_size=serving.DIM) | ANYTHING,
    "hits": st.lists(st.dictionaries(st.sampled_from(["score", b"score", "content", "x", "$bytes", 1]), ANYTHING, max_size=4), max_size=3)}
    | dict.fromkeys(("top_k", "topics", "offset", "limit", "chunk_ids", "source_label", "source_type"), ANYTHING))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*READS, *GATED, "rerank_results", "ingest_status", "add_knowledge"]), ANYTHING | NEARLY)
def test_whatever_is_sent_is_refused_by_a_name_or_answered_by_what_the_mesh_carries(provider: Provider, name: str, payload: object) -> None:
    found = outcome(provider, name, payload, OPERATOR)
    if isinstance(found, Refusal):
        assert found.name != "internal"
        assert len(found.detail.encode()) <= 256
    else:
        assert unpack(pack(found)) == found


# --- what a reply is made of ---

def bytes_in(value: Any, path: str = "") -> set[str]:
    """The places of a reply that hold bytes; what is neither text nor a plain number, list or map is refused."""
    assert type(value) in (str, int, float, bytes, list, dict, type(None)), path
    if isinstance(value, dict):
        return {place for name, inner in value.items() for place in bytes_in(inner, f"{path}.{name}".strip("."))}
    if isinstance(value, list):
        return {place for inner in value for place in bytes_in(inner, f"{path}[]")}
    return {path} if isinstance(value, bytes) else set()


def test_b23_b31_only_the_signature_and_the_raw_bytes_are_bytes_and_nothing_is_a_boolean(runtime: Runtime, pure_key: Callable[[int], NodeKey]) -> None:
    provider = serving.with_corpus(runtime, deposits="open", operators=[OPERATOR], key=pure_key(2))
    hits: Any = provider.handle("answer_query", {b"query_text": b"raven", b"top_k": 100})
    asked: dict[str, Any] = {**PAYLOAD, "chunk_id": hits["hits"][0]["chunk_id"].encode(), "source_id": b"alpha/guide.md", "hits": hits["hits"]}
    asked = {name.encode(): value.encode() if isinstance(value, str) else value for name, value in asked.items()}
    order = ("upload_knowledge", *[name for name in provider.procedures if name not in GATED], "prune_chunks", "retire_document")
    found = {name: bytes_in(provider.handle(name, asked, OPERATOR)) for name in order}
    assert {name: places for name, places in found.items() if places} == {"describe_corpus": {"signature"}, "get_document_verbatim": {"raw_bytes"}}


# --- on a mesh ---

def test_it_serves_every_procedure_on_a_mesh_and_withdraws_them(provider: Provider, run: Run) -> None:
    async def scenario() -> None:
        mesh = MemoryMesh()
        node, caller = mesh.node(), mesh.node(node_id=CALLER)
        serving_now = await provider.serve(node)
        for name in provider.procedures:
            assert [found.node for found in await caller.providers(f"acme/{name}")] == [node.node_id]
        answer = await caller.call_pinned("acme/answer_query", {"query_text": "raven"}, provider=node.node_id)
        assert answer.value == provider.handle("answer_query", {"query_text": "raven"})
        await caller.call("acme/add_knowledge", {"text": "Left by a caller.", "caller": OPERATOR})
        rows: Any = (await caller.call("acme/list_sources_page")).value
        assert [row["deposited_by"] for row in rows if row["provenance"]["kind"] == "deposit"] == [CALLER]
        with pytest.raises(ProviderError) as caught:
            await caller.call("acme/answer_query", {"query_vector": [1.0]})
        assert (caught.value.name, caught.value.code) == ("dimension_mismatch", "handler_error")
        with pytest.raises(ProviderError, match="not_an_operator"):
            await caller.call("acme/retire_document", {"document_id": "corpus:alpha/guide.md"})
        await serving_now.stop()
        await serving_now.stop()
        assert await caller.providers("acme/answer_query") == []
        await node.close()
        await caller.close()

    run(scenario())


def test_an_operator_is_known_by_the_node_that_calls(provider: Provider, run: Run) -> None:
    async def scenario() -> None:
        mesh = MemoryMesh()
        node, operator = mesh.node(), mesh.node(node_id=OPERATOR)
        serving_now = await provider.serve(node)
        uploaded = await operator.call("acme/upload_knowledge", {"document_id": "a", "raw_bytes": b"a raven"})
        assert uploaded.value == {"document_id": "a", "chunks": 1}
        await serving_now.stop()
        await node.close()
        await operator.close()

    run(scenario())


def test_a_caller_that_checks_everything_finds_every_reply_in_order(runtime: Runtime, run: Run, pure_key: Callable[[int], NodeKey]) -> None:
    key = pure_key(2)

    async def scenario() -> None:
        mesh = MemoryMesh()
        node, caller = mesh.node(key=key), mesh.node()
        serving_now = await serving.with_corpus(runtime, key=key, deposits="open").serve(node)
        await caller.call("acme/add_knowledge", {"text": "A raven's note."})
        client = Caller(caller, "acme")
        answer = await client.ask("raven", provider=key.node_id, top_k=100)
        assert isinstance(answer, SignedAnswer)
        assert answer.provider == key.node_id
        assert all(hit.content_verified for hit in answer.hits)
        assert {str(hit.in_corpus) for hit in answer.hits} == {"in_corpus", "deposit"}
        assert isinstance(await client.ask("raven"), UnsignedAnswer), "nobody was pinned"
        rows = [row async for row in client.list_sources(key.node_id)]
        assert len(rows) == 4
        for row in rows:
            await client.get_document(key.node_id, row.source_path)
        for hit in answer.hits:
            await client.get_chunk(key.node_id, str(hit.hit["chunk_id"]))
        await serving_now.stop()
        await node.close()
        await caller.close()

    run(scenario())


def test_a_key_that_is_not_the_nodes_does_not_serve(runtime: Runtime, run: Run, pure_key: Callable[[int], NodeKey]) -> None:
    async def scenario() -> None:
        node = MemoryMesh().node()
        with pytest.raises(Failure, match="the key is of the node"):
            await serving.served(runtime, key=pure_key(2)).serve(node)
        await node.close()

    run(scenario())


class _Reluctant:
    """A transport that serves some procedures and then refuses; what it served it may refuse to withdraw."""

    node_id, profile = "a" * 64, "pq_pure"

    def __init__(self, most: int, *, stuck: bool = False) -> None:
        self.most, self.stuck = most, stuck
        self.served: list[str] = []

    async def serve(self, procedure: str, handler: Callable[[Request], object]) -> _Reluctant:
        assert callable(handler)
        if len(self.served) == self.most:
            raise ServeRefused(procedure, "no grant")
        self.served.append(procedure)
        return self

    async def stop(self) -> None:
        self.served.pop()
        if self.stuck:
            raise CallError("stuck")


def test_a_mesh_that_refuses_one_procedure_leaves_none_served(runtime: Runtime, run: Run) -> None:
    transport: Any = _Reluctant(3)
    with pytest.raises(ServeRefused):
        run(serving.served(runtime).serve(transport))
    assert transport.served == []


class _Slow:
    """A transport on which each registration takes until `enough` are asked for; all but `refused` come to a good end."""

    node_id, profile = "a" * 64, "pq_pure"

    def __init__(self, enough: int, refused: str = "", *, stuck: bool = False) -> None:
        self.enough, self.refused, self.stuck = enough, refused, stuck
        self.begun: list[str] = []
        self.served: set[str] = set()
        self.all = asyncio.Event()

    async def serve(self, procedure: str, _handler: Callable[[Request], object]) -> Any:
        self.begun.append(procedure)
        if procedure.endswith(f"/{self.refused}"):
            raise ServeRefused(procedure, "no grant")
        if len(self.begun) == self.enough:
            self.all.set()
        await self.all.wait()
        self.served.add(procedure)
        return SimpleNamespace(stop=lambda: self._stop(procedure))

    async def _stop(self, procedure: str) -> None:
        self.served.remove(procedure)
        if self.stuck:
            raise CallError("stuck")


def test_procedures_are_registered_at_the_same_time(runtime: Runtime, run: Run) -> None:
    provider = serving.served(runtime)

    async def scenario() -> None:
        transport: Any = _Slow(len(provider.procedures))
        serving_now = await provider.serve(transport)
        assert transport.served == {f"acme/{name}" for name in provider.procedures}
        await serving_now.stop()
        assert transport.served == set()

    run(scenario())


@pytest.mark.parametrize("stuck", [False, True])
def test_where_one_is_refused_early_those_that_are_served_later_are_withdrawn(runtime: Runtime, run: Run, stuck: bool) -> None:
    provider = serving.served(runtime)

    async def scenario() -> None:
        transport: Any = _Slow(len(provider.procedures), "answer_query", stuck=stuck)
        with pytest.raises(ServeRefused, match="acme/answer_query"):
            await provider.serve(transport)
        assert (len(transport.begun), transport.served) == (len(provider.procedures), set())

    run(scenario())


def test_a_serve_that_is_cancelled_leaves_none_served(runtime: Runtime, run: Run) -> None:
    provider = serving.served(runtime)

    async def scenario() -> None:
        transport: Any = _Slow(len(provider.procedures) + 1)
        start = asyncio.ensure_future(provider.serve(transport))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(transport.begun) == len(provider.procedures)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        assert transport.served == set()

    run(scenario())


def test_what_cannot_be_withdrawn_keeps_nothing_else_served(runtime: Runtime, run: Run) -> None:
    transport: Any = _Reluctant(100, stuck=True)
    serving_now = run(serving.served(runtime).serve(transport))
    with pytest.raises(CallError, match="stuck"):
        run(serving_now.stop())
    assert transport.served == []
