"""What a pipeline takes, and an answer with a part of it left out: retrieval, the choice of sentences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import replay
from rag_stdlib import Config, Runtime, SourceDocument, rag_ingest_document
from rag_stdlib.effects import grant
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.errors import Failure
from rag_stdlib.proof.bodychecks import CHECKS
from rag_stdlib.proof.certificate import make_body
from rag_stdlib.proof.format import BODY, LONGEST_S
from rag_stdlib.proof.format import LABELS as ALL_LABELS
from rag_stdlib.proof.generators import make_generator
from rag_stdlib.proof.judges import make_judge
from rag_stdlib.proof.pipeline import Pipeline, Retrieve, draft
from rag_stdlib.proof.retrieving import retrieve, retrieve_nothing
from rag_stdlib.result import Ok

QUESTION = "When are refunds paid?"
PASSAGE = "Refunds are paid within ten days of the return. A receipt is needed for every refund."
DIM = 64

pytestmark = pytest.mark.usefixtures("runtime")


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime(Config(), root=tmp_path, embedder=HashingEmbedder(DIM)) as made:
        assert isinstance(rag_ingest_document("a.db", SourceDocument("policy", "policy.md", f"{PASSAGE}\n"), 120), Ok)
        yield made


def pipeline(**changes: Any) -> Pipeline:
    return Pipeline(**{"generator": make_generator(), "judge": make_judge("quotation"), **changes})


def certified(search: Retrieve, made: Pipeline) -> dict[str, Any]:
    """The body of a certificate, which passes its own checks."""
    body = make_body(draft(QUESTION, "nonce-of-the-asker", search, made), "acme", bytes(32), now=datetime(2026, 12, 1, tzinfo=timezone.utc), salt="5" * 64)
    assert (BODY.departs(body), [check(body) for _, check in CHECKS]) == (None, [None] * len(CHECKS))
    return body


@pytest.mark.parametrize(("wrong", "words"), [
    ({"labels": ()}, "labels are some of"), ({"labels": ("quoted", "true")}, "labels are some of"), ({"lifetime_s": 0}, "1 to 31,622,400 seconds"),
    ({"lifetime_s": LONGEST_S + 1}, "1 to 31,622,400 seconds"), ({"spans": 0}, "1 to 16 spans"), ({"spans": 17}, "1 to 16 spans")])
def test_what_is_beyond_the_format_is_refused_before_anything_is_asked(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pipeline(**wrong)


def test_what_the_format_has_is_taken() -> None:
    made = pipeline(labels=("quoted",), lifetime_s=LONGEST_S, spans=16)
    body = certified(lambda question: retrieve("a.db", question, 5), made)
    assert (body["policy"]["labels"], body["expires_at"]) == (["quoted"], "2027-12-02T00:00:00Z")
    assert certified(lambda question: retrieve("a.db", question, 5), pipeline(labels=ALL_LABELS, lifetime_s=1))["expires_at"] == "2026-12-01T00:00:01Z"


@pytest.mark.parametrize("mode", ["lexical", "vector", "hybrid", None])
def test_without_retrieval_the_state_is_that_of_the_index_and_there_is_no_answer(mode: Any) -> None:
    without = certified(lambda question: retrieve_nothing("a.db", question, 5, mode), pipeline())
    found = certified(lambda question: retrieve("a.db", question, 5, mode), pipeline())
    assert (without["answer"]["abstained"], without["claims"], found["answer"]["abstained"]) == (True, [], False)
    assert without["retrieval"] == {**found["retrieval"], "items": []}
    assert without["retrieval"]["indexes"][0]["content"] is not None


def test_what_cannot_be_searched_is_told_as_a_search_tells_it(tmp_path: Path) -> None:
    def code(*given: Any) -> str:
        with pytest.raises(Failure) as caught:
            retrieve_nothing(*given)
        return str(caught.value.error.code)

    assert (code("missing.db", QUESTION, 5), code("a.db", "\ud800", 5), code("a.db", "x" * 70_000, 5)) == ("index_missing", "invalid_text", "text_too_large")
    with grant():
        assert code("a.db", QUESTION, 5) == "effect_not_granted"
    with Runtime(Config(), root=tmp_path, embedder=HashingEmbedder(DIM * 2)):
        assert code("a.db", QUESTION, 5, "vector") == "embedding_mismatch"
    with Runtime(Config(), root=tmp_path):
        assert retrieve_nothing("a.db", QUESTION, 5).mode == "lexical"


def test_a_run_without_retrieval_replays_without_the_index(runtime: Runtime, tmp_path: Path) -> None:
    with replay.record(tmp_path / "t.jsonl"):
        live = retrieve_nothing("a.db", QUESTION, 5)
    runtime.close()
    (tmp_path / "a.db").unlink()
    with replay.substitute(tmp_path / "t.jsonl"):
        assert retrieve_nothing("a.db", QUESTION, 5) == live


def test_without_a_generator_the_answer_is_the_best_chunk_sentence_by_sentence() -> None:
    body = certified(lambda question: retrieve("a.db", question, 5), pipeline(generator=make_generator("none")))
    assert (body["answer"]["text"], body["generator"]["name"]) == (PASSAGE, "none")
    assert [(claim["text"], claim["decision"]["shown"]) for claim in body["claims"]] == [
        ("Refunds are paid within ten days of the return.", True), ("A receipt is needed for every refund.", True)]
