"""`rag answer`: an answer from an index, claim by claim, and its certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.answering import (
    AlignmentOption,
    Answering,
    ClaimsOption,
    EndpointOption,
    GeneratorOption,
    JudgeHubOption,
    JudgeModelOption,
    JudgeOption,
    MinimumOption,
    ModelOption,
    StyleOption,
)
from rag_stdlib.cli.block import show_block
from rag_stdlib.cli.certifying import (
    CertificateOption,
    Certifying,
    ForceOption,
    KeysOption,
    LogKeysOption,
    LogOption,
    NodeKeyOption,
    NonceOption,
)
from rag_stdlib.cli.frame import AsJson, Index, command, note, runtime_of, show_json
from rag_stdlib.cli.logged import Witnesses, WitnessTrust, WitnessUrls
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.prooffiles import proof_errors
from rag_stdlib.cli.terminal import show
from rag_stdlib.records import Mode

if TYPE_CHECKING:
    from rag_stdlib.proof.pipeline import Pipeline, Retrieve

_MOST: Final = 1_000
_WORDS: Final[Mapping[str, str]] = {"quoted": "quoted", "entailed": "follows from the text"}
_INDENT: Final = "    "


@command("answer", "Answer a question, every claim with evidence.")
def answer(
    context: typer.Context,
    index: Index,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION...", help="The question. Put -- before words that begin with a dash.")],
    certificate: CertificateOption = None,
    keys: KeysOption = None,
    log: LogOption = None,
    log_keys: LogKeysOption = None,
    witness: WitnessUrls = None,
    trust: WitnessTrust = None,
    node_key: NodeKeyOption = None,
    nonce: NonceOption = None,
    force: ForceOption = False,
    limit: Annotated[int, typer.Option("-n", "--limit", metavar="N", min=1, max=_MOST, help="Answer from at most so many chunks.")] = 10,
    mode: Annotated[Mode | None, typer.Option(metavar="MODE", help="hybrid, vector or lexical; otherwise as configured.")] = None,
    generator: GeneratorOption = "extractive",
    model: ModelOption = None,
    endpoint: EndpointOption = None,
    style: StyleOption = None,
    judge: JudgeOption = "quotation",
    judge_model: JudgeModelOption = None,
    judge_hub: JudgeHubOption = None,
    claims: ClaimsOption = "rules",
    alignment: AlignmentOption = "lexical",
    minimum: MinimumOption = 0.5,
    as_json: AsJson = False,
) -> None:
    """Answer a question from what an index holds: the claims that the judge lets through, each with its evidence, and why the others are not shown.

    With --certificate the answer is signed, so that others can check it by rag verify; with --log it goes into a transparency log as well.
    """
    text = " ".join(question)
    if not text.strip():
        raise typer.BadParameter("a question is not blank", param_hint="QUESTION")
    how = Answering(generator, model, endpoint, style, judge, judge_model, judge_hub, claims, alignment, minimum)
    to = Certifying(certificate, keys, node_key, log, log_keys, nonce, Witnesses(tuple(witness or ()), trust), force)
    with runtime_of(context) as runtime, proof_errors(), how.pipeline(runtime) as pipeline:
        said, issued = _answered(text, _searching(below_root(runtime, index), limit, mode), pipeline, to)
    if as_json:
        show_json(_plain(text, said, to.file, issued))
        return
    _show(said)
    if to.file is not None and issued is not None:
        _tell_issued(to.file, issued)


def _searching(index: str, limit: int, mode: Mode | None) -> Retrieve:
    from rag_stdlib.proof.retrieving import retrieve

    return lambda question: retrieve(index, question, limit, mode)


def _answered(question: str, search: Retrieve, pipeline: Pipeline, to: Certifying) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Answer, with a certificate or without one; return what it says, and the envelope of what was issued."""
    from rag_stdlib.proof.certificate import contents
    from rag_stdlib.proof.pipeline import draft

    if to.file is None:
        return contents(draft(question, "", search, pipeline)), None
    issued = to.certificate(question, search, pipeline)
    return issued["certificate"], issued


def _plain(question: str, said: Mapping[str, Any], file: str | None, issued: Mapping[str, Any] | None) -> dict[str, Any]:
    """Give an answer as JSON: what the certificate has of it, and where that is."""
    names = ("answer", "claims", "retrieval", "generator", "judge", "methods", "policy")
    written = None if issued is None else {
        "file": file, "issuer": said["issuer"], "issued_at": said["issued_at"], "expires_at": said["expires_at"], "nonce": said["query"]["nonce"],
        "logged": _logged(issued)}
    return {"question": question, **{name: said[name] for name in names}, "certificate": written}


def _logged(issued: Mapping[str, Any]) -> dict[str, Any] | None:
    from rag_stdlib.proof.log.checkpoints import Checkpoint
    from rag_stdlib.proof.log.notes import Note
    from rag_stdlib.proof.log.receipts import Receipt

    if "receipt" not in issued:
        return None
    receipt = Receipt.parse(issued["receipt"].encode())
    head = Checkpoint.parse(Note.parse(receipt.checkpoint).text)
    return {"origin": head.origin, "index": receipt.index, "size": head.size}


def _show(said: Mapping[str, Any]) -> None:
    """Show the claims that may be shown, and below them the others."""
    items = said["retrieval"]["items"]
    shown = [claim for claim in said["claims"] if claim["decision"]["shown"]]
    hidden = [claim for claim in said["claims"] if not claim["decision"]["shown"]]
    for place, claim in enumerate(shown):
        if place:
            show("")
        show_block(_line(claim["text"]))
        for line in _evidence(claim, items):
            show_block(f"{_INDENT}{line}", 2)
    if shown and hidden:
        show("")
    for claim in hidden:
        show_block(f"not shown [{claim['decision']['reason']}]: {_line(claim['text'])}")
    if said["answer"]["abstained"]:
        note("no answer: " + ("nothing was found" if not items else "what was found does not answer the question"))
    elif not shown:
        note("no claim of the answer may be shown")


def _evidence(claim: Mapping[str, Any], items: list[Mapping[str, Any]]) -> list[str]:
    """Give the spans that a claim rests on: of a quotation those that hold it."""
    from rag_stdlib.proof.decisions import is_quotation

    label, spans = claim["judgement"]["label"], claim["spans"]
    if label == "quoted":
        spans = [span for span in spans if is_quotation(claim["text"], [span["text"]])]
    lines = [f"{_WORDS[label]}, {_line(items[span['item']]['source'])}: \u201c{_line(span['text'])}\u201d" for span in spans]
    return list(dict.fromkeys(lines))


def _line(text: str) -> str:
    """Write a text on one line."""
    return " ".join(text.split())


def _tell_issued(file: str, issued: Mapping[str, Any]) -> None:
    logged = _logged(issued)
    where = "" if logged is None else f", entry {logged['index']} of the log {logged['origin']}"
    note(f"certificate {file!r} by {issued['certificate']['issuer']['name']}{where}")
