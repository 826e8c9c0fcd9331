"""The project's vectors of certificates: both verifiers give what is written there, and the files are what their maker makes."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from twoverifiers import Asking, both, load, maker, standalone, verdict, verify_standalone

from rag_stdlib.proof.attacks.matrix import Change, attempt
from rag_stdlib.proof.attacks.parts import GONE, part
from rag_stdlib.proof.attacks.scene import ATTACKERS, Scene
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.trust import Trust, TrustError
from rag_stdlib.proof.verdicts import Verified
from rag_stdlib.proof.verify import CODES

GOLDEN: list[dict[str, Any]] = load("golden")["certificates"]
VIEWS: dict[str, list[dict[str, Any]]] = load("views")
ATTACKS: dict[str, Any] = load("attacks")
MATRIX: dict[str, Any] = load("matrix")
BY_CASE = {case["case"]: case for case in GOLDEN}


def by_case(case: Any) -> str:
    return str(case["case"])


def expected(case: dict[str, Any]) -> str:
    return f"{case['outcome']} {case['code']}".rstrip()


def data_of(case: dict[str, Any]) -> bytes:
    data = case["text"].encode() if "text" in case else base64.b64decode(case["base64"])
    return data + b" " * case.get("spaces", 0)


def sha256(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


@pytest.mark.parametrize("case", GOLDEN, ids=by_case)
def test_golden_certificates_verify(case: dict[str, Any]) -> None:
    assert both(json.dumps(case["envelope"]).encode(), Asking.of(case)) == "verified"
    found = verdict(json.dumps(case["envelope"]).encode(), Asking.of(case))
    assert isinstance(found, Verified)
    assert [claim.place for claim in found.claims if claim.blocked is None] == case["values"]["shown"]


@pytest.mark.parametrize("case", GOLDEN, ids=by_case)
def test_every_value_on_the_way_follows_from_the_document_alone(case: dict[str, Any]) -> None:
    """With the standard library, and without a line of ours."""
    values, envelope = case["values"], case["envelope"]
    body = envelope["certificate"]
    written = compact(body)
    assert values["canonical_body"] == written.decode()
    assert values["body_sha256"] == sha256(written)
    assert values["signed_sha256"] == sha256(b"rag-stdlib/answer-certificate/v1\0", written)
    assert values["issuer_key_id"] == sha256(b"rag-stdlib/issuer-key/v1\0", base64.b64decode(values["issuer_public_key"])) == body["issuer"]["key_id"]
    asked = compact({"nonce": case["nonce"], "query": case["query"], "salt": body["query"]["salt"]})
    assert values["query_commitment"] == sha256(b"rag-stdlib/query-commitment/v1\0", asked) == body["query"]["commitment"]
    found, unknown = body["retrieval"], any(index["content"] is None for index in body["retrieval"]["indexes"])
    state = {**{name: found[name] for name in ("corpus_hash", "embedder", "indexes")}, "salt": body["query"]["salt"] if unknown else None}
    assert values["index_state"] == sha256(b"rag-stdlib/index-state/v1\0", compact(state)) == found["state"]
    way = {**{name: body[name] for name in ("generator", "judge", "methods", "policy")}, **{name: found[name] for name in ("limit", "merged_by", "mode", "topics")}}
    entry = {"answer_sha256": sha256(body["answer"]["text"].encode()), "body_sha256": values["body_sha256"], "index_state": values["index_state"],
             "issued_at": body["issued_at"], "issuer_key_id": values["issuer_key_id"], "query_key": values["query_key"],
             "schema": "rag-stdlib/log-entry/v1", "setup": sha256(b"rag-stdlib/answer-setup/v1\0", compact(way)), "signature": envelope["signature"]}
    assert values["entry"] == compact(entry).decode()
    assert values["leaf_hash"] == sha256(b"\0", values["entry"].encode())
    if "receipt" in envelope:
        assert envelope["receipt"].partition("\n\n")[2].startswith(values["checkpoint"] + "\n— ")
    if "node_signature" in envelope:
        assert values["node_signed_sha256"] == sha256(b"rag-stdlib/answer-certificate/node/v1\0", written)


@pytest.mark.parametrize("view", VIEWS["views"], ids=by_case)
def test_what_a_relying_party_sees_depends_on_what_it_trusts_and_asks(view: dict[str, Any]) -> None:
    assert both(json.dumps(BY_CASE[view["of"]]["envelope"]).encode(), Asking.of(view)) == expected(view)


@pytest.mark.parametrize("case", VIEWS["shown"], ids=by_case)
def test_what_may_be_shown_depends_on_the_policy_of_the_relying_party(case: dict[str, Any]) -> None:
    of = BY_CASE[case["of"]]
    found = verdict(json.dumps(of["envelope"]).encode(), Asking.of(of).but(policy=case["policy"]))
    assert isinstance(found, Verified)
    assert [claim.place for claim in found.claims if claim.blocked is None] == case["shown"]


@pytest.mark.parametrize("case", VIEWS["trusts"], ids=by_case)
def test_trust_that_cannot_be_trusted_is_refused(case: dict[str, Any]) -> None:
    if case["taken"]:
        Trust.from_json(case["trust"])
        assert isinstance(standalone(b"{}", Asking(case["trust"], {}, None, None, "2026-12-01T12:00:00Z")), str)
        return
    with pytest.raises(TrustError):
        Trust.from_json(case["trust"])
    with pytest.raises(ValueError, match=r"."):
        verify_standalone.verify(b"{}", case["trust"], {}, None, None, "2026-12-01T12:00:00Z")


@pytest.mark.parametrize("case", VIEWS["policies"], ids=by_case)
def test_a_policy_that_has_not_its_form_is_refused(case: dict[str, Any]) -> None:
    trust = GOLDEN[0]["trust"]
    if case["taken"]:
        Policy.of(case["policy"])
        assert standalone(b"{}", Asking(trust, case["policy"], None, None, "2026-12-01T12:00:00Z")) == "refuted schema"
        return
    with pytest.raises(ValueError, match=r"."):
        Policy.of(case["policy"])
    with pytest.raises(ValueError, match=r"."):
        verify_standalone.verify(b"{}", trust, case["policy"], None, None, "2026-12-01T12:00:00Z")


@pytest.mark.parametrize("case", ATTACKS["attacks"], ids=lambda case: f"{case['id']} {case['base']}")
def test_attacks_end_as_they_have_to(case: dict[str, Any]) -> None:
    asking = Asking.of({**ATTACKS["bases"][case["base"]], "query": case["query"]})
    assert both(data_of(case), asking) == expected(case)


def scene_of(base: str) -> Scene:
    """A scene of what stands in the file, with the keys that are published there."""
    live = {"plain": maker.scenes.plain_scene, "node": lambda: maker.scenes.node_scene(MATRIX["bases"]["node"])}[base]()
    said = MATRIX["bases"][base]
    return Scene(said["envelope"], Trust.from_json(said["trust"]), Policy.of(said["policy"]), live.own_key, said["other"], live.insider)


def change_of(case: dict[str, Any], scene: Scene) -> Change:
    """Read a change from its recipe."""
    path = tuple(int(step) if step.isdigit() else step for step in case["at"][1:].split("/"))
    value = part(scene.envelope, path)
    kind = case["change"]
    new = case["value"] if "value" in case else {
        "delete": lambda: GONE, "null": lambda: None, "reorder": lambda: value[::-1], "swap": lambda: part(scene.other, path),
        "add": lambda: {**value, "unknown": 1} if isinstance(value, dict) else [*value, value[0]]}[kind]()
    return Change(path, kind, new)


def is_of_form(case: dict[str, Any]) -> bool:
    return case.get("all") in ("refuted schema", "refuted malformed_json")


@pytest.mark.parametrize("base", ["plain", "node"])
def test_the_matrix_ends_as_it_has_to(base: str) -> None:
    """Of changes that break the form, one of seven by one attacker, and of the others one of five attempts: bench/attacks.py runs all."""
    scene, asking, wrong, number = scene_of(base), Asking.of(MATRIX["bases"][base]), [], 0
    for place, case in enumerate(case for case in MATRIX["cases"] if case["base"] == base):
        change = change_of(case, scene)
        for attacker in ATTACKERS:
            number += 1
            if (place % 7 or attacker != ATTACKERS[place % 5]) if is_of_form(case) else number % 5:
                continue
            got, wanted = both(attempt(scene, change, attacker), asking), case.get("all") or case[attacker]
            if got != wanted:
                wrong.append((case["at"], case["change"], attacker, wanted, got))
    assert wrong == []


def test_the_files_are_what_their_maker_makes() -> None:
    made = maker.made(maker.read())
    for name, content in made.items():
        assert (maker.FOLDER / f"{name}.json").read_text(encoding="ascii") == maker.written(content), f"{name}.json: run `make generated`"


def test_the_vectors_have_every_code_of_the_document() -> None:
    codes = {case["code"] for case in (*VIEWS["views"], *ATTACKS["attacks"])}
    assert set(CODES) - codes == set()
    numbers = {int("".join(mark for mark in case["id"] if mark.isdigit())) for case in ATTACKS["attacks"] if case["id"][0].isdigit()}
    elsewhere = {32}  # two answers to one question: A7
    assert set(range(1, 60)) - numbers == elsewhere
