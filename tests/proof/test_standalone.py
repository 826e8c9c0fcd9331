"""The standalone verifier: small, of the standard library and `cryptography` alone, and of one mind with the library's whatever it is asked."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twoverifiers import VECTORS, Asking, both, goldens, load, ours, scenes, standalone, verify_standalone

from rag_stdlib.proof import strict
from rag_stdlib.proof.attacks.parts import rehashed, with_part, written
from rag_stdlib.proof.log.notes import Note, Signature, sign_note
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.trust import Trust, TrustError

SCRIPT = VECTORS / "verify_standalone.py"
GOLDEN: list[dict[str, Any]] = load("golden")["certificates"]
keys = goldens.keys
VIEWS: dict[str, Any] = load("views")
PLAIN = scenes.plain_scene()
ASKING = Asking.of(load("matrix")["bases"]["plain"])


def test_it_is_small_and_imports_the_standard_library_and_cryptography_alone() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    tree = ast.parse(text)
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) == {"cryptography"}
    assert len(text.splitlines()) <= 250


def run(tmp_path: Path, case: Mapping[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    for name, content in (("certificate", case["envelope"]), ("trust", case["trust"]), ("policy", case["policy"])):
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="ascii")
    command = [sys.executable, "-I", str(SCRIPT), str(tmp_path / "certificate.json"), "--trust", str(tmp_path / "trust.json"), *options]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def test_as_a_program_it_tells_the_outcome_by_its_status(tmp_path: Path) -> None:
    case = GOLDEN[0]
    now, query = ("--now", case["now"]), ("--query", case["query"])
    found = run(tmp_path, case, *now, *query, "--json")
    assert found.returncode == 0, found.stderr
    texts = [claim["text"] for claim in case["envelope"]["certificate"]["claims"]]
    assert json.loads(found.stdout) == {"outcome": "verified", "code": "", "claims": [texts[place] for place in case["values"]["shown"]]}
    assert run(tmp_path, case, *now, *query).stdout.splitlines()[0] == "verified"
    refuted = run(tmp_path, case, *now, "--query", "another", "--json")
    assert (refuted.returncode, json.loads(refuted.stdout)["code"]) == (1, "query")
    unknown = run(tmp_path, case, *now)
    assert (unknown.returncode, unknown.stdout.split()) == (3, ["unknown", "query_not_given"])
    assert run(tmp_path, case, "--now", "yesterday", *query).returncode == 2
    assert run(tmp_path, {**case, "trust": {}}, *now, *query).returncode == 2


TIMES = st.sampled_from(["1970-01-01T00:00:00Z", "2026-12-01T11:58:59Z", "2026-12-01T11:59:00Z", "2026-12-01T11:59:59Z", "2026-12-01T12:00:00Z", "2026-12-01T12:00:01Z",
                         "2026-12-08T12:00:00Z", "2027-03-01T11:59:59Z", "2027-03-01T12:00:00Z", "9999-12-31T23:59:59Z"])
DIGESTS = st.none() | st.lists(st.sampled_from(["0" * 64, "1" * 64, "2" * 64, "F" * 64, "x"]), max_size=3)
SECONDS = st.sampled_from([None, 0, 1, 59, 60, 61, 604_800, 2**53 - 1, 2**53, -1, "60", True])
POLICIES = st.fixed_dictionaries({}, optional={
    "require_log": st.booleans(), "require_query": st.booleans(), "require_nonce": st.booleans() | st.sampled_from([None, 1]), "max_age_s": SECONDS, "skew_s": SECONDS,
    "labels": st.lists(st.sampled_from(["quoted", "entailed", "contradicted", "not_supported", "x"]), max_size=5), "judges": DIGESTS, "generators": DIGESTS,
    "minimum_confidence": st.sampled_from(["0.000000", "0.870000", "1.000000", "0.5", "1.000001", None]), "unknown": st.none()})
PARTS: dict[str, list[Any]] = {name: [part for case in VIEWS["trusts"] if isinstance(case["trust"], dict) for part in case["trust"].get(name, [])]
                               for name in ("issuers", "logs", "witnesses")}
TRUSTS = st.fixed_dictionaries(
    {"issuers": st.lists(st.sampled_from(PARTS["issuers"][:1] * 20 + PARTS["issuers"]), min_size=1, max_size=2)},
    optional={"logs": st.lists(st.sampled_from(PARTS["logs"][:1] * 20 + PARTS["logs"]), max_size=2),
              "witnesses": st.lists(st.sampled_from(PARTS["witnesses"][:2] * 20 + PARTS["witnesses"]), max_size=3), "quorum": st.integers(0, 3)})
QUERIES = st.sampled_from([None, "", scenes.QUESTION, scenes.QUESTION + " "]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NONCES = st.sampled_from([None, "", scenes.NONCE, "nonce-of-the-asker_2"])


def taken(trust: Any, policy: Any) -> bool:
    """Whether the library takes this trust and this policy."""
    try:
        Trust.from_json(trust)
        Policy.of(policy)
    except (TrustError, ValueError):
        return False
    return True


@settings(max_examples=120)
@given(st.sampled_from(GOLDEN), st.just(None) | TRUSTS, POLICIES, QUERIES, NONCES, TIMES)
def test_they_agree_whatever_is_trusted_and_asked_for(case: dict[str, Any], trust: Any, policy: Any, query: str | None, nonce: str | None, now: str) -> None:
    asking = Asking(case["trust"] if trust is None else trust, policy, query, nonce, now)
    data = json.dumps(case["envelope"]).encode()
    if taken(asking.trust, policy):
        both(data, asking)
    else:
        with pytest.raises(ValueError, match=r"."):
            verify_standalone.verify(data, asking.trust, policy, query, nonce, now)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**54), 2**54) | st.floats() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.text(max_size=5), inner, max_size=3), max_leaves=12)


@settings(max_examples=120)
@given(ANYTHING, st.booleans(), st.booleans())
def test_they_agree_about_any_json(value: Any, inside: bool, ascii_only: bool) -> None:
    text = json.dumps({"certificate": {"schema": "rag-stdlib/answer-certificate/v1", "x": value}} if inside else value, ensure_ascii=ascii_only)
    both(text.encode(errors="surrogatepass"), ASKING)


@settings(max_examples=120)
@given(st.text('[]{}",:0123456789.eE+-tfn\\ud8é \t\r\n\x0b\x00', max_size=40) | st.sampled_from(["[" * 40, "[" * 100_000, '{"a":' * 50_000, "1" * 5_000, "-0", "01", "1.", "--1"]))
def test_they_agree_about_what_is_json(text: str) -> None:
    for data in (text.encode(), b'{"certificate":{"schema":"x"},"y":' + text.encode() + b"}"):
        said = both(data, ASKING)
        try:
            strict.parse(data)
        except strict.MalformedJson:
            assert said == "refuted malformed_json"
        else:
            assert said != "refuted malformed_json"


@settings(max_examples=60)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.sampled_from(["quoted", "entailed"]))
def test_they_agree_about_texts_of_every_kind(around: str, text: str, label: str) -> None:
    """What is white space, what may stand between claims, and what is a quotation."""
    body = PLAIN.body
    start, whole = len(around), f"{around}{text}{around}"
    item = {**body["retrieval"]["items"][0], "text": whole, "start": 0, "end": len(whole)}
    span = {**body["claims"][0]["spans"][0], "item": 0, "start": 0, "end": len(whole), "text": whole}
    claim = {**body["claims"][0], "start": start, "end": start + len(text), "text": text, "spans": [span], "judgement": {**body["claims"][0]["judgement"], "label": label}}
    body["retrieval"]["items"], body["claims"], body["answer"]["text"] = [item], [claim], whole
    both(written(PLAIN.by("issuer_logged", rehashed(body, scenes.QUESTION))), ASKING)


WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


@pytest.mark.parametrize("mark", [*WHITE, "\x1c", "\x1f", "\u180e", "\u200b", "\u2060", "\ufeff", "-", "*", "•", "#", ">", ".", "–", "\x00"], ids=ascii)
def test_they_agree_on_each_sign_between_claims(mark: str) -> None:
    body = PLAIN.body
    body["answer"]["text"] = mark + body["answer"]["text"][1:]
    expected = "verified" if mark in WHITE + "-*•#>" else "refuted uncovered"
    assert both(written(PLAIN.by("issuer_logged", rehashed(body, scenes.QUESTION))), ASKING) == expected


def with_receipt(receipt: str) -> bytes:
    return written({**PLAIN.envelope, "receipt": receipt})


def filled(note_bytes: int) -> str:
    """A receipt whose checkpoint has so many bytes, by one more signature of somebody unknown."""
    proof, _, note = str(PLAIN.envelope["receipt"]).partition("\n\n")
    room = note_bytes - len(note.encode()) - len("— n \n".encode())
    name, value = 1 + room % 4, room - room % 4
    return f"{proof}\n\n{note}— {'n' * name} {'A' * value}\n"


@pytest.mark.parametrize(("receipt", "expected"), [
    (lambda whole: whole.replace("\n", f"\nextra {base64.b64encode(bytes(65_536)).decode()}\n", 1), "verified"),
    (lambda whole: whole.replace("\n", f"\nextra {base64.b64encode(bytes(65_537)).decode()}\n", 1), "refuted receipt"),
    (lambda whole: whole.replace("\n", "\nextra \n", 1), "refuted receipt"), (lambda whole: whole.replace("\n", "\nextra QQ==\nextra QQ==\n", 1), "refuted receipt"),
    (lambda whole: whole.replace("\n", "\nextra QR==\n", 1), "refuted receipt"), (lambda _: filled(524_288), "verified"), (lambda _: filled(524_289), "refuted receipt"),
    (lambda whole: whole + "— stranger AAAAAAAA\n" * 61, "verified"), (lambda whole: whole + "— stranger AAAAAAAA\n" * 62, "refuted receipt"),
    (lambda whole: whole.replace("index 5", "index ٥"), "refuted receipt"), (lambda whole: whole + "\n", "refuted receipt"), (lambda whole: "\n" + whole, "refuted receipt"),
    (lambda whole: whole + "— a\u00a0b AAAAAAAA\n", "refuted receipt"), (lambda whole: whole + "— a\u200bb AAAAAAAA\n", "verified"), (lambda whole: whole + "- a AAAAAAAA\n", "refuted receipt"),
    (lambda whole: whole + f"— {'é' * 127} AAAAAAAA\n", "verified"), (lambda whole: whole + f"— {'é' * 128} AAAAAAAA\n", "refuted receipt"),
    (lambda whole: whole + "— a  AAAAAAAA\n", "refuted receipt"), (lambda whole: whole + "— a AAAAAAAA \n", "refuted receipt"), (lambda whole: whole + "— a AAAA\n", "refuted receipt"),
    (lambda whole: whole + "— a\x7f AAAAAAAA\n", "verified"), (lambda whole: whole * 2, "refuted receipt"), (lambda _: "x" * 1_000_001, "refuted schema"),
    (lambda whole: whole + "— \x85 AAAAAAAA\n", "refuted receipt"), (lambda whole: whole.replace("\n\n", "\n\u2028\n", 1), "refuted receipt"),
])
def test_they_agree_on_the_bounds_of_a_receipt(receipt: Any, expected: str) -> None:
    assert both(with_receipt(receipt(PLAIN.envelope["receipt"])), ASKING) == expected


@pytest.mark.parametrize(("line", "expected"), [(0, "refuted checkpoint_signature"), (1, "refuted cosignature"), (2, "refuted cosignature"), (3, "refuted cosignature")])
def test_they_agree_on_signatures_of_every_type(line: int, expected: str) -> None:
    """Of the log, of witnesses of Ed25519 and of ML-DSA-44: another bit at the end, another time, and too short."""
    case = GOLDEN[1]
    receipt = Receipt.parse(case["envelope"]["receipt"].encode())
    note = Note.parse(receipt.checkpoint)
    value = note.signatures[line].value
    for changed in (value[:-1] + bytes([value[-1] ^ 1]), b"\x80" + value[1:], value[:-1], value + b"\0", value[:8], b"\0"):
        lines = [*note.signatures]
        lines[line] = Signature(lines[line].name, lines[line].key_id, changed)
        made = Receipt(receipt.index, receipt.path, Note(note.text, tuple(lines)).to_bytes()).to_bytes().decode()
        assert both(written({**case["envelope"], "receipt": made}), Asking.of(case)) == expected


def test_they_agree_on_every_index_and_size_of_a_small_tree() -> None:
    whole = Receipt.parse(str(PLAIN.envelope["receipt"]).encode())
    for index in range(9):
        for length in range(5):
            path = (*whole.path, *whole.path)[:length]
            said = both(with_receipt(Receipt(index, path, whole.checkpoint).to_bytes().decode()), ASKING)
            assert said == ("verified" if (index, path) == (whole.index, whole.path) else "refuted inclusion")


NODED = with_part(PLAIN.body, ("retrieval", "indexes", 0, "node_id"), "a" * 64)  # where hits are merged, an index has a node


@pytest.mark.parametrize(("path", "most"), [
    (("issuer", "name"), 200), (("generator", "name"), 200), (("generator", "model"), 200), (("judge", "version"), 200), (("retrieval", "merged_by"), 100),
    (("retrieval", "items", 0, "source"), 4_096), (("retrieval", "items", 0, "chunk_id"), 4_096), (("retrieval", "items", 0, "provenance", "path"), 4_096),
    (("retrieval", "items", 0, "provenance", "repo_id"), 200), (("retrieval", "indexes", 0, "shard_id"), 200), (("retrieval", "embedder", "model"), 200)])
def test_they_agree_on_how_long_a_text_may_be(path: tuple[str | int, ...], most: int) -> None:
    for length in (0, 1, most, most + 1):
        body = with_part(NODED, path, "\U0001f600" * length)
        said = both(written(PLAIN.by("issuer_logged", rehashed(body, scenes.QUESTION))), ASKING)
        empty = path[-1] in ("model", "source", "path", "repo_id", "shard_id") and path != ("retrieval", "embedder", "model")
        fits = length <= most and (length > 0 or empty)
        assert said == (("refuted issuer" if path[0] == "issuer" else "verified") if fits else "refuted schema"), length


def changed(*changes: tuple[tuple[str | int, ...], Any]) -> bytes:
    """The plain certificate with other parts, signed and logged by its issuer."""
    body = PLAIN.body
    for path, value in changes:
        body = with_part(body, path, value)
    return written(PLAIN.by("issuer_logged", rehashed(body, scenes.QUESTION)))


@pytest.mark.parametrize(("limit", "expected"), [
    (3, "verified"), (1_000, "verified"), (0, "schema"), (1_001, "schema"), (10.0, "schema"), (True, "schema"), ("10", "schema")])
def test_they_agree_on_what_is_a_count(limit: Any, expected: str) -> None:
    assert both(changed((("retrieval", "limit"), limit)), ASKING).rpartition(" ")[2] == expected


@pytest.mark.parametrize(("issued", "expires", "expected"), [
    ("2026-12-01T11:59:00Z", "2026-12-01T11:59:00Z", "refuted time"), ("2026-12-01T11:59:00Z", "2026-12-01T11:58:59Z", "refuted time"),
    ("2026-12-01T11:59:00Z", "2027-12-02T11:59:00Z", "verified"), ("2026-12-01T11:59:00Z", "2027-12-02T11:59:01Z", "refuted time")])
def test_they_agree_on_how_long_a_certificate_may_last(issued: str, expires: str, expected: str) -> None:
    assert both(changed((("issued_at",), issued), (("expires_at",), expires)), ASKING) == expected


NODES = st.sampled_from([None, "a" * 64, "b" * 64, "c" * 64])
SHARDS = st.lists(st.builds(lambda node: {"node_id": node, "reason": "late"}, st.sampled_from(["a" * 64, "b" * 64, "d" * 64])), max_size=2)
LINES = st.sampled_from([None, 0, 1, 2])
ITEMS = st.tuples(st.integers(0, 2), st.sampled_from(["2.000000000", "1.000000000", "0.500000000", "-0.500000000", "-1.000000000"]), LINES, LINES)


@settings(max_examples=160)
@given(st.sampled_from([None, "score", "statistics", "rank", "statistics and rank", "else"]), st.lists(st.tuples(NODES, st.sampled_from([None, "e" * 64])), max_size=3),
       SHARDS, SHARDS, st.lists(ITEMS, min_size=3, max_size=3), st.booleans())
def test_they_agree_about_shards_of_every_kind(
        merged_by: str | None, indexes: list[tuple[str | None, str | None]], failed: list[Any], not_asked: list[Any], items: list[Any], in_order: bool) -> None:
    """Who was asked, who answered, in which order, and from which lines."""
    found = PLAIN.body["retrieval"]
    places = sorted(items, key=lambda item: -float(item[1])) if in_order else items
    source = found["items"][0]["provenance"]
    hits = [{**hit, "index": min(index, len(indexes)), "score": score, "provenance": {**source, "start_line": first, "end_line": last}}
            for hit, (index, score, first, last) in zip(found["items"], places, strict=True)]
    searched = [{"node_id": node, "shard_id": None, "content": content} for node, content in indexes]
    said = both(changed((("retrieval",), {**found, "merged_by": merged_by, "indexes": searched, "failed": failed, "not_asked": not_asked, "items": hits})), ASKING)
    assert said in ("verified", "refuted retrieval")


@pytest.mark.parametrize(("merged_by", "hits", "expected"), [
    ("score", "a3 b2 a1", "verified"), ("score", "a1 b2 a0", "refuted retrieval"), ("statistics", "a1 b2 a0", "refuted retrieval"), ("rank", "a1 b2 a0", "verified"),
    ("rank", "a1 b2 a1", "verified"), ("rank", "a1 b2 a2", "refuted retrieval"), ("statistics and rank", "a1 b2 a0", "verified"),
    ("statistics and rank", "a1 b2 a2", "refuted retrieval"), ("else", "a1 b2 a2", "verified")])
def test_they_agree_on_the_order_of_what_was_merged(merged_by: str, hits: str, expected: str) -> None:
    found = PLAIN.body["retrieval"]
    items = [{**item, "index": "ab".index(hit[0]), "score": f"{hit[1]}.000000000"} for item, hit in zip(found["items"], hits.split(), strict=True)]
    indexes = [{"node_id": name * 64, "shard_id": None, "content": None} for name in "ab"]
    assert both(changed((("retrieval",), {**found, "merged_by": merged_by, "indexes": indexes, "items": items})), ASKING) == expected


def test_they_agree_on_what_the_methods_leave_out() -> None:
    """One claim where nothing is taken apart, no span where nothing is aligned, no support where nobody judges."""
    claims, text = PLAIN.body["claims"], PLAIN.body["answer"]["text"]
    bare = [{**claim, "spans": [], "decision": {"shown": False, "reason": "no_span"}, "judgement": {**claim["judgement"], "label": "entailed"}} for claim in claims]
    whole, none, nobody = (("methods", "decomposition"), "whole"), (("methods", "alignment"), "none"), (("judge", "name"), "none")
    alone = {**claims[3], "start": 0, "end": len(text), "text": text}
    unjudged = [{**claim, "decision": {"shown": False, "reason": "not_supported"}, "judgement": {**claim["judgement"], "label": "not_supported"}} for claim in claims]
    assert both(changed(whole), ASKING) == "refuted claim"
    assert both(changed(whole, (("claims",), [alone])), ASKING) == "verified"
    assert both(changed(none), ASKING) == "refuted span"
    assert both(changed(none, (("claims",), bare)), ASKING) == "verified"
    assert both(changed(nobody), ASKING) == "refuted decision"
    assert both(changed(nobody, (("claims",), unjudged)), ASKING) == "verified"


def test_they_agree_on_the_state_of_indexes_that_say_not_what_they_held() -> None:
    unknown, salt = (("retrieval", "indexes", 0, "content"), None), (("query", "salt"), "a5" * 32)
    assert both(changed(unknown), ASKING) == both(changed(salt), ASKING) == "verified"
    states = [json.loads(changed(*changes))["certificate"]["retrieval"]["state"] for changes in ([], [salt], [unknown], [unknown, salt])]
    assert states[0] == states[1]
    assert len(set(states)) == 3
    body = with_part(json.loads(changed(unknown))["certificate"], ("retrieval", "indexes", 0, "content"), "e" * 64)
    assert both(written(PLAIN.by("issuer_logged", body)), ASKING) == "refuted hash"


END = scenes.NOW + timedelta(hours=1)
AT_NO_TIME: Final = -int(END.timestamp())  # the time 0 of a cosignature, in seconds after the end


def cosigned(times: Sequence[int | None]) -> bytes:
    """The plain certificate, cosigned by the first witness, the second, and one of ML-DSA-44, each so many seconds after the end of the issuer's key, or not."""
    receipt = Receipt.parse(str(PLAIN.envelope["receipt"]).encode())
    note, ended = Note.parse(receipt.checkpoint), int(END.timestamp())
    lines = [Note.parse(sign_note(note.text, [signer], ended + time)).signatures[-1]
             for signer, time in zip((*keys.WITNESSES, keys.PQ_WITNESS), times, strict=True) if time is not None]
    return with_receipt(Receipt(receipt.index, receipt.path, Note(note.text, (note.signatures[0], *lines)).to_bytes()).to_bytes().decode())


