"""Which corpus a provider describes, and whether it signed exactly that one (RAG service contract §3.2, §3.4, §3.6).

A corpus is its embedding model, the length of its vectors, and its repositories, each at one commit, in order. Their hash is what
answers name and what an operator signs; whatever else a description holds is dropped before anything is judged.
"""

from __future__ import annotations

import hashlib
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rag_stdlib.contract import cbor, jcs, loose, nodekeys, signedobject
from rag_stdlib.contract.nodekeys import NodeKey, Profile
from rag_stdlib.contract.verdicts import Refused, Signed, Unsigned

LABEL: Final = "macula-rag corpus v1"
MAX_DIM: Final = 2**53 - 1  # the largest integer that every reader of JSON takes for the same number
MAX_REPOS: Final = cbor.MAX_ITEMS  # more than a message of the mesh has room for

_NODE_ID_BYTES: Final = 32
_HEX_64: Final = re.compile("[0-9a-fA-F]{64}")
_DIGEST: Final = re.compile("[0-9a-f]{64}")


class MalformedDescription(ValueError):  # noqa: N818 - the contract's name for it
    """A description has not the shape of the contract; the message names the first misfit."""


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository of a corpus at the commit it is served at."""

    id: str
    url: str
    branch: str
    commit: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """What a description says, as far as its hash covers it, with the hash and the signature it came with.

    The shape is the contract's; what the strings say is not checked, and no more is proved by this object alone.

    Attributes:
        model: The embedding model.
        dim: The length of its vectors.
        repos: The repositories in the provider's order, which is part of the identity.
        corpus_hash: The hash that the description claims.
        signature: The signed object, None where the corpus is unsigned.
    """

    model: str
    dim: int
    repos: tuple[Repo, ...]
    corpus_hash: str
    signature: bytes | None = field(default=None, repr=False)


def corpus_hash(description: object) -> str:
    """Compute the identity of a described corpus: SHA-256 over its canonical JSON (RFC 8785), 64 lowercase hex digits.

    Covered are `model`, `dim` and the `id`, `url`, `branch` and `commit` of each of `repos`, in their order. A hash or signature in
    the description is not looked at. Keys and strings may be text or bytes.

    Raises:
        MalformedDescription: One of them is missing, or is no text, positive integer up to 2^53 - 1, or list of maps.
    """
    return _hash(*_identity(description))


def described(description: object) -> Corpus | None:
    """Read a description, its claimed hash and its signature; None where it has not the shape of §3.6, step 1."""
    try:
        return _checked(description)
    except MalformedDescription:
        return None


def consistent(description: object) -> Corpus | Refused:
    """Check the shape of a description and that it hashes to the hash it claims (§3.6, steps 1 and 2).

    Returns:
        The corpus, or `Refused` for ``malformed_description`` (with what is wrong) or ``corpus_hash_mismatch``.
    """
    try:
        corpus = _checked(description)
    except MalformedDescription as error:
        return Refused("malformed_description", str(error))
    if _hash(corpus.model, corpus.dim, corpus.repos) != corpus.corpus_hash:
        return Refused("corpus_hash_mismatch")
    return corpus


def vouched(corpus: Corpus, provider: str, profile: Profile) -> Signed | Unsigned | Refused:
    """Judge the signature of a corpus that `consistent` gave, for a provider as `pinned` gives it (§3.6, steps 3 to 7)."""
    if corpus.signature is None:
        return Unsigned()
    signed = signedobject.verify(LABEL, corpus.signature, profile)
    if isinstance(signed, Refused):
        return Refused("signature", signed.reason)
    if signed.node_id != provider:
        return Refused("signer_not_provider")
    claim = signed.fields.get("corpus_hash")
    if not isinstance(claim, str) or claim != corpus.corpus_hash:
        return Refused("signature_hash_mismatch")
    return Signed(provider)


def verify_corpus(description: object, provider: str | bytes, profile: Profile) -> Signed | Unsigned | Refused:
    """Check a description that the pinned provider sent, and whether that provider signed it (§3.6).

    `Signed` counts only where the caller called `provider` itself, over a transport that binds a reply to the node it was
    addressed to; the signed object is static, and anyone can serve a copy of it. It says that the provider vouched for this corpus, not when.
    `signed_by` and every key that the hash does not cover are not looked at.

    Args:
        description: The reply of describe_corpus, however malformed; keys and strings may be text or bytes. A signature that is
            null is malformed, and no absent one.
        provider: The node id that was called: 64 hex digits of any case, or 32 bytes.
        profile: The profile whose keys the caller accepts.

    Returns:
        `Signed`, `Unsigned`, or the first of these that holds as `Refused`: ``malformed_description`` (with what is wrong),
        ``corpus_hash_mismatch``, ``signature`` (with ``malformed``, ``signature_invalid`` or ``alg_mismatch``),
        ``signer_not_provider``, ``signature_hash_mismatch``.

    Raises:
        ValueError: `provider` is no node id, or there is no such profile.
        TypeError: `provider` is neither text nor bytes.
    """
    node = pinned(provider, profile)
    corpus = consistent(description)
    return corpus if isinstance(corpus, Refused) else vouched(corpus, node, profile)


def pinned(provider: str | bytes, profile: Profile) -> str:
    """Return the node id of a provider to check against as 64 lowercase hex digits.

    Raises:
        ValueError: `provider` is no node id, or there is no such profile: both are the caller's own, not a stranger's.
        TypeError: `provider` is neither text nor bytes.
    """
    check_profile(profile)
    if isinstance(provider, bytes):
        if len(provider) == _NODE_ID_BYTES:
            return provider.hex()
    elif not isinstance(provider, str):
        raise TypeError(f"a provider is a node id in hex or bytes, not {type(provider).__name__}")
    elif _HEX_64.fullmatch(provider):
        return provider.lower()
    raise ValueError(f"a node id is 64 hex digits or {_NODE_ID_BYTES} bytes")


def check_profile(profile: Profile) -> None:
    """Refuse a profile that there is not.

    Raises:
        ValueError: It is none of `PROFILES`.
    """
    if profile not in nodekeys.PROFILES:
        raise ValueError(f"there is no profile {reprlib.repr(profile)}; there are {' and '.join(nodekeys.PROFILES)}")


def sign_corpus(corpus_hash: str, key: NodeKey) -> bytes:
    """Sign the hash of a corpus: the bytes of `signature` in describe_corpus (§3.4).

    Raises:
        ValueError: It is no hash in 64 lowercase hex digits.
    """
    if not isinstance(corpus_hash, str) or not _DIGEST.fullmatch(corpus_hash):
        raise ValueError("a corpus hash is 64 lowercase hex digits")
    return signedobject.sign(LABEL, {"corpus_hash": corpus_hash}, key)


def _hash(model: str, dim: int, repos: tuple[Repo, ...]) -> str:
    listed = [{"branch": repo.branch, "commit": repo.commit, "id": repo.id, "url": repo.url} for repo in repos]
    return hashlib.sha256(jcs.canonical({"dim": dim, "model": model, "repos": listed})).hexdigest()


def _checked(description: object) -> Corpus:
    model, dim, repos = _identity(description)
    signature = loose.field(description, "signature")
    if not isinstance(signature, bytes):
        if loose.has(description, "signature"):
            raise MalformedDescription("signature is no byte string")
        signature = None
    return Corpus(model, dim, repos, _text(description, "corpus_hash"), signature)


def _identity(description: object) -> tuple[str, int, tuple[Repo, ...]]:
    if not isinstance(description, Mapping):
        raise MalformedDescription("it is no map")
    model, dim = _text(description, "model"), loose.field(description, "dim")
    if not isinstance(dim, int) or isinstance(dim, bool) or not 0 < dim <= MAX_DIM:
        raise MalformedDescription("dim is no integer from 1 to 2^53 - 1")
    repos = loose.field(description, "repos")
    if not isinstance(repos, (list, tuple)) or len(repos) > MAX_REPOS:
        raise MalformedDescription(f"repos is no list of at most {MAX_REPOS:,} maps")
    return model, dim, tuple(_repo(entry, f"repos[{at}]") for at, entry in enumerate(repos))


def _repo(entry: object, where: str) -> Repo:
    if not isinstance(entry, Mapping):
        raise MalformedDescription(f"{where} is no map")
    return Repo(*(_text(entry, name, f"{where}.") for name in ("id", "url", "branch", "commit")))


def _text(holder: object, name: str, where: str = "") -> str:
    text = loose.text(loose.field(holder, name))
    if text is None:
        raise MalformedDescription(f"{where}{name} is missing or no text")
    return text
