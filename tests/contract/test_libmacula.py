"""Our verdicts beside those of Macula's own library, for published objects and for thousands that are almost right."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from cbor_pieces import ARRAY, FORBIDDEN, LOOSE_ITEMS, WIDTHS, WILD_ITEMS, altered, blob, head, mapping, text
from fixed_keys import node_key, other_profile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from libmacula_oracle import as_library_json, has_ambiguous_keys, library_verdict, macula_py
from mesh_vectors import needs_vectors, vectors

from rag_stdlib.contract import cbor, nodekeys
from rag_stdlib.contract.nodekeys import PROFILES, NodeKey, Profile
from rag_stdlib.contract.signedobject import ALGORITHMS, SignedObject, sign, verify
from rag_stdlib.contract.verdicts import Refused
from rag_stdlib.keyfile import load_key, save_new_key

LABEL = "macula-rag corpus v1"
HASH = "0d5f037b" * 8
FAMILIES, VARIANTS = 400, 4  # around one signature each: with the object that was signed, 2,000

both = pytest.mark.parametrize("profile", PROFILES)


def agreed(label: str, data: bytes, profile: Profile) -> str:
    """Ask both sides about an object and compare all they say; returns our verdict.

    Of an object at fault in its signature and in `tbs`, we name the signature, which is looked at first (RAG service contract §3.4),
    and the library names `tbs`.
    """
    ours = verify(label, data, profile)
    theirs, content = library_verdict(label, data, profile)
    if isinstance(ours, SignedObject):
        assert theirs == "ok"
        assert content["node_id"] == ours.node_id
        assert (as_library_json(ours.key), as_library_json(ours.tbs)) == (content["key"], content["tbs"])
        if not has_ambiguous_keys(ours.fields):
            assert json.dumps(as_library_json(ours.fields), sort_keys=True) == json.dumps(content["fields"], sort_keys=True)
        return "ok"
    expected = str(ours)
    if expected == "signature_invalid" and theirs != expected:
        parts: Any = cbor.decode(data)
        alone = verify(LABEL, signed(parts["tbs"], node_key(profile)), profile)
        assert isinstance(alone, Refused)
        expected = str(alone)
    assert theirs == expected
    return str(ours)


@lru_cache(maxsize=16)
def signed(tbs: bytes, key: NodeKey) -> bytes:
    signature = key.sign(LABEL.encode() + b"\0" + hashlib.sha384(key.public).digest() + tbs)
    return cbor.encode({"key": key.public, "tbs": tbs, "signature": signature})


ALG_NAMES = st.builds(text, st.just("alg"), WIDTHS)
ALG_PAIRS = {profile: st.one_of(
    st.tuples(ALG_NAMES, st.builds(text, st.just(ALGORITHMS[profile]), WIDTHS)),
    st.tuples(ALG_NAMES, st.builds(text, st.just(ALGORITHMS[profile]), WIDTHS)),
    st.tuples(ALG_NAMES, st.sampled_from([text(ALGORITHMS[other_profile(profile)]), text(""), text("ML-DSA-65"), text("ml-dsa-87", 25)])),
    st.tuples(ALG_NAMES, st.sampled_from([b"\xf6", b"\x18\x57", b"\x80", blob(b"ML-DSA-87"), text("alg")])),
) for profile in PROFILES}
FIELD_NAMES = st.sampled_from([text("corpus_hash"), text("corpus_hash", 26), text("x"), text("é"), text("1"), head(0, 1), head(0, 300), head(1, 7)])
FIELDS = st.lists(st.tuples(FIELD_NAMES, LOOSE_ITEMS), max_size=2)
BROKEN_FIELDS = st.lists(st.tuples(st.one_of(FIELD_NAMES, LOOSE_ITEMS), WILD_ITEMS), min_size=1, max_size=3)
KINDS = st.sampled_from(["plain", "loose", "loose", "loose", "loose", "broken", "other", "altered", "without"])
PLAIN = st.sampled_from([HASH, HASH.encode(), None, 7, 1.5, [HASH]])


@st.composite
def to_be_signed(draw: st.DrawFn, profile: Profile) -> bytes:
    """A map with alg and corpus_hash, in a form that is often loose and sometimes broken."""
    kind = draw(KINDS)
    plain = cbor.encode({"corpus_hash": draw(PLAIN), "alg": ALGORITHMS[profile]})
    if kind in ("plain", "altered"):
        return draw(altered(plain)) if kind == "altered" else plain
    if kind == "other":
        return draw(WILD_ITEMS)
    pairs = draw(BROKEN_FIELDS if kind == "broken" else FIELDS)
    if kind != "without":
        pairs.insert(draw(st.integers(0, len(pairs))), draw(ALG_PAIRS[profile]))
    return mapping(pairs, draw(WIDTHS))


CHANGES = st.sampled_from(["order", "order", "label", "profile", "part", "bytes", "extra", "twice", "missing", "kind"])
FURTHER = st.tuples(st.sampled_from([text("extra"), head(0, 1), text(""), text("Key"), blob(b"key"), text("key", 24)]), LOOSE_ITEMS)
OTHER_KINDS = st.sampled_from([b"\xf6", b"\x80", text("text"), b"\x00", b"\x40", b"\xf4", b"\x81\x40"])
PLACES = st.integers(0, 2)


@st.composite
def families(draw: st.DrawFn) -> list[tuple[str, bytes, Profile]]:
    """Objects around one signature: the one that was signed, and some that differ from it; each with the label and profile to verify under."""
    profile = draw(st.sampled_from(["pq_pure"] * 5 + ["pq_hybrid"]))
    tbs = draw(to_be_signed(profile))
    parts = dict(cbor.decode(signed(tbs, node_key(profile))))
    family = [(LABEL, mapping([(text(name, draw(WIDTHS)), blob(value, draw(WIDTHS))) for name, value in parts.items()], draw(WIDTHS)), profile)]
    for change in draw(st.lists(CHANGES, min_size=VARIANTS, max_size=VARIANTS)):
        pairs, at = [(text(name), blob(value)) for name, value in parts.items()], draw(PLACES)
        if change == "order":
            pairs = [pairs[at], *pairs[at + 1:], *pairs[:at]]
        elif change == "part":
            pairs[at] = pairs[at][0], blob(draw(altered(list(parts.values())[at])))
        elif change == "extra":
            pairs.insert(at, draw(FURTHER))
        elif change == "twice":
            pairs.insert(at, pairs[draw(PLACES)])
        elif change == "missing":
            del pairs[at]
        elif change == "kind":
            pairs[at] = pairs[at][0], draw(OTHER_KINDS)
        whole = mapping(pairs)
        family.append(("another label" if change == "label" else LABEL, draw(altered(whole)) if change == "bytes" else whole,
                       other_profile(profile) if change == "profile" else profile))
    return family


def test_thousands_of_objects_have_the_librarys_verdict() -> None:
    verdicts: Counter[str] = Counter()

    @settings(max_examples=FAMILIES, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(families())
    def compare(family: list[tuple[str, bytes, Profile]]) -> None:
        verdicts.update(agreed(*case) for case in family)

    compare()
    assert sum(verdicts.values()) >= FAMILIES * (VARIANTS + 1)
    assert all(verdicts[verdict] > FAMILIES // 10 for verdict in ("ok", "malformed", "signature_invalid", "alg_mismatch")), verdicts


@pytest.mark.parametrize("items", [131_066, 131_067, 131_068])
def test_the_bound_on_items_is_the_librarys(items: int) -> None:
    tbs_bytes = mapping([(text("alg"), text(ALGORITHMS["pq_pure"])), (text("x"), head(ARRAY, items) + bytes(items))])
    assert agreed(LABEL, signed(tbs_bytes, node_key("pq_pure")), "pq_pure") == ("ok" if items <= 131_067 else "malformed")


@pytest.mark.parametrize("depth", [62, 63, 64])
@pytest.mark.parametrize("innermost", [b"\0", b"\x80", b"\xa0"], ids=bytes.hex)
def test_the_bound_on_depth_is_the_librarys(depth: int, innermost: bytes) -> None:
    tbs_bytes = mapping([(text("alg"), text(ALGORITHMS["pq_pure"])), (text("x"), b"\x81" * depth + innermost)])
    containers = 1 + depth + (innermost != b"\0")
    assert agreed(LABEL, signed(tbs_bytes, node_key("pq_pure")), "pq_pure") == ("ok" if containers <= 64 else "malformed")


@pytest.mark.parametrize("item", FORBIDDEN, ids=bytes.hex)
def test_what_our_rule_forbids_inside_tbs_the_library_forbids(item: bytes) -> None:
    tbs_bytes = mapping([(text("alg"), text(ALGORITHMS["pq_pure"])), (text("x"), item)])
    assert agreed(LABEL, signed(tbs_bytes, node_key("pq_pure")), "pq_pure") == "malformed"


def rsa_public(modulus_head: bytes = b"", modulus_end: bytes = b"", rest: bytes = b"\2\3\1\0\1") -> bytes:
    """Write a hybrid key whose modulus begins and ends as told."""
    der = node_key("pq_hybrid").public[2_592:]
    modulus = der[9:521]
    modulus = modulus_head + modulus[len(modulus_head):len(modulus) - len(modulus_end)] + modulus_end
    return node_key("pq_hybrid").public[:2_592] + der[:9] + modulus + rest


@pytest.mark.parametrize(("public", "verdict"), [
    (rsa_public(), "signature_invalid"), (rsa_public(modulus_end=b"\2"), "signature_invalid"), (rsa_public(modulus_head=b"\xff" * 64), "signature_invalid"),
    (rsa_public(modulus_head=b"\x7f"), "malformed"), (rsa_public(rest=b"\2\3\1\0\3"), "malformed"), (rsa_public(rest=b"\2\1\3"), "malformed"),
    (rsa_public() + b"\0", "malformed"), (rsa_public()[:-1], "malformed"), (node_key("pq_pure").public, "malformed"),
], ids=range(9))
def test_keys_that_are_almost_right_have_the_librarys_verdict(public: bytes, verdict: str) -> None:
    tbs_bytes = cbor.encode({"alg": ALGORITHMS["pq_hybrid"]})
    data = cbor.encode({"key": public, "tbs": tbs_bytes, "signature": bytes(5_139)})
    assert agreed(LABEL, data, "pq_hybrid") == verdict


@needs_vectors
def test_the_published_objects_have_one_verdict_on_both_sides() -> None:
    for case in vectors("macula/signed_objects.json"):
        assert agreed(case["label"], base64.b64decode(case["object_base64"]), case["verify_under"]) == case["libmacula_v0.27.0"]
    for case in vectors("macula/signed_corpus.json"):
        assert agreed(LABEL, base64.b64decode(case["signature_base64"]), case["profile"]) == "ok"


@both
def test_keys_and_signatures_pass_in_both_directions(profile: Profile, tmp_path: Path) -> None:
    key = node_key(profile)
    save_new_key(tmp_path / "ours.key", key)
    loaded = macula_py.NodeKey.load(str(tmp_path / "ours.key"), profile)
    assert (loaded.node_id_hex(), loaded.public_key(), loaded.profile()) == (key.node_id, key.public, profile)
    assert macula_py.NodeKey.verify(b"message", key.sign(b"message"), key.public, profile)
    assert not macula_py.NodeKey.verify(b"another", key.sign(b"message"), key.public, profile)
    signature = loaded.sign(b"message")
    assert nodekeys.verify(b"message", signature, key.public, profile)
    assert not nodekeys.verify(b"another", signature, key.public, profile)


@both
def test_the_librarys_key_files_are_ours(profile: Profile, tmp_path: Path) -> None:
    made = asyncio.run(macula_py.NodeKey.generate(profile))
    made.save(str(tmp_path / "theirs.key"))
    key = load_key(tmp_path / "theirs.key", profile)
    assert (key.node_id, key.public) == (made.node_id_hex(), made.public_key())
    assert key.to_seed_form() == (tmp_path / "theirs.key").read_bytes()
    assert key.key_id == macula_py.ucan.key_id(made.public_key(), profile).hex()
    assert agreed(LABEL, sign(LABEL, {"corpus_hash": HASH}, key), profile) == "ok"
