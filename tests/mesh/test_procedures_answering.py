"""answer_query over a real index: what is found, told once, bounded, and of one snapshot."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import serving
from answering import describe, vector_of
from embedder_double import EmbedderDouble
from serving import ALPHA, ALPHA_FILES, DIM, INDEX, V1, V2, refusal_of, sha256

from rag_stdlib import Config, Runtime
from rag_stdlib.contract import cbor
from rag_stdlib.contract.hits import hit_in_corpus, verify_hit
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.contract.verdicts import HitVerdict, Membership
from rag_stdlib.index import served
from rag_stdlib.index.store import Store
from rag_stdlib.mesh.procedures import replies, shapes
from rag_stdlib.mesh.procedures.signing import Signer
from rag_stdlib.mesh.provider import Provider
from rag_stdlib.mesh.wire import PAYLOAD_ITEMS


def ask(provider: Provider, text: str, **more: Any) -> dict[str, Any]:
    answer: Any = provider.handle("answer_query", {"query_text": text, **more})
    return answer


# --- answer_query ---

def test_a_hit_has_the_contracts_shape_and_checks_out(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        answer, description = ask(provider, "a raven remembers hundreds of such places", top_k=2), describe(provider)
        assert answer.keys() == {"corpus_hash", "hits", "index_content"}
        assert (answer["corpus_hash"], answer["index_content"]) == (description["corpus_hash"], description["index_content"])
        assert serving.is_wire(answer)
        hit = answer["hits"][0]
        assert hit.keys() == {"chunk_id", "content", "score", "source_path", "provenance", "meta"}
        assert hit["provenance"] == {
            "kind": "corpus", "path": "alpha/guide.md", "repo_id": "alpha", "commit": V1, "start_line": hit["meta"]["start_line"],
            "end_line": hit["meta"]["end_line"], "content_sha256": sha256(hit["content"])}
        assert hit["source_path"] == "alpha/guide.md"
        assert (type(hit["score"]), hit["meta"]["kind"], hit["meta"]["header_path"]) == (float, "prose", "Guide > Caching")
        lines = ALPHA_FILES["guide.md"].split("\n")[hit["meta"]["start_line"] - 1:hit["meta"]["end_line"]]
        assert "\n".join(lines) == hit["content"]
        assert [verify_hit(hit) for hit in answer["hits"]] == [HitVerdict.OK] * 2
        assert [hit_in_corpus(hit, description) for hit in answer["hits"]] == [Membership.IN_CORPUS] * 2


def test_b19_the_content_of_a_hit_is_never_empty_and_code_is_named_code(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        hits = ask(serving.with_corpus(runtime), "hide nut under leaves", top_k=100)["hits"]
        assert all(hit["content"].strip() for hit in hits)
        assert {hit["meta"]["kind"] for hit in hits} == {"prose", "code"}


@pytest.mark.parametrize(("payload", "detail"), [
    (None, "bad_params: the parameters are no map"), ([], "bad_params: the parameters are no map"), ("raven", "bad_params: the parameters are no map"),
    ({}, "query_text_or_vector_required"), ({"query_text": None}, "query_text_or_vector_required"), ({"query_text": 7}, "query_text_or_vector_required"),
    ({"query_text": b"\xff"}, "query_text_or_vector_required"), ({"query_vector": "raven"}, "query_text_or_vector_required"),
    ({"query_vector": [0.5] * 31}, "dimension_mismatch: expected 32 numbers, got 31"),
    ({"query_vector": [], "query_text": "raven"}, "dimension_mismatch: expected 32 numbers, got 0"),
    ({"query_vector": [0.0] * 32}, "bad_params: query_vector is zero, which has no direction"),
    ({"query_vector": [None] * 32}, "bad_params: query_vector[0] is no finite number"),
    ({"query_text": "raven", "topics": ["a", 7]}, "bad_params: topics[1] is no text"),
])
def test_what_cannot_be_answered_is_refused_by_name(tmp_path: Path, payload: object, detail: str) -> None:
    with serving.runtime(tmp_path) as runtime:
        assert refusal_of(serving.with_corpus(runtime), "answer_query", payload).detail == detail


def test_text_that_is_no_query_is_refused_with_the_reason(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        assert refusal_of(provider, "answer_query", {"query_text": "a\0b"}).detail == "text_nul: query_text holds U+0000 at character 1; remove or replace it first"
        assert refusal_of(provider, "answer_query", {"query_text": "é" * 50_000}).name == "text_too_large"


def test_b12_a_vector_of_the_wrong_length_is_refused_before_the_store_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)

        def touched(*_args: object, **_kwargs: object) -> None:
            raise AssertionError("the store was touched")

        monkeypatch.setattr(Store, "snapshot", touched)
        assert refusal_of(provider, "answer_query", {"query_vector": [0.1] * 384}).parts == (DIM, 384)


def test_a_vector_finds_what_its_text_finds_whatever_its_length(tmp_path: Path) -> None:
    with serving.runtime(tmp_path, mode="vector") as runtime:
        provider = serving.with_corpus(runtime)
        wanted = ask(provider, "storks return in spring")["hits"]
        for factor in (1.0, 1e-200, 1e200, -1.0):
            vector = [factor * number for number in vector_of("storks return in spring")]
            answer: Any = provider.handle("answer_query", {b"query_vector": vector})
            if factor > 0:
                assert [hit["chunk_id"] for hit in answer["hits"]] == [hit["chunk_id"] for hit in wanted]
                assert answer["hits"][0]["score"] == pytest.approx(wanted[0]["score"], abs=1e-6)
            else:
                assert answer["hits"][-1]["chunk_id"] == wanted[0]["chunk_id"]


def test_the_vector_wins_over_the_text_and_nothing_is_embedded(tmp_path: Path) -> None:
    embedder = EmbedderDouble(DIM)
    with serving.runtime(tmp_path, embedder) as runtime:
        provider = serving.with_corpus(runtime)
        calls = len(embedder.calls)
        answer: Any = provider.handle("answer_query", {"query_text": "raven", "query_vector": vector_of("storks return in spring"), "top_k": 1})
        assert "Storks" in answer["hits"][0]["content"]
        assert len(embedder.calls) == calls
        ask(provider, "raven")
        assert embedder.calls[-1] == ("query", ("raven",))


@pytest.mark.parametrize("text", ["", "   ", b"", "\n\t"])
def test_blank_text_finds_nothing_and_is_no_error(tmp_path: Path, text: str | bytes) -> None:
    with serving.runtime(tmp_path) as runtime:
        answer: Any = serving.with_corpus(runtime).handle("answer_query", {"query_text": text})
        assert answer["hits"] == []


@pytest.mark.parametrize(("top_k", "hits"), [(1, 1), (3, 3), (100, 12), (0, 10), (101, 10), ("3", 10), (None, 10)])
def test_top_k_bounds_the_hits(tmp_path: Path, top_k: object, hits: int) -> None:
    with serving.runtime(tmp_path) as runtime:
        for number in range(12):
            serving.put(runtime, f"n{number:02}", f"Raven number {number} hides a nut.")
        assert len(ask(serving.served(runtime), "raven nut", top_k=top_k)["hits"]) == hits


def test_embedder_failures_are_passed_on_by_their_code(tmp_path: Path) -> None:
    embedder = EmbedderDouble(DIM)
    with serving.runtime(tmp_path, embedder) as runtime:
        provider = serving.with_corpus(runtime)
        embedder.fail_after = 0
        assert refusal_of(provider, "answer_query", {"query_text": "raven"}).detail == "embedder_failed"


def test_the_error_of_the_corpus_comes_before_that_of_the_retrieval(tmp_path: Path) -> None:
    embedder = EmbedderDouble(DIM)
    with serving.runtime(tmp_path, embedder) as runtime:
        provider = serving.with_corpus(runtime, list_file=serving.LIST)
        (tmp_path / serving.LIST).write_text("{")
        embedder.fail_after = 0
        for payload in (None, {}, {"query_text": "raven"}, {"query_vector": [1.0]}):
            assert refusal_of(provider, "answer_query", payload).name == "corpus_list_refused"


# --- identical texts ---

SAME = "The same paragraph stands in several repositories, word for word, and is one hit.\n"


def test_b5_identical_text_is_one_hit_that_names_the_other_places(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        for position, name in enumerate(("one", "two", "three")):
            serving.switch(runtime, serving.ServedRepo(name, f"/srv/{name}", "main", V1), {
                "same.md": SAME, "own.md": f"The paragraph of repository {name} stands here alone, word for word.\n"}, position)
        hits = ask(serving.served(runtime), "the same paragraph stands in several repositories word for word", top_k=3)["hits"]
        assert len({hit["content"] for hit in hits}) == 3
        (whole,) = [hit for hit in hits if hit["content"] == SAME.strip()]
        assert {whole["source_path"], *whole["also_in"]} == {"one/same.md", "two/same.md", "three/same.md"}
        assert len(whole["also_in"]) == 2
        assert all("also_in" not in hit for hit in hits if hit is not whole)


def test_x11_top_k_distinct_hits_come_whatever_the_number_of_copies(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        files = {f"copy{number:03}.md": SAME for number in range(60)}
        files |= {f"own{number}.md": f"Repositories of word number {number}, said in a paragraph of its own.\n" for number in range(4)}
        serving.switch(runtime, ALPHA, files)
        hits = ask(serving.served(runtime), "the same paragraph stands in several repositories word for word", top_k=5)["hits"]
        assert len(hits) == 5
        assert len({hit["content"] for hit in hits}) == 5
        assert len(hits[0]["also_in"]) == 59


def test_a_text_that_stands_twice_in_one_file_does_not_name_its_own_place(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        serving.switch(runtime, ALPHA, {"twice.md": f"# One\n\n{SAME}\n# Two\n\n{SAME}"})
        assert "also_in" not in ask(serving.served(runtime), SAME, top_k=1)["hits"][0]


# --- topics ---

def test_topics_are_any_of_trimmed_and_without_case_and_an_empty_list_is_no_filter(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime, deposits="open")
        provider.handle("add_knowledge", {"text": "Ravens play in snow.", "topics": ["Birds", "winter sports"]})
        provider.handle("add_knowledge", {"text": "Ravens like shiny things.", "topics": ["Theft"]})
        found = {topics: {hit["content"] for hit in ask(provider, "ravens", topics=list(topics), top_k=100)["hits"]} for topics in (
            ("birds",), (" BIRDS ", "none"), ("theft", "Winter Sports"), ("bird",), ("",))}
        assert list(found.values()) == [{"Ravens play in snow."}] * 2 + [{"Ravens play in snow.", "Ravens like shiny things."}, set(), set()]
        (hit,) = ask(provider, "ravens", topics=["BIRDS"])["hits"]
        assert hit["meta"]["topics"] == ["Birds", "winter sports"]
        everything = len(ask(provider, "ravens", top_k=100)["hits"])
        for none in ([], None, "birds", {"birds": 1}, 7):
            assert len(ask(provider, "ravens", topics=none, top_k=100)["hits"]) == everything


# --- size ---

def test_hits_that_would_make_the_reply_too_large_are_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving.runtime(tmp_path) as runtime:
        for number in range(20):
            serving.put(runtime, f"n{number:02}", f"Raven {number} " + "hides a nut " * 60)
        provider = serving.served(runtime)
        whole = ask(provider, "raven nut", top_k=20)
        monkeypatch.setattr(replies, "MAX_HITS_BYTES", 5_000)
        answer = ask(provider, "raven nut", top_k=20)
        assert answer["hits"] == whole["hits"][:len(answer["hits"])]
        assert answer["left_out"] == 20 - len(answer["hits"]) > 10
        assert "left_out" not in whole
        monkeypatch.setattr(replies, "MAX_HITS_BYTES", 500)
        assert refusal_of(provider, "answer_query", {"query_text": "raven nut"}).name == "payload_too_large"


def test_hits_that_would_have_more_values_than_a_reply_are_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving.runtime(tmp_path) as runtime:
        topics = "\n".join(f"t{number}" for number in range(9_000))
        for number in range(20):
            serving.put(runtime, f"n{number:02}", f"Raven {number} hides a nut.", topics=topics)
        answer = ask(serving.served(runtime), "raven nut", top_k=20)
        assert (len(answer["hits"]), answer["left_out"]) == (14, 6)
        assert replies.items(answer) <= PAYLOAD_ITEMS
        monkeypatch.setattr(replies, "MAX_HITS_ITEMS", 9_000)
        assert refusal_of(serving.served(runtime), "answer_query", {"query_text": "raven nut"}).name == "payload_too_large"


def test_b5_a_text_with_very_many_copies_names_the_first_thousand_and_counts_the_rest(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        serving.switch(runtime, ALPHA, {"same.md": SAME})
        with runtime.store.reading(INDEX) as connection:
            (chunk,) = served.chunks_of(connection, "corpus:alpha/same.md", 10)
    copies = [f"copy/{number}.md" for number in range(1_500)]
    crowded = shapes.hit(chunk, None, [*copies, chunk.source, *copies])
    assert (crowded["also_in"], crowded["also_in_left_out"]) == (sorted(copies)[:1_000], 500)
    assert "also_in_left_out" not in shapes.hit(chunk, None, copies[:1_000])


def test_the_size_of_a_reply_is_never_less_than_it_takes_on_the_wire(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        for reply in (ask(provider, "raven", top_k=100), describe(provider), ["é" * 300, b"x" * 70_000, {"a": [None, 1, 2.5, 2**62]}]):
            taken = len(cbor.encode(reply))
            assert taken <= replies.size(reply) < 1.6 * taken + 100


# --- one snapshot ---

def test_x3_a_file_that_did_not_change_names_the_new_commit_in_every_read(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        (before,) = ask(provider, "owls hunt at night", top_k=1)["hits"]
        serving.switch(runtime, serving.ServedRepo("alpha", ALPHA.url, "main", V2), {**ALPHA_FILES, "new.md": "A file that is new in this commit.\n"})
        (hit,) = ask(provider, "owls hunt at night", top_k=1)["hits"]
        chunk: Any = provider.handle("get_chunk_by_id", {"chunk_id": hit["chunk_id"]})
        (listed,) = provider.handle("list_chunks_by_source", {"source_path": "alpha/docs/owls.md"})  # type: ignore[misc, union-attr]
        verbatim: Any = provider.handle("get_document_verbatim", {"source_path": "alpha/docs/owls.md"})
        row: Any = provider.handle("get_source_by_id", {"source_id": "corpus:alpha/docs/owls.md"})
        assert before["provenance"]["commit"] == V1
        assert [read["provenance"]["commit"] for read in (hit, chunk, listed, verbatim, row)] == [V2] * 5
        assert hit["chunk_id"] == before["chunk_id"]
        assert describe(provider)["repos"][0]["commit"] == V2


def test_x4_every_answer_is_wholly_of_one_commit_while_the_corpus_moves(tmp_path: Path) -> None:
    def files(commit: str) -> dict[str, str]:
        return {f"f{number}.md": f"Raven file {number} as it stands in the commit {commit[0]}.\n" for number in range(6)}

    with serving.runtime(tmp_path) as runtime:
        serving.switch(runtime, ALPHA, files(V1))
        provider = serving.served(runtime)
        hashes = {}
        for commit in (V2, V1):
            serving.switch(runtime, serving.ServedRepo("alpha", ALPHA.url, "main", commit), files(commit))
            hashes[describe(provider)["corpus_hash"]] = commit
        done, seen = threading.Event(), []

        def asking() -> None:
            while not done.is_set():
                seen.append(ask(provider, "raven file as it stands in the commit", top_k=100))

        threads = [threading.Thread(target=asking) for _ in range(2)]
        for thread in threads:
            thread.start()
        for turn in range(10):
            commit = (V2, V1)[turn % 2]
            serving.switch(runtime, serving.ServedRepo("alpha", ALPHA.url, "main", commit), files(commit))
        done.set()
        for thread in threads:
            thread.join()
        for answer in seen:
            commit = hashes[answer["corpus_hash"]]
            assert {hit["provenance"]["commit"] for hit in answer["hits"]} == {commit}
            assert {hit["content"][-2] for hit in answer["hits"]} == {commit[0]}
            assert len(answer["hits"]) == 6


def test_index_content_is_left_out_where_it_is_not_known(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        with runtime.store.writing(INDEX) as connection:
            connection.execute("DELETE FROM rag_meta WHERE key IN ('content', 'content_state')")
        assert "index_content" not in describe(provider)
        assert "index_content" not in ask(provider, "raven")


def test_an_index_without_a_vector_for_each_chunk_is_refused_for_vectors_too(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as plain:
        serving.put(plain, "a", "A raven.")
    with serving.runtime(tmp_path) as runtime:
        provider = serving.served(runtime)
        for payload in ({"query_text": "raven"}, {"query_vector": vector_of("raven")}):
            assert refusal_of(provider, "answer_query", payload).detail == "vectors_missing"


def test_without_an_embedder_an_index_with_chunks_that_have_no_vector_is_refused(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        serving.with_corpus(runtime)
    with Runtime(Config(), root=tmp_path) as plain:
        serving.put(plain, "late", "A raven without a vector.")
        assert refusal_of(serving.served(plain), "answer_query", {"query_vector": vector_of("raven")}).detail == "vectors_missing"


def test_a_vector_that_the_index_has_left_behind_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving.runtime(tmp_path) as runtime:
        serving.with_corpus(runtime)
    monkeypatch.setattr("rag_stdlib.mesh.procedures.answering._dim", lambda _desk: 2)  # as it was before a re-embedding
    with Runtime(Config(), root=tmp_path) as plain:
        assert refusal_of(serving.served(plain), "answer_query", {"query_vector": [0.6, 0.8]}).parts == (DIM, 2)


def test_of_many_corpora_the_signatures_of_the_last_are_kept(key: NodeKey) -> None:
    signer = Signer(key)
    hashes = [f"{number:064x}" for number in range(20)]
    made = {name: signer.fields(name, None)["signature"] for name in hashes}
    assert signer.fields(hashes[-1], None)["signature"] == made[hashes[-1]]
    assert signer.fields(hashes[0], None)["signature"] != made[hashes[0]]
