"""The matrix of small changes: nothing verifies but what the issuer changed where the format leaves it free, and logged again."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twoverifiers import Asking, load, scenes, verdict

from rag_stdlib.proof.attacks.matrix import Change, attempt, changes, edited, places
from rag_stdlib.proof.attacks.parts import GONE, part, rehashed, with_part
from rag_stdlib.proof.attacks.scene import ATTACKERS, Attacker, Scene
from rag_stdlib.proof.certificate import entry_of
from rag_stdlib.proof.forms import pointer
from rag_stdlib.proof.verdicts import Verified

MATRIX: dict[str, Any] = load("matrix")
SCENES = {"plain": scenes.plain_scene(), "node": scenes.node_scene(MATRIX["bases"]["node"])}
CHANGES = {base: list(changes(scene)) for base, scene in SCENES.items()}

# What an issuer may say otherwise, as long as it signs and logs that: in a place a * is any step. Nobody can tell it from the certificate alone.
FREE = re.compile("|".join(place.replace("*", "[^/]+") for place in (
    # when, and with which salt
    "/issued_at", "/expires_at", "/query/salt",
    # what was asked of which index; the name of the state follows
    "/retrieval/(mode|limit|corpus_hash|merged_by)", "/retrieval/embedder(/model|/dim)?", "/retrieval/indexes", "/retrieval/indexes/*", "/retrieval/indexes/*/*",
    "/retrieval/topics", "/retrieval/topics/*", "/retrieval/(failed|not_asked)", "/retrieval/(failed|not_asked)/*", "/retrieval/(failed|not_asked)/*/(node_id|reason)",
    # where an item comes from, how it scored among its neighbours, and what of its text no span cites
    "/retrieval/items/*/(chunk_id|doc_id|source|score|provenance)", "/retrieval/items/*/provenance/*", "/retrieval/items/1/text",
    # spans beyond those that are needed, their order and alignment; how sure the judge was, as long as the decision stays
    "/claims/*/spans", "/claims/0/spans/1", "/claims/*/spans/*/alignment", "/claims/*/judgement(/confidence)?",
    # who wrote and judged, by which methods, and a policy by which the decisions stay
    "/(generator|judge)", "/generator/(name|model|digest)", "/judge/(name|version|digest)", "/methods", "/methods/(decomposition|alignment)",
    "/policy", "/policy/labels", "/policy/labels/0", "/policy/minimum_confidence")))


def free(change: Change) -> bool:
    return change.path[0] == "certificate" and FREE.fullmatch(pointer(change.path[1:])) is not None


def asking(base: str) -> Asking:
    return Asking.of(MATRIX["bases"][base])


@pytest.mark.parametrize("base", SCENES)
def test_only_the_issuer_who_logs_again_may_change_anything_and_only_where_the_format_leaves_it_free(base: str) -> None:
    """As it is written down for every change by every attacker; that the verifiers keep to it is looked at elsewhere."""
    verified = {(case["at"], attacker) for case in MATRIX["cases"] if case["base"] == base for attacker in ATTACKERS
                if (case.get("all") or case[attacker]) == "verified"}
    assert {attacker for _, attacker in verified} == {"issuer_logged"}
    assert [at for at, _ in verified if not FREE.fullmatch(at.removeprefix("/certificate"))] == []
    assert len(verified) > 50


@pytest.mark.parametrize("base", SCENES)
def test_what_verifies_is_another_certificate_that_fits_together(base: str) -> None:
    scene, number = SCENES[base], 0
    for change in filter(free, CHANGES[base]):
        data = attempt(scene, change, "issuer_logged")
        found = verdict(data, asking(base))
        if not found:
            continue
        number += 1
        assert isinstance(found, Verified)
        envelope = json.loads(data)
        body = envelope["certificate"]
        assert body == rehashed(body, scenes.QUESTION) != scene.body, "every digest is what it is of"
        assert entry_of(envelope) != entry_of(scene.envelope), "the log has another entry"
        assert [claim.text for claim in found.claims] == [claim["text"] for claim in scene.body["claims"]]
        for claim in body["claims"]:
            assert body["answer"]["text"][claim["start"]:claim["end"]] == claim["text"]
            for span in claim["spans"]:
                assert body["retrieval"]["items"][span["item"]]["text"][span["start"]:span["end"]] == span["text"]
        assert all(one["end"] <= other["start"] for one, other in pairwise(body["claims"]))
    assert number == sum(case.get("issuer_logged") == "verified" for case in MATRIX["cases"] if case["base"] == base)


@settings(max_examples=120)
@given(st.sampled_from(sorted(SCENES)), st.data(), st.sampled_from(ATTACKERS))
def test_no_other_change_by_anybody_verifies(base: str, data: st.DataObject, attacker: Attacker) -> None:
    change = data.draw(st.sampled_from(CHANGES[base]))
    if not verdict(attempt(SCENES[base], change, attacker), asking(base)):
        return
    assert attacker == "issuer_logged"
    assert free(change)


def test_every_place_of_the_envelope_is_changed_in_every_way_that_there_is() -> None:
    kinds = {pointer(path): set() for path in places(SCENES["node"].envelope)}
    for change in CHANGES["node"]:
        kinds[pointer(change.path)].add(change.kind)
    for place, made in kinds.items():
        value = part(SCENES["node"].envelope, next(change.path for change in CHANGES["node"] if pointer(change.path) == place))
        wanted = {"delete", "wrong_type"} | ({"duplicate"} if not place.rpartition("/")[2].isdigit() else set()) | ({"null"} if value is not None else set())
        wanted |= {"edit"} if isinstance(value, (str, int)) else {"add"} if value else set()
        assert wanted <= made, place
    assert {"reorder", "swap"} <= set.union(*kinds.values())
    assert {"/node_signature/key", "/node_signature/signature", "/signature", "/receipt", "/certificate/retrieval/failed/0/reason"} <= kinds.keys()


def test_a_duplicate_has_the_member_twice() -> None:
    change = next(change for change in CHANGES["plain"] if change.kind == "duplicate" and change.path == ("certificate", "answer", "text"))
    pairs: list[list[str]] = []
    json.loads(attempt(SCENES["plain"], change, "issuer"), object_pairs_hook=lambda given: pairs.append([name for name, _ in given]) or dict(given))
    assert [names for names in pairs if names.count("text") == 2] == [["text", "text", "sha256", "abstained"]]


@pytest.mark.parametrize(("value", "new"), [
    (True, False), (3, 4), ("1.000000", "0.999999"), ("0.000000", "0.000001"), ("-0.500000000", "-0.500000001"), ("2026-12-01T11:59:00Z", "2026-12-01T11:59:01Z"),
    ("2026-12-01T11:59:59Z", "2026-12-01T11:59:50Z"), ("abc", "bbc"), ("0f", "1f"), ("9f", "af"), ("", "a"), (None, None), ([1], None), ({}, None),
])
def test_an_edit_looks_like_what_was_there(value: Any, new: Any) -> None:
    assert edited(value) == new
    assert type(edited(value)) is type(new)


def test_without_another_certificate_nothing_is_swapped_and_without_the_issuers_key_it_does_not_attack() -> None:
    whole = SCENES["plain"]
    alone = Scene(whole.envelope, whole.trust, whole.policy, whole.own_key)
    assert {change.kind for change in changes(alone)} == {change.kind for change in CHANGES["plain"]} - {"swap"}
    assert alone.attackers == ("no_key", "own_key", "own_named_key")
    with pytest.raises(ValueError, match="issuer's key"):
        alone.by("issuer", {})
    assert with_part({"a": [1, 2]}, ("a", 0), GONE) == {"a": [2]}
