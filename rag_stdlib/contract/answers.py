"""What may be said of an answer: signed by the provider that was asked, unsigned, or refused, each a type of its own.

A caller asks one provider for its description and for an answer, and `check_answer` judges both together. It alone makes a
`SignedAnswer`, so that a function that takes one needs no check of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any, Final, NamedTuple, TypeAlias, cast

from rag_stdlib.contract import jsonform, loose
from rag_stdlib.contract.corpus import Corpus, check_profile, consistent, pinned, vouched
from rag_stdlib.contract.hits import commits_by_repo, membership, verify_hit
from rag_stdlib.contract.nodekeys import Profile
from rag_stdlib.contract.verdicts import HitVerdict, Membership, Refused, Signed

MARKS: Final = ("content_verified", "in_corpus", "corpus_reason")  # the caller's words on a hit, never the provider's

_PARTS: Final = frozenset({"provider", "profile", "description", "answer"})
_MAKER: Final = object()


@dataclass(frozen=True, slots=True)
class CheckedHit:
    """A hit of an answer whose description is consistent, and what the caller found of it.

    Attributes:
        hit: The hit as it came, with keys as text and without what the provider may have written under the names of `MARKS`.
        content_verified: Is the content the text that the provenance names?
        in_corpus: Does it claim a repository and commit of the described corpus?
    """

    hit: dict[str, Any]
    content_verified: HitVerdict
    in_corpus: Membership

    def marked(self) -> dict[str, Any]:
        """Give the hit with `content_verified` and `in_corpus` as 1 or 0, and `corpus_reason` where it is not in the corpus."""
        marks: dict[str, Any] = {"content_verified": int(bool(self.content_verified)), "in_corpus": int(bool(self.in_corpus))}
        if not self.in_corpus:
            marks["corpus_reason"] = self.in_corpus.value
        return {**self.hit, **marks}


@dataclass(frozen=True, slots=True)
class SignedAnswer:
    """An answer over a corpus that the provider, called and pinned, signed. `check_answer` alone can make one.

    The signature covers the corpus, not the hits: what is known of a hit stands on the hit.

    Attributes:
        signed: The verdict, which names the provider.
        corpus: The described corpus, whose hash the answer names.
        hits: The hits, best first, each checked.
        index_content: The provider's word for the content of its whole index, where it sends one; not covered by the signature.
    """

    signed: Signed
    corpus: Corpus
    hits: tuple[CheckedHit, ...]
    index_content: str | None
    maker: InitVar[object]

    def __post_init__(self, maker: object) -> None:
        """Refuse to be made by anyone else.

        Raises:
            TypeError: `maker` is not the one of this module.
        """
        if maker is not _MAKER:
            raise TypeError("a SignedAnswer comes out of check_answer, from a pinned call, and from nowhere else")

    @property
    def provider(self) -> str:
        """The node id of the provider, 64 lowercase hex digits."""
        return self.signed.provider

    @property
    def corpus_hash(self) -> str:
        """The hash of the corpus that answered."""
        return self.corpus.corpus_hash


@dataclass(frozen=True, slots=True)
class UnsignedAnswer:
    """An answer over a corpus that nobody vouches for: it came unsigned, or the call was not pinned to a provider.

    Attributes:
        provider: The node id of the provider that was called and pinned; None where nobody knows who answered.
        corpus: The described corpus, whose hash the answer names.
        hits: The hits, best first, each checked.
        index_content: The provider's word for the content of its whole index, where it sends one.
    """

    provider: str | None
    corpus: Corpus
    hits: tuple[CheckedHit, ...]
    index_content: str | None

    @property
    def corpus_hash(self) -> str:
        """The hash of the corpus that answered."""
        return self.corpus.corpus_hash

    def __bool__(self) -> bool:
        """Nothing was signed: an ``if`` that asks for a signature must not pass."""
        return False


@dataclass(frozen=True, slots=True)
class RefusedAnswer:
    """An answer that is not to be relied on, and why.

    Attributes:
        reason: A reason of `verify_corpus`, or ``malformed_answer``, ``not_the_answering_corpus``, ``unchecked``, ``other_provider``.
        provider: The node id of the provider that was called and pinned, None where nobody knows who answered.
        hits: The hits without any mark; none where the answer itself is malformed.
    """

    reason: Refused
    provider: str | None
    hits: tuple[dict[str, Any], ...]

    def __bool__(self) -> bool:
        """A refusal is false."""
        return False


Answer: TypeAlias = SignedAnswer | UnsignedAnswer | RefusedAnswer


class _Content(NamedTuple):
    """What an answer holds: the hash it names, and its hits with keys as text and without marks."""

    corpus_hash: str
    hits: tuple[dict[str, Any], ...]
    index_content: str | None


def check_answer(description: object, answer: object, *, provider: str | bytes | None, profile: Profile) -> Answer:
    """Judge an answer together with the description of the corpus that it is said to come from.

    In this order: the description's shape and hash (RAG service contract §3.6, steps 1 and 2), the answer's shape
    (``malformed_answer``), that it names the described corpus (``not_the_answering_corpus``), and the signature (steps 3 to 7).

    Args:
        description: The reply of describe_corpus.
        answer: The reply of answer_query.
        provider: The node id that both calls were pinned to, over a transport that binds a reply to the node it was addressed to:
            64 hex digits or 32 bytes. None where they were not: then nobody knows who answered, the signature is not looked at,
            and the best outcome is an `UnsignedAnswer`.
        profile: The profile whose keys the caller accepts.

    Returns:
        One of the three kinds of answer. Nothing that a provider sent raises.

    Raises:
        ValueError: `provider` is no node id, or there is no such profile.
        TypeError: `provider` is neither text, bytes nor None.
    """
    node = _node(provider, profile)
    content, corpus = _content(answer), consistent(description)
    if isinstance(corpus, Refused):
        return RefusedAnswer(corpus, node, () if isinstance(content, Refused) else content.hits)
    if isinstance(content, Refused):
        return RefusedAnswer(content, node, ())
    if content.corpus_hash != corpus.corpus_hash:
        return RefusedAnswer(Refused("not_the_answering_corpus"), node, content.hits)
    verdict = None if node is None else vouched(corpus, node, profile)
    if isinstance(verdict, Refused):
        return RefusedAnswer(verdict, node, content.hits)
    commits = commits_by_repo(corpus)
    checked = tuple(CheckedHit(hit, verify_hit(hit), membership(hit, commits)) for hit in content.hits)
    if isinstance(verdict, Signed):
        return SignedAnswer(verdict, corpus, checked, content.index_content, _MAKER)
    return UnsignedAnswer(node, corpus, checked, content.index_content)


def unchecked_answer(answer: object, why: str, *, provider: str | None) -> RefusedAnswer:
    """Give an answer whose description could not be had: refused as ``unchecked``, its hits without marks."""
    return RefusedAnswer(Refused("unchecked", why), provider, _hits(answer))


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A description and an answer as they came, kept with what the caller knew, to be checked again without the provider.

    That `provider` answered is the word of whoever kept it: a signed description can be copied, and put beside other hits.

    Attributes:
        provider: The node id that both calls were pinned to, None where they were not.
        profile: The profile whose keys the caller accepts.
        description: The reply of describe_corpus.
        answer: The reply of answer_query.
    """

    provider: str | None
    profile: Profile
    description: object
    answer: object

    def __post_init__(self) -> None:
        """Bring the node id into its one form.

        Raises:
            ValueError: `provider` is no node id, or there is no such profile.
            TypeError: `provider` is neither text, bytes nor None.
        """
        object.__setattr__(self, "provider", _node(self.provider, self.profile))

    def check(self, provider: str | bytes | None = None) -> Answer:
        """Judge it as `check_answer` does, for whoever relies on the keeper's word that `self.provider` answered.

        Args:
            provider: The node id that the checker expects, if any. Where another is stored, or none, the answer is refused as
                ``other_provider``.

        Raises:
            ValueError: `provider` is no node id.
            TypeError: `provider` is neither text, bytes nor None.
        """
        if provider is not None and pinned(provider, self.profile) != self.provider:
            kept = f"as an answer of {self.provider}" if self.provider else "without a pinned provider"
            return RefusedAnswer(Refused("other_provider", f"it was kept {kept}"), self.provider, _hits(self.answer))
        return check_answer(self.description, self.answer, provider=self.provider, profile=self.profile)

    def to_json(self, *, indent: int | None = None) -> str:
        """Write it as JSON text, with bytes as `jsonform` has them.

        Raises:
            JsonFormError: The description or the answer holds what does not cross the mesh.
        """
        parts = {"provider": self.provider, "profile": self.profile, "description": self.description, "answer": self.answer}
        return jsonform.to_json(parts, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> StoredAnswer:
        """Read what `to_json` wrote; nothing is judged yet.

        Raises:
            JsonFormError: It is no stored answer.
        """
        value: Any = jsonform.from_json(text)
        if not isinstance(value, dict) or value.keys() != _PARTS:
            raise jsonform.JsonFormError("a stored answer is a map of provider, profile, description and answer")
        try:
            return cls(**value)
        except (ValueError, TypeError) as error:
            raise jsonform.JsonFormError(str(error)) from None


def _node(provider: str | bytes | None, profile: Profile) -> str | None:
    check_profile(profile)
    return None if provider is None else pinned(provider, profile)


def _content(answer: object) -> _Content | Refused:
    if not isinstance(answer, Mapping):
        return Refused("malformed_answer", "an answer is a map")
    corpus_hash, hits = loose.text(loose.field(answer, "corpus_hash")), loose.field(answer, "hits")
    if corpus_hash is None:
        return Refused("malformed_answer", "corpus_hash is missing or no text")
    if not isinstance(hits, (list, tuple)) or not all(isinstance(hit, Mapping) for hit in hits):
        return Refused("malformed_answer", "hits is no list of maps")
    return _Content(corpus_hash, tuple(map(_unmarked, hits)), loose.text(loose.field(answer, "index_content")))


def _hits(answer: object) -> tuple[dict[str, Any], ...]:
    content = _content(answer)
    return content.hits if isinstance(content, _Content) else ()


def _unmarked(hit: Mapping[object, object]) -> dict[str, Any]:
    loosened = cast("dict[str, Any]", loose.loosened(hit))
    return {name: value for name, value in loosened.items() if name not in MARKS}
