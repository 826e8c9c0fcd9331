"""No judge: nothing is said to be supported, so nothing is shown. It shows in an ablation what judging adds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from rag_stdlib.proof.judges.protocol import NONE, JudgeIdentity, Judgement

VERSION: Final = "1"


class NoJudge:
    """Leaves every claim unsupported."""

    @property
    def identity(self) -> JudgeIdentity:
        """See `Judge.identity`."""
        return JudgeIdentity("none", VERSION, hashlib.sha256(f"rag-stdlib/judge/none/{VERSION}".encode()).hexdigest())

    def judge(self, claim: str, spans: Sequence[str]) -> Judgement:  # noqa: ARG002 - the protocol's
        """See `Judge.judge`."""
        return Judgement("not_supported", NONE, "nobody judged it")
