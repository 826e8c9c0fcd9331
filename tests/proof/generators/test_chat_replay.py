"""A run with a model, recorded once: it replays without server, key or network, and gives the same text or the same failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import KEY, QUESTION, SENTENCE, TEXTS, saying
from provider_server import Answer, ProviderServer

import replay
from rag_stdlib.errors import Failure
from rag_stdlib.proof.alignment import align
from rag_stdlib.proof.claims import split
from rag_stdlib.proof.judges import make_judge

Talker = Callable[..., Any]
BOTH = pytest.mark.parametrize("provider", ["openai", "ollama"])


def run(generator: Any) -> list[Any]:
    """Generate, take apart, align and judge."""
    answer = generator.generate(QUESTION, TEXTS)
    judged: list[Any] = [answer, generator.identity]
    for start, end in split(answer):
        claim = answer[start:end]
        spans = align(claim, TEXTS)
        judged.append((claim, spans, make_judge("quotation").judge(claim, [TEXTS[span.item][span.start:span.end] for span in spans])))
    return judged


@BOTH
def test_a_recorded_run_replays_offline(chat: ProviderServer, talker: Talker, tmp_path: Path, provider: str) -> None:
    chat.script = saying(f"{SENTENCE}\n\nRefunds are paid in cash.")
    generator = talker(provider)
    with replay.record(tmp_path / "t.jsonl"):
        live = run(generator)
    assert [judged[2].label for judged in live[2:]] == ["quoted", "not_supported"]
    assert len(chat.asked) == 1
    chat.script = lambda _asked: pytest.fail("a replay asked the model")
    with replay.substitute(tmp_path / "t.jsonl"):
        assert run(generator) == live
        assert run.__doc__
    elsewhere = talker(provider, endpoint="http://127.0.0.1:1")
    with replay.substitute(tmp_path / "t.jsonl"):
        assert run(elsewhere) == live
    assert len(chat.asked) == 1


@BOTH
def test_the_model_is_asked_in_an_event_of_its_own_without_the_key(talker: Talker, tmp_path: Path, provider: str) -> None:
    with replay.record(tmp_path / "t.jsonl"):
        talker(provider, api_key=KEY, model="m-1").generate(QUESTION, TEXTS)
    (call,) = replay.load_trace(tmp_path / "t.jsonl").calls
    assert (call.kind, call.name) == ("llm", "chat")
    assert call.args[0]["model"] == "m-1"
    assert call.args[0]["temperature"] == 0
    assert KEY.encode() not in (tmp_path / "t.jsonl").read_bytes()


@BOTH
def test_a_failure_replays_with_its_code(chat: ProviderServer, talker: Talker, tmp_path: Path, provider: str) -> None:
    chat.script = lambda _asked: Answer(404, {"error": "no such model"})
    found = []
    for session in (replay.record, replay.substitute):
        with session(tmp_path / "t.jsonl"), pytest.raises(Failure) as caught:
            talker(provider).generate(QUESTION, TEXTS)
        found.append(caught.value.error)
    assert [(error.code, str(error)) for error in found] == [("generator_model", str(found[0]))] * 2
    assert len(chat.asked) == 1


def test_another_question_or_model_is_another_call(chat: ProviderServer, talker: Talker, tmp_path: Path) -> None:
    with replay.record(tmp_path / "t.jsonl"):
        talker("openai").generate(QUESTION, TEXTS)
    for generator, question, texts in ((talker("openai"), "Who?", TEXTS), (talker("openai"), QUESTION, TEXTS[:1]), (talker("openai", model="m"), QUESTION, TEXTS)):
        with pytest.raises(replay.Divergence), replay.substitute(tmp_path / "t.jsonl"):
            generator.generate(question, texts)
    assert len(chat.asked) == 1
