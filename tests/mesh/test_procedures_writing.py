"""What callers leave and operators take out (RAG service contract §5.1, §5.7-§5.9)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import serving
from embedder_double import EmbedderDouble
from serving import ALPHA, CALLER, DIM, INDEX, OPERATOR, refusal_of, sha256

from rag_stdlib import Config, Ok, Runtime, rag_check
from rag_stdlib.contract.hits import verify_hit
from rag_stdlib.contract.verdicts import HitVerdict
from rag_stdlib.mesh.procedures import writing
from rag_stdlib.mesh.provider import Provider

NOTE = "Ravens remember who cheated them."


@pytest.fixture
def embedder() -> EmbedderDouble:
    return EmbedderDouble(DIM)


@pytest.fixture
def runtime(tmp_path: Path, embedder: EmbedderDouble) -> Iterator[Runtime]:
    """A runtime whose index is whole after the test."""
    with serving.runtime(tmp_path, embedder) as made:
        yield made
        if (tmp_path / INDEX).exists():
            report = rag_check(INDEX)
            assert isinstance(report, Ok)
            assert (report.value.problems, report.value.notices) == ((), ())


@pytest.fixture
def provider(runtime: Runtime) -> Provider:
    return serving.with_corpus(runtime, deposits="open", operators=[OPERATOR])


def do(provider: Provider, name: str, caller: str | None = OPERATOR, **payload: Any) -> Any:
    reply = provider.handle(name, payload, caller)
    assert serving.is_wire(reply)
    return reply


def hits(provider: Provider, text: str, top_k: int = 100) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = do(provider, "answer_query", query_text=text, top_k=top_k)["hits"]
    return found


def texts(provider: Provider) -> set[str]:
    return {hit["content"] for hit in hits(provider, "raven")}


# --- add_knowledge ---

def test_a_deposit_is_found_and_names_its_depositor_and_label(provider: Provider) -> None:
    assert do(provider, "add_knowledge", CALLER, text=NOTE, source_label="field notes") == {"chunks": 1}
    (hit,) = hits(provider, NOTE, top_k=1)
    assert hit["provenance"] == {"kind": "deposit", "path": "field notes", "start_line": 1, "end_line": 1, "content_sha256": sha256(NOTE), "deposited_by": CALLER}
    assert verify_hit(hit) is HitVerdict.OK
    (row,) = [row for row in do(provider, "list_sources_page") if row["source_path"] == "field notes"]
    assert row["deposited_by"] == row["provenance"]["deposited_by"] == CALLER


def test_b30_without_a_caller_nobody_is_named_and_what_the_payload_says_does_not_count(provider: Provider) -> None:
    for caller in (None, "nobody", ""):
        provider.handle("add_knowledge", {"text": NOTE, "deposited_by": CALLER, "caller": CALLER, "Caller": CALLER}, caller)
    (hit,) = [hit for hit in hits(provider, NOTE) if hit["content"] == NOTE]
    assert "deposited_by" not in hit["provenance"]
    assert "also_in" not in hit, "the same deposit is one"
    provider.handle("add_knowledge", {"text": NOTE, b"deposited_by": OPERATOR, b"caller": OPERATOR}, CALLER.upper())
    assert {row.get("deposited_by") for row in do(provider, "list_sources_page") if row["source_path"] == "conversational"} == {None, CALLER}


@pytest.mark.parametrize(("payload", "detail"), [
    (None, "missing_text"), ({}, "missing_text"), ({"text": None}, "missing_text"), ({"text": 7}, "missing_text"), ({"text": b"\xff"}, "missing_text"),
    ({"text": ""}, "empty_text"), ({"text": b""}, "empty_text"), ({"text": " \n\t"}, "empty_text"), ({"text": "a", "topics": [1]}, "bad_params: topics[0] is no text"),
])
def test_what_is_no_deposit_is_refused(provider: Provider, payload: object, detail: str) -> None:
    assert refusal_of(provider, "add_knowledge", payload).detail == detail


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_cannot_be_stored_is_refused(provider: Provider, text: str) -> None:
    assert refusal_of(provider, "add_knowledge", {"text": text}).name in ("text_nul", "missing_text")
    assert refusal_of(provider, "add_knowledge", {"text": NOTE, "source_label": "a\0b"}).name == "text_nul"


@pytest.mark.parametrize(("name", "payload", "refused"), [
    ("add_knowledge", {"text": NOTE, "source_label": "x" * 1_025}, "text_too_large"), ("add_knowledge", {"text": NOTE, "topics": ["x" * 70_000]}, "text_too_large"),
    ("add_knowledge", {"text": NOTE, "topics": [f"{n:09}" for n in range(9_000)]}, "text_too_large"),
    ("add_knowledge", {"text": NOTE, "topics": ["x" * 512, "y" * 512]}, "text_too_large"),
    ("upload_knowledge", {"document_id": "a", "raw_bytes": NOTE, "source_path": "x" * 1_025}, "text_too_large"),
    ("upload_knowledge", {"document_id": "a", "raw_bytes": NOTE, "source_type": "x" * 1_025}, "text_too_large"),
    ("upload_knowledge", {"document_id": "a", "raw_bytes": "a\0b"}, "text_nul"),
])
def test_what_would_stand_in_every_hit_is_bounded(provider: Provider, name: str, payload: dict[str, Any], refused: str) -> None:
    assert refusal_of(provider, name, payload, OPERATOR).name == refused


def test_a_deposit_that_could_not_be_handed_out_again_is_refused(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_DEPOSIT_BYTES", 20)
    assert refusal_of(provider, "add_knowledge", {"text": "x" * 21}).name == "text_too_large"
    assert refusal_of(provider, "upload_knowledge", {"document_id": "a", "raw_bytes": b"x" * 21}, OPERATOR).name == "text_too_large"
    assert do(provider, "add_knowledge", text="x" * 20) == {"chunks": 1}


@pytest.mark.parametrize("text", ["No.", "42", "烏", "¡!", "# Heading", "- "])
def test_x14_however_short_a_text_is_it_is_stored_and_found(provider: Provider, text: str) -> None:
    assert do(provider, "add_knowledge", text=text) == {"chunks": 1}
    assert any(hit["content"] == text.strip() for hit in hits(provider, text))


def test_a_long_text_is_cut_and_every_part_of_it_is_found(provider: Provider) -> None:
    text = "\n\n".join(f"Paragraph {number} tells of raven {number} and its nuts." for number in range(200))
    chunks = do(provider, "add_knowledge", text=text, source_label="long")["chunks"]
    assert chunks > 5
    assert len(do(provider, "list_chunks_by_source", source_path="long", limit=500)) == chunks
    assert do(provider, "get_document_verbatim", source_path="long")["raw_bytes"] == text.encode()


def test_x1_no_deposit_takes_the_place_of_another_or_of_a_corpus(provider: Provider) -> None:
    before = do(provider, "describe_corpus")["corpus_hash"], texts(provider)
    labels = [None, "", "conversational", "alpha/guide.md", "corpus:alpha/guide.md", "deposit:" + "0" * 64, "a\nb"]
    notes = {f"Note {number} on ravens, left under one of several labels." for number in range(3)}
    for label in labels:
        for note in notes:
            for caller in (None, CALLER, OPERATOR):
                assert do(provider, "add_knowledge", caller, text=note, source_label=label) == {"chunks": 1}
    rows = [row for row in do(provider, "list_sources_page", limit=200) if row["provenance"]["kind"] == "deposit"]
    assert len(rows) == len({row["document_id"] for row in rows}) == 5 * 3 * 3, "no label, an empty one and the default are one label"
    assert texts(provider) == before[1] | notes
    assert do(provider, "describe_corpus")["corpus_hash"] == before[0]


def test_the_same_deposit_again_changes_nothing_and_says_what_is_there(provider: Provider, embedder: EmbedderDouble) -> None:
    first = do(provider, "add_knowledge", text=NOTE), do(provider, "describe_corpus")["index_content"], embedder.texts
    assert (do(provider, "add_knowledge", text=NOTE), do(provider, "describe_corpus")["index_content"], embedder.texts) == first


def test_x2_a_deposit_that_fails_is_refused_and_nothing_of_it_is_stored(provider: Provider, embedder: EmbedderDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    before = do(provider, "list_sources_page"), do(provider, "describe_corpus")
    for name, payload in (("add_knowledge", {"text": NOTE}), ("upload_knowledge", {"document_id": "note", "raw_bytes": NOTE})):
        embedder.fail_after = 0
        assert refusal_of(provider, name, payload, OPERATOR).detail == "embedder_failed"
        embedder.fail_after = None
        with monkeypatch.context() as patch:
            patch.setattr("rag_stdlib.index.writer.add", lambda *_: 1 / 0)
            assert refusal_of(provider, name, payload, OPERATOR).detail == "internal"
        assert (do(provider, "list_sources_page"), do(provider, "describe_corpus")) == before


def test_b17_without_an_embedder_nothing_is_stored_that_no_question_would_find(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as plain:
        provider = serving.served(plain, deposits="open", operators=[OPERATOR])
        assert refusal_of(provider, "add_knowledge", {"text": NOTE}).detail == "no_embed_model"
        assert refusal_of(provider, "upload_knowledge", {"document_id": "a", "raw_bytes": b"a"}, OPERATOR).detail == "no_embed_model"
    assert not (tmp_path / INDEX).exists()


def test_the_first_deposit_makes_the_index(runtime: Runtime) -> None:
    provider = serving.served(runtime, deposits="open")
    assert refusal_of(provider, "answer_query", {"query_text": "raven"}).detail == "store_opening"
    assert do(provider, "add_knowledge", text=NOTE) == {"chunks": 1}
    assert texts(provider) == {NOTE}


def test_many_deposits_at_once_are_all_kept(provider: Provider) -> None:
    notes = [f"Raven note {number}." for number in range(24)]
    threads = [threading.Thread(target=lambda some: [do(provider, "add_knowledge", None, text=note) for note in some], args=(notes[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(notes) <= texts(provider)


# --- upload_knowledge ---

def test_an_upload_is_stored_found_and_replaced_by_its_id(provider: Provider) -> None:
    answer = do(provider, "upload_knowledge", document_id="field/1", raw_bytes=NOTE.encode(), source_path="field/notes.md", source_type="markdown")
    assert answer == {"document_id": "field/1", "chunks": 1}
    row = do(provider, "get_source_by_id", source_id="field/1")
    assert (row["document_id"], row["source_path"], row["source_type"], row["deposited_by"]) == ("upload:field/1", "field/notes.md", "markdown", OPERATOR)
    do(provider, "upload_knowledge", document_id="upload:field/1", raw_bytes="Another note on ravens.", source_path="field/notes.md")
    assert NOTE not in texts(provider)
    assert do(provider, "get_document_verbatim", source_path="field/notes.md")["raw_bytes"] == b"Another note on ravens."


@pytest.mark.parametrize("path", [None, ""])
def test_x13_without_a_path_an_upload_goes_by_its_id(provider: Provider, path: str | None) -> None:
    do(provider, "upload_knowledge", document_id="note-1", raw_bytes=NOTE.encode(), source_path=path, source_type=None)
    document = do(provider, "get_document_verbatim", source_path="note-1")
    assert (document["source_path"], document["raw_bytes"]) == ("note-1", NOTE.encode())


@pytest.mark.parametrize(("payload", "detail"), [
    (None, "missing_document_id"), ({}, "missing_document_id"), ({"document_id": ""}, "missing_document_id"), ({"document_id": 7}, "missing_document_id"),
    ({"document_id": "a"}, "missing_raw_bytes"), ({"document_id": "a", "raw_bytes": None}, "missing_raw_bytes"), ({"document_id": "a", "raw_bytes": 7}, "missing_raw_bytes"),
    ({"document_id": "a", "raw_bytes": b""}, "empty_content"), ({"document_id": "a", "raw_bytes": ""}, "empty_content"), ({"document_id": "a", "raw_bytes": b" \n"}, "empty_content"),
])
def test_what_is_no_upload_is_refused(provider: Provider, payload: object, detail: str) -> None:
    assert refusal_of(provider, "upload_knowledge", payload, OPERATOR).detail == detail


def test_an_id_that_is_too_long_is_refused(provider: Provider) -> None:
    assert refusal_of(provider, "upload_knowledge", {"document_id": "x" * 1_024, "raw_bytes": NOTE}, OPERATOR).name == "invalid_doc_id"


@pytest.mark.parametrize(("data", "text"), [
    (b"a raven: a\xaeb", "a raven: a\ufffdb"), (b"raven \xe4\xb8", "raven \ufffd\ufffd"), (b"raven\0nut", "raven\ufffdnut"), (b"\xff\xferaven", "\ufffd\ufffdraven"),
])
def test_b7_bytes_that_are_no_text_are_read_as_far_as_they_go_and_come_back_as_they_were(provider: Provider, data: bytes, text: str) -> None:
    do(provider, "upload_knowledge", document_id="odd", raw_bytes=data)
    (chunk,) = do(provider, "list_chunks_by_source", source_path="odd")
    assert chunk["content"] == text
    document = do(provider, "get_document_verbatim", source_path="odd")
    assert (document["raw_bytes"], document["provenance"]["content_sha256"]) == (data, sha256(data))
    assert do(provider, "get_source_by_id", source_id="odd")["provenance"]["content_sha256"] == sha256(data)


def test_b28_other_bytes_with_the_same_text_replace_those_that_were_there(provider: Provider) -> None:
    for data in (b"raven a\xffb", b"raven a\xfeb", "raven a\ufffdb".encode(), b"raven a\xffb"):
        do(provider, "upload_knowledge", document_id="odd", raw_bytes=data)
        assert do(provider, "get_document_verbatim", source_path="odd")["raw_bytes"] == data


def test_an_upload_cannot_take_the_id_of_a_deposit_or_of_a_corpus(provider: Provider) -> None:
    do(provider, "add_knowledge", text=NOTE)
    taken = [row["document_id"] for row in do(provider, "list_sources_page")]
    for document_id in taken:
        do(provider, "upload_knowledge", document_id=document_id, raw_bytes=b"Something else on ravens.")
    now = [row["document_id"] for row in do(provider, "list_sources_page")]
    assert sorted(now) == sorted([*taken, *(f"upload:{document_id}" for document_id in taken)])
    assert NOTE in texts(provider)


# --- prune_chunks and retire_document ---

def upload_long(provider: Provider) -> list[str]:
    text = "\n\n".join(f"Paragraph {number} tells of raven {number} and its nuts." for number in range(100))
    do(provider, "upload_knowledge", document_id="long", raw_bytes=text)
    return [chunk["chunk_id"] for chunk in do(provider, "list_chunks_by_source", source_path="long", limit=500)]


def test_pruning_takes_all_chunks_out_and_keeps_the_source(provider: Provider) -> None:
    ids = upload_long(provider)
    assert any("Paragraph" in content for content in texts(provider))
    before = do(provider, "get_document_verbatim", source_path="long")
    assert do(provider, "prune_chunks", document_id="long", reason="wrong") == {"document_id": "long", "pruned": ids}
    after = do(provider, "get_document_verbatim", source_path="long")
    assert (after["raw_bytes"], after["provenance"]) == (before["raw_bytes"], before["provenance"])
    assert do(provider, "list_chunks_by_source", source_path="long") == []
    assert not any("Paragraph" in content for content in texts(provider))
    assert do(provider, "prune_chunks", document_id="long") == {"document_id": "long", "pruned": []}
    for gone in ids:
        assert refusal_of(provider, "get_chunk_by_id", {"chunk_id": gone}).detail == "not_found"


def test_pruning_by_a_list_takes_only_what_is_the_documents_own_and_the_rest_keeps_its_names(provider: Provider) -> None:
    ids = upload_long(provider)
    (foreign,) = [chunk["chunk_id"] for chunk in do(provider, "list_chunks_by_source", source_path="alpha/docs/owls.md")]
    asked = [ids[1], foreign, "none", ids[3], ids[1]]
    assert do(provider, "prune_chunks", document_id="long", chunk_ids=asked)["pruned"] == [ids[1], ids[3]]
    left = do(provider, "list_chunks_by_source", source_path="long", limit=500)
    assert [chunk["chunk_id"] for chunk in left] == [name for name in ids if name not in asked]
    assert all(verify_hit(chunk) is HitVerdict.OK for chunk in left)
    assert do(provider, "get_chunk_by_id", chunk_id=foreign)["content"]
    assert do(provider, "prune_chunks", document_id="long", chunk_ids=[])["pruned"] == []


@pytest.mark.parametrize("chunk_ids", ["all", 7, {"a": 1}])
def test_chunk_ids_that_are_no_list_prune_nothing(provider: Provider, chunk_ids: object) -> None:
    ids = upload_long(provider)
    assert refusal_of(provider, "prune_chunks", {"document_id": "long", "chunk_ids": chunk_ids}, OPERATOR).name == "bad_params"
    assert refusal_of(provider, "prune_chunks", {"document_id": "long", "chunk_ids": [ids[0], 7]}, OPERATOR).name == "bad_params"
    assert len(do(provider, "list_chunks_by_source", source_path="long", limit=500)) == len(ids)


def test_b27_what_is_retired_is_gone_from_every_read(provider: Provider) -> None:
    ids = upload_long(provider)
    before = len(do(provider, "list_sources_page"))
    assert do(provider, "retire_document", document_id="long") == {"document_id": "long", "pruned": len(ids)}
    assert not any("Paragraph" in content for content in texts(provider))
    assert len(do(provider, "list_sources_page")) == before - 1
    assert do(provider, "list_chunks_by_source", source_path="long") == []
    assert refusal_of(provider, "get_document_verbatim", {"source_path": "long"}).detail == "not_found"
    assert refusal_of(provider, "get_source_by_id", {"source_id": "long"}).detail == "not_found"
    assert refusal_of(provider, "retire_document", {"document_id": "long"}, OPERATOR).detail == "not_ingested"


@pytest.mark.parametrize("whole", [True, False])
def test_a_pruned_document_that_is_stored_again_is_whole_again(provider: Provider, whole: bool) -> None:
    ids, data = upload_long(provider), b"raven \xff"
    do(provider, "upload_knowledge", document_id="odd", raw_bytes=data)
    do(provider, "add_knowledge", text=NOTE)
    (note,) = [row["document_id"] for row in do(provider, "list_sources_page") if row["source_path"] == "conversational"]
    before = do(provider, "answer_query", query_text="raven", top_k=100)
    do(provider, "prune_chunks", document_id="long", chunk_ids=None if whole else ids[1:3])
    do(provider, "prune_chunks", document_id="odd")
    do(provider, "prune_chunks", document_id=note)
    assert len(hits(provider, "raven")) < len(before["hits"])
    assert do(provider, "add_knowledge", text=NOTE) == {"chunks": 1}
    assert do(provider, "upload_knowledge", document_id="odd", raw_bytes=data)["chunks"] == 1
    assert upload_long(provider) == ids
    assert do(provider, "answer_query", query_text="raven", top_k=100) == before
    assert do(provider, "get_document_verbatim", source_path="odd")["raw_bytes"] == data


def test_a_document_whose_chunks_were_pruned_can_be_retired(provider: Provider) -> None:
    upload_long(provider)
    do(provider, "prune_chunks", document_id="long")
    assert do(provider, "retire_document", document_id="upload:long") == {"document_id": "upload:long", "pruned": 0}
    assert refusal_of(provider, "get_source_by_id", {"source_id": "long"}).detail == "not_found"


@pytest.mark.parametrize("name", ["prune_chunks", "retire_document"])
def test_documents_of_a_corpus_stay(provider: Provider, name: str) -> None:
    before = do(provider, "list_sources_page"), texts(provider)
    for document_id in ("corpus:alpha/guide.md", "alpha/guide.md"):
        assert refusal_of(provider, name, {"document_id": document_id}, OPERATOR).name == "corpus_document"
    assert (do(provider, "list_sources_page"), texts(provider)) == before


@pytest.mark.parametrize("name", ["prune_chunks", "retire_document"])
@pytest.mark.parametrize(("payload", "detail"), [
    (None, "missing_document_id"), ({}, "missing_document_id"), ({"document_id": b"\xff"}, "missing_document_id"), ({"document_id": "none"}, "not_ingested"),
])
def test_what_is_not_there_cannot_be_taken_out(provider: Provider, name: str, payload: object, detail: str) -> None:
    assert refusal_of(provider, name, payload, OPERATOR).detail == detail


@pytest.mark.parametrize("name", ["prune_chunks", "retire_document"])
def test_b24_taking_out_of_an_index_that_is_not_there_yet_is_no_success(runtime: Runtime, name: str) -> None:
    provider = serving.served(runtime, operators=[OPERATOR])
    assert refusal_of(provider, name, {"document_id": "any"}, OPERATOR).detail == "store_opening"


def test_a_document_that_goes_while_it_is_asked_for_is_not_ingested(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_stdlib.mesh.procedures.writing._doc_id", lambda *_: "gone")
    for name in ("prune_chunks", "retire_document"):
        assert refusal_of(provider, name, {"document_id": "gone"}, OPERATOR).detail == "not_ingested"


@pytest.mark.parametrize("name", ["prune_chunks", "retire_document"])
def test_an_upload_by_the_id_of_another_document_takes_neither_for_the_other(runtime: Runtime, provider: Provider, name: str) -> None:
    serving.put(runtime, "both", "What somebody else has stored.")
    do(provider, "upload_knowledge", document_id="both", raw_bytes=b"What was uploaded.")
    refusal = refusal_of(provider, name, {"document_id": "both"}, OPERATOR)
    assert (refusal.name, "'upload:both'" in refusal.words) == ("bad_params", True)
    assert do(provider, "retire_document", document_id="upload:both")["pruned"] == 1
    assert "What somebody else has stored." in texts(provider)
    assert do(provider, "retire_document", document_id="both")["pruned"] == 1


def test_a_deposit_can_be_retired_by_the_id_of_its_row(provider: Provider) -> None:
    do(provider, "add_knowledge", text=NOTE)
    (row,) = [row for row in do(provider, "list_sources_page") if row["source_path"] == "conversational"]
    assert do(provider, "retire_document", document_id=row["document_id"])["pruned"] == 1
    assert NOTE not in texts(provider)
    assert ALPHA.id == "alpha"
