"""Say of a stored answer whether its corpus is signed, and of each hit what is known: python verify.py answer.json [PROVIDER].

It needs neither the provider nor an index nor a network. The exit code is 0 where the corpus is signed by the provider that
answered (by PROVIDER, where one is named) and the text of each hit is the one that its provenance names.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rag_stdlib.contract import HitVerdict, Membership, RefusedAnswer, SignedAnswer, StoredAnswer


def verify(file: str, provider: str | None = None) -> int:
    """Print what the checks of one stored answer found; return the exit code."""
    try:
        answer = StoredAnswer.from_json(Path(file).read_bytes()).check(provider)
    except (OSError, ValueError) as error:
        print(f"cannot tell: {error}")
        return 1
    if isinstance(answer, RefusedAnswer):
        print(f"not signed: {answer.reason}")
        return 1
    signed = isinstance(answer, SignedAnswer)
    print(f"signed by {answer.provider}" if signed else "not signed: nobody vouches for this corpus")
    print("  that it answered, and with these hits, is the word of whoever kept the file")
    for checked in answer.hits:
        marks = mark("content_verified", checked.content_verified), mark("in_corpus", checked.in_corpus)
        print(f"  hit {checked.hit.get('chunk_id')!a}: {', '.join(marks)}")
    return 0 if signed and all(checked.content_verified for checked in answer.hits) else 1


def mark(name: str, verdict: HitVerdict | Membership) -> str:
    """Write a mark of a hit as the contract's callers do: 1, or 0 and why."""
    return f"{name} 1" if verdict else f"{name} 0 ({verdict})"


if __name__ == "__main__":
    sys.exit(verify(*sys.argv[1:3]) if len(sys.argv) > 1 else f"usage: {sys.argv[0]} FILE [PROVIDER]")
