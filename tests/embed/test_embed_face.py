"""The face is thin: it loads nothing heavy, and makes what the settings name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rag_stdlib.embed import EmbedderSettings, make_embedder
from rag_stdlib.embed.local import LocalEmbedder
from rag_stdlib.embed.ollama import OllamaEmbedder
from rag_stdlib.embed.openai import OpenAIEmbedder
from rag_stdlib.errors import Failure

HEAVY = ("numpy", "openai", "ollama", "httpx", "onnxruntime", "tokenizers")


def loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_importing_the_face_loads_nothing_heavy() -> None:
    assert loaded_after("import rag_stdlib.embed") == set()


def test_making_an_embedder_loads_no_client_and_no_model() -> None:
    made = "from rag_stdlib.embed import *\nmake_embedder(EmbedderSettings({provider!r}, api_key='k'))"
    assert loaded_after(made.format(provider="local")) == set()
    assert loaded_after(made.format(provider="openai")) == {"numpy", "httpx"}
    assert loaded_after(made.format(provider="ollama")) == {"numpy", "httpx"}


def test_settings_name_the_embedder() -> None:
    assert make_embedder(None) is None
    assert isinstance(make_embedder(EmbedderSettings("openai", api_key="k")), OpenAIEmbedder)
    assert isinstance(make_embedder(EmbedderSettings("ollama")), OllamaEmbedder)
    assert isinstance(make_embedder(EmbedderSettings("local")), LocalEmbedder)


@pytest.mark.parametrize("key", [None, "", "  "])
def test_openai_without_a_key_is_refused(key: str | None) -> None:
    with pytest.raises(Failure) as caught:
        make_embedder(EmbedderSettings("openai", api_key=key))
    assert caught.value.error.code == "key_missing"
    assert "OPENAI_API_KEY" in caught.value.error


@pytest.mark.parametrize("key", ["sk-abc\ndef", "ключ", "sk-a\x00b"])
def test_r108_a_key_that_no_header_carries_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(Failure) as caught:
        make_embedder(EmbedderSettings("openai", api_key=key))
    assert caught.value.error == "the API key of openai: it holds characters that no HTTP header carries"


@pytest.mark.parametrize("endpoint", ["localhost:11434", "ftp://host", "http://", "https:///v1", "http://[::1", "/v1"])
def test_an_endpoint_that_is_no_http_url_is_refused(endpoint: str) -> None:
    with pytest.raises(Failure) as caught:
        make_embedder(EmbedderSettings("ollama", endpoint=endpoint))
    assert caught.value.error.code == "config_invalid"
