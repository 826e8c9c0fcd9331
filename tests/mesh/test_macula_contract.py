"""The RAG service contract between real nodes: a provider, another that copies and alters it, and a caller that judges both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import serving
from station.station_keys import fixed_key
from station.station_mesh import LiveMesh

from rag_stdlib.contract.answers import RefusedAnswer, SignedAnswer, UnsignedAnswer
from rag_stdlib.contract.corpus import corpus_hash, sign_corpus
from rag_stdlib.contract.nodekeys import PROFILES
from rag_stdlib.contract.verdicts import HitVerdict, Membership, Refused
from rag_stdlib.mesh.caller import Caller
from rag_stdlib.mesh.errors import NoProvider, ProviderError
from rag_stdlib.mesh.provider import Provider
from rag_stdlib.mesh.transport import Request

pytest_plugins = ("station.station_fixtures",)

Description = dict[str, Any]
Change = Callable[[Description], Description]

QUESTION_S = 30.0
OTHER_COMMIT = "f" * 40


class Copyist:
    """What node b serves: its own provider over the same index, with the description changed as a test says."""

    def __init__(self, provider: Provider) -> None:
        self.change: Change = dict
        self._provider = provider

    def handle(self, name: str, request: Request) -> object:
        reply = self._provider.handle(name, request.payload, request.caller)
        return self.change(dict(reply)) if name == "describe_corpus" and isinstance(reply, Mapping) else reply


class Scene:
    """Node a serves the corpus, signed; node b a copy of it; node c asks."""

    def __init__(self, mesh: LiveMesh, copyist: Copyist) -> None:
        self.mesh = mesh
        self.copyist = copyist
        self.caller = Caller(mesh.node("c"), mesh.org)

    def ask(self, role: str | None = None, question: str | None = "raven", **options: Any) -> Any:
        provider = None if role is None else self.mesh.id(role)
        return self.mesh.run(self.caller.ask(question, provider=provider, timeout_s=QUESTION_S, **options))

    def described(self, role: str) -> Description:
        return dict(self._look(role).description)

    def judged(self, role: str) -> Any:
        return self._look(role).verdict

    def _look(self, role: str) -> Any:
        return self.mesh.run(self.caller.describe_corpus(self.mesh.id(role), timeout_s=QUESTION_S))


@pytest.fixture(scope="module")
def scene(any_mesh: LiveMesh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    any_mesh.link("a", "b", "c")
    with serving.runtime(tmp_path_factory.mktemp("served")) as runtime:
        provider = serving.with_corpus(runtime, org=any_mesh.org, key=any_mesh.key("a"), operators=[any_mesh.id("a")])
        any_mesh.run(provider.serve(any_mesh.node("a")))
        copyist, node = Copyist(serving.served(runtime, org=any_mesh.org, key=any_mesh.key("b"))), any_mesh.node("b")
        for name in ("describe_corpus", "answer_query"):
            any_mesh.run(node.serve(f"{any_mesh.org}/{name}", partial(copyist.handle, name)))
        yield Scene(any_mesh, copyist)


@pytest.fixture
def changed(scene: Scene) -> Iterator[Callable[[Change], None]]:
    """Have node b change its descriptions for the length of a test."""
    yield partial(setattr, scene.copyist, "change")
    scene.copyist.change = dict


def rehashed(description: Description) -> Description:
    repos = [{**repo, "commit": OTHER_COMMIT} for repo in description["repos"]]
    changed = {**description, "repos": repos}
    return {**changed, "corpus_hash": corpus_hash(changed)}


def unsigned(description: Description) -> Description:
    return {name: value for name, value in description.items() if name not in ("signature", "signed_by")}


def signed_in_the_other_profile(description: Description) -> Description:
    """Have node b sign by the key it has in the other profile."""
    profile = next(other for other in PROFILES if fixed_key(other, "b").node_id != description["signed_by"])
    return {**description, "signature": sign_corpus(description["corpus_hash"], fixed_key(profile, "b"))}


def test_the_answer_of_one_who_signs_is_signed(scene: Scene) -> None:
    found = scene.ask("a")
    assert isinstance(found, SignedAnswer)
    assert found.provider == scene.mesh.id("a")
    assert found.hits
    assert {(hit.content_verified, hit.in_corpus) for hit in found.hits} == {(HitVerdict.OK, Membership.IN_CORPUS)}


def test_two_nodes_that_sign_the_same_corpus_give_the_same_hits(scene: Scene) -> None:
    one, other = scene.ask("a"), scene.ask("b")
    assert isinstance(other, SignedAnswer)
    assert (one.corpus_hash, one.hits) == (other.corpus_hash, other.hits)
    assert {one.provider, other.provider} == {scene.mesh.id("a"), scene.mesh.id("b")}


def test_a_copy_of_anothers_signed_description_is_refused(scene: Scene, changed: Callable[[Change], None]) -> None:
    copied = scene.described("a")
    changed(lambda _own: copied)
    found = scene.ask("b")
    assert isinstance(found, RefusedAnswer)
    assert found.reason == Refused("signer_not_provider")
    assert isinstance(scene.ask("a"), SignedAnswer)


@pytest.mark.parametrize(("change", "reason"), [
    (lambda own: {**own, "dim": own["dim"] + 1}, Refused("corpus_hash_mismatch")),
    (rehashed, Refused("signature_hash_mismatch")),
    (lambda own: {**own, "signature": b"not cbor"}, Refused("signature", "malformed")),
    (lambda own: {**own, "signature": own["signature"] + b"\0"}, Refused("signature", "malformed")),
    (lambda own: {**own, "signature": own["signature"][:-1] + bytes([own["signature"][-1] ^ 1])}, Refused("signature", "signature_invalid")),
    (signed_in_the_other_profile, Refused("signature", "malformed")),
    (lambda own: {**own, "signature": "text"}, Refused("malformed_description", "signature is no byte string")),
], ids=["tampered", "rehashed", "garbage", "longer", "another signature", "other profile", "text"])
def test_a_description_that_does_not_hold_refuses_the_answer(
    scene: Scene, changed: Callable[[Change], None], change: Change, reason: Refused,
) -> None:
    changed(change)
    assert scene.judged("b") == reason
    assert isinstance(scene.ask("b"), RefusedAnswer)


def test_an_answer_without_a_signature_is_unsigned(scene: Scene, changed: Callable[[Change], None]) -> None:
    changed(unsigned)
    assert isinstance(scene.ask("b"), UnsignedAnswer)
    changed(lambda own: {**unsigned(own), "dim": own["dim"] + 1})
    assert scene.ask("b").reason == Refused("corpus_hash_mismatch")


def test_an_answer_of_nobody_in_particular_is_never_signed(scene: Scene) -> None:
    found = scene.ask()
    assert isinstance(found, UnsignedAnswer)
    assert found.provider is None


def test_a_description_crosses_byte_for_byte(scene: Scene) -> None:
    described = scene.described("a")
    assert type(described["signature"]) is bytes
    assert described["signed_by"] == scene.mesh.id("a")
    assert described["corpus_hash"] == corpus_hash(described)


def test_a_document_crosses_byte_for_byte(scene: Scene) -> None:
    async def listed() -> list[Any]:
        return [source async for source in scene.caller.list_sources(scene.mesh.id("a"), timeout_s=QUESTION_S)]

    for source in scene.mesh.run(listed()):
        document = scene.mesh.run(scene.caller.get_document(scene.mesh.id("a"), source.source_path, timeout_s=QUESTION_S))
        assert hashlib.sha256(document.raw_bytes).hexdigest() == source.provenance["content_sha256"]


def test_a_refusals_name_is_the_callers(scene: Scene) -> None:
    with pytest.raises(ProviderError) as caught:
        scene.ask("a", question=None, vector=[0.5, -1.25])
    assert caught.value.name == "dimension_mismatch"


def test_the_gate_sees_the_node_that_calls(scene: Scene) -> None:
    """Node a is an operator and node c is none, whatever the payload claims."""
    procedure, payload = f"{scene.mesh.org}/retire_document", {"document_id": "upload:none", "caller": scene.mesh.id("a")}

    def name(role: str) -> str:
        with pytest.raises(ProviderError) as caught:
            scene.mesh.run(scene.mesh.node(role).call_pinned(procedure, payload, provider=scene.mesh.id("a"), timeout_s=QUESTION_S))
        return caught.value.name

    assert name("c") == "not_an_operator"
    assert name("a") != "not_an_operator"


def test_a_node_that_serves_nothing_is_no_provider(scene: Scene) -> None:
    with pytest.raises(NoProvider):
        scene.ask("d")
