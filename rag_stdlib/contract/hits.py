"""Is a hit the text that its provenance names, and does it claim to be from the corpus that answered (RAG service contract §2)?

Two questions with two answers. A matching digest says that the text was not changed since somebody computed it, and anyone can compute
one; a repository and commit of the described corpus say where the text claims to come from. What the file holds at that commit is for
whoever has the repository to see.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from rag_stdlib.contract import loose
from rag_stdlib.contract.corpus import Corpus, MalformedDescription, described
from rag_stdlib.contract.verdicts import HitVerdict, Membership

_COMMIT: Final = re.compile("[0-9a-f]{40}")
_DIGEST: Final = re.compile("[0-9a-f]{64}")


def valid_provenance(value: object) -> bool:
    """Tell whether a value has the exact shape of a provenance (§2.3); keys and strings may be text or bytes.

    ``corpus`` takes a `path`, a `repo_id` that is not empty, a `commit` of 40 and a `content_sha256` of 64 lowercase hex digits;
    ``deposit`` a `path` and the `content_sha256`, and neither of the other keys, not even with null. Lines, depositor, further
    keys, and whether `path` lies in the repository are not looked at.
    """
    return _digest(value) is not None


def verify_hit(hit: object) -> HitVerdict:
    """Check the content of a hit against the digest in its provenance (§2.4), for a hit of any age, from anywhere.

    `OK` is not corpus membership: that is `hit_in_corpus`, and neither says who wrote the text. Content in bytes is hashed as it is.
    """
    if not isinstance(hit, Mapping):
        return HitVerdict.MALFORMED_PROVENANCE
    content = _bytes(loose.field(hit, "content"))
    digest = _digest(loose.field(hit, "provenance"))
    if content is None or digest is None:
        return HitVerdict.MALFORMED_PROVENANCE
    return HitVerdict.OK if hashlib.sha256(content).hexdigest() == digest else HitVerdict.CONTENT_MISMATCH


def hit_in_corpus(hit: object, description: Corpus | Mapping[Any, Any]) -> Membership:
    """Tell whether a hit claims a repository of a described corpus at its described commit (§2.5).

    It means something only once the description was checked. A hit of a file that did not change since an earlier commit can name
    that one, where a provider pins its commits, and is then `COMMIT_NOT_IN_CORPUS`.

    Raises:
        MalformedDescription: The description has not the contract's shape.
    """
    corpus = description if isinstance(description, Corpus) else described(description)
    if corpus is None:
        raise MalformedDescription("membership is asked of a description that was checked")
    return membership(hit, commits_by_repo(corpus))


def commits_by_repo(corpus: Corpus) -> dict[str, set[str]]:
    """Give the commits of each repository id of a corpus, for `membership` of many hits."""
    commits: dict[str, set[str]] = {}
    for repo in corpus.repos:
        commits.setdefault(repo.id, set()).add(repo.commit)
    return commits


def membership(hit: object, commits: Mapping[str, AbstractSet[str]]) -> Membership:
    """Tell what `hit_in_corpus` tells, from what `commits_by_repo` gave."""
    provenance = loose.field(hit, "provenance") if isinstance(hit, Mapping) else None
    if not isinstance(provenance, Mapping):
        return Membership.MALFORMED_PROVENANCE
    kind, repo_id, commit = (loose.text(loose.field(provenance, name)) for name in ("kind", "repo_id", "commit"))
    if kind == "deposit":
        return Membership.DEPOSIT
    if kind != "corpus" or repo_id is None or commit is None:
        return Membership.MALFORMED_PROVENANCE
    if repo_id not in commits:
        return Membership.REPO_NOT_IN_CORPUS
    return Membership.IN_CORPUS if commit in commits[repo_id] else Membership.COMMIT_NOT_IN_CORPUS


def _digest(provenance: object) -> str | None:
    """Return the `content_sha256` of a provenance, None where it has not the shape of §2.3."""
    if not isinstance(provenance, Mapping) or loose.text(loose.field(provenance, "path")) is None:
        return None
    kind = loose.text(loose.field(provenance, "kind"))
    if kind == "corpus":
        commit = loose.text(loose.field(provenance, "commit"))
        if not loose.text(loose.field(provenance, "repo_id")) or commit is None or not _COMMIT.fullmatch(commit):
            return None
    elif kind != "deposit" or loose.has(provenance, "repo_id") or loose.has(provenance, "commit"):
        return None
    digest = loose.text(loose.field(provenance, "content_sha256"))
    return digest if digest is not None and _DIGEST.fullmatch(digest) else None


def _bytes(content: object) -> bytes | None:
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    try:
        return content.encode() if isinstance(content, str) else None
    except UnicodeEncodeError:  # a lone surrogate: no text, and nothing that came over the mesh
        return None
