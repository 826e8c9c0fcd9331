"""Verification of an answer certificate (docs/certificate.md): refuted, unknown or verified, and nothing in between.

Everything is asked of pinned keys and of the relying party's own policy; nothing that the certificate says about itself is taken on
its word where it can be computed. Nothing here opens a file, looks at a clock or calls anyone.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final, TypeAlias

from rag_stdlib.contract import nodekeys
from rag_stdlib.contract.jcs import canonical_plain
from rag_stdlib.proof import bodychecks
from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.decisions import evidence, reason
from rag_stdlib.proof.forms import Path, pointer
from rag_stdlib.proof.logchecks import LogChecks
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.strict import MAX_BYTES, MalformedJson, parse
from rag_stdlib.proof.trust import Issuer, Trust
from rag_stdlib.proof.verdicts import Check, LoggedAt, Refuted, ShownClaim, Unknown, Verdict, verified
from replay import ed25519

Body: TypeAlias = Mapping[str, Any]

CODES: Final = (
    "too_large", "malformed_json", "schema", "unsupported_schema", "time", "untrusted_issuer", "issuer", "key_not_valid", "signature",
    "node_signature", *(code for code, _ in bodychecks.CHECKS), "not_yet_valid", "expired", "too_old", "query", "query_not_given", "nonce",
    "nonce_not_given", "no_receipt", "receipt", "untrusted_log", "checkpoint_signature", "cosignature", "inclusion", "witness_quorum", "key_ended",
    "judge_not_accepted", "generator_not_accepted")


def verify(
    envelope: bytes | str, trust: Trust, policy: Policy, query: str | None = None, *, now: datetime, nonce: str | None = None,
) -> Verdict:
    """Verify a certificate.

    Args:
        envelope: The certificate as it came, JSON.
        trust: The keys that are pinned.
        policy: What the relying party asks for.
        query: The question, where it is known.
        now: The time, with its zone.
        nonce: The nonce that was sent with the question, where it is known.

    Returns:
        `Verified`, the only one of the three that is true, and that `render` takes; `Refuted` or `Unknown`, with the code of the table
        in docs/certificate.md. Each lists the checks that were done.

    Raises:
        ValueError: `now` has no zone. Nothing that stands in the envelope raises.
    """
    if now.tzinfo is None:
        raise ValueError("the time needs its zone")
    run = _Run(trust, policy, query, nonce, now.astimezone(timezone.utc))
    try:
        return run.verdict(envelope.encode(errors="surrogatepass") if isinstance(envelope, str) else bytes(envelope))
    except _Stop as stop:
        return stop.verdict


class _Stop(Exception):  # noqa: N818 - the end of a run
    """There is nothing more to look at."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__()
        self.verdict = verdict


