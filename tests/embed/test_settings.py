"""Settings have std/rag's defaults, ranges that hold, and a key that is never shown."""

from __future__ import annotations

from typing import Any

import pytest

from rag_stdlib.embed import EmbedderSettings


@pytest.mark.parametrize(("provider", "model", "endpoint", "batch"), [
    ("openai", "text-embedding-3-small", "https://api.openai.com/v1", 2048),
    ("ollama", "nomic-embed-text", "http://localhost:11434", 64),
    ("local", "all-MiniLM-L6-v2-int8", "", 2048),
])
def test_the_gaps_are_filled_with_defaults(provider: Any, model: str, endpoint: str, batch: int) -> None:
    settings = EmbedderSettings(provider)
    assert (settings.model_name, settings.base_url, settings.batch_count) == (model, endpoint, batch)
    assert settings.timeout_s == 60.0


def test_what_is_configured_wins() -> None:
    settings = EmbedderSettings("ollama", model="bge-m3", endpoint="https://gpu:1/ollama//", max_batch=8)
    assert (settings.model_name, settings.base_url, settings.batch_count) == ("bge-m3", "https://gpu:1/ollama", 8)


@pytest.mark.parametrize("model", [None, "nomic-embed-text", "nomic-embed-text:v1.5", "me/nomic-embed-text-v2-moe:latest"])
def test_r194_nomic_has_its_trained_prefixes_by_default(model: str | None) -> None:
    assert EmbedderSettings("ollama", model=model).prefixes == ("search_query: ", "search_document: ")


@pytest.mark.parametrize("settings", [
    EmbedderSettings("ollama", model="mxbai-embed-large"),
    EmbedderSettings("ollama", model="nomic-embed-code"),
    EmbedderSettings("openai", model="nomic-embed-text"),
    EmbedderSettings("openai"),
    EmbedderSettings("local"),
])
def test_r194_other_models_have_no_prefix_by_default(settings: EmbedderSettings) -> None:
    assert settings.prefixes == ("", "")


def test_r194_one_configured_prefix_replaces_both_defaults() -> None:
    assert EmbedderSettings("ollama", query_prefix="q: ").prefixes == ("q: ", "")
    assert EmbedderSettings("ollama", passage_prefix="p: ").prefixes == ("", "p: ")


@pytest.mark.parametrize("wrong", [
    {"provider": "opnai"}, {"dim": 0}, {"dim": -3}, {"timeout_s": 0.0}, {"timeout_s": -1.0}, {"timeout_s": float("inf")},
    {"timeout_s": float("nan")}, {"max_batch": 0}, {"max_batch": 2049},
])
def test_a_value_outside_its_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        EmbedderSettings(**{"provider": "openai", **wrong})


def test_r108_the_key_is_not_in_the_repr() -> None:
    settings = EmbedderSettings("openai", api_key="hunter2")
    assert "hunter2" not in repr(settings)
    assert settings.api_key == "hunter2"
