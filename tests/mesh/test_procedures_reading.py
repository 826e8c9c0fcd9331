"""Chunks and sources by their names (RAG service contract §1.4, §1.5, §5.1)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import serving
from serving import ALPHA, ALPHA_FILES, INDEX, OPERATOR, V1, refusal_of, sha256

from rag_stdlib import Runtime
from rag_stdlib.contract.hits import verify_hit
from rag_stdlib.contract.verdicts import HitVerdict
from rag_stdlib.index import corpora
from rag_stdlib.mesh.memory import MemoryMesh
from rag_stdlib.mesh.procedures import replies
from rag_stdlib.mesh.provider import Provider


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with serving.runtime(tmp_path) as made:
        yield made


@pytest.fixture
def provider(runtime: Runtime) -> Provider:
    return serving.with_corpus(runtime, deposits="open", operators=[OPERATOR])


def read(provider: Provider, name: str, **payload: Any) -> Any:
    reply = provider.handle(name, payload, OPERATOR)
    assert serving.is_wire(reply)
    return reply


# --- chunks ---

def test_every_hit_can_be_read_again_by_its_id_and_is_the_same(provider: Provider) -> None:
    for hit in read(provider, "answer_query", query_text="raven owl stork", top_k=100)["hits"]:
        chunk = read(provider, "get_chunk_by_id", chunk_id=hit["chunk_id"])
        assert chunk.keys() == {"chunk_id", "content", "meta", "provenance", "index_content"}
        assert (chunk["chunk_id"], chunk["content"], chunk["provenance"]) == (hit["chunk_id"], hit["content"], hit["provenance"])
        assert chunk["meta"] == {"source_path": hit["source_path"], **hit["meta"]}
        assert verify_hit(chunk) is HitVerdict.OK


@pytest.mark.parametrize(("payload", "detail"), [
    (None, "missing_id"), ({}, "missing_id"), ({"chunk_id": None}, "missing_id"), ({"chunk_id": 7}, "missing_id"), ({"chunk_id": b"\xff"}, "missing_id"),
    ({"chunk_id": ""}, "not_found"), ({"chunk_id": "none"}, "not_found"), ({"chunk_id": "corpus:alpha/guide.md#0000000000000000"}, "not_found"),
    ({"chunk_id": "corpus:alpha/guide.md:0"}, "not_found"), ({"chunk_id": "a\0b"}, "not_found"),
])
def test_a_chunk_that_is_not_there_is_refused(provider: Provider, payload: object, detail: str) -> None:
    assert refusal_of(provider, "get_chunk_by_id", payload).detail == detail


def test_the_chunks_of_a_source_come_in_order_up_to_the_limit(provider: Provider) -> None:
    chunks = read(provider, "list_chunks_by_source", source_path="alpha/guide.md")
    lines = [chunk["provenance"]["start_line"] for chunk in chunks]
    assert lines == sorted(lines)
    assert len(chunks) >= 3
    assert chunks[0].keys() == {"chunk_id", "content", "meta", "provenance"}
    assert read(provider, "list_chunks_by_source", source_path=b"alpha/guide.md", limit="2") == chunks[:2]
    assert read(provider, "list_chunks_by_source", source_path="no/such.md") == []


def test_b6_the_limit_counts_chunks_alone_and_ends_at_500(runtime: Runtime) -> None:
    serving.put(runtime, "long", "".join(f"Sentence number {number} is said here for the birds. " for number in range(16_000)))
    provider = serving.served(runtime)
    assert [len(read(provider, "list_chunks_by_source", source_path="long", **limit)) for limit in ({}, {"limit": 7}, {"limit": 0}, {"limit": 9_999})] == [
        100, 7, 100, 500]


@pytest.mark.parametrize("name", ["list_chunks_by_source", "get_document_verbatim"])
@pytest.mark.parametrize("payload", [None, {}, {"source_path": None}, {"source_path": ""}, {"source_path": 7}, {"source_path": b"\xff"}])
def test_a_source_path_is_required(provider: Provider, name: str, payload: object) -> None:
    assert refusal_of(provider, name, payload).detail == "missing_source_path"


def test_x1_deposits_with_one_label_are_listed_together_and_none_replaced_another(provider: Provider) -> None:
    notes = [f"Note number {number} on ravens." for number in range(4)]
    for note in notes:
        provider.handle("add_knowledge", {"text": note})
    chunks = read(provider, "list_chunks_by_source", source_path="conversational")
    assert sorted(chunk["content"] for chunk in chunks) == notes
    assert len({chunk["chunk_id"] for chunk in chunks}) == 4
    assert read(provider, "list_chunks_by_source", source_path="conversational", limit=3) == chunks[:3]


def test_deposits_with_one_label_are_told_apart_by_their_ids(provider: Provider) -> None:
    notes = [f"Note number {number} on ravens." for number in range(3)]
    for note in notes:
        provider.handle("add_knowledge", {"text": note})
    ids = [row["document_id"] for row in read(provider, "list_sources_page") if row["source_path"] == "conversational"]
    found = [read(provider, "get_document_verbatim", source_path=name) for name in ids]
    assert [document["source_path"] for document in found] == ids
    assert sorted(document["raw_bytes"].decode() for document in found) == notes


# --- documents ---

def test_a_document_comes_back_byte_for_byte(provider: Provider) -> None:
    for path, text in ALPHA_FILES.items():
        document = read(provider, "get_document_verbatim", source_path=f"alpha/{path}")
        assert document.keys() == {"source_path", "raw_bytes", "provenance", "index_content"}
        assert document["raw_bytes"] == text.encode()
        assert document["provenance"] == {"kind": "corpus", "path": f"alpha/{path}", "repo_id": "alpha", "commit": V1, "content_sha256": sha256(text)}
    assert refusal_of(provider, "get_document_verbatim", {"source_path": "alpha/none.md"}).detail == "not_found"


@pytest.mark.parametrize("data", [b"A raven: a\xaeb, in a line that is long enough.\n", b"CRLF\r\nand a cut sign \xe4\xb8", "Umlaut ä\n".encode()])
def test_b7_a_file_that_is_no_utf_8_comes_back_in_its_own_bytes(runtime: Runtime, data: bytes) -> None:
    serving.switch(runtime, ALPHA, {"odd.md": data})
    provider = serving.served(runtime)
    document = read(provider, "get_document_verbatim", source_path="alpha/odd.md")
    assert document["raw_bytes"] == data
    assert document["provenance"]["content_sha256"] == sha256(data)
    (row,) = read(provider, "list_sources_page")
    assert row["provenance"] == document["provenance"]


def test_a_label_like_a_corpus_path_does_not_hide_the_corpus(provider: Provider) -> None:
    for label in ("alpha/guide.md", "corpus:alpha/guide.md"):
        provider.handle("add_knowledge", {"text": "This is not the guide.", "source_label": label})
        assert read(provider, "get_document_verbatim", source_path=label)["provenance"]["kind"] == "corpus"
    found = read(provider, "answer_query", query_text="this is not the guide", top_k=1)["hits"][0]
    assert (found["provenance"]["kind"], found["content"]) == ("deposit", "This is not the guide.")
    kinds = [chunk["provenance"]["kind"] for chunk in read(provider, "list_chunks_by_source", source_path="alpha/guide.md")]
    assert set(kinds) == {"corpus"}


def test_the_largest_file_that_a_corpus_takes_crosses_the_mesh(runtime: Runtime, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    data = b"\xff" + b"x" * (15 * 1024 * 1024)
    with runtime.store.writing(INDEX, create=True):
        pass
    serving.put(runtime, "large", "Its bytes are kept beside its text.")
    with runtime.store.writing(INDEX) as connection:
        corpora.keep_original(connection, "large", data)

    async def scenario() -> Any:
        mesh = MemoryMesh()
        node, caller = mesh.node(), mesh.node()
        served = await serving.served(runtime).serve(node)
        reply = await caller.call("acme/get_document_verbatim", {"source_path": "large"}, timeout_s=50)
        await served.stop()
        await node.close()
        await caller.close()
        return reply.value

    assert run(scenario())["raw_bytes"] == data


def test_a_document_too_large_for_a_reply_is_refused_by_name(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "MAX_BYTES", 64)
    for name, payload in (("get_document_verbatim", {"source_path": "alpha/guide.md"}), ("list_sources_page", {}), ("list_chunks_by_source", {"source_path": "alpha/guide.md"})):
        assert refusal_of(provider, name, payload).name == "payload_too_large"


def test_a_reply_of_more_values_than_the_mesh_carries_is_refused_by_name(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "PAYLOAD_ITEMS", 12)
    assert refusal_of(provider, "list_sources_page", {}).name == "payload_too_large"


def test_namespacing_two_files_of_one_name_do_not_collide(provider: Provider) -> None:
    texts = {read(provider, "get_document_verbatim", source_path=f"{repo}/guide.md")["raw_bytes"] for repo in ("alpha", "beta")}
    assert len(texts) == 2


# --- sources ---

def test_a_row_names_a_document_and_its_provenance(provider: Provider) -> None:
    rows = read(provider, "list_sources_page")
    assert [row["source_path"] for row in rows] == ["alpha/docs/owls.md", "alpha/guide.md", "beta/guide.md"]
    assert rows[1] == {
        "document_id": "corpus:alpha/guide.md", "source_path": "alpha/guide.md", "source_type": "text/markdown",
        "provenance": {"kind": "corpus", "path": "alpha/guide.md", "repo_id": "alpha", "commit": V1, "content_sha256": sha256(ALPHA_FILES["guide.md"])}}
    for row in rows:
        found = read(provider, "get_source_by_id", source_id=row["document_id"])
        assert {key: value for key, value in found.items() if key != "index_content"} == row
    assert read(provider, "get_source_by_id", source_id="alpha/guide.md")["document_id"] == "corpus:alpha/guide.md"


@pytest.mark.parametrize(("payload", "detail"), [(None, "missing_id"), ({"source_id": 7}, "missing_id"), ({"source_id": ""}, "not_found"), ({"source_id": "x"}, "not_found")])
def test_a_source_that_is_not_there_is_refused(provider: Provider, payload: object, detail: str) -> None:
    assert refusal_of(provider, "get_source_by_id", payload).detail == detail


def test_b1_b2_pages_go_past_any_cap_and_walking_them_repeats_and_misses_nothing(runtime: Runtime) -> None:
    with runtime.store.writing(INDEX, create=True):
        pass
    with runtime.store.writing(INDEX) as connection:  # 1,005 rows at once, since their texts do not matter here
        connection.executemany("INSERT INTO rag_documents VALUES (?, ?, 'text/plain', ?, '{}', '[]', '[]', 100, 'std-rag/1', 0, 0, '')",
                               ((f"d{number:04}", f"d{number:04}", sha256("")) for number in range(1_005)))
    provider = serving.served(runtime)

    def page(offset: object, limit: object) -> list[str]:
        return [row["document_id"] for row in read(provider, "list_sources_page", offset=offset, limit=limit)]

    assert [len(page(*asked)) for asked in ((0, 10), (995, 10), (1000, 10), (2000, 10), (2**63 - 1, 10))] == [10, 10, 5, 0, 0]
    assert [len(page(*asked)) for asked in ((0, 500), (0, None), (None, "7"), (-5, 0), ("1000", "10"))] == [200, 50, 7, 50, 5]
    walked: list[str] = []
    while True:
        some = page(len(walked), 200)
        if not some:
            break
        walked += some
    assert walked == [f"d{number:04}" for number in range(1_005)]


# --- attribution ---

def test_a_depositor_is_named_only_where_this_provider_took_the_deposit(runtime: Runtime, provider: Provider) -> None:
    told = "ab" * 32
    serving.put(runtime, "file.md", "A file with front matter.", deposited_by=told, kind="deposit")
    serving.put(runtime, "deposit:file.md", "A file whose name looks like a deposit.", deposited_by=told)
    serving.put(runtime, "liar.md", "A file that says it is a corpus's.", kind="corpus", repo_id="alpha", commit=V1)
    rows = {row["document_id"]: row for row in read(provider, "list_sources_page")}
    for doc_id in ("file.md", "deposit:file.md", "liar.md"):
        assert "deposited_by" not in rows[doc_id]
        assert rows[doc_id]["provenance"].keys() == {"kind", "path", "content_sha256"}
        assert rows[doc_id]["provenance"]["kind"] == "deposit"
        (chunk,) = read(provider, "list_chunks_by_source", source_path=doc_id)
        assert chunk["provenance"].keys() == {"kind", "path", "start_line", "end_line", "content_sha256"}
        assert verify_hit(chunk) is HitVerdict.OK