class _Run:
    """One verification on its way; checks are done in the order of the table."""

    def __init__(self, trust: Trust, policy: Policy, query: str | None, nonce: str | None, now: datetime) -> None:
        self._trust, self._policy, self._query, self._nonce, self._now = trust, policy, query, nonce, now
        self._done: dict[str, Check] = {}
        self._missing: str | None = None

    def verdict(self, data: bytes) -> Verdict:
        """Do all checks."""
        envelope = self._envelope(data)
        body = envelope["certificate"]
        self._refute("time", bodychecks.times(body))
        written = canonical_plain(body)  # what was parsed strictly and has the form is plain
        self._signatures(envelope, body, written)
        for code, check in bodychecks.CHECKS:
            self._refute(code, check(body))
        self._freshness(body)
        self._question(body)
        logged = self._logged(envelope, body, written)
        self._doubt("judge_not_accepted", self._policy.judges is not None and body["judge"]["digest"] not in self._policy.judges)
        self._doubt("generator_not_accepted", self._policy.generators is not None and body["generator"]["digest"] not in self._policy.generators)
        if self._missing is not None:
            return Unknown(self._missing, self._checks())
        return verified(body, tuple(self._claim(place, claim, body) for place, claim in enumerate(body["claims"])), logged, self._checks())

    def _envelope(self, data: bytes) -> dict[str, Any]:
        self._refute("too_large", () if len(data) > MAX_BYTES else None)
        try:
            envelope = parse(data)
        except MalformedJson:
            self._refute("malformed_json", ())
        self._pass("malformed_json")
        self._refute("schema", None if isinstance(envelope, dict) else ())
        inner = envelope.get("certificate")
        self._refute("schema", None if isinstance(inner, dict) else ("certificate",))
        if inner.get("schema") != fmt.SCHEMA:
            self._doubt("unsupported_schema", missing=True)
            raise _Stop(Unknown("unsupported_schema", self._checks()))
        self._pass("unsupported_schema")
        self._refute("schema", fmt.ENVELOPE.departs(envelope))
        found: dict[str, Any] = envelope
        return found

    def _signatures(self, envelope: Body, body: Body, written: bytes) -> None:
        issuer = self._trust.issuers.get(body["issuer"]["key_id"])
        self._doubt("untrusted_issuer", issuer is None)
        if issuer is not None:
            self._issuer(issuer, envelope, body, written)
        self._refute("node_signature", None if _node_signs(envelope, body, written) else ("node_signature",))

    def _issuer(self, issuer: Issuer, envelope: Body, body: Body, written: bytes) -> None:
        said = body["issuer"]
        wrong = "name" if said["name"] != issuer.name else "node_id" if issuer.node_id not in (None, said["node_id"]) else ""
        self._refute("issuer", ("issuer", wrong) if wrong else None)
        self._refute("key_not_valid", None if issuer.is_valid(body["issued_at"]) else ("issued_at",))
        holds = ed25519.verify(issuer.key, b64decode(envelope["signature"]), fmt.signed_bytes(written))
        self._refute("signature", None if holds else ("signature",))

    def _freshness(self, body: Body) -> None:
        issued, expires = (_moment(body[name]) for name in ("issued_at", "expires_at"))
        policy, age = self._policy, self._now - issued
        self._refute("not_yet_valid", ("issued_at",) if _is_longer(-age, policy.skew_s) else None)
        self._refute("expired", ("expires_at",) if self._now >= expires else None)
        if policy.max_age_s is not None:
            self._refute("too_old", ("issued_at",) if _is_longer(age, policy.max_age_s) else None)

    def _question(self, body: Body) -> None:
        said = body["query"]
        if self._query is not None:
            commitment = _text_or_none(lambda query: fmt.query_commitment(query, said["nonce"], said["salt"]), self._query)
            key = _text_or_none(lambda query: fmt.query_key(query, body["retrieval"]["state"]), self._query)
            wrong = "commitment" if commitment != said["commitment"] else "key" if key != said["key"] else ""
            self._refute("query", ("query", wrong) if wrong else None)
        self._doubt("query_not_given", self._query is None and self._policy.require_query)
        if self._nonce is not None:
            self._refute("nonce", None if self._nonce == said["nonce"] else ("query", "nonce"))
        self._doubt("nonce_not_given", self._nonce is None and self._policy.require_nonce)

    def _logged(self, envelope: Body, body: Body, written: bytes) -> LoggedAt | None:
        self._doubt("no_receipt", "receipt" not in envelope and self._policy.require_log)
        if "receipt" not in envelope:
            self._ending(body, {}, 0)
            return None
        checks = LogChecks(self._trust, envelope["receipt"], fmt.log_entry(body, written, envelope["signature"]))
        for code, refutes, holds in checks.each():
            if refutes:
                self._refute(code, None if holds else ("receipt",))
            else:
                self._doubt(code, not holds)
        self._ending(body, checks.earliest, 0 if checks.logged is None else self._trust.logs[checks.logged.origin].quorum)
        return checks.logged

    def _ending(self, body: Body, cosigned: Mapping[str, int], quorum: int) -> None:
        """Ask witnesses for a certificate from before the end of its issuer's key, once that end has come."""
        issuer = self._trust.issuers.get(body["issuer"]["key_id"])
        if issuer is None:
            return
        end = None if issuer.not_after is None else _moment(issuer.not_after)
        if end is None or self._now < end:
            self._pass("key_ended")
            return
        before = [name for name, time in cosigned.items() if time < int(end.timestamp()) + self._policy.skew_s]
        self._doubt("key_ended", len(before) < max(1, quorum))

    def _claim(self, place: int, claim: Body, body: Body) -> ShownClaim:
        label, confidence, policy = claim["judgement"]["label"], claim["judgement"]["confidence"], self._policy
        blocked = claim["decision"]["reason"] or reason(label, confidence, len(claim["spans"]), policy.labels, policy.minimum_confidence)
        items, spans = body["retrieval"]["items"], evidence(claim)
        sources = tuple(items[span["item"]]["source"] for span in spans)
        return ShownClaim(place, claim["text"], label, sources, tuple(span["text"] for span in spans), blocked)

    def _refute(self, code: str, path: Path | None) -> None:
        if path is None:
            self._pass(code)
            return
        self._done[code] = Check(code, "refuted")
        raise _Stop(Refuted(code, pointer(path), self._checks()))

    def _doubt(self, code: str, missing: bool) -> None:
        self._done[code] = Check(code, "unknown" if missing else "passed")
        if missing and self._missing is None:
            self._missing = code

    def _pass(self, code: str) -> None:
        self._done[code] = Check(code, "passed")

    def _checks(self) -> tuple[Check, ...]:
        return tuple(self._done.get(code, Check(code, "not_done")) for code in CODES)


def _node_signs(envelope: Body, body: Body, written: bytes) -> bool:
    said, node = envelope.get("node_signature"), body["issuer"]["node_id"]
    if said is None or node is None:
        return said is None and node is None
    public, profile = b64decode(said["key"]), said["profile"]
    if not nodekeys.well_formed(public, profile) or nodekeys.node_id(public, profile) != node:
        return False
    return nodekeys.verify(fmt.signed_bytes(written, fmt.NODE_LABEL), b64decode(said["signature"]), public, profile)


def _moment(text: str) -> datetime:
    read = fmt.read_time(text)
    assert read is not None  # noqa: S101 - the form was checked
    return read


def _is_longer(time: timedelta, seconds: int) -> bool:
    """Compare exactly; a policy's seconds may be more than a `timedelta` holds."""
    return time // timedelta(microseconds=1) > seconds * 1_000_000


def _text_or_none(of: Callable[[str], str], text: str) -> str | None:
    """Compute something of a text; None for one that is no Unicode text, which nobody can have committed to."""
    try:
        return of(text)
    except ValueError:
        return None
