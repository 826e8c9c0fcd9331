"""The audit event of texts about to be embedded: whoever made the embedder, whenever, and whoever calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from audit_watch import audited
from embedder_double import EmbedderDouble
from provider_server import ProviderServer

from rag_stdlib.embed import EmbedderIdentity, EmbedderSettings, boundary
from rag_stdlib.embed.hashing import HashingEmbedder
from rag_stdlib.embed.local import LocalEmbedder
from rag_stdlib.embed.settings import LOCAL_MODEL
from rag_stdlib.errors import Failure
from replay import QuarantineViolation

EVENT = "rag_stdlib.embed"


class Foreign:
    """A program's own embedder, that knows of no event."""

    remote = False

    def __init__(self, embed: Callable[[], Any] = lambda: [[1.0, 0.0]]) -> None:
        self._embed = embed
        self.asked: list[tuple[Sequence[str], str]] = []

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:
        return stored or EmbedderIdentity("own", "model", 2)

    def embed(self, texts: Sequence[str], role: str) -> Any:
        self.asked.append((texts, role))
        return self._embed()


def test_our_embedders_tell_of_themselves_even_when_called_directly() -> None:
    embedder = HashingEmbedder(8)
    with audited() as events:
        embedder.embed(["a", "b"], "passage")
        boundary.embedded(embedder, ["c"], "query")
        embedder.embed([], "passage")
    assert events == [(EVENT, ("hashing/words-sha256", 2)), (EVENT, ("hashing/words-sha256", 1))]


def test_the_local_model_is_named() -> None:
    with audited(QuarantineViolation("no")) as events, pytest.raises(QuarantineViolation):
        LocalEmbedder(EmbedderSettings("local")).embed(["a"], "passage")
    assert events == [(EVENT, (f"local/{LOCAL_MODEL}", 1))]


@pytest.mark.parametrize(("provider", "model"), [("openai", "text-embedding-3-small"), ("ollama", "nomic-embed-text")])
def test_nothing_is_sent_to_a_provider_that_a_hook_forbids(
        make: Callable[..., Any], server: ProviderServer, provider: str, model: str) -> None:
    embedder = make(provider)
    with audited(QuarantineViolation("not now")) as events:
        for call in (lambda: embedder.embed(["a", "b"], "passage"), embedder.identity, lambda: boundary.identified(embedder),
                     lambda: boundary.embedded(embedder, ["a"], "query")):
            with pytest.raises(QuarantineViolation, match="not now"):
                call()
    assert server.asked == []
    assert events == [(EVENT, (f"{provider}/{model}", 2)), *[(EVENT, (f"{provider}/{model}", 1))] * 3]
    embedder.embed(["a"], "passage")
    assert len(server.asked) == 1


def test_of_a_programs_own_embedder_the_boundary_tells() -> None:
    foreign = Foreign()
    with audited() as events:
        boundary.embedded(foreign, ["a"], "query")
    assert events == [(EVENT, ("Foreign", 1))]
    with audited(QuarantineViolation("no")), pytest.raises(QuarantineViolation):
        boundary.embedded(foreign, ["a"], "query")
    assert foreign.asked == [(["a"], "query")], "it was not asked again"


def test_an_embedder_that_goes_round_ours_is_told_of_all_the_same() -> None:
    class Overriding(HashingEmbedder):
        def embed(self, texts: Sequence[str], role: Any) -> Any:
            return HashingEmbedder(64).embed([text[::-1] for text in texts], role)

    replaced = HashingEmbedder(64)
    replaced.embed = EmbedderDouble(64).embed  # type: ignore[method-assign]
    for embedder, name in ((Overriding(), "Overriding"), (replaced, "HashingEmbedder"), (EmbedderDouble(), "EmbedderDouble")):
        with audited() as events:
            boundary.embedded(embedder, ["a"], "query")
        assert events[0] == (EVENT, (name, 1))


def test_what_a_session_refuses_inside_an_embedder_is_not_the_embedders_failure() -> None:
    def refused() -> Any:
        raise QuarantineViolation("a socket inside")

    with pytest.raises(QuarantineViolation, match="a socket inside"):
        boundary.embedded(Foreign(refused), ["a"], "query")


def test_what_is_no_embedder_is_still_an_unusable_one() -> None:
    with pytest.raises(Failure) as failed:
        boundary.embedded("not one", ["a"], "query")  # type: ignore[arg-type]
    assert failed.value.error.code == "embedder_reply"


def test_the_method_keeps_its_name_and_signature() -> None:
    assert HashingEmbedder.embed.__name__ == "embed"
    assert list(inspect.signature(HashingEmbedder.embed).parameters) == ["self", "texts", "role"]
