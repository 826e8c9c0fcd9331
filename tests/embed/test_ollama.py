"""Ollama's official client against a real server."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import KEY
from provider_server import Answer, Asked, Drip, ProviderServer, ollama_reply, sound, vector_of

from rag_stdlib.embed import EmbedderSettings, make_embedder
from rag_stdlib.errors import Failure
from rag_stdlib.result import RagError

Make = Callable[..., Any]


def error_of(call: Callable[[], Any]) -> RagError:
    with pytest.raises(Failure) as caught:
        call()
    return caught.value.error


def unit(text: str) -> list[float]:
    vector = np.array(vector_of(text))
    return [float(value) for value in (vector / np.linalg.norm(vector)).astype(np.float32)]


def test_r94_a_request_forbids_truncation(server: ProviderServer, make: Make) -> None:
    rows = make("ollama", model="bge-m3").embed(["alpha", "beta"], "passage")
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/api/embed")
    assert asked.body == {"model": "bge-m3", "input": ["alpha", "beta"], "truncate": False}
    assert rows.tolist() == [unit("alpha"), unit("beta")]
    assert "authorization" not in asked.headers


def test_r194_nomic_gets_its_prefixes(server: ProviderServer, make: Make) -> None:
    embedder = make("ollama")
    embedder.embed(["a"], "query")
    embedder.embed(["a"], "passage")
    assert [asked.texts for asked in server.asked] == [["search_query: a"], ["search_document: a"]]
    assert embedder.identity().query_prefix == "search_query: "
    assert embedder.identity().passage_prefix == "search_document: "


def test_a_path_of_the_endpoint_is_kept(server: ProviderServer, make: Make) -> None:
    make("ollama", endpoint=f"{server.url}/gpu/").embed(["a"], "query")
    assert server.asked[0].path == "/gpu/api/embed"


def test_dimensions_are_sent_only_when_configured(server: ProviderServer, make: Make) -> None:
    make("ollama", dim=3).embed(["a"], "query")
    assert server.asked[0].body["dimensions"] == 3


def test_a_request_holds_64_texts_at_most(server: ProviderServer, make: Make) -> None:
    make("ollama").embed([f"text {number}" for number in range(150)], "passage")
    assert [len(asked.texts) for asked in server.asked] == [64, 64, 22]


def test_a_single_embedding_is_accepted(server: ProviderServer, make: Make) -> None:
    server.script = lambda asked: Answer(body={"embedding": vector_of(asked.texts[0])})
    assert make("ollama", model="m").embed(["a"], "query").tolist() == [unit("a")]


@pytest.mark.parametrize(("body", "detail"), [
    ({"embeddings": [[1.0, 2.0]]}, "it holds 1 vectors for 2 texts"),
    ({"embeddings": [[1.0, 2.0]] * 3}, "it holds 3 vectors for 2 texts"),
    ({"embedding": [1.0, 2.0]}, "it holds 1 vectors for 2 texts"),
    ({"embeddings": None}, "it has no `embeddings` list"),
    ({}, "it has no `embeddings` list"),
    ([], "it is a JSON list, not an object"),
])
def test_r100_an_unsound_reply_is_refused(server: ProviderServer, make: Make, body: Any, detail: str) -> None:
    server.script = lambda _asked: Answer(body=body)
    error = error_of(lambda: make("ollama").embed(["a", "b"], "passage"))
    assert error == f"ollama sent an unusable reply: {detail}"


@pytest.mark.parametrize(("vector", "detail"), [
    ([math.nan, 1.0], "the vector holds NaN or infinity"),
    ([math.inf, 1.0], "the vector holds NaN or infinity"),
    ([0.0, 0.0], "the vector is zero, which has no direction"),
    ([1.0], "a vector has 1 dimensions where 2 came for the first text"),
    (["1", "2"], "a vector is neither a list of numbers nor base64"),
    (None, "a vector is neither a list of numbers nor base64"),
])
def test_r12_r13_an_unsound_vector_is_refused_with_its_text(server: ProviderServer, make: Make, vector: Any, detail: str) -> None:
    server.script = lambda _asked: Answer(body={"embeddings": [[1.0, 2.0], vector]})
    error = error_of(lambda: make("ollama").embed(["first", "second"], "passage"))
    assert error == f'ollama sent an unusable reply for text 2 of 2 ("second"): {detail}'


@pytest.mark.parametrize("body", [b'{"error":"json: unsupported value: NaN"}', b"[]", b'"boom"', b"boom"])
def test_r96_one_poisoned_text_is_named(server: ProviderServer, make: Make, body: bytes) -> None:
    server.script = lambda asked: Answer(500, body) if "search_document: s3" in asked.texts else sound(asked)
    error = error_of(lambda: make("ollama").embed([f"s{number}" for number in range(5)], "passage"))
    assert error.startswith('ollama failed (HTTP 500) for text 4 of 5 ("s3"): ')
    assert len(server.asked) <= 10


def test_r93_r94_a_text_beyond_the_context_is_named(server: ProviderServer, make: Make) -> None:
    def script(asked: Asked) -> Answer:
        if any(len(text) > 100 for text in asked.texts):
            return Answer(400, {"error": "the input length exceeds the context length"})
        return sound(asked)
    server.script = script
    error = error_of(lambda: make("ollama").embed(["a", "b", "long " * 50], "passage"))
    assert error.code == "embedder_input_too_long"
    assert "text 3 of 3" in error


def test_a_model_that_was_not_pulled_is_named(server: ProviderServer, make: Make) -> None:
    server.script = lambda _asked: Answer(404, {"error": 'model "nomic" not found, try pulling it first'})
    error = error_of(lambda: make("ollama", model="nomic").embed(["a"], "query"))
    assert error == "ollama has no embedding model 'nomic' (HTTP 404): model \"nomic\" not found, try pulling it first"


def test_r98_retry_after_is_honoured_though_the_client_hides_it(server: ProviderServer, make: Make) -> None:
    server.script = lambda _asked: Answer(503, {"error": "server busy"}, {"Retry-After": "900"})
    error = error_of(lambda: make("ollama").embed(["a"], "query"))
    assert (error.code, len(server.asked)) == ("embedder_failed", 1)
    server.asked.clear()
    server.then(Answer(503, {"error": "server busy"}, {"Retry-After": "0"}))
    assert make("ollama").embed(["a"], "query").shape == (1, 4)


def test_r106_a_drip_ends_at_the_deadline(server: ProviderServer, make: Make) -> None:
    server.script = lambda _asked: Drip()
    error = error_of(lambda: make("ollama", timeout_s=0.4).embed(["a"], "query"))
    assert error == "ollama gave no complete answer within 0.4 s"


def test_a_server_that_does_not_run_is_unreachable(make: Make) -> None:
    error = error_of(lambda: make("ollama", endpoint="http://127.0.0.1:9").embed(["a"], "query"))
    assert error.code == "embedder_unreachable"
    assert "http://127.0.0.1:9" in error


@pytest.mark.parametrize("from_environment", [True, False])
def test_r108_a_gateways_key_is_sent_and_never_shown(server: ProviderServer, make: Make, monkeypatch: pytest.MonkeyPatch,
                                                     from_environment: bool) -> None:
    if from_environment:
        monkeypatch.setenv("OLLAMA_API_KEY", "gateway-password")
        monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")  # the configured endpoint counts
    server.script = lambda asked: Answer(401, {"error": f"bad {asked.headers['authorization']} gateway-password"})
    error = error_of(lambda: make("ollama", **({} if from_environment else {"api_key": "gateway-password"})).embed(["a"], "query"))
    assert server.asked[0].headers["authorization"] == "Bearer gateway-password"
    assert error.code == "embedder_auth"
    assert "gateway-password" not in error


def test_the_same_vectors_come_from_number_lists_of_any_scale(server: ProviderServer, make: Make) -> None:
    server.script = lambda asked: Answer(body={"embeddings": [[1e200 * value for value in vector_of(t)] for t in asked.texts]})
    assert make("ollama", model="m").embed(["a"], "query")[0] == pytest.approx(unit("a"))


def test_an_embedder_made_from_settings_works(server: ProviderServer) -> None:
    embedder = make_embedder(EmbedderSettings("ollama", endpoint=server.url, api_key=KEY))
    assert embedder is not None
    assert embedder.identity().dim == len(ollama_reply(["x"])["embeddings"][0])
    embedder.close()  # type: ignore[attr-defined]