def asked_late(now: int, quorum: int, policy: Mapping[str, Any], **changes: Any) -> Asking:
    """Ask so many seconds after the end of the issuer's key."""
    trusted = keys.trust(witnesses=[witness.verifier.text() for witness in (*keys.WITNESSES, keys.PQ_WITNESS)], quorum=quorum, **changes)
    trusted["issuers"][0]["not_after"] = END.strftime("%Y-%m-%dT%H:%M:%SZ")
    return ASKING.but(trust=trusted, policy=dict(policy), now=(END + timedelta(seconds=now)).strftime("%Y-%m-%dT%H:%M:%SZ"))


@pytest.mark.parametrize(("times", "now", "quorum", "skew", "expected"), [
    ((-1, -1, None), -1, 2, 0, "verified"), ((999, 999, None), -1, 2, 0, "verified"), ((-1, -1, None), 0, 2, 0, "verified"), ((0, 0, None), 0, 2, 0, "unknown key_ended"),
    ((59, 59, None), 0, 2, 60, "verified"), ((60, 60, None), 0, 2, 60, "unknown key_ended"), ((999, 999, None), 30, 2, 60, "unknown key_ended"),
    ((-1, 60, None), 0, 2, 60, "unknown key_ended"), ((-1, 60, None), 0, 1, 60, "verified"), ((-1, 60, None), 0, 0, 60, "verified"),
    ((60, 60, 60), 0, 0, 60, "unknown key_ended"), ((None, None, None), 0, 0, 60, "unknown key_ended"),
    ((None, None, None), -1, 0, 60, "verified"), ((-1, None, None), 0, 2, 60, "unknown witness_quorum"),
    ((None, None, -1), 0, 1, 60, "verified"), ((None, None, 60), 0, 1, 60, "unknown key_ended"), ((60, -1, -1), 0, 2, 60, "verified"),
    ((2**62, 60, 60), 0, 1, 2**53 - 1, "verified")])
