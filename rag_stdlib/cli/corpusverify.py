"""`rag corpus verify`: is a description or a stored answer what it says, and who vouches for it?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from rag_stdlib.cli.corpus import corpora
from rag_stdlib.cli.corpuskeys import DEFAULT_PROFILE, show_corpus
from rag_stdlib.cli.frame import AsJson, CommandError, command, show_json
from rag_stdlib.cli.jsonfile import json_bytes
from rag_stdlib.cli.terminal import clean, show, styled
from rag_stdlib.contract.nodekeys import Profile

if TYPE_CHECKING:
    from rag_stdlib.contract.answers import CheckedHit, StoredAnswer
    from rag_stdlib.contract.corpus import Corpus
    from rag_stdlib.contract.verdicts import Refused

_COLOURS: Final[Mapping[str, tuple[int, ...]]] = {"signed": (1, 32), "unsigned": (33,), "refused": (1, 31)}

_REASONS: Final[Mapping[str, str]] = {
    "malformed_description": "it is no description of a corpus",
    "corpus_hash_mismatch": "the hash that it names is not that of the corpus it describes",
    "signature: malformed": "the signature is no signed object of this profile; --profile names another",
    "signature: signature_invalid": "the signature was not made by the key that it carries, or not for a corpus",
    "signature: alg_mismatch": "the signature names another algorithm than its key has",
    "signer_not_provider": "it is signed by another node than this provider",
    "signature_hash_mismatch": "what is signed is another corpus",
    "malformed_answer": "it is no answer",
    "not_the_answering_corpus": "the answer names another corpus than the one that is described",
    "other_provider": "the provider that was asked is another one",
}
_OF_HITS: Final[Mapping[str, str]] = {
    "malformed_provenance": "the hit does not say where its text is from in the contract's form",
    "content_mismatch": "the text is not the one that its provenance names",
    "deposit": "the text was left with the provider and belongs to no repository",
    "repo_not_in_corpus": "it names a repository that the corpus has not",
    "commit_not_in_corpus": "it names another commit than the corpus has of this repository",
}


@dataclass(frozen=True, slots=True)
class _Found:
    """What a check found, and in words; `signer` is the node whose signature holds, `hits` are those of an answer that is not refused."""

    outcome: Literal["signed", "unsigned", "refused"]
    words: str
    reason: str = ""
    detail: str = ""
    signer: str | None = None
    corpus: Corpus | None = None
    hits: Sequence[CheckedHit] = ()

    def holds(self, *, expected: bool) -> bool:
        """Tell whether all is well; `expected` says that a provider was named, whose signature it must be then."""
        vouched = self.outcome == "signed" or (self.outcome == "unsigned" and not expected)
        return vouched and all(checked.content_verified for checked in self.hits)

    def to_dict(self) -> dict[str, Any]:
        """Give it as a value of the mesh."""
        return {"outcome": self.outcome, "reason": self.reason, "detail": self.detail, "signer": self.signer,
                "corpus_hash": None if self.corpus is None else self.corpus.corpus_hash, "hits": [checked.marked() for checked in self.hits]}


@command("verify", "Check a description or a stored answer.", group=corpora)
def verify(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A description, as rag corpus describe --json prints it, or a stored answer.")],
    provider: Annotated[str | None, typer.Option(metavar="NODE_ID", help="The provider that you trust; its signature is asked for then.")] = None,
    profile: Annotated[Profile | None, typer.Option(metavar="NAME", help="pq_hybrid or pq_pure; otherwise what a stored answer names, "
                                                                         "or pq_hybrid.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check a description of a corpus, or an answer that was stored with one: its hash, its signature, and the text of each hit.

    Exit codes: 0 it holds, and is signed by the provider if one is named; 1 it does not, or the text of a hit is not the one it names.
    """
    trusted = None if provider is None else _node_id(provider)
    found = _checked(file, trusted, profile)
    if as_json:
        show_json(_plain(found, file))
    else:
        _tell(found)
    if not found.holds(expected=trusted is not None):
        raise typer.Exit(1)


def _plain(found: _Found, file: str) -> Any:  # noqa: ANN401 - JSON
    from rag_stdlib.contract.jsonform import JsonFormError, to_json

    try:
        return json.loads(to_json(found.to_dict()))
    except JsonFormError as error:  # the marks of very many hits
        raise CommandError(f"{file!r} cannot be shown as JSON: {error}") from None


def _node_id(typed: str) -> str:
    from rag_stdlib.contract.corpus import pinned

    try:
        return pinned(typed, DEFAULT_PROFILE)
    except ValueError as error:
        raise typer.BadParameter(f"{typed!r}: {error}", param_hint="--provider") from None


