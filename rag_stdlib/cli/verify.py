"""`rag verify`: whether a certificate holds, and only then what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.block import lines_of, show_block
from rag_stdlib.cli.frame import AsJson, command, output_apart, runtime_of, show_json
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
_DIGITS: Final = 16  # of a key's id, which are enough to tell it from others
_LETTERS: Final = 100
_GET_TRUST: Final = "if you trust it, get a trust file that has it"
_DETAILS: Final[Mapping[str, str]] = {"query": "that may be the same one written otherwise: blanks, capitals and every sign count"}


@command("verify", "Check an answer's certificate.")
def verify(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The certificate; - is standard input.")],
    trust: TrustFile,
    query: Annotated[str | None, typer.Option("--query", metavar="QUESTION", help="The question that you asked, in quotes, as you asked it.")] = None,
    nonce: Annotated[str | None, typer.Option("--nonce", metavar="NONCE", help="The nonce that you sent with it.")] = None,
    policy: Annotated[str | None, typer.Option("--policy", metavar="FILE", help="What you ask for beyond that; otherwise what the format does.")] = None,
    index: Annotated[str | None, typer.Option("--index", metavar="INDEX", help="Say also which of the retrieved chunks are still in this index.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", metavar="FOLDER", help="Hold the log against what you have seen of it, which is kept in this folder.")] = None,
    log: Annotated[str | None, typer.Option("--log", metavar="SOURCE", help="For --memory: the folder or URL that the log is published at.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the certificate of an answer by the keys that you trust, and print what of the answer may be shown; of any other nothing is printed.

    Exit codes: 0 verified; 1 refuted; 3 cannot tell, as something is missing that would speak for it; 2 usage, or a file or an output that cannot be used.
    """
    from rag_stdlib.proof.strict import MAX_BYTES, parse
    from rag_stdlib.proof.verify import verify as verify_certificate

    _check_options(context, query=query, nonce=nonce, index=index, memory=memory, log=log)
    with proof_errors(_UNUSABLE):
        trusted, asked = read_trust(trust), read_policy(policy)
        data = read_bytes(file, MAX_BYTES)
        verdict = verify_certificate(data, trusted, asked, query, now=datetime.now(timezone.utc), nonce=nonce)
        found = _Found.of(verdict, data)
        if found.verified is not None:
            envelope = parse(data)
            if memory is not None:
                found = _remembered(found, envelope, trusted, memory, log)
            if found.verified is not None and index is not None:
                with runtime_of(context) as runtime:
                    found = _held_to_index(found, envelope["certificate"]["retrieval"], below_root(runtime, index))
    with output_apart(_EXIT_CODES[found.outcome]):
        if as_json:
            show_json(found.to_dict())
        else:
            _show(found)
    raise typer.Exit(_EXIT_CODES[found.outcome])


def _check_options(context: typer.Context, **given: str | None) -> None:
    """Hold the options to what they are for: a shell's variable that is not set must come out as no verdict."""
    from rag_stdlib.cli.remembered import unfit
    from rag_stdlib.proof.format import NONCE_PATTERN

    for name, value in given.items():
        if value is not None and not value.strip():
            raise typer.BadParameter("it is empty; give one, or leave the option out", param_hint=f"--{name}")
    nonce, log = given["nonce"], given["log"]
    if nonce is not None and re.fullmatch(NONCE_PATTERN, nonce) is None:
        raise typer.BadParameter("it is no nonce, which is 16 to 128 letters, digits, - and _", param_hint="--nonce")
    if log is not None and given["memory"] is None:
        context.fail("--log is for --memory")
    fault = None if log is None else unfit(log)
    if fault is not None:
        raise typer.BadParameter(fault, param_hint="--log")


@dataclass(frozen=True, slots=True)
class _Found:
    """What came of it: `verified` is what may be shown, where anything may; `gone` are the retrieved chunks that an index has no longer."""

    outcome: str
    words: str
    checks: tuple[tuple[str, str], ...]
    code: str = ""
    path: str = ""
    detail: str = ""
    verified: Verified | None = None
    retrieved: int = 0
    gone: tuple[str, ...] | None = None

    @classmethod
    def of(cls, verdict: Verdict, data: bytes) -> _Found:
        """Say what a verdict on a certificate means."""
        from rag_stdlib.proof.verdicts import Verified

        checks = tuple((check.code, str(check.outcome)) for check in verdict.checks)
        if isinstance(verdict, Verified):
            return cls(verdict.outcome, VERIFIED, checks, verified=verdict)
        return cls(verdict.outcome, MEANINGS[verdict.code], checks, verdict.code, getattr(verdict, "path", ""), _detail(verdict.code, data))

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON; of an answer, what may be shown."""
        return {"outcome": self.outcome, "code": self.code or None, "meaning": self.words, "detail": self.detail or None, "path": self.path or None,
                "checks": [{"code": code, "outcome": outcome} for code, outcome in self.checks],
                "answer": None if self.verified is None else _answer(self.verified),
                "chunks": None if self.gone is None else {"retrieved": self.retrieved, "gone": list(self.gone)}}


def _detail(code: str, data: bytes) -> str:
    """Say more of a verdict, where that shows its reader what to do; what is quoted of the certificate is cut short, as nobody vouches for it."""
    from rag_stdlib.proof.log.checkpoints import Checkpoint
    from rag_stdlib.proof.log.notes import Note
    from rag_stdlib.proof.log.receipts import Receipt
    from rag_stdlib.proof.strict import MalformedJson, parse

    if code == "malformed_json":
        try:
            parse(data)
        except MalformedJson as error:
            return str(error) if data.strip() else "it is empty"
    if code == "untrusted_issuer":
        return f"it names the key {parse(data)['certificate']['issuer']['key_id'][:_DIGITS]}…; {_GET_TRUST}"
    if code == "untrusted_log":
        origin = clean(Checkpoint.parse(Note.parse(Receipt.parse(parse(data)["receipt"].encode()).checkpoint).text).origin)
        return f"it names the log {origin[:_LETTERS]!r}; {_GET_TRUST}, and the keys that it signs by"
    return _DETAILS.get(code, "")


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
        checks = tuple((code, "unknown" if code == "no_receipt" else outcome) for code, outcome in found.checks)
        return _Found("unknown", "--memory is for a log, and it has no receipt of one", (*checks, ("memory", "not_done")), "no_receipt",
                      detail="get it with a receipt, or leave --memory out")
    log = trusted.logs[found.verified.logged.origin]
    seen = compare(folder, log, Receipt.parse(envelope["receipt"].encode()).checkpoint, place)
    checks = (*found.checks, ("memory", seen.outcome))
    if seen.outcome == "passed":
        return replace(found, checks=checks)
    return _Found(seen.outcome, seen.words, checks, seen.code, "/receipt" if seen.outcome == "refuted" else "")


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
    if found.detail:
        _row("detail", clean(found.detail))
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