def test_they_agree_on_a_key_that_has_ended(times: Sequence[int | None], now: int, quorum: int, skew: int, expected: str) -> None:
    assert both(cosigned(times), asked_late(now, quorum, {"skew_s": skew})) == expected


@pytest.mark.parametrize(("times", "quorum", "expected"), [
    ((None, None, AT_NO_TIME), 0, "unknown key_ended"), ((AT_NO_TIME, AT_NO_TIME, None), 2, "unknown key_ended"), ((-1, AT_NO_TIME, None), 2, "unknown key_ended"),
    ((-1, AT_NO_TIME, None), 1, "verified"), ((1 + AT_NO_TIME, None, None), 0, "verified")])
def test_a_cosignature_that_states_no_time_says_nothing_of_a_key_that_has_ended(times: Sequence[int | None], quorum: int, expected: str) -> None:
    assert both(cosigned(times), asked_late(0, quorum, {})) == expected
    assert both(cosigned(times), asked_late(-1, quorum, {})) == "verified"


def test_without_a_receipt_or_its_log_nobody_has_cosigned() -> None:
    bare = written({name: value for name, value in PLAIN.envelope.items() if name != "receipt"})
    assert both(bare, asked_late(0, 0, {"require_log": False})) == "unknown key_ended"
    assert both(bare, asked_late(-1, 0, {"require_log": False})) == "verified"
    assert both(bare, asked_late(0, 0, {})) == "unknown no_receipt"
    assert both(cosigned((-1, -1, -1)), asked_late(0, 0, {"require_log": False}, logs=[])) == "unknown untrusted_log"


