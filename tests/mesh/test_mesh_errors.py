"""What crosses the mesh when something goes wrong, and how its name is read back."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ServeRefused,
    TransportClosed,
    cut,
)

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,40}", fullmatch=True)


def test_a_refusal_says_its_name_first() -> None:
    refusal = Refusal("dimension_mismatch", "expected 384 numbers, got 768", 384, 768)
    assert refusal.detail == str(refusal) == "dimension_mismatch: expected 384 numbers, got 768"
    assert (refusal.name, refusal.parts) == ("dimension_mismatch", (384, 768))
    assert Refusal("store_opening").detail == "store_opening"


@given(name=NAMES, words=st.text(max_size=300))
def test_a_refusals_name_survives_the_way_to_the_caller(name: str, words: str) -> None:
    detail = Refusal(name, words).detail
    assert len(detail.encode()) <= 256
    assert ProviderError("handler_error", detail).name == name


@pytest.mark.parametrize("name", ["", "Not_found", "not found", "7_up", "not-found", "name: words", "näme", "name\n", "_name"])
def test_a_refusal_has_a_name_that_can_be_told_from_words(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        Refusal(name)


@pytest.mark.parametrize("character", ["a", "é", "語", "👋"])
def test_a_detail_is_cut_at_a_character(character: str) -> None:
    detail = Refusal("not_found", character * 300).detail
    assert 256 - len(character.encode()) < len(detail.encode()) <= 256
    assert set(detail.removeprefix("not_found: ")) == {character}


def test_a_lone_surrogate_in_words_is_written_as_an_escape() -> None:
    assert Refusal("bad_params", "the topic \ud83d").detail == "bad_params: the topic \\ud83d"


@given(text=st.text(alphabet=st.characters(), max_size=400), most=st.integers(0, 300))
def test_what_is_cut_is_the_longest_whole_beginning(text: str, most: int) -> None:
    short = cut(text, most)
    whole = text.encode(errors="backslashreplace").decode()
    assert whole.startswith(short)
    assert len(short.encode()) <= most
    if short != whole:
        assert len(whole[:len(short) + 1].encode()) > most


@pytest.mark.parametrize(("detail", "name"), [
    ("store_opening", "store_opening"),
    ("dimension_mismatch: expected 384 numbers, got 768", "dimension_mismatch"),
    ("{dimension_mismatch,384,768}", "dimension_mismatch"),
    ('{corpus_list_refused,{unknown_key,<<"alpha">>,commit}}', "corpus_list_refused"),
    ("{ dimension_mismatch , 384 , 768 }", "dimension_mismatch"),
    ('{unknown_method,\n    <<"mcl-rag/nothing">>}', "unknown_method"),
    ("{timeout}", "timeout"),
    ('{embed_failed,[{<<"doc">>,timeout', "embed_failed"),
    ("unknownMethod2: x", "unknownMethod2"),
    ("  not_found ", "not_found"),
    ("", "handler_error"),
    ("something went wrong", "handler_error"),
    ("'repo'", "handler_error"),
    ("[Errno 2] No such file: 'a'", "handler_error"),
    ("Name: words", "handler_error"),
    ("hits[3].meta.flag is a boolean", "handler_error"),
    ("{384,768}", "handler_error"),
    ("{", "handler_error"),
])
def test_the_leading_name_is_read_from_either_form(detail: str, name: str) -> None:
    error = ProviderError("handler_error", detail)
    assert error.name == name
    assert error.detail == detail


def test_an_error_of_the_node_itself_is_named_by_its_code() -> None:
    assert ProviderError("admission_full", "retry_after_ms=20").name == "admission_full"
    assert ProviderError("unauthorized").name == "unauthorized"


ERRORS = [
    (ProviderError("handler_error", "not_found: no such chunk"), "not_found", "the provider answered handler_error: not_found: no such chunk"),
    (ProviderError("unauthorized"), "unauthorized", "the provider answered unauthorized"),
    (RelayError("unknown_next_peer"), "unknown_next_peer", "the mesh could not relay the call: unknown_next_peer"),
    (NoProvider("acme/answer_query"), "no_provider", "no node serves acme/answer_query"),
    (NoProvider("acme/answer_query", "ab" * 32), "no_provider", f"the node {'ab' * 32} does not serve acme/answer_query"),
    (CallTimeout("acme/answer_query", 1.5), "timeout", "no reply from acme/answer_query within 1.5 s"),
    (PayloadRefused("a is a boolean"), "payload_refused", "payload_refused: a is a boolean"),
    (PayloadRefused("it is long", "payload_too_large"), "payload_too_large", "payload_too_large: it is long"),
    (ReplyRefused("content_mismatch", "the bytes differ"), "content_mismatch", "content_mismatch: the bytes differ"),
    (ServeRefused("~ab/x", "not yours"), "serve_refused", "~ab/x cannot be served here: not yours"),
    (InvalidCall("a node id is 64 hex digits"), "invalid_call", "a node id is 64 hex digits"),
    (TransportClosed("this node has left the mesh"), "closed", "this node has left the mesh"),
]


@pytest.mark.parametrize(("error", "name", "words"), ERRORS, ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "")
def test_every_failure_of_a_call_is_one_family_with_a_name(error: CallError, name: str, words: str) -> None:
    assert (error.name, str(error)) == (name, words)


@pytest.mark.parametrize("error", [error for error, _, _ in ERRORS] + [Refusal("not_found", "words", 1)])
def test_failures_can_be_copied_and_sent_between_processes(error: Exception) -> None:
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own bytes
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))


def test_failures_are_also_what_python_calls_them() -> None:
    assert isinstance(CallTimeout("a/b", 1), TimeoutError)
    assert isinstance(PayloadRefused("x"), ValueError)
    assert isinstance(InvalidCall("x"), ValueError)
