"""No judge: nothing is shown."""

from __future__ import annotations

from rag_stdlib.proof.decisions import reason
from rag_stdlib.proof.judges import make_judge


def test_without_a_judge_nothing_is_shown() -> None:
    judge = make_judge("none")
    judgement = judge.judge("Paris is in France.", ["Paris is in France."])
    assert reason(judgement.label, judgement.confidence, 1, ("contradicted", "entailed", "not_supported", "quoted"), "0.000000") == "not_supported"
    assert (judge.identity.name, len(judge.identity.digest)) == ("none", 64)

