"""Random attacks: nothing raises, nothing verifies that is not the certificate itself, and both verifiers say the same."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from twoverifiers import Asking, both, load, scenes

from rag_stdlib.proof.attacks.mutations import is_the_same, mutated
from rag_stdlib.proof.attacks.parts import with_part, written
from rag_stdlib.proof.attacks.scene import ATTACKERS, OUTSIDERS

BASES = load("matrix")["bases"]
SCENES = {"plain": scenes.plain_scene(), "node": scenes.node_scene(BASES["node"])}
INSIDERS = tuple(attacker for attacker in ATTACKERS if attacker not in OUTSIDERS)


@pytest.mark.parametrize(("base", "seed", "count"), [("plain", 1, 600), ("node", 3, 400)])
def test_nothing_by_an_outsider_verifies_but_the_certificate_itself(base: str, seed: int, count: int) -> None:
    """bench/fuzz_certificates.py runs 200,000."""
    scene, asking, source = SCENES[base], Asking.of(BASES[base]), random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(count):
        data = mutated(scene, source)
        said = both(data, asking)
        assert said != "verified" or is_the_same(scene, data)
        seen[said] += 1
    assert len(seen) > 6, "it reaches beyond the form"
    assert 0 < seen["verified"] < count // 20


@pytest.mark.parametrize(("base", "seed"), [("plain", 5), ("node", 6)])
def test_the_verifiers_say_the_same_of_what_an_issuer_signs(base: str, seed: int) -> None:
    scene, asking, source = SCENES[base], Asking.of(BASES[base]), random.Random(seed)
    seen = Counter(both(mutated(scene, source, INSIDERS), asking) for _ in range(200))
    assert {"verified", "refuted span", "refuted retrieval", "refuted claim", "refuted inclusion"} <= set(seen)


def test_the_same_certificate_is_told_in_any_words_and_no_other_is() -> None:
    scene = SCENES["plain"]
    envelope = dict(scene.envelope)
    receipt = envelope["receipt"]
    assert is_the_same(scene, written(envelope))
    assert is_the_same(scene, json.dumps(envelope, indent=3, sort_keys=True).encode())
    assert is_the_same(scene, written({**envelope, "receipt": receipt + "— stranger.example/w AAAAAAAA\n"}))
    assert not is_the_same(scene, written({**envelope, "receipt": receipt.replace("index 5", "index 4")}))
    assert not is_the_same(scene, written({**envelope, "receipt": "x"}))
    assert not is_the_same(scene, written({name: value for name, value in envelope.items() if name != "receipt"}))
    assert not is_the_same(scene, written(with_part(envelope, ("certificate", "generator", "name"), "x")))
    assert not is_the_same(scene, written({**envelope, "signature": "x"}))
    for other in (b"", b"[]", b"null", b"{}", b'{"receipt": 1}'):
        assert not is_the_same(scene, other)
