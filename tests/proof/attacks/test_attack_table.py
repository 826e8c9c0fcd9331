"""The table of attacks: every attack by name, on every golden certificate, against both verifiers; and what some of them need beside an outcome."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from twoverifiers import Asking, goldens, load, ours, scenes, standalone, verdict

from rag_stdlib.contract.jcs import canonical
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.attacks.attack import ANOTHER_QUESTION, Asked
from rag_stdlib.proof.attacks.parts import written
from rag_stdlib.proof.attacks.scene import Insider, Scene
from rag_stdlib.proof.attacks.table import ATTACKS, NOT_VERIFIED, Verifier, matrix, named, suited
from rag_stdlib.proof.certificate import entry_of
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.merkle import leaf_hash, verify_consistency
from rag_stdlib.proof.log.notes import sign_note
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.render import render
from rag_stdlib.proof.trust import Trust
from rag_stdlib.proof.verdicts import Verified

GOLDEN: list[dict[str, Any]] = load("golden")["certificates"]
BASES: dict[str, Any] = load("matrix")["bases"]
PLAIN = scenes.plain_scene()
NODE = scenes.node_scene(BASES["node"])
Check = Callable[[bytes, Asking], str]


def verifier(case: dict[str, Any], check: Check = ours) -> Verifier:
    """A verifier that asks as a vector says."""
    asking = Asking.of(case)
    queries: dict[Asked, str | None] = {"asked": asking.query, "another": ANOTHER_QUESTION}

    def verify(data: bytes, asked: Asked) -> tuple[str, str]:
        outcome, _, code = check(data, asking.but(query=queries[asked])).partition(" ")
        return outcome, code

    return verify


def scene_of(case: dict[str, Any]) -> Scene:
    """What an outsider has, who found a certificate."""
    return Scene(case["envelope"], Trust.from_json(case["trust"]), Policy.of(case["policy"]), PLAIN.own_key, PLAIN.envelope)


def made(name: str, scene: Scene = PLAIN) -> dict[str, Any]:
    """The envelope that comes of an attack."""
    found: dict[str, Any] = next(json.loads(data) for attack, data in suited(scene) if attack.id == name)
    return found


def test_every_attack_has_a_name_of_its_own() -> None:
    names = [attack.id for attack in ATTACKS]
    assert len(names) == len(set(names)) > 200
    assert all((attack.outcome == "verified") == (not attack.code) for attack in ATTACKS)
    threats = {name.partition(".")[0] for name in names if name[0] == "A"}
    assert {"A1", "A2a", "A2b", "A2c", "A3a", "A3b", "A4a", "A4b", "A4c", "A6", "A7"} <= threats
    for threat in threats:
        assert {f"{threat}.{attacker}" for attacker in ("no_key", "own_key", "issuer", "issuer_logged")} <= set(names)


def test_what_verifies_after_an_attack_is_harmless_or_the_issuers_and_in_the_log() -> None:
    for attack in ATTACKS:
        if attack.outcome == "verified":
            assert attack.attacker == "issuer_logged" or attack.id[0] == "H", attack.id


@pytest.mark.parametrize("check", [ours, standalone], ids=["ours", "standalone"])
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(case["case"]))
def test_attacks_by_outsiders_end_alike_on_any_certificate(case: dict[str, Any], check: Check) -> None:
    rows = list(named(scene_of(case), verifier(case, check)))
    assert [row for row in rows if not row.ok] == []
    assert (rows[0].id, len(rows) > 40) == ("0", True)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(case["case"]))
def test_attacks_by_the_issuer_end_alike_on_any_certificate(case: dict[str, Any]) -> None:
    recipe = next(each for each in goldens.ALL if each.case == case["case"])
    assert PLAIN.insider is not None
    signers = (goldens.keys.LOG, *recipe.witnesses)
    insider = Insider(PLAIN.insider.key, lambda envelope: goldens.keys.receipt_of(envelope, signers), case["query"],
                      None if recipe.node is None else goldens.keys.node(recipe.node))
    rows = list(named(replace(scene_of(case), insider=insider), verifier(case)))
    assert [row for row in rows if not row.ok] == []
    assert {row.attacker for row in rows} >= {"issuer_logged", "own_named_key"}


@pytest.mark.parametrize("witnesses", [0, 1])
def test_attacks_end_alike_in_a_log_of_one_entry_with_few_witnesses(witnesses: int) -> None:
    case, keys = GOLDEN[0], goldens.keys
    known = keys.WITNESSES[:witnesses]
    checkpoint = Checkpoint(keys.ORIGIN, 1, leaf_hash(entry_of(case["envelope"])))
    receipt = Receipt(0, (), sign_note(checkpoint.text(), (keys.LOG, *known), keys.SEEN)).to_bytes().decode()
    trust = keys.trust(witnesses=[witness.verifier.text() for witness in known], quorum=witnesses)
    lone = {**case, "trust": trust, "envelope": {**case["envelope"], "receipt": receipt}}
    rows = list(named(replace(scene_of(lone), other=None), verifier(lone)))
    assert [row for row in rows if not row.ok] == []
    assert {"M9a", "M9c"} & {row.id for row in rows} == ({"M9a", "M9c"} if witnesses else set())
    assert {"M4b", "M4d", "M6", "M9b"} & {row.id for row in rows} == set()


def test_nothing_of_the_matrix_verifies_for_an_outsider() -> None:
    case = GOLDEN[2]
    rows = list(matrix(scene_of(case), verifier(case)))
    assert [row for row in rows if not row.ok] == []
    assert {row.expected for row in rows} == {NOT_VERIFIED}
    assert "delete /receipt" in {row.id for row in rows}
    assert len(rows) > 500


def test_a_receipt_may_be_taken_away_where_none_is_asked_for() -> None:
    case = {**GOLDEN[2], "policy": {"require_log": False}}
    assert "29a" in {attack.id for attack, _ in suited(scene_of(GOLDEN[2]))}
    assert "29a" not in {attack.id for attack, _ in suited(scene_of(case))}
    assert "delete /receipt" not in {row.id for row in matrix(scene_of(case), lambda _data, _asked: ("refuted", "schema"))}


def test_a_verifier_that_takes_everything_or_raises_is_told() -> None:
    case = GOLDEN[2]
    rows = list(named(scene_of(case), lambda _data, _asked: ("verified", "")))
    assert {row.ok for row in rows if row.expected == "verified"} == {True}
    assert {row.ok for row in rows if row.expected != "verified"} == {False}

    whole = written(case["envelope"])

    def raises(data: bytes, asked: Asked) -> tuple[str, str]:
        if data == whole and asked == "asked":
            return "verified", ""
        raise RecursionError(asked, len(data))

    first, *others = named(scene_of(case), raises)
    assert (first.id, first.ok) == ("0", True)
    assert {(row.got, row.ok) for row in (*others, *matrix(scene_of(case), raises))} == {("raised RecursionError", False)}


def test_a_certificate_that_does_not_verify_is_not_attacked() -> None:
    for envelope in (GOLDEN[0]["envelope"], {}):
        broken = replace(scene_of(GOLDEN[0]), envelope=envelope)
        assert [(row.id, row.ok) for row in named(broken, lambda _data, _asked: ("refuted", "schema"))] == [("0", False)]


def test_whoever_shows_hostile_texts_escapes_them() -> None:
    asking = Asking.of(BASES["plain"])
    for name in ("50", "54"):
        found = verdict(written(made(name)), asking)
        assert isinstance(found, Verified)
        for medium, raw in (("text", ("\u202e", "\u200b", "\x1b")), ("markdown", ("\u202e", "\x1b", "<b ", "[/nope]")), ("html", ("\u202e", "\x1b", "<b "))):
            page = render(found, medium).replace("\\<", "").replace("\\.", ".").replace("\\[", "")  # type: ignore[arg-type]
            assert "gnp.exe" in page, "it is shown"
            assert [mark for mark in raw if mark in page] == []


def test_two_answers_to_one_question_are_found_by_whoever_reads_the_log() -> None:
    """Both certificates verify, and their entries say that they are two answers to one question over one state: what a monitor looks for."""
    second, asking = made("A7.issuer_logged"), Asking.of(BASES["plain"])
    first = dict(PLAIN.envelope)
    assert ours(written(first), asking) == ours(written(second), asking) == "verified"
    one, other = (json.loads(entry_of(envelope)) for envelope in (first, second))
    alike = ("schema", "issuer_key_id", "index_state", "query_key")
    assert [one[name] for name in alike] == [other[name] for name in alike]
    assert one["answer_sha256"] != other["answer_sha256"]


def test_a_log_that_shows_each_his_own_tree_is_found_by_whoever_sees_both_heads() -> None:
    """Both receipts verify, under heads of one size and two roots; nothing proves that one continues the other."""
    log = PLAIN.trust.logs["log.example/answers"]
    heads = [Receipt.parse(envelope["receipt"].encode()).verify(entry_of(envelope), log).checkpoint for envelope in (PLAIN.envelope, made("A7.issuer_logged"))]
    assert heads[0].size == heads[1].size
    assert heads[0].root != heads[1].root
    with pytest.raises(ProofError):
        verify_consistency(heads[0].size, heads[0].root, heads[1].size, heads[1].root, [])


def test_a_signature_with_a_nonce_of_zero_fits_the_equation_and_is_refused() -> None:
    envelope = made("2c")
    key: Ed25519PublicKey = PLAIN.trust.issuers[envelope["certificate"]["issuer"]["key_id"]].key
    key.verify(base64.b64decode(envelope["signature"]), fmt.signed_bytes(canonical(envelope["certificate"])))
    assert ours(written(envelope), Asking.of(BASES["plain"])) == "refuted signature"


def test_a_nodes_signature_over_what_the_issuer_signs_is_none() -> None:
    assert NODE.insider is not None
    node = NODE.insider.node_key
    assert isinstance(node, NodeKey)
    message = canonical(NODE.envelope["certificate"])
    for label, outcome in ((fmt.NODE_LABEL, "verified"), (fmt.SCHEMA, "refuted node_signature")):
        signature = base64.b64encode(node.sign(fmt.signed_bytes(message, label))).decode()
        envelope = {**NODE.envelope, "node_signature": {**NODE.envelope["node_signature"], "signature": signature}}
        assert ours(written(envelope), Asking.of(BASES["node"])) == standalone(written(envelope), Asking.of(BASES["node"])) == outcome
