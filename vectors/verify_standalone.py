"""Verify an answer certificate, version 1: a second verifier, written from docs/certificate.md alone, for whoever writes a third."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from base64 import b64decode, b64encode
from datetime import datetime, timezone
from itertools import accumulate
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA384

SCHEMA, MAX_BYTES, MAX_LEVELS, MAX_COUNT, MAX_NUMBER, MAX_NAME = "rag-stdlib/answer-certificate/v1", 2**24, 32, 2**53 - 1, 2**63 - 1, 255
MAX_RECEIPT, MAX_CHECKPOINT, MAX_EXTRA, NOTE, COSIGNED, COSIGNED_MLDSA44 = 655_360, 524_288, 65_536, 1, 4, 6  # bytes; the type bytes of verifier keys
SCHEMES: dict[object, Any] = {1: ed25519.Ed25519PublicKey, 4: ed25519.Ed25519PublicKey, 6: mldsa.MLDSA44PublicKey, "pq_pure": mldsa.MLDSA87PublicKey}
WHITE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # the document's white space, for a class of a regular expression
WORDS, LINE, NAME, NUMBER, SIX = re.compile(f"[^{WHITE}]+").findall, r"[^\x00-\x1f]+", rf"[^+\x00-\x1f{WHITE}]+", "0|[1-9][0-9]{0,18}", "[A-Za-z0-9+/]"
HASH, BASE64 = f"{SIX}{{42}}[AEIMQUYcgkosw048]=", f"(?:{SIX}{{4}})*(?:{SIX}{{2}}[AEIMQUYcgkosw048]=|{SIX}[AQgw]==)?"
RECEIPT = re.compile(  # in a signature line at least one byte follows the four of the key id
    rf"c2sp\.org/tlog-proof@v1\n(?:extra (?P<extra>(?=.){BASE64})\n)?index (?P<index>{NUMBER})\n(?P<path>(?:{HASH}\n){{0,63}})\n"
    rf"(?P<text>(?P<origin>{LINE})\n(?P<size>{NUMBER})\n(?P<root>{HASH})\n)\n(?P<lines>(?:— {NAME} (?={SIX}{{7}}){BASE64}\n){{1,64}})")
# Forms for check 5. A member's name begins with ~ where it is there only sometimes; behind the name of a form, * is a list (of so many at most), ? or null.
SIMPLE: dict[str, Any] = {  # a pattern, or a function that says whether a value has the form
    "id": "[0-9a-f]{64}", "commit": "[0-9a-f]{40}", "share": r"0\.[0-9]{6}|1\.000000", "score": r"(?!-0\.0{9})-?(0|[1-9][0-9]{0,8})\.[0-9]{9}", "public": HASH,
    "text": "(?s:.{0,1000000})", "name": "(?s:.{1,200})", "short": "(?s:.{0,200})", "word": "(?s:.{1,100})", "path": "(?s:.{0,4096})", "long": "(?s:.{1,4096})",
    "nonce": "[A-Za-z0-9_-]{16,128}", "label": "quoted|entailed|contradicted|not_supported", "signature": f"{SIX}{{85}}[AQgw]==",
    "int": lambda v: type(v) is int and 0 <= v <= MAX_COUNT, "dim": lambda v: type(v) is int and v > 0, "most": lambda v: v in range(1, 1001) and v is not True,
    "bool": lambda v: type(v) is bool, "time": lambda v: _seconds(v) >= 0, "bytes": lambda v: b64encode(b64decode(v, validate=True)) == v.encode()}
OBJECTS = {name: dict(member.split(":") for member in members) for name, *members in map(str.split, re.findall("[^;]+", """
  envelope certificate:body signature:signature ~node_signature:node ~receipt:text; node profile:pq_pure|pq_hybrid key:bytes signature:bytes;
  body schema:name issuer:issuer issued_at:time expires_at:time query:query retrieval:retrieval answer:answer claims:claim*1000 generator:generator
    judge:judge methods:methods policy:rules not_proven:text*100; issuer name:name key_id:id node_id:id?; query nonce:nonce salt:id commitment:id key:id;
  retrieval mode:vector|lexical|hybrid limit:most embedder:embedder? corpus_hash:id? merged_by:word? indexes:index*10000 failed:shard*10000
    not_asked:shard*10000 state:id items:item*1000; embedder model:name dim:dim; index node_id:id? shard_id:short? content:id?; shard node_id:id reason:word;
  item chunk_id:long doc_id:long source:path index:int start:int end:int text:text content_sha256:id provenance:provenance? score:score;
  provenance kind:corpus|deposit path:path repo_id:short? commit:commit? start_line:int? end_line:int?; answer text:text sha256:id abstained:bool;
  claim start:int end:int text:text sha256:id spans:span*16 judgement:judgement decision:decision; generator name:name model:short? digest:id;
  span item:int start:int end:int text:text sha256:id alignment:share; judgement label:label confidence:share inputs_sha256:id;
  decision shown:bool reason:no_span|contradicted|not_supported|label_not_allowed|low_confidence?; judge name:name version:name digest:id;
  methods decomposition:rules|model|whole alignment:lexical|embedder|none; rules labels:label*4 minimum_confidence:share sha256:id;
  trust issuers:trusted* ~logs:log* ~witnesses:text* ~quorum:int; trusted name:name public_key:public ~node_id:id ~not_before:time ~not_after:time;
  log origin:long keys:text*; acceptance require_log:bool require_query:bool require_nonce:bool max_age_s:int? skew_s:int labels:label*4
    minimum_confidence:share judges:id*? generators:id*?"""))}
DEFAULTS = {"require_log": True, "require_query": True, "require_nonce": False, "max_age_s": None, "skew_s": 60, "labels": ["entailed", "quoted"],
            "minimum_confidence": "0.000000", "judges": None, "generators": None}
NOT_PROVEN = "answer_is_complete answer_is_true documents_are_true evidence_is_complete issuer_is_honest_about_retrieval judge_is_right model_ran_as_named"

def _sha256(*parts: bytes) -> str:  # of a label and bytes with 00 between them, or of bytes alone
    return hashlib.sha256(b"\0".join(parts)).hexdigest()

def _jcs(value: object) -> bytes:  # RFC 8785: no fractions here, json escapes no more than it has to, and names in ASCII sort as UTF-16 code units do
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()

def _seconds(time: str) -> int:
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", time) or time < "1970":
        raise ValueError("a time is written YYYY-MM-DDThh:mm:ssZ")
    return int(datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp())

def _parse(data: bytes) -> Any:  # noqa: ANN401 - JSON as check 2 wants it, or ValueError: what must not be becomes NaN, which json.dumps refuses
    text, wrong = data.decode(), float("nan")
    signs = re.findall(r"[\[\]{}]", "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2]))  # outside of strings
    value = wrong if max(accumulate(1 if sign in "[{" else -1 for sign in signs), default=0) > MAX_LEVELS else json.loads(
        text, parse_float=float, object_pairs_hook=lambda pairs: dict(pairs) if len(dict(pairs)) == len(pairs) else wrong,
        parse_int=lambda digits: wrong if digits == "-0" or digits[17:] or abs(int(digits)) > MAX_COUNT else int(digits))
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # a lone surrogate has no UTF-8
    return value

def _fits(value: object, form: str) -> bool:
    kind, listed, most = form.rstrip("?").partition("*")
    if value is None or listed:
        return form[-1] == "?" if value is None else isinstance(value, list) and len(value) <= int(most or MAX_BYTES) and all(_fits(one, kind) for one in value)
    if kind in OBJECTS:
        forms = {name.strip("~"): inner for name, inner in OBJECTS[kind].items()}
        return isinstance(value, dict) and forms.keys() & OBJECTS[kind].keys() <= value.keys() <= forms.keys() and all(_fits(value[n], forms[n]) for n in value)
    try:
        return bool(re.fullmatch(simple, value) if isinstance(simple := SIMPLE.get(kind, kind), str) else simple(value))
    except (TypeError, ValueError):
        return False

def _good_point(encoded: bytes) -> bool:  # in canonical form, on the curve (x² is a square), and not one of the eight points of small order
    p = 2**255 - 19
    d, y = -121665 * pow(121666, -1, p), int.from_bytes(encoded, "little") % 2**255  # the bit above is the sign of x
    return y < p and pow((y * y - 1) * pow(d * y * y + 1, -1, p), (p - 1) // 2, p) == 1 and y * (d * y**4 + 2 * y * y - 1) % p != 0

def _signed(kind: object, key: bytes, signature: bytes, message: bytes) -> bool:  # kind: the type byte of a verifier key, or the profile of a node
    try:
        if kind in SCHEMES:
            SCHEMES[kind].from_public_bytes(key).verify(signature, message)
            return kind not in {NOTE, COSIGNED} or _good_point(signature[:32])  # R
        label, modulus, pss = b"COMPSIG-MLDSA87-RSA4096-PSS-SHA512", key[2601:3113], padding.PSS(padding.MGF1(SHA384()), 48)
        message = b"CompositeAlgorithmSignatures2025" + label + b"\0" + hashlib.sha512(message).digest()
        mldsa.MLDSA87PublicKey.from_public_bytes(key[:2592]).verify(signature[:4627], message, label)
        rsa.RSAPublicNumbers(65537, int.from_bytes(modulus, "big")).public_key().verify(signature[4627:], message, pss, SHA384())
        return modulus > b"\x80" and (key[2592:2601].hex(), key[3113:].hex()) == ("3082020a0282020100", "0203010001")  # the DER of 4,096 bits and 65537
    except (InvalidSignature, ValueError):
        return False

def _key(text: str, lengths: dict[int, int]) -> tuple[tuple[str, bytes], int, bytes]:  # of a verifier key: name and id, type byte, public key
    match = re.fullmatch(rf"({NAME})\+([0-9a-f]{{8}})\+({BASE64})", text)
    if not match or _sha256(f"{match[1]}\n".encode() + (data := b64decode(match[3])))[:8] != match[2] or lengths.get(data[0]) != len(data) - 1:
        raise ValueError(f"no verifier key that can be used here: {text}")
    return (match[1], bytes.fromhex(match[2])), data[0], data[1:]

def _read_trust(trust: dict[str, Any]) -> dict[str, Any]:
    if not _fits(trust, "trust"):
        raise ValueError("trust has not its form")
    issuers = [(b64decode(issuer["public_key"]), issuer) for issuer in trust["issuers"]]
    logs = [(log["origin"], [_key(text, {NOTE: 32}) for text in log["keys"]]) for log in trust.get("logs", [])]
    witnesses, quorum = [_key(text, {COSIGNED: 32, COSIGNED_MLDSA44: 1312}) for text in trust.get("witnesses", [])], trust.get("quorum", 0)
    log_keys, names = [key for _, some in logs for key in some], {name for (name, _), _, _ in witnesses}
    keys = [*((NOTE, key) for key, _ in issuers), *((kind, key) for _, kind, key in [*log_keys, *witnesses])]
    if not issuers or not all(dict(logs).values()) or not all(kind == COSIGNED_MLDSA44 or _good_point(key) for kind, key in keys) or quorum > len(names) or (
            len({key for _, key in keys}) < len(keys) or len(dict(logs)) < len(logs) or names & (log_names := {name for (name, _), _, _ in log_keys})) or any(
            not re.fullmatch(LINE, each) or len(each.encode()) > MAX_NAME for each in [*names, *log_names, *dict(logs)]):
        raise ValueError("no issuer, a log without keys, a bad point of Ed25519, too large a quorum, a key, name or origin twice, or one that cannot be used")
    return {"issuers": {_sha256(b"rag-stdlib/issuer-key/v1", k): (k, one) for k, one in issuers}, "logs": dict(logs), "witnesses": witnesses, "quorum": quorum}

def _root(entry: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:  # RFC 6962 §2.1.1; None where the tree demands a path of another length
    node, fork = hashlib.sha256(b"\0" + entry).digest(), (index ^ (size - 1)).bit_length()  # from the level of the fork on, siblings are at the left only
    for level, sibling in enumerate(path):
        node = hashlib.sha256(b"\1" + (sibling + node if level >= fork or index >> level & 1 else node + sibling)).digest()
    return node if index < size and len(path) == fork + (index >> fork).bit_count() else None

def _noted(key: tuple[tuple[str, bytes], int, bytes], blob: bytes, note: re.Match[str]) -> bool:  # whether a known key's line in the checkpoint holds
    ((name, _), kind, public), time, size = key, blob[:8], int(note["size"])
    prefixed = [bytes([len(each)]) + each for each in (name.encode(), note["origin"].encode())]
    message = {NOTE: note["text"].encode(), COSIGNED: f"cosignature/v1\ntime {int.from_bytes(time, 'big')}\n{note['text']}".encode(), COSIGNED_MLDSA44:
               b"subtree/v1\n\0" + prefixed[0] + time + prefixed[1] + bytes(8) + size.to_bytes(8, "big") + b64decode(note["root"])}[kind]
    return _signed(kind, public, blob, message) if kind == NOTE else time < b"\x80" and _signed(kind, public, blob[8:], message)

def _log(text: str, entry: bytes, trust: dict[str, Any]) -> dict[str, bool]:
    note = RECEIPT.fullmatch(text)
    lines = [(name, b64decode(blob)) for _, name, blob in (line.split(" ") for line in note["lines"].split("\n")[:-1])] if note else []
    if note is None or max(int(note["index"]), int(note["size"])) > MAX_NUMBER or len(b64decode(note["extra"] or "")) > MAX_EXTRA or any(
            len(part.encode()) > most for most, part in [(MAX_RECEIPT, text), (MAX_CHECKPOINT, text[note.start("text"):]), *(
                (MAX_NAME, name) for name in [note["origin"], *dict(lines)])]):
        return {"receipt": True}  # 29
    known, cosigned = ([(key, blob[4:]) for key in keys for name, blob in lines if key[0] == (name, blob[:4])]
                       for keys in (trust["logs"].get(note["origin"], []), trust["witnesses"]))
    return {"?untrusted_log": True} if not known else {  # 30
        "checkpoint_signature": not all(_noted(key, blob, note) for key, blob in known),  # 31
        "cosignature": not all(_noted(key, blob, note) for key, blob in cosigned),  # 32
        "inclusion": _root(entry, int(note["index"]), int(note["size"]), list(map(b64decode, note["path"].split()))) != b64decode(note["root"]),  # 33
        "?witness_quorum": len({name for ((name, _), _, _), _ in cosigned}) < trust["quorum"]}  # 34

def _at_place(part: dict[str, Any], whole: str) -> bool:  # and not empty
    return 0 < len(part["text"]) == part["end"] - part["start"] and whole[part["start"]:part["end"]] == str(part["text"])

def _reason(claim: dict[str, Any], policy: dict[str, Any]) -> str | None:  # why the claim is not shown
    label, low = str(claim["judgement"]["label"]), claim["judgement"]["confidence"] < policy["minimum_confidence"]
    return ("no_span" if not claim["spans"] else label if label in {"contradicted", "not_supported"} else
            "label_not_allowed" if label not in policy["labels"] else "low_confidence" if low else None)

def _content(body: dict[str, Any]) -> dict[str, bool]:
    found, claims, answer, policy = body["retrieval"], body["claims"], body["answer"], body["policy"]
    items, text, spans = found["items"], answer["text"], [span for claim in claims for span in claim["spans"]]
    quotations = [[" ".join(WORDS(part["text"])) for part in [claim, *claim["spans"]]] for claim in claims if claim["judgement"]["label"] == "quoted"]
    starts, ends = [*(claim["start"] for claim in claims), len(text)], [0, *(claim["end"] for claim in claims)]
    return {
        "hash": any(digest != _sha256(*data) for digest, *data in [  # 12
            (found["state"], b"rag-stdlib/index-state/v1", _jcs({name: found[name] for name in ("corpus_hash", "embedder", "indexes")})),
            (policy["sha256"], b"rag-stdlib/issuer-policy/v1", _jcs({name: policy[name] for name in ("labels", "minimum_confidence")})),
            *((part.get("content_sha256", part.get("sha256")), part["text"].encode()) for part in [answer, *items, *claims, *spans]),
            *((claim["judgement"]["inputs_sha256"], b"rag-stdlib/judge-inputs/v1", _jcs({
                "claim": claim["text"], "judge": body["judge"]["digest"], "spans": [span["text"] for span in claim["spans"]]})) for claim in claims)]),
        "retrieval": (found["embedder"] is None) != (found["mode"] == "lexical") or len(items) > found["limit"] or any(  # 13
            item["index"] >= len(found["indexes"]) or item["end"] - item["start"] != len(item["text"]) for item in items) or (
            len({(item["index"], item["chunk_id"]) for item in items}) < len(items)) or (found["merged_by"] in {None, "score", "statistics"} and (
            scores := [int(item["score"].replace(".", "")) for item in items]) != sorted(scores, reverse=True)),
        "claim": not all(map(int.__le__, ends, starts[:-1])) or not all(_at_place(claim, text) for claim in claims),  # 14
        "no_claims": (text != "" and not claims) or answer["abstained"] != (text == ""),  # 15
        "uncovered": not re.fullmatch(f"[{WHITE}*•#>-]*", "".join(text[end:start] for end, start in zip(ends, starts, strict=True))),  # 16
        "span": any(span["item"] >= len(items) or not _at_place(span, items[span["item"]]["text"]) for span in spans),  # 17
        "quotation": any(not claim or all(claim not in span for span in cited) for claim, *cited in quotations),  # 18
        "decision": any(claim["decision"] != {"shown": _reason(claim, policy) is None, "reason": _reason(claim, policy)} for claim in claims),  # 19
        "not_proven": body["not_proven"] != NOT_PROVEN.split()}  # 20

def _checks(data: bytes, trust: dict[str, Any], policy: dict[str, Any], query: str | None, nonce: str | None, now: int) -> dict[str, bool]:
    try:
        envelope = _parse(data)
    except ValueError:
        return {"malformed_json": True}  # 2
    body = envelope.get("certificate") if isinstance(envelope, dict) else None
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        return {"?unsupported_schema": True} if isinstance(body, dict) else {"schema": True}  # 3, 4
    if not _fits(envelope, "envelope") or not (labels := body["policy"]["labels"]) or labels != sorted(set(labels)):
        return {"schema": True}  # 5
    issued, signed, asked, name, node_id = _seconds(body["issued_at"]), _jcs(body), body["query"], body["issuer"]["name"], body["issuer"]["node_id"]
    (key, issuer), state = trust["issuers"].get(body["issuer"]["key_id"], (None, {})), body["retrieval"]["state"]
    node, node_label = envelope.get("node_signature"), b"rag-stdlib/answer-certificate/node/v1"
    entry = {"schema": "rag-stdlib/log-entry/v1", "answer_sha256": body["answer"]["sha256"], "body_sha256": _sha256(signed), "query_key": asked["key"],
             "index_state": state, "issued_at": body["issued_at"], "issuer_key_id": body["issuer"]["key_id"], "signature": envelope["signature"]}
    return {  # in the order of the table, ? before what leaves the outcome unknown
        "time": issued >= _seconds(body["expires_at"]),  # 6
        "?untrusted_issuer": key is None,  # 7
        "issuer": key is not None and (name != issuer["name"] or issuer.get("node_id") not in {None, node_id}),  # 8
        "key_not_valid": not (issuer.get("not_before") or "") <= body["issued_at"] < (issuer.get("not_after") or "~"),  # 9
        "signature": key is not None and not _signed(NOTE, key, b64decode(envelope["signature"]), SCHEMA.encode() + b"\0" + signed),  # 10
        "node_signature": (node is None) != (node_id is None) or (node is not None and (  # 11
            node_id != _sha256(b"MACULA-NODE-ID-V1", bytes([len(node["profile"])]) + node["profile"].encode() + b64decode(node["key"]))
            or not _signed(node["profile"], b64decode(node["key"]), b64decode(node["signature"]), node_label + b"\0" + signed))),
        **_content(body),
        "not_yet_valid": issued > now + policy["skew_s"],  # 21
        "expired": now >= _seconds(body["expires_at"]),  # 22
        "too_old": policy["max_age_s"] is not None and now - issued > policy["max_age_s"],  # 23
        "query": query is not None and (asked["commitment"], asked["key"]) != (  # 24
            _sha256(b"rag-stdlib/query-commitment/v1", _jcs({"nonce": asked["nonce"], "query": query, "salt": asked["salt"]})),
            _sha256(b"rag-stdlib/query-key/v1", _jcs({"query": query, "state": state}))),
        "?query_not_given": query is None and policy["require_query"],  # 25
        "nonce": nonce not in {None, asked["nonce"]},  # 26
        "?nonce_not_given": nonce is None and policy["require_nonce"],  # 27
        **(_log(envelope["receipt"], _jcs(entry), trust) if "receipt" in envelope else {"?no_receipt": policy["require_log"]}),  # 28
        "?judge_not_accepted": policy["judges"] is not None and body["judge"]["digest"] not in policy["judges"],  # 35
        "?generator_not_accepted": policy["generators"] is not None and body["generator"]["digest"] not in policy["generators"]}  # 36

def verify(data: bytes, trust: dict[str, Any], policy: dict[str, Any], query: str | None, nonce: str | None, now: str) -> tuple[str, str]:
    """Give the outcome and its code. ValueError: the trust, the policy, the question (a lone surrogate) or the time cannot be used."""
    if not isinstance(policy, dict) or not _fits({**DEFAULTS, **policy}, "acceptance") or policy.get("labels") == []:
        raise ValueError("policy has not its form")
    trusted, rules, at = _read_trust(trust), {**DEFAULTS, **policy}, _seconds(now)
    checks = {"too_large": True} if len(data) > MAX_BYTES else _checks(data, trusted, rules, query, nonce, at)  # 1
    first = min((code for code, applies in checks.items() if applies), key=lambda code: code[0] == "?", default="")  # the refuted before the unknown
    return ("verified", "") if not first else ("unknown", first[1:]) if first[0] == "?" else ("refuted", first)

def _main() -> int:
    parser = argparse.ArgumentParser(description="Verify an answer certificate.", epilog="Exit status: 0 verified, 1 refuted, 3 unknown, 2 usage.")
    for name in ("certificate", "--trust", "--now", "--policy", "--query", "--nonce"):
        parser.add_argument(name, **({"required": True} if name in {"--trust", "--now"} else {}))
    parser.add_argument("--json", action="store_true")
    given, charset = parser.parse_args(), sys.stdout.encoding or "ascii"
    try:
        data, trust, policy = (Path(name).read_bytes() if name else b"{}" for name in (given.certificate, given.trust, given.policy))
        outcome, code = verify(data, _parse(trust), _parse(policy), given.query, given.nonce, given.now)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    claims, rules = _parse(data)["certificate"]["claims"] if outcome == "verified" else [], {**DEFAULTS, **_parse(policy)}
    shown = [claim["text"] for claim in claims if claim["decision"]["shown"] and _reason(claim, rules) is None]
    lines = [json.dumps({"outcome": outcome, "code": code, "claims": shown})] if given.json else [f"{outcome} {code}".strip(), *shown]
    sys.stdout.writelines("".join(c if c.isprintable() and c.encode(charset, "ignore") else f"\\u{ord(c):04x}" for c in line) + "\n" for line in lines)
    return {"verified": 0, "refuted": 1, "unknown": 3}[outcome]

if __name__ == "__main__":
    sys.exit(_main())
