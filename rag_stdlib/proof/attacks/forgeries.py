"""Attacks by those who have not the issuer's key: on the signature, on the text of the file, on the envelope, on a node's signature.

Some of them are no harm: the same certificate, written otherwise, stays what it is.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Final

from rag_stdlib.proof.attacks.attack import GROUP_ORDER, Attack, Unsuited, as_it_is, beside, put, replaced, spelt
from rag_stdlib.proof.attacks.parts import GONE, Json, written
from rag_stdlib.proof.attacks.scene import Scene
from rag_stdlib.proof.strict import MAX_BYTES

_IDENTITY: Final = bytes([1]) + bytes(31)
_LIE: Final = "All is refunded."
_DEEP: Final = 5_000


def _own(scene: Scene, *, receipt: bool) -> bytes:
    """Sign as somebody else, who says so; what the issuer's node signed is left away."""
    body = scene.body
    body["issuer"]["node_id"] = None
    envelope = scene.by("own_named_key", body)
    envelope.pop("node_signature", None)
    if not receipt:
        envelope.pop("receipt", None)
    elif "receipt" not in envelope:
        raise Unsuited
    return written(envelope)


def _under_old_receipt(scene: Scene) -> bytes:
    return _own(scene, receipt=True)


def _without_receipt(scene: Scene) -> bytes:
    return _own(scene, receipt=False)


def _signature(scene: Scene) -> bytes:
    return b64decode(scene.envelope["signature"])


def _with_signature(scene: Scene, signature: str, text: str | None = None) -> bytes:
    body = scene.body
    if text is not None:
        body["answer"]["text"] = text
    return written({**scene.envelope, "certificate": body, "signature": signature})


def _plus_order(scene: Scene) -> bytes:
    """Take S + L for S, which fits the equation as well."""
    signature = _signature(scene)
    scalar = int.from_bytes(signature[32:], "little") + GROUP_ORDER
    return _with_signature(scene, b64encode(signature[:32] + scalar.to_bytes(32, "little")).decode())


def _weak(scene: Scene) -> bytes:
    return _with_signature(scene, b64encode(_IDENTITY + bytes(32)).decode())


def _weak_over_lie(scene: Scene) -> bytes:
    return _with_signature(scene, b64encode(_IDENTITY + bytes(32)).decode(), _LIE)


def _junk_in_signature(scene: Scene) -> bytes:
    said = scene.envelope["signature"]
    return _with_signature(scene, f"{said[:9]}!*\n {said[9:]}")


def _padded_signature(scene: Scene) -> bytes:
    return _with_signature(scene, scene.envelope["signature"] + "====")


def _other_last_bits(scene: Scene) -> bytes:
    """Spell the signature another way, with bits in its base64 that nobody reads."""
    said = scene.envelope["signature"]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return _with_signature(scene, said[:-3] + alphabet[alphabet.index(said[-3]) ^ 1] + "==")


def _short_signature(scene: Scene) -> bytes:
    return _with_signature(scene, b64encode(_signature(scene)[:-1]).decode())


_KEYS: Final = (
    Attack("1a", "signed by a key of the attacker's, which the certificate does not name", "own_key",
           put("own_key", (("generator", "name"), "another")), "refuted", "signature"),
    Attack("1b", "signed by a key of the attacker's, which it names, under the old receipt", "own_named_key", _under_old_receipt, "refuted", "inclusion"),
    Attack("1c", "signed by a key of the attacker's, which it names, without a receipt", "own_named_key", _without_receipt, "unknown", "untrusted_issuer"),
    Attack("2a", "the signature that fits all messages under a key of small order", "no_key", _weak, "refuted", "signature"),
    Attack("2b", "the same, over another answer", "no_key", _weak_over_lie, "refuted", "signature"),
    Attack("36", "junk inside the base64 of the signature", "no_key", _junk_in_signature, "refuted", "schema"),
    Attack("37", "more padding behind it", "no_key", _padded_signature, "refuted", "schema"),
    Attack("37b", "other bits in its last digit", "no_key", _other_last_bits, "refuted", "schema"),
    Attack("38", "S + L in place of S", "no_key", _plus_order, "refuted", "signature"),
    Attack("39", "a word in place of the signature", "no_key", beside(("signature",), "unsigned"), "refuted", "schema"),
    Attack("39b", "an empty signature", "no_key", beside(("signature",), ""), "refuted", "schema"),
    Attack("39c", "a byte of the signature lacks", "no_key", _short_signature, "refuted", "schema"),
    Attack("39d", "no signature", "no_key", beside(("signature",), GONE), "refuted", "schema"),
    Attack("27", "the certificate is shown for another question", "no_key", as_it_is, "refuted", "query", "another"),
    Attack("59", "a document has another id", "no_key", put("no_key", (("retrieval", "items", 0, "doc_id"), "another")), "refuted", "signature"))


