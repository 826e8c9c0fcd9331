"""The official client against a real server: what is sent, what is accepted, and every way it can go wrong."""

from __future__ import annotations

import json
import math
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from asserting import error_of, said, unit
from conftest import KEY
from provider_server import (
    Answer,
    Asked,
    ProviderServer,
    in_base64,
    openai_reply,
    sound,
)

from rag_stdlib.embed.protocol import EmbedderIdentity

Make = Callable[..., Any]


def edited(edit: Callable[[list[dict[str, Any]]], Any], *, floats: bool = True) -> Callable[[Asked], Answer]:
    """Make a script that changes the entries of a sound reply."""
    def script(asked: Asked) -> Answer:
        reply = openai_reply(asked.texts, floats=floats)
        reply["data"] = edit(reply["data"]) or reply["data"]
        return Answer(body=reply)
    return script


# --- what is sent ---

def test_a_request_names_model_format_and_texts_and_carries_the_key(server: ProviderServer, make: Make) -> None:
    rows = make("openai").embed(["alpha", "beta"], "passage")
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/embeddings")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {"model": "text-embedding-3-small", "input": ["alpha", "beta"], "encoding_format": "base64"}
    assert rows.dtype == np.float32
    assert rows.tolist() == [unit("alpha").tolist(), unit("beta").tolist()]


def test_dimensions_are_sent_only_when_configured(server: ProviderServer, make: Make) -> None:
    assert make("openai", dim=3, model="m-2").embed(["alpha"], "query").shape == (1, 3)
    assert server.asked[0].body == {"model": "m-2", "input": ["alpha"], "encoding_format": "base64", "dimensions": 3}


def test_r194_prefixes_are_sent_with_the_texts(server: ProviderServer, make: Make) -> None:
    embedder = make("openai", query_prefix="Q: ", passage_prefix="P: ")
    embedder.embed(["a"], "query")
    embedder.embed(["a"], "passage")
    assert [asked.texts for asked in server.asked] == [["Q: a"], ["P: a"]]
    assert embedder.identity() == EmbedderIdentity("openai", "text-embedding-3-small", 4, "", "Q: ", "P: ")


def test_r196_a_repeated_text_is_sent_once(server: ProviderServer, make: Make) -> None:
    rows = make("openai", max_batch=2).embed(["a", "b", "a", "c", "a"], "passage")
    assert [asked.texts for asked in server.asked] == [["a", "b"], ["c"]]
    assert [row.tolist() for row in rows] == [unit(text).tolist() for text in "abaca"]


def test_no_texts_make_no_request(server: ProviderServer, make: Make) -> None:
    assert make("openai", dim=4).embed([], "passage").shape == (0, 4)
    assert make("openai").embed([], "passage").shape == (0, 0)
    assert server.asked == []


def test_texts_leave_the_machine(make: Make) -> None:
    assert make("openai").remote is True


def test_whitespace_around_a_key_is_not_sent(server: ProviderServer, make: Make) -> None:
    make("openai", api_key=f" {KEY}\n").embed(["a"], "query")
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


# --- the dimension ---

def test_the_dimension_is_learnt_from_one_probe(server: ProviderServer, make: Make) -> None:
    embedder = make("openai")
    assert [embedder.identity().dim, embedder.identity().dim] == [4, 4]
    assert [asked.texts for asked in server.asked] == [["dimension probe"]]


