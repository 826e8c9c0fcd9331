"""`rag verify`: whether a certificate holds, and only then what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.block import lines_of, show_block
from rag_stdlib.cli.frame import AsJson, command, runtime_of, show_json
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.prooffiles import TrustFile, proof_errors, read_bytes, read_policy, read_trust
from rag_stdlib.cli.terminal import clean, plural, show, styled
from rag_stdlib.cli.tracing import columns
from rag_stdlib.cli.verdictwords import MEANINGS, VERIFIED

if TYPE_CHECKING:
    from rag_stdlib.proof.trust import Trust
    from rag_stdlib.proof.verdicts import Verdict, Verified

CANNOT_TELL: Final = 3

_UNUSABLE: Final = 2
_EXIT_CODES: Final[Mapping[str, int]] = {"verified": 0, "refuted": 1, "unknown": CANNOT_TELL}
_COLOURS: Final[Mapping[str, tuple[int, ...]]] = {"verified": (1, 32), "refuted": (1, 31), "unknown": (1, 33)}
_OUTCOMES: Final[Mapping[str, str]] = {"passed": "passed", "refuted": "refuted", "unknown": "unknown", "not_done": "not done"}
_INDENT: Final = 11


@command("verify", "Check an answer's certificate.")
def verify(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The certificate; - is standard input.")],
    trust: TrustFile,
    query: Annotated[str | None, typer.Option("--query", metavar="QUESTION", help="The question that you asked, as you asked it.")] = None,
    nonce: Annotated[str | None, typer.Option("--nonce", metavar="NONCE", help="The nonce that you sent with it.")] = None,
    policy: Annotated[str | None, typer.Option("--policy", metavar="FILE", help="What you ask for beyond that; otherwise what the format does.")] = None,
    index: Annotated[str | None, typer.Option("--index", metavar="INDEX", help="Say also which of the retrieved chunks are still in this index.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", metavar="FOLDER", help="Hold the log against what you have seen of it, which is kept in this folder.")] = None,
    log: Annotated[str | None, typer.Option("--log", metavar="SOURCE", help="For --memory: the folder or URL that the log is published at.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the certificate of an answer by the keys that you trust, and print what of the answer may be shown; of any other nothing is printed.

    Exit codes: 0 verified; 1 refuted; 3 cannot tell, as something is missing that would speak for it; 2 usage, or a file that cannot be used.
    """
    from rag_stdlib.proof.strict import MAX_BYTES, parse
    from rag_stdlib.proof.verify import verify as verify_certificate

    if log is not None and memory is None:
        context.fail("--log is for --memory")
    with proof_errors(_UNUSABLE):
        trusted, asked = read_trust(trust), read_policy(policy)
        data = read_bytes(file, MAX_BYTES)
        verdict = verify_certificate(data, trusted, asked, query, now=datetime.now(timezone.utc), nonce=nonce)
        found = _Found.of(verdict)
        if found.verified is not None:
            envelope = parse(data)
            if memory is not None:
                found = _remembered(found, envelope, trusted, memory, log)
            if found.verified is not None and index is not None:
                with runtime_of(context) as runtime:
                    found = _held_to_index(found, envelope["certificate"]["retrieval"], below_root(runtime, index))
    if as_json:
        show_json(found.to_dict())
    else:
        _show(found)
    raise typer.Exit(_EXIT_CODES[found.outcome])