def _deep(levels: int) -> str:
    return f'"limit":{"[" * levels}{"]" * levels},"other":'


def _nested(levels: int) -> bytes:
    return b'{"certificate":{"schema":"rag-stdlib/answer-certificate/v1","x":%s}}' % (b"[" * levels + b"]" * levels)


_TEXT: Final = (
    Attack("33", "another answer beside the body", "no_key", beside(("answer_text",), _LIE), "refuted", "schema"),
    Attack("34", "a text twice, the lie first", "no_key", replaced('"text":', f'"text":"{_LIE}","text":'), "refuted", "malformed_json"),
    Attack("34b", "a text twice, once with its name in escapes", "no_key", replaced('"text":', f'"te\\u0078t":"{_LIE}","text":'), "refuted", "malformed_json"),
    Attack("35", "the body twice, the lie first", "no_key", replaced('"certificate":', '"certificate":{},"certificate":'), "refuted", "malformed_json"),
    Attack("43", "the body is a list", "no_key", beside(("certificate",), []), "refuted", "schema"),
    Attack("44", "the body is a text", "no_key", beside(("certificate",), "x"), "refuted", "schema"),
    Attack("44b", "no body", "no_key", beside(("certificate",), GONE), "refuted", "schema"),
    Attack("44c", "a list around the envelope", "no_key", spelt(lambda data: b"[" + data + b"]"), "refuted", "schema"),
    Attack("44d", "null", "no_key", spelt(lambda _: b"null"), "refuted", "schema"),
    Attack("46", "a number that JSON has not", "no_key", replaced('"limit":', '"limit":NaN,"other":'), "refuted", "malformed_json"),
    Attack("46b", "infinity", "no_key", replaced('"limit":', '"limit":-Infinity,"other":'), "refuted", "malformed_json"),
    Attack("47", "half a surrogate pair in a text", "no_key", replaced('"text":"', '"text":"\\ud800'), "refuted", "malformed_json"),
    Attack("48a", "half a surrogate pair in the issuer's name", "no_key", replaced('"issuer":{"name":"', '"issuer":{"name":"\\udfff'), "refuted", "malformed_json"),
    Attack("48b", "half a surrogate pair in a member's name", "no_key", replaced('"certificate":', '"\\udfff":1,"certificate":'), "refuted", "malformed_json"),
    Attack("48c", "half a surrogate pair in bytes", "no_key", spelt(lambda data: data.replace(b'"text":"', b'"text":"\xed\xa0\x80', 1)), "refuted", "malformed_json"),
    Attack("49c", "a fraction", "no_key", replaced('"limit":', '"limit":1e-5,"other":'), "refuted", "schema"),
    Attack("51", "an integer that not every reader holds", "no_key", replaced('"limit":', '"limit":9007199254740993,"other":'), "refuted", "malformed_json"),
    Attack("52", "the one that some readers take for it", "no_key", replaced('"limit":', '"limit":9007199254740992,"other":'), "refuted", "malformed_json"),
    Attack("52b", "minus zero", "no_key", replaced('"limit":', '"limit":-0,"other":'), "refuted", "malformed_json"),
    Attack("52c", "a whole number with a fraction", "no_key", replaced('"limit":', '"limit":1.0,"other":'), "refuted", "schema"),
    Attack("53a", "5,000 levels", "no_key", replaced('"limit":', _deep(_DEEP)), "refuted", "malformed_json"),
    Attack("53b", "33 levels", "no_key", spelt(lambda _: _nested(31)), "refuted", "malformed_json"),
    Attack("53c", "32 levels", "no_key", spelt(lambda _: _nested(30)), "refuted", "schema"),
    Attack("70", "an empty file", "no_key", spelt(lambda _: b""), "refuted", "malformed_json"),
    Attack("71", "a file that ends too early", "no_key", spelt(lambda data: data[:-1]), "refuted", "malformed_json"),
    Attack("72", "more behind the envelope", "no_key", spelt(lambda data: data + b"{}"), "refuted", "malformed_json"),
    Attack("73", "a byte order mark", "no_key", spelt(lambda data: b"\xef\xbb\xbf" + data), "refuted", "malformed_json"),
    Attack("74", "UTF-16", "no_key", spelt(lambda data: data.decode().encode("utf-16")), "refuted", "malformed_json"),
    Attack("75", "a byte that is no UTF-8", "no_key", spelt(lambda data: data.replace(b'"text":"', b'"text":"\xff', 1)), "refuted", "malformed_json"),
    Attack("76", "a comment", "no_key", spelt(lambda data: b"/* */" + data), "refuted", "malformed_json"),
    Attack("77", "more white space than a file may have", "no_key", spelt(lambda data: data + b" " * (MAX_BYTES + 1 - len(data))), "refuted", "too_large"))


