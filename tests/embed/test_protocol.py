"""An identity says everything that sets vectors apart, in a message and in storage."""

from __future__ import annotations

import pytest

from rag_stdlib.embed.protocol import EmbedderIdentity


@pytest.mark.parametrize(("identity", "described"), [
    (EmbedderIdentity("openai", "m", 3), "openai/m, 3 dimensions"),
    (EmbedderIdentity("local", "m", 3, "abcdef0123456789"), "local/m, 3 dimensions, revision abcdef012345"),
    (EmbedderIdentity("ollama", "m", 3, "", "q: ", "p: "), "ollama/m, 3 dimensions, query prefix 'q: ', passage prefix 'p: '"),
])
def test_r194_an_identity_is_described_by_what_sets_it_apart(identity: EmbedderIdentity, described: str) -> None:
    assert identity.describe() == described


@pytest.mark.parametrize("other", [
    EmbedderIdentity("b", "m", 3), EmbedderIdentity("a", "n", 3), EmbedderIdentity("a", "m", 4),
    EmbedderIdentity("a", "m", 3, "r"), EmbedderIdentity("a", "m", 3, "", "q"), EmbedderIdentity("a", "m", 3, "", "", "p"),
])
def test_r194_identities_are_compared_whole(other: EmbedderIdentity) -> None:
    assert other != EmbedderIdentity("a", "m", 3)
    assert EmbedderIdentity.from_json(other.to_json()) == other