@dataclass(frozen=True, slots=True)
class _Found:
    """What came of it: `verified` is what may be shown, where anything may; `gone` are the retrieved chunks that an index has no longer."""

    outcome: str
    words: str
    checks: tuple[tuple[str, str], ...]
    code: str = ""
    path: str = ""
    verified: Verified | None = None
    retrieved: int = 0
    gone: tuple[str, ...] | None = None

    @classmethod
    def of(cls, verdict: Verdict) -> _Found:
        """Say what a verdict means."""
        from rag_stdlib.proof.verdicts import Verified

        checks = tuple((check.code, str(check.outcome)) for check in verdict.checks)
        if isinstance(verdict, Verified):
            return cls(verdict.outcome, VERIFIED, checks, verified=verdict)
        return cls(verdict.outcome, MEANINGS[verdict.code], checks, verdict.code, getattr(verdict, "path", ""))

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON; of an answer, what may be shown."""
        return {"outcome": self.outcome, "code": self.code or None, "meaning": self.words, "path": self.path or None,
                "checks": [{"code": code, "outcome": outcome} for code, outcome in self.checks],
                "answer": None if self.verified is None else _answer(self.verified),
                "chunks": None if self.gone is None else {"retrieved": self.retrieved, "gone": list(self.gone)}}


def _answer(verified: Verified) -> dict[str, Any]:
    from rag_stdlib.proof.render import render

    logged = verified.logged
    return {
        "issuer": verified.issuer, "issued_at": verified.issued_at, "abstained": verified.abstained,
        "claims": [{"place": claim.place, "text": claim.text, "label": claim.label, "sources": list(claim.sources), "quotes": list(claim.quotes)}
                   for claim in verified.claims if claim.blocked is None],
        "blocked": [{"place": claim.place, "reason": claim.blocked} for claim in verified.claims if claim.blocked is not None],
        "logged": None if logged is None else {"origin": logged.origin, "index": logged.index, "size": logged.size,
                                               "witnesses": [{"name": name, "time": time} for name, time in logged.witnesses]},
        "not_proven": list(verified.not_proven), "text": render(verified)}


def _remembered(found: _Found, envelope: Mapping[str, Any], trusted: Trust, folder: str, place: str | None) -> _Found:
    """Hold the log against what was seen of it."""
    from rag_stdlib.cli.remembered import compare
    from rag_stdlib.proof.log.receipts import Receipt

    assert found.verified is not None  # noqa: S101 - nothing of what is not verified is remembered
    if found.verified.logged is None:  # the receipt is no part of what is signed, so its lack cannot end what is asked for
        return _Found("unknown", MEANINGS["no_receipt"], (*found.checks, ("memory", "not_done")), "no_receipt")
    log = trusted.logs[found.verified.logged.origin]
    seen = compare(folder, log, Receipt.parse(envelope["receipt"].encode()).checkpoint, place)
    checks = (*found.checks, ("memory", seen.outcome))
    if seen.outcome == "passed":
        return replace(found, checks=checks)
    return _Found(seen.outcome, seen.words, checks, seen.code, "/receipt")


def _held_to_index(found: _Found, retrieval: Mapping[str, Any], index: str) -> _Found:
    """Look for the chunks that were retrieved."""
    from rag_stdlib.proof.retrieving import still_stored

    items = retrieval["items"]
    gone = tuple(item["chunk_id"] for item, there in zip(items, still_stored(retrieval, index), strict=True) if not there)
    return replace(found, retrieved=len(items), gone=gone)


def _show(found: _Found) -> None:
    from rag_stdlib.proof.render import render

    code = f" [{found.code}]" if found.code else ""
    show(f"{styled(found.outcome, *_COLOURS[found.outcome])}{code}: {clean(found.words)}")
    if found.path:
        _row("where", clean(found.path))
    for outcome, title in _OUTCOMES.items():
        codes = [code for code, each in found.checks if each == outcome]
        if codes:
            _row(title, ", ".join(codes))
    if found.gone is not None:
        _row("in index", f"{found.retrieved - len(found.gone)} of {plural(found.retrieved, 'retrieved chunks')}")
        for chunk in found.gone:
            _row("gone", clean(chunk))
    if found.verified is not None:
        show("")
        show_block(render(found.verified), safe=True)


def _row(title: str, text: str) -> None:
    """Show a row of the table, on as many lines as it takes."""
    for place, line in enumerate(lines_of(text, columns() - _INDENT)):
        show(f"{'' if place else title:<{_INDENT}}{line}")
