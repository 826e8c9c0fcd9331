"""Chat models behind the official clients and a real server: what is asked, what is taken for an answer, and every way it can go wrong."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from chat_server import KEY, QUESTION, SENTENCE, TEXTS, ollama_chat, openai_chat, saying
from provider_server import Answer, Drip, HangUp, ProviderServer, Silence

from rag_stdlib.errors import Failure
from rag_stdlib.proof.generators import ChatSettings, make_generator, prompt
from rag_stdlib.result import RagError

Talker = Callable[..., Any]
BOTH = pytest.mark.parametrize("provider", ["openai", "ollama"])


def error_of(call: Callable[[], Any]) -> RagError:
    with pytest.raises(Failure) as caught:
        call()
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value.error


def failing(talker: Talker, provider: str, **settings: Any) -> RagError:
    return error_of(lambda: talker(provider, **settings).generate(QUESTION, TEXTS))


# --- what is asked ---


def test_openai_is_asked_at_temperature_0_with_the_key(chat: ProviderServer, talker: Talker) -> None:
    assert talker("openai", model="m-1", max_tokens=99).generate(QUESTION, TEXTS) == SENTENCE
    (asked,) = chat.asked
    assert (asked.method, asked.path, asked.headers["authorization"]) == ("POST", "/v1/chat/completions", f"Bearer {KEY}")
    assert asked.body == {"model": "m-1", "messages": prompt.messages(QUESTION, TEXTS, "quote"), "temperature": 0, "max_tokens": 99}


def test_ollama_is_asked_at_temperature_0_in_a_context_that_holds_it_all(chat: ProviderServer, talker: Talker) -> None:
    assert talker("ollama", model="m-1", max_tokens=99, style="write").generate(QUESTION, TEXTS) == SENTENCE
    (asked,) = chat.asked
    assert (asked.path, asked.body["model"], asked.body["stream"]) == ("/api/chat", "m-1", False)
    assert asked.body["messages"] == prompt.messages(QUESTION, TEXTS, "write")
    assert asked.body["options"] == {"temperature": 0, "seed": 0, "num_predict": 99, "num_ctx": 4096}
    assert "authorization" not in asked.headers
    talker("ollama", api_key=KEY, max_tokens=99).generate(QUESTION, ["Refunds are paid. " * 1_000])
    assert chat.asked[1].body["options"]["num_ctx"] == 8192
    assert chat.asked[1].headers["authorization"] == f"Bearer {KEY}"


def test_ollama_takes_its_key_from_the_environment(chat: ProviderServer, talker: Talker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", f" {KEY}\n")
    talker("ollama").generate(QUESTION, TEXTS)
    assert chat.asked[0].headers["authorization"] == f"Bearer {KEY}"


@BOTH
@pytest.mark.parametrize(("question", "texts"), [(QUESTION, []), (QUESTION, ["", " \n"]), (" ", TEXTS)])
def test_without_evidence_or_question_no_model_is_asked(chat: ProviderServer, talker: Talker, provider: str, question: str, texts: list[str]) -> None:
    assert talker(provider).generate(question, texts) == ""
    assert chat.asked == []


@BOTH
@pytest.mark.parametrize(("question", "texts", "code"), [("\ud800", TEXTS, "invalid_text"), (QUESTION, ["a\0"], "text_nul"), ("x" * 70_000, TEXTS, "text_too_large")])
def test_what_is_no_text_is_refused_before_anything_is_asked(chat: ProviderServer, talker: Talker, provider: str, question: str, texts: list[str], code: str) -> None:
    assert error_of(lambda: talker(provider).generate(question, texts)).code == code
    assert chat.asked == []


# --- what is taken for an answer ---


@BOTH
def test_an_abstention_is_no_answer(chat: ProviderServer, talker: Talker, provider: str) -> None:
    chat.script = saying("NO_ANSWER")
    assert talker(provider).generate(QUESTION, TEXTS) == ""


def test_a_model_that_refuses_abstains(chat: ProviderServer, talker: Talker) -> None:
    chat.then(Answer(body=openai_chat(None, message={"role": "assistant", "content": None, "refusal": "I can't."})))
    assert talker("openai").generate(QUESTION, TEXTS) == ""


@BOTH
@pytest.mark.parametrize(("text", "changes", "words"), [
    (None, {}, "it holds no text"), (["a"], {}, "it holds no text"), ("a\ud800", {}, "its text holds a lone surrogate"), ("a" * 41, {}, "it has 41 characters, and max_chars is 40"),
])
def test_an_answer_that_cannot_be_used_is_refused(chat: ProviderServer, talker: Talker, provider: str, text: Any, changes: dict[str, Any], words: str) -> None:
    chat.script = saying(text, **changes)
    error = failing(talker, provider, max_chars=40)
    assert (error.code, str(error)) == ("generator_reply", f"{provider} sent an unusable answer: {words}")


@pytest.mark.parametrize(("provider", "reply", "words"), [
    ("openai", openai_chat("Refunds are", finish_reason="length"), "it was cut off; more than the 1,024 tokens of max_tokens may be needed"),
    ("ollama", ollama_chat("Refunds are", done_reason="length"), "it was cut off; more than the 1,024 tokens of max_tokens may be needed"),
    ("ollama", ollama_chat("Refunds are", done=False), "it was cut off; more than the 1,024 tokens of max_tokens may be needed"),
    ("openai", openai_chat("", finish_reason="content_filter"), "the provider's filter withheld it"),
    ("openai", {"choices": []}, "it has no message"), ("openai", {"choices": {}}, "it has no message"), ("openai", {"choices": [{}]}, "it has no message"),
    ("openai", {"choices": ["x"]}, "it has no message"), ("openai", {}, "it has no message"), ("ollama", {"message": "x"}, "it has no message"), ("ollama", {}, "it has no message"),
    ("openai", [1], "it is a JSON list, not an object"), ("ollama", b"<html>", "it is an HTML page"), ("openai", b"{", "it is no JSON"),
])
def test_a_reply_that_holds_no_whole_answer_is_refused(chat: ProviderServer, talker: Talker, provider: str, reply: Any, words: str) -> None:
    chat.then(Answer(body=reply))
    error = failing(talker, provider)
    assert (error.code, str(error)) == ("generator_reply", f"{provider} sent an unusable answer: {words}")


# --- what goes wrong ---


def said(status: int, message: str, **headers: str) -> Answer:
    return Answer(status, {"error": {"message": message, "type": "t", "code": None}}, {name.replace("_", "-"): value for name, value in headers.items()})


@BOTH
@pytest.mark.parametrize(("status", "message", "code", "requests"), [
    (401, f"Incorrect API key provided: {KEY}", "generator_auth", 1), (404, "no such model", "generator_model", 1), (400, "bad temperature", "generator_rejected", 1),
    (400, "This model's maximum context length is 10 tokens", "generator_input_too_long", 1), (500, "boom", "generator_failed", 4), (307, "", "generator_rejected", 1),
])
def test_what_the_server_says_becomes_a_code(chat: ProviderServer, talker: Talker, provider: str, status: int, message: str, code: str, requests: int) -> None:
    chat.script = lambda _asked: said(status, message, Location="http://elsewhere.test/")
    error = failing(talker, provider)
    assert (error.code, len(chat.asked)) == (code, requests)
    assert error.startswith(provider)


@BOTH
def test_a_passing_fault_is_asked_again(chat: ProviderServer, talker: Talker, provider: str) -> None:
    chat.script = saying(SENTENCE)
    sound = chat.script
    chat.then(said(429, "slow down", retry_after="0"), said(503, "busy"), HangUp(), sound)
    assert talker(provider).generate(QUESTION, TEXTS) == SENTENCE
    assert len(chat.asked) == 4


@BOTH
@pytest.mark.parametrize(("answer", "code"), [(said(429, "slow down"), "generator_rate_limit"), (Silence(), "generator_timeout"), (Drip(), "generator_timeout")], ids=["429", "silence", "drip"])
def test_the_deadline_ends_it_all(chat: ProviderServer, talker: Talker, provider: str, answer: Any, code: str) -> None:
    chat.script = lambda _asked: answer
    error = failing(talker, provider, timeout_s=0.4)
    assert (error.code, "0.4 s" in error) == (code, True)


@BOTH
def test_a_server_that_is_not_there_is_named(talker: Talker, provider: str) -> None:
    error = failing(talker, provider, endpoint="http://127.0.0.1:1", timeout_s=1.0)
    assert error.code == "generator_unreachable"
    assert "http://127.0.0.1:1" in error


# --- settings and identity ---


def test_openai_needs_a_key(talker: Talker) -> None:
    error = error_of(lambda: talker("openai", api_key=" "))
    assert (error.code, "OPENAI_API_KEY" in error) == ("generator_key_missing", True)


@BOTH
def test_a_key_or_endpoint_that_cannot_work_is_refused_at_once(talker: Talker, provider: str) -> None:
    for wrong in ({"api_key": "sk-\u00e9"}, {"endpoint": "ftp://x"}, {"endpoint": "http://"}, {"endpoint": "http://[::1"}):
        assert error_of(lambda wrong=wrong: talker(provider, **wrong)).code == "config_invalid"


@pytest.mark.parametrize("wrong", [{"provider": "other"}, {"timeout_s": 0}, {"timeout_s": float("inf")}, {"max_tokens": 0}, {"max_chars": 0}, {"style": "rhyme"}])
def test_settings_hold_their_ranges(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"provider|timeout_s|max_tokens|style"):
        ChatSettings(**{"provider": "openai", **wrong})
    assert KEY not in repr(ChatSettings("openai", api_key=KEY))


def test_the_identity_is_of_what_is_asked_and_not_of_where(talker: Talker) -> None:
    base = talker("openai").identity
    assert (base.name, base.model, len(base.digest)) == ("openai", "gpt-4o-mini", 64)
    assert talker("openai", endpoint="http://elsewhere.test").identity == base
    others = [talker("openai", **change).identity for change in ({"model": "m"}, {"max_tokens": 9}, {"max_chars": 9}, {"style": "write"})] + [talker("ollama").identity]
    assert len({each.digest for each in (base, *others)}) == 6


def test_generators_are_made_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://elsewhere.test")
    assert make_generator(ChatSettings("openai", api_key=KEY)).identity.name == "openai"
    assert make_generator(ChatSettings("ollama")).identity.model == "llama3.2"
    assert make_generator().identity.name == "extractive"


# --- threads and forks ---


@BOTH
def test_threads_share_a_generator_which_opens_again_after_it_was_closed(chat: ProviderServer, talker: Talker, provider: str) -> None:
    shared = talker(provider)
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(shared.generate(QUESTION, TEXTS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [SENTENCE] * 4
    shared.close()
    shared.close()
    assert shared.generate(QUESTION, TEXTS) == SENTENCE
    assert len(chat.asked) == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_opens_its_own_connections(talker: Talker) -> None:
    shared = talker("openai")
    before = shared.generate(QUESTION, TEXTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside the server's threads is the very case
        child = os.fork()
    if child == 0:
        os._exit(0 if shared.generate(QUESTION, TEXTS) == before else 1)
    assert os.waitpid(child, 0)[1] == 0