def _checked(file: str, provider: str | None, profile: Profile | None) -> _Found:
    from rag_stdlib.contract.answers import StoredAnswer
    from rag_stdlib.contract.jsonform import JsonFormError, from_json

    data = json_bytes(file)
    try:
        value = from_json(data)
        if not isinstance(value, dict) or not {"description", "answer"} <= value.keys():
            return _of_description(value, provider, profile or DEFAULT_PROFILE)
        stored = StoredAnswer.from_json(data)
    except JsonFormError as error:
        raise CommandError(f"{file!r} cannot be checked: {error}") from None
    return _of_answer(stored if profile is None else replace(stored, profile=profile), provider)


def _of_description(value: object, provider: str | None, profile: Profile) -> _Found:
    from rag_stdlib.contract import signedobject
    from rag_stdlib.contract.corpus import LABEL, consistent, vouched
    from rag_stdlib.contract.verdicts import Refused

    corpus = consistent(value)
    if isinstance(corpus, Refused):
        return _refused(corpus)
    if corpus.signature is None:
        return _Found("unsigned", "it carries no signature, so nobody vouches for it", corpus=corpus)
    signed = signedobject.verify(LABEL, corpus.signature, profile)
    signer = None if isinstance(signed, Refused) else signed.node_id
    verdict = vouched(corpus, provider or signer or "", profile)
    if isinstance(verdict, Refused):
        return _refused(verdict)
    if provider is None:
        return _Found("unsigned", _stranger(signer), signer=signer, corpus=corpus)
    return _Found("signed", f"{provider} vouches for exactly this corpus, and the signature does not say since when", signer=signer, corpus=corpus)


def _of_answer(stored: StoredAnswer, provider: str | None) -> _Found:
    from rag_stdlib.contract.answers import RefusedAnswer, SignedAnswer

    answer = stored.check(provider)
    if isinstance(answer, RefusedAnswer):
        return _refused(answer.reason)
    if isinstance(answer, SignedAnswer):
        signer = answer.provider
        words = f"{signer} vouches for exactly this corpus; that it gave this answer is the word of whoever kept it"
        return _Found("unsigned" if provider is None else "signed", _stranger(signer) if provider is None else words,
                      signer=signer, corpus=answer.corpus, hits=answer.hits)
    words = "the call was not pinned, so nobody knows who answered" if answer.provider is None else f"{answer.provider} was asked, and signed nothing"
    return _Found("unsigned", f"{words}; nobody vouches for the corpus", corpus=answer.corpus, hits=answer.hits)


def _stranger(signer: str | None) -> str:
    return f"the signature by {signer} is whole, and nobody vouches for the corpus until --provider says that this node is trusted"


def _refused(refused: Refused) -> _Found:
    exact = _REASONS.get(str(refused), "")
    words = exact or f"{_REASONS.get(refused.reason, 'it does not hold')}{f' ({refused.detail})' if refused.detail else ''}"
    return _Found("refused", words, refused.reason, refused.detail)


def _tell(found: _Found) -> None:
    inner = f": {found.detail}" if found.reason == "signature" else ""
    reason = f" [{found.reason}{inner}]" if found.reason else ""
    show(f"{styled(found.outcome, *_COLOURS[found.outcome])}{clean(reason)}: {clean(found.words)}")
    if found.corpus is not None:
        show_corpus(found.corpus)
    rows = [(str(checked.content_verified), str(checked.in_corpus), _place(checked.hit)) for checked in found.hits]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(2)]
    for number, (content, membership, place) in enumerate(rows, 1):
        show(f"hit {number:<{len(str(len(rows)))}}  content {content:<{widths[0]}}  {membership:<{widths[1]}}  {place}")
    for verdict in sorted({verdict for row in rows for verdict in row[:2]} & _OF_HITS.keys()):
        show(f"{verdict}: {_OF_HITS[verdict]}")


def _place(hit: Mapping[str, Any]) -> str:
    """Say where a hit says that it stands, for whatever stands there."""
    from rag_stdlib.contract import loose

    provenance = hit.get("provenance")
    if not isinstance(provenance, Mapping):
        return "-"
    path, lines = loose.text(loose.field(provenance, "path")), [loose.field(provenance, name) for name in ("start_line", "end_line")]
    at = "".join(f"{mark}{line}" for mark, line in zip(":-", lines, strict=True) if type(line) is int)
    return clean(f"{path or '-'}{at}")
