"""Verify an answer certificate, version 1: a second verifier, written from docs/certificate.md alone, for whoever writes a third."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import datetime, timezone
from itertools import accumulate
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA384

SCHEMA, MAX_BYTES, MAX_LEVELS, MAX_COUNT, MAX_NUMBER, MAX_LIFETIME = "rag-stdlib/answer-certificate/v1", 2**24, 32, 2**53 - 1, 2**63 - 1, 366 * 86_400
MAX_RECEIPT, MAX_CHECKPOINT, MAX_EXTRA, MAX_NAME, NOTE, COSIGNED, COSIGNED_MLDSA44 = 655_360, 524_288, 65_536, 255, 1, 4, 6  # bytes; the type bytes of verifier keys
SCHEMES: dict[object, Any] = {1: ed25519.Ed25519PublicKey, 4: ed25519.Ed25519PublicKey, 6: mldsa.MLDSA44PublicKey, "pq_pure": mldsa.MLDSA87PublicKey}
WHITE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # the document's white space, for a class of a regular expression
WORDS, LINE, NAME, NUMBER, SIX = re.compile(f"[^{WHITE}]+").findall, r"[^\x00-\x1f]+", rf"[^+\x00-\x1f{WHITE}]+", "0|[1-9][0-9]{0,18}", "[A-Za-z0-9+/]"
HASH, BASE64 = f"{SIX}{{42}}[AEIMQUYcgkosw048]=", f"(?:{SIX}{{4}})*(?:{SIX}{{2}}[AEIMQUYcgkosw048]=|{SIX}[AQgw]==)?"
RECEIPT = re.compile(  # in a signature line at least one byte follows the four of the key id
    rf"c2sp\.org/tlog-proof@v1\n(?:extra (?P<extra>(?=.){BASE64})\n)?index (?P<index>{NUMBER})\n(?P<path>(?:{HASH}\n){{0,63}})\n"
    rf"(?P<text>(?P<origin>{LINE})\n(?P<size>{NUMBER})\n(?P<root>{HASH})\n)\n(?P<lines>(?:— {NAME} (?={SIX}{{7}}){BASE64}\n){{1,64}})")
SIMPLE: dict[str, Any] = {  # forms for check 5: patterns and functions; behind a form, * is a list (of so many at most), + one that is not empty, ? or null
    "id": "[0-9a-f]{64}", "commit": "[0-9a-f]{40}", "share": r"0\.[0-9]{6}|1\.000000", "score": r"(?!-0\.0{9})-?(0|[1-9][0-9]{0,8})\.[0-9]{9}",
    "text": ".{0,1000000}", "name": ".{1,200}", "short": ".{0,200}", "word": ".{1,100}", "path": ".{0,4096}", "long": ".{1,4096}", "nonce": "[A-Za-z0-9_-]{16,128}",
    "label": "quoted|entailed|contradicted|not_supported", "signature": f"{SIX}{{85}}[AQgw]==", "bytes": lambda v: b64encode(b64decode(v, validate=True)) == v.encode(),
    "public": lambda v: re.fullmatch(HASH, v) and _good_point(b64decode(v)), "origin": lambda v: re.fullmatch(LINE, v) and len(v.encode()) <= MAX_NAME,
    "int": lambda v: type(v) is int and 0 <= v <= MAX_COUNT, "dim": lambda v: type(v) is int and v > 0, "most": lambda v: type(v) is int and v in range(1, 1001),
    "bool": lambda v: type(v) is bool, "time": lambda v: _seconds(v) >= 0}
OBJECTS = {name: {member.split(":")[0]: member.split(":")[-1] for member in members} for name, *members in map(str.split, re.findall("[^;]+", """
  envelope certificate:body signature ~node_signature:node ~receipt:text; node profile:pq_pure|pq_hybrid key:bytes signature:bytes; judge name version:name digest:id;
  body schema:name issuer issued_at:time expires_at:time query retrieval answer claims:claim*1000 generator judge methods policy:rules not_proven:text*100;
  issuer name key_id:id node_id:id?; query nonce salt:id commitment:id key:id; generator name model:short? digest:id; embedder model:name dim; log origin keys:text+;
  retrieval mode:vector|lexical|hybrid limit:most embedder:embedder? corpus_hash:id? merged_by:word? indexes:index*10000 failed:shard*10000 not_asked:shard*10000
    topics:name*100 state:id items:item*1000; index node_id:id? shard_id:short? content:id?; rules labels:label+4 minimum_confidence:share sha256:id;
  item chunk_id:long doc_id:long source:path index:int start:int end:int text content_sha256:id provenance:provenance? score; answer text sha256:id abstained:bool;
  provenance kind:corpus|deposit path repo_id:short? commit:commit? start_line:int? end_line:int?; span item:int start:int end:int text sha256:id alignment:share;
  shard node_id:id reason:word; claim start:int end:int text sha256:id spans:span*16 judgement decision; methods decomposition:rules|model|whole alignment:lexical|embedder|none;
  judgement label confidence:share inputs_sha256:id; decision shown:bool reason:no_span|contradicted|not_supported|label_not_allowed|low_confidence?;
  trust issuers:trusted+ ~logs:log* ~witnesses:text* ~quorum:int; trusted name public_key:public ~node_id:id ~not_before:time ~not_after:time; acceptance
    ~require_log:bool ~require_query:bool ~require_nonce:bool ~max_age_s:int? ~skew_s:int ~labels:label+4 ~minimum_confidence:share ~judges:id*? ~generators:id*?"""))}
DEFAULTS = {"require_log": True, "require_query": True, "require_nonce": False, "skew_s": 60, "labels": ["entailed", "quoted"], "minimum_confidence": "0.000000"}
NOT_PROVEN = "answer_is_complete answer_is_true documents_are_true evidence_is_complete issuer_is_honest_about_retrieval judge_is_right model_ran_as_named"

def _sha256(*parts: bytes) -> str:  # of a label and bytes with 00 between them, or of bytes alone
    return hashlib.sha256(b"\0".join(parts)).hexdigest()

def _digest(label: str, members: str, of: dict[str, Any]) -> str:  # SHA-256(rag-stdlib/label/v1, JCS of the members)
    return _sha256(f"rag-stdlib/{label}/v1".encode(), _jcs({member: of[member] for member in members.split()}))

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

def _fits(value: Any, form: str) -> bool:  # noqa: ANN401 - JSON
    kind, many, most = re.findall(r"^(.*?)([*+]?)([0-9]*)\??$", form)[0]
    if value is None or many:
        return form[-1] == "?" if value is None else type(value) is list and (many == "+") <= len(value) <= int(most or MAX_BYTES) and all(_fits(v, kind) for v in value)
    if kind in OBJECTS:
        forms = {name.strip("~"): inner for name, inner in OBJECTS[kind].items()}  # ~ is before what is there only sometimes
        return isinstance(value, dict) and forms.keys() & OBJECTS[kind].keys() <= value.keys() <= forms.keys() and all(_fits(value[n], forms[n]) for n in value)
    with suppress(TypeError, ValueError):
        return bool(re.fullmatch(simple, value, re.DOTALL) if isinstance(simple := SIMPLE.get(kind, kind), str) else simple(value))
    return False

def _good_point(encoded: bytes) -> bool:  # in canonical form, on the curve (x² is a square), and not one of the eight points of small order
    p = 2**255 - 19
    d, y = -121665 * pow(121666, -1, p), int.from_bytes(encoded, "little") % 2**255  # the bit above is the sign of x
    return y < p and pow((y * y - 1) * pow(d * y * y + 1, -1, p), (p - 1) // 2, p) == 1 and y * (d * y**4 + 2 * y * y - 1) % p != 0

def _signed(kind: object, key: bytes, signature: bytes, message: bytes) -> bool:  # kind: the type byte of a verifier key, or the profile of a node
    with suppress(InvalidSignature, ValueError):
        if kind in SCHEMES:
            SCHEMES[kind].from_public_bytes(key).verify(signature, message)
            return kind not in {NOTE, COSIGNED} or _good_point(signature[:32])  # R
        label, modulus, pss = b"COMPSIG-MLDSA87-RSA4096-PSS-SHA512", key[2601:3113], padding.PSS(padding.MGF1(SHA384()), 48)
        message = b"CompositeAlgorithmSignatures2025" + label + b"\0" + hashlib.sha512(message).digest()
        mldsa.MLDSA87PublicKey.from_public_bytes(key[:2592]).verify(signature[:4627], message, label)
        rsa.RSAPublicNumbers(65537, int.from_bytes(modulus, "big")).public_key().verify(signature[4627:], message, pss, SHA384())
        return modulus > b"\x80" and (key[2592:2601].hex(), key[3113:].hex()) == ("3082020a0282020100", "0203010001")  # the DER of 4,096 bits and 65537
    return False

def _key(text: str, lengths: dict[int, int]) -> tuple[str, bytes, int, bytes]:  # of a verifier key: name, id, type byte, public key
    match = re.fullmatch(rf"({NAME})\+([0-9a-f]{{8}})\+(?={SIX})({BASE64})", text)
    if not match or not _fits(match[1], "origin") or _sha256(f"{match[1]}\n".encode() + (data := b64decode(match[3])))[:8] != match[2] or (
            lengths.get(data[0]) != len(data) - 1) or (data[0] != COSIGNED_MLDSA44 and not _good_point(data[1:])):
        raise ValueError(f"no verifier key that can be used here: {text}")
    return match[1], bytes.fromhex(match[2]), data[0], data[1:]

def _read_trust(trust: dict[str, Any]) -> dict[str, Any]:
    issuers, quorum = [(b64decode(issuer["public_key"]), issuer) for issuer in trust["issuers"]], trust.get("quorum", 0)
    logs = [(log["origin"], [_key(text, {NOTE: 32}) for text in log["keys"]]) for log in trust.get("logs", [])]
    witnesses = [_key(text, {COSIGNED: 32, COSIGNED_MLDSA44: 1312}) for text in trust.get("witnesses", [])]
    log_keys, names = [key for _, keys in logs for key in keys], {name for name, *_ in witnesses}
    public = [*(key for key, _ in issuers), *(key for *_, key in [*log_keys, *witnesses])]
    if quorum > len(names) or len(set(public)) < len(public) or len(dict(logs)) < len(logs) or names & {name for name, *_ in log_keys}:
        raise ValueError("too large a quorum, a key or an origin twice, or a witness by the name of a log's key")
    return {"issuers": {_sha256(b"rag-stdlib/issuer-key/v1", k): (k, one) for k, one in issuers}, "logs": dict(logs), "witnesses": witnesses, "quorum": quorum}

def _root(entry: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:  # RFC 6962 §2.1.1; None where the tree demands a path of another length
    node, fork = hashlib.sha256(b"\0" + entry).digest(), (index ^ (size - 1)).bit_length()  # from the level of the fork on, siblings are at the left only
    for level, sibling in enumerate(path):
        node = hashlib.sha256(b"\1" + (sibling + node if level >= fork or index >> level & 1 else node + sibling)).digest()
    return node if index < size and len(path) == fork + (index >> fork).bit_count() else None

def _noted(key: tuple[str, bytes, int, bytes], blob: bytes, note: re.Match[str]) -> bool:  # whether a known key's line in the checkpoint holds
    (_, _, kind, public), name, origin, time, size = key, key[0].encode(), note["origin"].encode(), blob[:8], int(note["size"])
    message = {NOTE: note["text"].encode(), COSIGNED: f"cosignature/v1\ntime {int.from_bytes(time, 'big')}\n{note['text']}".encode(), COSIGNED_MLDSA44:
               b"subtree/v1\n\0%c%b%b%c%b" % (len(name), name, time, len(origin), origin) + size.to_bytes(16, "big") + b64decode(note["root"])}[kind]
    return _signed(kind, public, blob, message) if kind == NOTE else time < b"\x80" and _signed(kind, public, blob[8:], message)

def _log(text: str, entry: bytes, trust: dict[str, Any], end: int) -> dict[str, bool]:  # end: the time before which a cosignature counts for 35
    note = RECEIPT.fullmatch(text)
    lines = [((name, b64decode(blob)[:4]), b64decode(blob)[4:]) for _, name, blob in (line.split(" ") for line in note["lines"].split("\n")[:-1])] if note else []
    if note is None or max(int(note["index"]), int(note["size"])) > MAX_NUMBER or len(b64decode(note["extra"] or "")) > MAX_EXTRA or len(text.encode()) > MAX_RECEIPT or (
            len(text[note.start("text"):].encode()) > MAX_CHECKPOINT) or not all(_fits(name, "origin") for name in [note["origin"], *(name for (name, _), _ in lines)]):
        return {"receipt": True}  # 29
    known, cosigned = ([(key, blob) for key in keys for by, blob in lines if key[:2] == by] for keys in (trust["logs"].get(note["origin"], []), trust["witnesses"]))
    return {"?untrusted_log": True} if not known else {  # 30
        "checkpoint_signature": not all(_noted(key, blob, note) for key, blob in known),  # 31
        "cosignature": not all(_noted(key, blob, note) for key, blob in cosigned),  # 32
        "inclusion": _root(entry, int(note["index"]), int(note["size"]), list(map(b64decode, note["path"].split()))) != b64decode(note["root"]),  # 33
        "?witness_quorum": len({name for (name, *_), _ in cosigned}) < trust["quorum"],  # 34
        "?key_ended": len({name for (name, *_), blob in cosigned if 0 < int.from_bytes(blob[:8], "big") < end}) < max(1, trust["quorum"])}  # 35

def _at_place(part: dict[str, Any], whole: str) -> bool:  # and not empty
    return 0 < len(part["text"]) == part["end"] - part["start"] and whole[part["start"]:part["end"]] == str(part["text"])

def _reason(claim: dict[str, Any], policy: dict[str, Any]) -> str | None:  # why the claim is not shown
    label, low = str(claim["judgement"]["label"]), claim["judgement"]["confidence"] < policy["minimum_confidence"]
    return ("no_span" if not claim["spans"] else label if label in {"contradicted", "not_supported"} else
            "label_not_allowed" if label not in policy["labels"] else "low_confidence" if low else None)

def _content(body: dict[str, Any]) -> dict[str, bool]:
    found, claims, answer, policy, methods = (body[name] for name in ("retrieval", "claims", "answer", "policy", "methods"))
    items, indexes, merged_by, text = found["items"], found["indexes"], found["merged_by"], answer["text"]
    salt = body["query"]["salt"] if None in [index["content"] for index in indexes] else None
    nodes, spans = [shard["node_id"] for shard in [*indexes, *found["failed"], *found["not_asked"]]], [span for claim in claims for span in claim["spans"]]
    places, by_rank = [item["provenance"] for item in items if item["provenance"]], merged_by in {"rank", "statistics and rank"}
    ranks = [(by_rank and item["index"], -int(item["score"].replace(".", ""))) for item in items]  # by rank, only scores of one index compare
    quotations = [[" ".join(WORDS(part["text"])) for part in [claim, *claim["spans"]]] for claim in claims if claim["judgement"]["label"] == "quoted"]
    starts, ends = [*(claim["start"] for claim in claims), len(text)], [0, *(claim["end"] for claim in claims)]
    return {
        "hash": any(digest != computed for digest, computed in [  # 12
            (found["state"], _digest("index-state", "corpus_hash embedder indexes salt", {**found, "salt": salt})),
            (policy["sha256"], _digest("issuer-policy", "labels minimum_confidence", policy)),
            *((part.get("content_sha256", part.get("sha256")), _sha256(part["text"].encode())) for part in [answer, *items, *claims, *spans]),
            *((claim["judgement"]["inputs_sha256"], _digest("judge-inputs", "claim judge spans", {
                "claim": claim["text"], "judge": body["judge"]["digest"], "spans": [span["text"] for span in claim["spans"]]})) for claim in claims)]),
        "retrieval": any([  # 13
            (found["embedder"] is None) != (found["mode"] == "lexical"), len(items) > found["limit"], len(set(nodes)) < len(nodes),
            None in nodes if merged_by else len(indexes) > 1 or len(nodes) > len(indexes), len({(item["index"], item["chunk_id"]) for item in items}) < len(items),
            any(item["index"] >= len(indexes) or item["end"] - item["start"] != len(item["text"]) for item in items),
            any((one["start_line"] is None) != (one["end_line"] is None) or (one["start_line"] or 0) > (one["end_line"] or 0) for one in places),
            (by_rank or merged_by in {None, "score", "statistics"}) and sorted(ranks, key=lambda rank: rank[0]) != sorted(ranks)]),
        "claim": not all([*map(int.__le__, ends, starts), *(_at_place(claim, text) for claim in claims), not claims[1:] or methods["decomposition"] != "whole"]),  # 14
        "no_claims": (text != "" and not claims) or answer["abstained"] != (text == ""),  # 15
        "uncovered": not re.fullmatch(f"[{WHITE}*•#>-]*", "".join(text[end:start] for end, start in zip(ends, starts, strict=True))),  # 16
        "span": any(methods["alignment"] == "none" or span["item"] >= len(items) or not _at_place(span, items[span["item"]]["text"]) for span in spans),  # 17
        "quotation": any(not claim or all(claim not in span for span in cited) for claim, *cited in quotations),  # 18
        "decision": any(claim["decision"] != {"shown": _reason(claim, policy) is None, "reason": _reason(claim, policy)} or (  # 19
            body["judge"]["name"] == "none" and claim["judgement"]["label"] != "not_supported") for claim in claims),
        "not_proven": body["not_proven"] != NOT_PROVEN.split()}  # 20

def _checks(data: bytes, trust: dict[str, Any], policy: dict[str, Any], query: str | None, nonce: str | None, now: int) -> dict[str, bool]:
    try:
        envelope = _parse(data)
    except ValueError:
        return {"malformed_json": True}  # 2
    body: Any = envelope.get("certificate") if isinstance(envelope, dict) else None
    other = isinstance(body, dict) and body.get("schema") != SCHEMA
    if other or not _fits(envelope, "envelope") or (labels := body["policy"]["labels"]) != sorted(set(labels)):
        return {"?unsupported_schema" if other else "schema": True}  # 3 to 5
    issued, expires, signed, asked, found = _seconds(body["issued_at"]), _seconds(body["expires_at"]), _jcs(body), body["query"], body["retrieval"]
    (key, issuer), node, node_id = trust["issuers"].get(body["issuer"]["key_id"], (None, {})), envelope.get("node_signature"), body["issuer"]["node_id"]
    begin, end = (_seconds(issuer[name]) if name in issuer else absent for name, absent in (("not_before", 0), ("not_after", MAX_NUMBER)))
    entry = {"schema": "rag-stdlib/log-entry/v1", "answer_sha256": body["answer"]["sha256"], "body_sha256": _sha256(signed), "query_key": asked["key"],
             "index_state": found["state"], "issued_at": body["issued_at"], "issuer_key_id": body["issuer"]["key_id"], "signature": envelope["signature"],
             "setup": _digest("answer-setup", "generator judge limit merged_by methods mode policy topics", {**body, **found})}
    logged = _log(envelope["receipt"], _jcs(entry), trust, end + policy["skew_s"]) if "receipt" in envelope else {"?no_receipt": policy["require_log"]}
    return {  # in the order of the table, ? before what leaves the outcome unknown
        "time": not 0 < expires - issued <= MAX_LIFETIME,  # 6
        "?untrusted_issuer": key is None,  # 7
        "issuer": key is not None and (body["issuer"]["name"] != issuer["name"] or issuer.get("node_id") not in {None, node_id}),  # 8
        "key_not_valid": not begin <= issued < end,  # 9
        "signature": key is not None and not _signed(NOTE, key, b64decode(envelope["signature"]), SCHEMA.encode() + b"\0" + signed),  # 10
        "node_signature": (node is None) != (node_id is None) or (node is not None and (  # 11
            node_id != _sha256(b"MACULA-NODE-ID-V1", bytes([len(node["profile"])]) + node["profile"].encode() + b64decode(node["key"]))
            or not _signed(node["profile"], b64decode(node["key"]), b64decode(node["signature"]), b"rag-stdlib/answer-certificate/node/v1\0" + signed))),
        **_content(body),
        "not_yet_valid": issued > now + policy["skew_s"],  # 21
        "expired": now >= expires,  # 22
        "too_old": policy.get("max_age_s") is not None and now - issued > policy["max_age_s"],  # 23
        "query": query is not None and (asked["commitment"], asked["key"]) != (  # 24
            _digest("query-commitment", "nonce query salt", {**asked, "query": query}), _digest("query-key", "query state", {**found, "query": query})),
        "?query_not_given": query is None and policy["require_query"],  # 25
        "nonce": nonce not in {None, asked["nonce"]},  # 26
        "?nonce_not_given": nonce is None and policy["require_nonce"],  # 27
        **logged,  # 28 to 34
        "?key_ended": now >= end and logged.get("?key_ended", True),  # 35
        **{f"?{who}_not_accepted": policy.get(f"{who}s") is not None and body[who]["digest"] not in policy[f"{who}s"] for who in ("judge", "generator")}}  # 36, 37

def verify(data: bytes, trust: dict[str, Any], policy: dict[str, Any], query: str | None, nonce: str | None, now: str) -> tuple[str, str]:
    """Give the outcome and its code. ValueError: the trust, the policy, the question (a lone surrogate) or the time cannot be used."""
    if not _fits(trust, "trust") or not _fits(policy, "acceptance"):
        raise ValueError("trust or policy has not its form, or an issuer's key is no point of Ed25519 that can be used")
    trusted, rules, at = _read_trust(trust), {**DEFAULTS, **policy}, _seconds(now)
    checks = {"too_large": True} if len(data) > MAX_BYTES else _checks(data, trusted, rules, query, nonce, at)  # 1
    first = min((code for code, applies in checks.items() if applies), key=lambda code: code[0] == "?", default="")  # the refuted before the unknown
    return ("verified", "") if not first else ("unknown", first[1:]) if first[0] == "?" else ("refuted", first)

def _main() -> int:
    parser = argparse.ArgumentParser(description="Verify an answer certificate.", epilog="Exit status: 0 verified, 1 refuted, 3 unknown, 2 usage.")
    for name in ("certificate", "--trust", "--now", "--policy", "--query", "--nonce"):
        parser.add_argument(name).required = name in {"certificate", "--trust", "--now"}
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