def test_threads_that_ask_together_make_one_probe(server: ProviderServer, make: Make) -> None:
    embedder = make("openai")
    dims: list[int] = []
    threads = [threading.Thread(target=lambda: dims.append(embedder.identity().dim)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (dims, len(server.asked)) == ([4] * 6, 1)


def test_the_dimension_is_learnt_by_the_way(server: ProviderServer, make: Make) -> None:
    embedder = make("openai")
    embedder.embed(["a"], "passage")
    assert embedder.identity().dim == 4
    assert len(server.asked) == 1


def test_a_configured_dimension_needs_no_probe(server: ProviderServer, make: Make) -> None:
    assert make("openai", dim=256).identity().dim == 256
    assert server.asked == []


def test_r193_another_dimension_than_asked_for_is_refused(server: ProviderServer, make: Make) -> None:
    server.script = lambda asked: Answer(body=openai_reply(asked.texts, dim=6))
    error = error_of(lambda: make("openai", dim=3).embed(["alpha"], "passage"))
    assert error == ('openai sent an unusable reply for text 1 of 1 ("alpha"): '
                     "a vector has 6 dimensions where 3 were asked for")


def test_a_dimension_that_changes_is_refused_within_and_between_calls(server: ProviderServer, make: Make) -> None:
    server.then(sound, lambda asked: Answer(body=openai_reply(asked.texts, dim=5)))
    assert error_of(lambda: make("openai", max_batch=1).embed(["a", "b"], "passage")).code == "embedder_reply"
    embedder = make("openai")
    embedder.embed(["a"], "passage")
    server.script = lambda asked: Answer(body=openai_reply(asked.texts, dim=5))
    assert "5 dimensions where 4" in error_of(lambda: embedder.embed(["b"], "passage"))


# --- replies ---

def test_a_reply_out_of_order_is_ordered_by_index(server: ProviderServer, make: Make) -> None:
    server.script = edited(lambda data: data[::-1], floats=False)
    rows = make("openai").embed(["a", "b", "c"], "passage")
    assert [row.tolist() for row in rows] == [unit(text).tolist() for text in "abc"]


def test_r101_number_lists_are_accepted_where_base64_was_asked_for(server: ProviderServer, make: Make) -> None:
    server.script = lambda asked: Answer(body=openai_reply(asked.texts, floats=True))
    assert make("openai").embed(["a"], "passage")[0] == pytest.approx(unit("a"))


@pytest.mark.parametrize(("edit", "where", "detail"), [
    (lambda data: data[:-1], "", "it holds 2 vectors for 3 texts"),
    (lambda data: [*data, data[0]], "", "it holds 4 vectors for 3 texts"),
    (lambda data: data[2].update(index=1), "", "its indexes are not 0 to 2, each once"),
    (lambda data: data[2].update(index=3), "", "its indexes are not 0 to 2, each once"),
    (lambda data: [data[0], {"index": 1}, data[2]], "", "an entry of `data` has no `embedding`"),
    (lambda data: data[1].update(embedding=[math.nan] * 4), "b", "the vector holds NaN or infinity"),
    (lambda data: data[1].update(embedding=[1.0, math.inf, 1.0, 1.0]), "b", "the vector holds NaN or infinity"),
    (lambda data: data[1].update(embedding=in_base64([math.nan] * 4)), "b", "the vector holds NaN or infinity"),
    (lambda data: data[2].update(embedding=[0.0] * 4), "c", "the vector is zero, which has no direction"),
    (lambda data: data[2].update(embedding=[]), "c", "the vector is empty"),
    (lambda data: data[2].update(embedding=[1.0]), "c", "a vector has 1 dimensions where 4 came for the first text"),
    (lambda data: data[0].update(embedding="AAAA"), "a", "a base64 vector has 3 bytes, no multiple of 4"),
    (lambda data: data[0].update(embedding={"x": 1}), "a", "a vector is neither a list of numbers nor base64"),
])
def test_r12_r13_r100_an_unsound_reply_is_refused_whole(server: ProviderServer, make: Make, edit: Callable[[Any], Any],
                                                        where: str, detail: str) -> None:
    server.script = edited(lambda data: result if isinstance(result := edit(data), list) else None)
    error = error_of(lambda: make("openai").embed(["a", "b", "c"], "passage"))
    named = f' for text {"abc".index(where) + 1} of 3 ("{where}")' if where else ""
    assert error == f"openai sent an unusable reply{named}: {detail}"
    assert error.code == "embedder_reply"
    assert len(server.asked) == 1  # it is not repeated


@pytest.mark.parametrize(("body", "kind", "detail"), [
    (b"<html><body>Sign in</body></html>", "text/html", "it is an HTML page"),
    (b"", "application/json", "it is no JSON"),
    (b"{}", "application/json", "it has no `data` list"),
    (b"[1]", "application/json", "it is a JSON list, not an object"),
    (b'{"data": []}', "application/json", "it holds 0 vectors for 1 texts"),
    (b'{"data": null, "error": null}', "application/json", "it has no `data` list"),
])
def test_what_is_no_embeddings_reply_is_refused(server: ProviderServer, make: Make, body: bytes, kind: str, detail: str) -> None:
    server.script = lambda _asked: Answer(200, body, content_type=kind)
    error = error_of(lambda: make("openai").embed(["a"], "passage"))
    assert error == f"openai sent an unusable reply: {detail}"


# --- statuses ---

@pytest.mark.parametrize(("status", "code"), [
    (400, "embedder_rejected"), (401, "embedder_auth"), (403, "embedder_auth"), (404, "embedder_model"),
    (409, "embedder_rejected"), (422, "embedder_rejected"),
])
def test_r97_a_client_error_is_never_repeated(server: ProviderServer, make: Make, status: int, code: str) -> None:
    server.script = lambda _asked: said(status, "no")
    error = error_of(lambda: make("openai").embed(["a", "b"], "passage"))
    assert error.code == code
    assert f"(HTTP {status}): no" in error
    assert len(server.asked) == 1


def test_r108_a_key_echoed_by_the_server_is_not_in_the_message(server: ProviderServer, make: Make) -> None:
    server.script = lambda _asked: said(401, f"Incorrect API key provided: {KEY}. See https://x?k={KEY}")
    error = error_of(lambda: make("openai").embed(["a"], "query"))
    assert error.startswith("openai refused the credentials (HTTP 401): Incorrect API key provided: [redacted]")


@pytest.mark.parametrize("key", ["plain-gateway-password", "a.b/c+d=="])
def test_r108_a_key_of_no_known_shape_is_removed_as_configured(server: ProviderServer, make: Make, key: str) -> None:
    server.script = lambda asked: said(403, f"denied: {asked.headers['authorization']} / {key}")
    assert key not in error_of(lambda: make("openai", api_key=key).embed(["a"], "query"))


def test_r108_a_long_body_is_capped_on_one_line(server: ProviderServer, make: Make) -> None:
    server.script = lambda _asked: Answer(400, b"<html>\n" + b"x" * 50_000, content_type="text/html")
    error = error_of(lambda: make("openai").embed(["a"], "query"))
    assert len(error) < 400
    assert error.isprintable()


def test_a_missing_model_is_named(server: ProviderServer, make: Make) -> None:
    server.script = lambda _asked: said(404, "The model does not exist")
    error = error_of(lambda: make("openai", model="text-embeding-3").embed(["a"], "query"))
    assert error == "openai has no embedding model 'text-embeding-3' (HTTP 404): The model does not exist"


def test_a_redirect_is_not_followed(server: ProviderServer, make: Make) -> None:
    server.script = lambda _asked: Answer(307, headers={"Location": "http://elsewhere.test/v1/embeddings"})
    error = error_of(lambda: make("openai").embed(["a"], "query"))
    assert (error.code, len(server.asked)) == ("embedder_rejected", 1)
    assert "http://elsewhere.test" in error


def test_threads_share_an_embedder(server: ProviderServer, make: Make) -> None:
    embedder = make("openai")
    wrong: list[str] = []

    def work(name: str) -> None:
        for turn in range(10):
            text = f"{name} {turn}"
            if embedder.embed([text], "query")[0].tolist() != unit(text).tolist():
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(server.asked) == 40


def test_a_closed_embedder_opens_again(make: Make) -> None:
    embedder = make("openai")
    embedder.close()
    embedder.embed(["a"], "query")
    embedder.close()
    assert embedder.embed(["a"], "query").shape == (1, 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_opens_its_own_connections(make: Make) -> None:
    embedder = make("openai")
    before = embedder.embed(["a"], "query").tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside the server's threads is the very case
        child = os.fork()
    if child == 0:
        os._exit(0 if embedder.embed(["a"], "query").tolist() == before else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert embedder.embed(["b"], "query")[0].tolist() == unit("b").tolist()


def test_the_identity_survives_its_storage(make: Make) -> None:
    identity = make("openai", dim=4, query_prefix="é ").identity()
    assert EmbedderIdentity.from_json(identity.to_json()) == identity
    assert json.loads(identity.to_json())["dim"] == 4
    assert "4 dimensions, query prefix 'é '" in identity.describe()
