"""The index as a description: what is served, in list order, hashed as anyone can; and the signature kept with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from embedder_double import EmbedderDouble

from rag_stdlib import Config, Failure, Runtime, rag_ingest
from rag_stdlib.contract import corpus_hash
from rag_stdlib.corpus.describe import describe, identity_of, keep_signature, kept_signature, model_name
from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.index import corpora, corpuswrite, schema
from rag_stdlib.index.corpora import ServedRepo

PATH = "kb.db"
ONE, TWO = (ServedRepo(name, f"https://example.org/{name}.git", "main", digit * 40) for name, digit in (("alpha", "1"), ("beta", "2")))
MODEL = EmbedderIdentity("double", "words-sha256", 32)


def serve(runtime: Runtime, *repos: ServedRepo) -> None:
    for position, repo in enumerate(repos):
        assert corpuswrite.switch(runtime.store, PATH, corpuswrite.Switch(corpora.State(), repo, "", position, ()), None)


def test_an_index_without_a_corpus_describes_an_empty_one(lexical: Runtime) -> None:
    rag_ingest(PATH, "d", "s", "text", 100).unwrap()
    with lexical.store.reading(PATH) as connection:
        described = describe(connection, MODEL)
    assert described == {"model": "words-sha256", "dim": 32, "repos": [], "corpus_hash": corpus_hash({"model": "words-sha256", "dim": 32, "repos": []})}


def test_repositories_stand_in_list_order_and_the_hash_is_anybodys(lexical: Runtime) -> None:
    serve(lexical, TWO, ONE)
    with lexical.store.reading(PATH) as connection:
        described = describe(connection, MODEL)
    assert described["repos"] == [{"id": repo.id, "url": repo.url, "branch": repo.branch, "commit": repo.commit} for repo in (TWO, ONE)]
    assert described["corpus_hash"] == corpus_hash(described)
    corpuswrite.arrange(lexical.store, PATH, ["alpha", "beta"])
    with lexical.store.reading(PATH) as connection:
        assert describe(connection, MODEL)["corpus_hash"] != described["corpus_hash"]


def test_weights_are_told_apart_by_their_revision() -> None:
    assert model_name(MODEL) == "words-sha256"
    assert model_name(replace(MODEL, revision="0123456789abcdef")) == "words-sha256@0123456789ab"


def test_the_model_is_the_indexs_or_the_embedders_or_none(tmp_path: Path) -> None:
    embedder = EmbedderDouble()
    with Runtime(Config(), root=tmp_path, embedder=embedder) as runtime:
        rag_ingest("plain.db", "d", "s", " ", 100).unwrap()  # no chunk, so no vector
        with runtime.store.reading("plain.db") as connection:
            assert identity_of(connection, "plain.db", embedder) == embedder.identity()
            with pytest.raises(Failure) as caught:
                identity_of(connection, "plain.db", None)
            assert caught.value.error.code == "no_embed_model"
        rag_ingest(PATH, "d", "s", "some words", 100).unwrap()
        with runtime.store.reading(PATH) as connection:
            assert identity_of(connection, PATH, None) == embedder.identity()
            with pytest.raises(Failure) as caught:
                identity_of(connection, PATH, EmbedderDouble(model="another"))
            assert caught.value.error.code == "embedding_mismatch"


def test_a_signature_is_of_one_corpus_and_of_no_later_one(lexical: Runtime) -> None:
    serve(lexical, ONE)
    with lexical.store.reading(PATH) as connection:
        now = describe(connection, MODEL)["corpus_hash"]
        assert kept_signature(connection, now) is None
    keep_signature(lexical.store, PATH, now, b"\x00signed\xff")
    with lexical.store.reading(PATH) as connection:
        assert kept_signature(connection, now) == b"\x00signed\xff"
        assert kept_signature(connection, "f" * 64) is None


@pytest.mark.parametrize("damaged", ["", "no colon", "HASH:not base64!", "HASH:ü", "HASH:AA=", 7])
def test_a_damaged_signature_is_none(lexical: Runtime, damaged: str | int) -> None:
    serve(lexical, ONE)
    with lexical.store.writing(PATH) as connection:
        schema.set_fact(connection, "corpus_signature", damaged.replace("HASH", "a" * 64) if isinstance(damaged, str) else damaged)
    with lexical.store.reading(PATH) as connection:
        assert kept_signature(connection, "a" * 64) is None
