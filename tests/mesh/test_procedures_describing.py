"""describe_corpus over a real index: what is served, signed, refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import serving
from answering import describe, vector_of
from embedder_double import EmbedderDouble
from serving import ALPHA, ALPHA_FILES, BETA, DIM, INDEX, V1, V2, refusal_of

from rag_stdlib import Config, Runtime
from rag_stdlib.contract.corpus import corpus_hash, sign_corpus, verify_corpus
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.contract.verdicts import Signed, Unsigned
from rag_stdlib.corpus.describe import keep_signature
from rag_stdlib.mesh.procedures.corpuslist import CorpusList

# --- describe_corpus ---

def test_a_description_names_the_repositories_in_order_and_hashes_to_what_it_claims(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        description = describe(provider)
        assert description["repos"] == [
            {"id": "alpha", "url": ALPHA.url, "branch": "main", "commit": V1}, {"id": "beta", "url": BETA.url, "branch": "trunk", "commit": V1}]
        assert (description["model"], description["dim"]) == ("words-sha256", DIM)
        assert description["corpus_hash"] == corpus_hash(description)
        assert description.keys() == {"model", "dim", "repos", "corpus_hash", "index_content"}, "neither signature nor signed_by without a key"
        assert serving.is_wire(description)
        assert verify_corpus(description, "a" * 64, "pq_pure") == Unsigned()


@pytest.mark.parametrize("payload", [None, {}, [], "text", {"top_k": 7}, b"bytes"])
def test_any_payload_of_describe_corpus_is_ignored(tmp_path: Path, payload: object) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        assert provider.handle("describe_corpus", payload) == describe(provider)


def test_a_provider_with_a_key_signs_and_signs_a_corpus_once(tmp_path: Path, key: NodeKey) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime, key=key)
        description = describe(provider)
        assert verify_corpus(description, key.node_id, "pq_pure") == Signed(key.node_id)
        assert (type(description["signature"]), description["signed_by"]) == (bytes, key.node_id)
        assert describe(provider)["signature"] == description["signature"], "ML-DSA signatures differ each time they are made"
        serving.switch(runtime, serving.ServedRepo("alpha", ALPHA.url, "main", V2), ALPHA_FILES)
        moved = describe(provider)
        assert moved["corpus_hash"] != description["corpus_hash"]
        assert verify_corpus(moved, key.node_id, "pq_pure") == Signed(key.node_id)


def test_a_signature_that_the_operator_left_in_the_index_is_handed_out_for_its_very_corpus(tmp_path: Path, key: NodeKey) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        hash_now = describe(provider)["corpus_hash"]
        keep_signature(runtime.store, INDEX, hash_now, sign_corpus(hash_now, key))
        description = describe(provider)
        assert description["signed_by"] == key.node_id
        assert verify_corpus(description, key.node_id, "pq_pure") == Signed(key.node_id)
        serving.switch(runtime, serving.ServedRepo("alpha", ALPHA.url, "main", V2), ALPHA_FILES)
        assert "signature" not in describe(provider)
        assert "signed_by" not in describe(provider)


@pytest.mark.parametrize("kept", [b"", b"not cbor", b"\xa0"])
def test_a_kept_signature_that_is_none_is_not_handed_out(tmp_path: Path, kept: bytes) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime)
        keep_signature(runtime.store, INDEX, describe(provider)["corpus_hash"], kept)
        assert "signature" not in describe(provider)


def test_without_a_list_and_an_index_the_corpus_is_empty_and_still_signed(tmp_path: Path, key: NodeKey) -> None:
    with serving.runtime(tmp_path) as runtime:
        for list_file in (None, serving.LIST, "no/such/folder.json"):
            description = describe(serving.served(runtime, key=key, list_file=list_file))
            assert (description["repos"], description["dim"]) == ([], DIM)
            assert verify_corpus(description, key.node_id, "pq_pure") == Signed(key.node_id)
    assert not (tmp_path / INDEX).exists(), "reading makes no index"


def test_an_index_of_deposits_alone_is_an_empty_corpus(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        serving.put(runtime, "note", "A note on ravens.")
        assert describe(serving.served(runtime))["repos"] == []


def test_b24_with_a_list_an_index_that_is_not_there_yet_is_no_empty_corpus(tmp_path: Path) -> None:
    serving.write_list(tmp_path, ALPHA)
    with serving.runtime(tmp_path) as runtime:
        provider = serving.served(runtime, list_file=serving.LIST)
        assert refusal_of(provider, "describe_corpus").detail == "store_opening"
        serving.switch(runtime, ALPHA, ALPHA_FILES)
        assert len(describe(provider)["repos"]) == 1


@pytest.mark.parametrize(("text", "term"), [
    ("{", "invalid_json"), ("[]", "missing_repos_key"), ("x" * 2_000_000, "invalid_json"),
    ('{"repos": [7]}', "{malformed_entry,not_an_object}"), ('{"repos": [{"id": "../x"}]}', "{malformed_id,../x}"),
    ('{"repos": [{"id": "a", "url": "http://x", "branch": "b", "commit": "c"}]}', "{unsupported_url,a,http://x}"),
])
def test_a_broken_list_refuses_descriptions_and_answers_and_passes_for_no_empty_corpus(tmp_path: Path, text: str, term: str) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime, list_file=serving.LIST)
        (tmp_path / serving.LIST).write_text(text)
        for name in ("describe_corpus", "answer_query"):
            refusal = refusal_of(provider, name, {"query_text": "raven"})
            assert (refusal.name, refusal.words) == ("corpus_list_refused", term)
        serving.write_list(tmp_path, ALPHA, BETA)
        assert len(describe(provider)["repos"]) == 2, "the list is read again when it has changed"


def test_a_list_that_cannot_be_read_is_refused_too(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime, list_file=serving.LIST)
        (tmp_path / serving.LIST).mkdir()
        assert refusal_of(provider, "describe_corpus").detail == "corpus_list_refused: {config_read_failed,path_special}"
        outside = serving.served(runtime, list_file="../corpus.json")
        assert refusal_of(outside, "describe_corpus").detail == "corpus_list_refused: {config_read_failed,path_parent}"


def test_a_list_is_kept_only_once_its_times_tell_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving.write_list(tmp_path, ALPHA)
    with serving.runtime(tmp_path) as runtime:
        kept = CorpusList(runtime, serving.LIST, "pinned")
        for age_s, read_again in ((0, True), (60, False)):
            changed = time.time_ns() - age_s * 10**9
            monkeypatch.setattr(CorpusList, "_stamp", lambda *_, at=changed: (at, at, 1, 1, 1))
            serving.write_list(tmp_path, ALPHA)
            assert [repo.id for repo in kept.repos() or ()] == ["alpha"]
            serving.write_list(tmp_path, BETA)
            assert [repo.id for repo in kept.repos() or ()] == (["beta"] if read_again else ["alpha"])


def test_the_list_is_held_to_the_rules_of_its_regime(tmp_path: Path) -> None:
    serving.write_list(tmp_path, ALPHA)
    with serving.runtime(tmp_path) as runtime:
        provider = serving.with_corpus(runtime, list_file=serving.LIST, regime="head")
        assert refusal_of(provider, "describe_corpus").words == "{unknown_key,alpha,commit}"


def test_without_an_embedder_an_index_that_knows_its_model_is_described_all_the_same(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        described = describe(serving.with_corpus(runtime))
    with Runtime(Config(), root=tmp_path) as plain:
        provider = serving.served(plain)
        assert describe(provider) == described
        assert refusal_of(provider, "answer_query", {"query_text": "raven"}).detail == "no_embed_model"
        answer: Any = provider.handle("answer_query", {"query_vector": vector_of("raven"), "top_k": 1})
        assert answer["corpus_hash"] == described["corpus_hash"]
        assert "raven" in answer["hits"][0]["content"]
        assert refusal_of(provider, "answer_query", {"query_vector": [1.0]}).parts == (DIM, 1)


def test_without_any_model_descriptions_and_answers_are_refused(tmp_path: Path) -> None:
    with Runtime(Config(), root=tmp_path) as plain:
        for payload in ({"query_text": "raven"}, {"query_vector": [1.0]}, {}):
            assert refusal_of(serving.served(plain), "answer_query", payload).detail == "store_opening"
        assert refusal_of(serving.served(plain), "describe_corpus").detail == "no_embed_model"
        serving.put(plain, "note", "A note on ravens.")
        assert refusal_of(serving.served(plain), "describe_corpus").detail == "no_embed_model"
        for payload in ({"query_text": "raven"}, {"query_vector": [1.0]}, {}):
            assert refusal_of(serving.served(plain), "answer_query", payload).detail == "no_embed_model"


def test_an_index_of_another_model_is_refused_by_name_and_tells_no_stranger_more(tmp_path: Path) -> None:
    with serving.runtime(tmp_path) as runtime:
        serving.with_corpus(runtime)
    with serving.runtime(tmp_path, EmbedderDouble(DIM, "another")) as other:
        for name in ("describe_corpus", "answer_query"):
            assert refusal_of(serving.served(other), name, {"query_text": "raven"}).detail == "embedding_mismatch"
        assert refusal_of(serving.served(other), "answer_query", {"query_vector": vector_of("raven")}).detail == "embedding_mismatch"