TIMES_OF_WITNESSES = st.tuples(*[st.sampled_from([None, -100, -1, 0, 1, 59, 60, 61])] * 3)


@settings(max_examples=100)
@given(TIMES_OF_WITNESSES, st.sampled_from([-1, 0, 1, 60]), st.integers(0, 3), st.sampled_from([0, 1, 60]))
def test_they_agree_on_who_cosigned_in_time(times: Sequence[int | None], now: int, quorum: int, skew: int) -> None:
    said = both(cosigned(times), asked_late(now, quorum, {"skew_s": skew}))
    enough = [sum(time is not None and time < until for time in times) for until in (2**62, skew)]
    assert said == ("unknown witness_quorum" if enough[0] < quorum else "unknown key_ended" if now >= 0 and enough[1] < max(1, quorum) else "verified")


def test_a_verifier_key_without_a_key_is_refused() -> None:
    text = f"empty+{hashlib.sha256(b'empty' + bytes([10])).hexdigest()[:8]}+"
    assert not taken({**ASKING.trust, "witnesses": [text], "quorum": 0}, {})
    with pytest.raises(ValueError, match=r"verifier key"):
        standalone(b"{}", ASKING.but(trust={**ASKING.trust, "witnesses": [text], "quorum": 0}))


def test_they_agree_on_the_largest_file() -> None:
    data = written(dict(PLAIN.envelope))
    assert both(data + b" " * (strict.MAX_BYTES - len(data)), ASKING) == "verified"
    assert both(data + b" " * (strict.MAX_BYTES - len(data) + 1), ASKING) == "refuted too_large"


def test_a_question_that_is_no_unicode_is_nobodys() -> None:
    data = written(dict(PLAIN.envelope))
    assert ours(data, ASKING.but(query="\ud800")) == "refuted query"
    with pytest.raises(ValueError, match=r"."):
        standalone(data, ASKING.but(query="\ud800"))
