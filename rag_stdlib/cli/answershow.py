"""An answer as the commands show it: what the judge let through, and of everything else only that it is there, unless all is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from rag_stdlib.cli.block import show_block
from rag_stdlib.cli.frame import AsJson, note, show_json
from rag_stdlib.cli.meshnode import short
from rag_stdlib.cli.terminal import show

Body = Mapping[str, Any]

_WORDS: Final[Mapping[str, str]] = {"quoted": "quoted", "entailed": "follows from the text"}
_INDENT: Final = "    "


@dataclass(frozen=True, slots=True)
class Showing:
    """The options, as commands take them (`rag_stdlib.cli.optiongroup`)."""

    everything: Annotated[bool, typer.Option(
        "--all", help="Print also the claims that may not be shown, marked so, and why; with --json all that a certificate has of the answer.")] = False
    as_json: AsJson = False

    def answer(self, question: str, said: Body, file: str | None, issued: Body | None) -> None:
        """Show what was answered: `said` is what a certificate has of it, `issued` the envelope of the one that is in `file`."""
        if self.as_json:
            show_json({"question": question, **(_whole(said) if self.everything else _shown(said)), "certificate": _written(file, said, issued)})
            return
        self._claims(said)
        if file is not None and issued is not None:
            logged = _logged(issued)
            where = "" if logged is None else f", entry {logged['index']} of the log {logged['origin']}"
            note(f"certificate {file!r} by {said['issuer']['name']}{where}")

    def _claims(self, said: Body) -> None:
        """Show the claims that may be shown, and tell of the others and of what could not be searched."""
        items = said["retrieval"]["items"]
        shown, hidden = _parted(said)
        for place, (_, claim) in enumerate(shown):
            if place:
                show("")
            show_block(_line(claim["text"]))
            for source, quote in dict.fromkeys(_evidence(claim, items)):
                show_block(f"{_INDENT}{_WORDS[claim['judgement']['label']]}, {_line(source)}: \u201c{_line(quote)}\u201d", 2)
        if shown and hidden:
            show("")
        if hidden and not self.everything:
            show_block(f"not shown: {counted(claim['decision']['reason'] for _, claim in hidden)}")
        for _, claim in hidden if self.everything else ():
            show_block(f"may not be shown [{claim['decision']['reason']}]:\n{_INDENT}{_line(claim['text'])}", 33)
        for shard in said["retrieval"]["failed"]:
            note(f"without the shard {short(shard['node_id'])}, which failed: {_line(shard['reason'])}")
        if said["answer"]["abstained"]:
            note("no answer: " + ("what was found does not answer the question" if items else "nothing was retrieved"))
        elif not shown:
            note("no claim of the answer may be shown")


def counted(words: Iterable[str]) -> str:
    """Count words that come again: ``1 low_confidence, 2 no_span``."""
    return ", ".join(f"{count:,} {word}" for word, count in sorted(Counter(words).items()))


def _parted(said: Body) -> tuple[list[tuple[int, Body]], list[tuple[int, Body]]]:
    """Part the claims, each with its place, into those that may be shown and the others."""
    claims = list(enumerate(said["claims"]))
    return [each for each in claims if each[1]["decision"]["shown"]], [each for each in claims if not each[1]["decision"]["shown"]]


def _whole(said: Body) -> dict[str, Any]:
    """Give all that a certificate has of an answer."""
    return {name: said[name] for name in ("answer", "claims", "retrieval", "generator", "judge", "methods", "policy")}


def _shown(said: Body) -> dict[str, Any]:
    """Give what may be shown, and where it is from: no text that the judge did not let through, be it of the answer or of a chunk."""
    shown, hidden = _parted(said)
    retrieval = said["retrieval"]
    items = retrieval["items"]
    return {
        "abstained": said["answer"]["abstained"],
        "claims": [_claim(place, claim, _evidence(claim, items)) for place, claim in shown],
        "blocked": [{"place": place, "reason": claim["decision"]["reason"]} for place, claim in hidden],
        "retrieval": {**retrieval, "items": [{name: part for name, part in item.items() if name != "text"} for item in items]},
        **{name: said[name] for name in ("generator", "judge", "methods", "policy")}}


def _claim(place: int, claim: Body, evidence: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {"place": place, "text": claim["text"], "label": claim["judgement"]["label"], "confidence": claim["judgement"]["confidence"],
            "sources": [source for source, _ in evidence], "quotes": [quote for _, quote in evidence]}


def _evidence(claim: Body, items: Sequence[Body]) -> list[tuple[str, str]]:
    """Give source and text of the spans that a claim rests on."""
    from rag_stdlib.proof.decisions import evidence

    return [(items[span["item"]]["source"], span["text"]) for span in evidence(claim)]


def _line(text: str) -> str:
    """Write a text on one line."""
    return " ".join(text.split())


def _written(file: str | None, said: Body, issued: Body | None) -> dict[str, Any] | None:
    """Say what certificate was written, and where."""
    if issued is None:
        return None
    return {"file": file, "issuer": said["issuer"], "issued_at": said["issued_at"], "expires_at": said["expires_at"], "nonce": said["query"]["nonce"],
            "logged": _logged(issued)}


def _logged(issued: Body) -> dict[str, Any] | None:
    from rag_stdlib.proof.log.checkpoints import Checkpoint
    from rag_stdlib.proof.log.notes import Note
    from rag_stdlib.proof.log.receipts import Receipt

    if "receipt" not in issued:
        return None
    receipt = Receipt.parse(issued["receipt"].encode())
    head = Checkpoint.parse(Note.parse(receipt.checkpoint).text)
    return {"origin": head.origin, "index": receipt.index, "size": head.size}