def _node(scene: Scene) -> dict[str, Json]:
    if "node_signature" not in scene.envelope:
        raise Unsuited
    return dict(scene.envelope["node_signature"])


def _without_node(scene: Scene) -> bytes:
    _node(scene)
    return written({name: value for name, value in scene.envelope.items() if name != "node_signature"})


def _uncalled_node(scene: Scene) -> bytes:
    if "node_signature" in scene.envelope:
        raise Unsuited
    return written({**scene.envelope, "node_signature": {"profile": "pq_pure", "key": "", "signature": ""}})


def _other_profile(scene: Scene) -> bytes:
    node = _node(scene)
    profile = "pq_hybrid" if node["profile"] == "pq_pure" else "pq_pure"
    return written({**scene.envelope, "node_signature": {**node, "profile": profile}})


def _other_signature_of_node(scene: Scene) -> bytes:
    node = _node(scene)
    if scene.other is None or "node_signature" not in scene.other:
        raise Unsuited
    return written({**scene.envelope, "node_signature": {**node, "signature": scene.other["node_signature"]["signature"]}})


def _longer_signature_of_node(scene: Scene) -> bytes:
    node = _node(scene)
    return written({**scene.envelope, "node_signature": {**node, "signature": b64encode(b64decode(node["signature"]) + bytes(1)).decode()}})


def _other_key_of_node(scene: Scene) -> bytes:
    node = _node(scene)
    key = b64decode(node["key"])
    return written({**scene.envelope, "node_signature": {**node, "key": b64encode(key[:-1] + bytes([key[-1] ^ 1])).decode()}})


_NODES: Final = (
    Attack("N1", "the node's signature is taken away", "no_key", _without_node, "refuted", "node_signature"),
    Attack("N2", "a node's signature is added where none is named", "no_key", _uncalled_node, "refuted", "node_signature"),
    Attack("N3", "the node's key has another bit", "no_key", _other_key_of_node, "refuted", "node_signature"),
    Attack("N4", "the node's key is said to be of another profile", "no_key", _other_profile, "refuted", "node_signature"),
    Attack("N5", "the node's signature of another certificate", "no_key", _other_signature_of_node, "refuted", "node_signature"),
    Attack("N6", "a byte more in the node's signature", "no_key", _longer_signature_of_node, "refuted", "node_signature"))

_HARMLESS: Final = (
    Attack("H1", "the same certificate with white space", "no_key", lambda scene: json.dumps(scene.envelope, indent=1).encode(), "verified"),
    Attack("H2", "the same with its members in another order", "no_key", lambda scene: json.dumps(_reversed(scene.envelope)).encode(), "verified"),
    Attack("H3", "the same without escapes", "no_key", lambda scene: json.dumps(scene.envelope, ensure_ascii=False).encode(), "verified"))


def _reversed(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _reversed(value[name]) for name in reversed(value)}
    return [_reversed(each) for each in value] if isinstance(value, list) else value


FORGERIES: Final[tuple[Attack, ...]] = (*_KEYS, *_TEXT, *_NODES, *_HARMLESS)
