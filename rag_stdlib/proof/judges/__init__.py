"""Judges: what a claim and the spans it may rest on have to do with each other.

Importing this package loads no model; `make_judge` loads what is named.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from rag_stdlib.errors import fail
from rag_stdlib.proof.judges.protocol import Judge, JudgeIdentity, Judgement, Label

JudgeName: TypeAlias = Literal["quotation", "nli", "none"]

__all__ = ["Judge", "JudgeIdentity", "JudgeName", "Judgement", "Label", "make_judge"]


def make_judge(name: JudgeName, *, folder: Path | None = None, hub: str | None = None, revision: str | None = None) -> Judge:
    """Make a judge.

    Args:
        name: ``quotation`` needs nothing, ``nli`` a model, ``none`` judges nothing.
        folder: Of the model.
        hub: The model's name on the Hugging Face hub, for one that is in no folder.
        revision: Of the model on the hub.

    Raises:
        Failure: `config_invalid` for ``nli`` without one model; `judge_not_installed` and `judge_model` where a hub's cannot be had.
    """
    if name == "quotation":
        from rag_stdlib.proof.judges.quotation import QuotationJudge

        return QuotationJudge()
    if name == "none":
        from rag_stdlib.proof.judges.none import NoJudge

        return NoJudge()
    from rag_stdlib.proof.judges.nli import NliJudge

    if folder is not None and hub is None:
        return NliJudge(folder)
    if hub is not None and folder is None:
        return NliJudge.from_hub(hub, revision)
    raise fail("config_invalid", where="the judge nli", detail="it needs a model: a folder, or a name of the hub")
