"""`rag answer`: an answer from an index, claim by claim, and its certificate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rag_stdlib.cli.answering import Answering
from rag_stdlib.cli.answerissue import Issuing
from rag_stdlib.cli.answershow import Showing
from rag_stdlib.cli.frame import CommandError, Index, command, runtime_of
from rag_stdlib.cli.optiongroup import ModeOption, grouped
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.prooffiles import proof_errors
from rag_stdlib.runtime import Runtime

if TYPE_CHECKING:
    from rag_stdlib.proof.pipeline import Retrieve

_MOST: Final = 1_000

Question = Annotated[list[str], typer.Argument(metavar="QUESTION...", help="The question. Put -- before words that begin with a dash.")]
Limit = Annotated[int, typer.Option("-n", "--limit", metavar="N", min=1, max=_MOST, help="Answer from at most so many chunks.")]


@command("answer", "Answer a question, every claim with evidence.")
@grouped
def answer(
    context: typer.Context,
    index: Index,
    question: Question,
    *,
    limit: Limit = 10,
    mode: ModeOption = None,
    no_retrieval: Annotated[bool, typer.Option("--no-retrieval", help="Retrieve nothing, so that there is no answer; to measure against.")] = False,
    answering: Answering,
    issuing: Issuing,
    showing: Showing,
) -> None:
    """Answer a question from what an index holds: the claims that the judge lets through, each with its evidence, and how many others there are, and why.

    With --certificate the answer is signed, so that others can check it by rag verify; with --log it goes into a transparency log as well.
    """
    def searching(runtime: Runtime) -> Retrieve:
        from rag_stdlib.proof.retrieving import retrieve, retrieve_nothing

        path, by = below_root(runtime, index), retrieve_nothing if no_retrieval else retrieve
        if runtime.config.root:
            issuing.check_apart("INDEX", str(Path(runtime.root.path, path)))
        return lambda asked: by(path, asked, limit, mode)

    answer_by(context, words_of(question), searching, issuing, answering, showing)


def words_of(question: list[str]) -> str:
    """Return the question that was asked, in one or several words."""
    text = " ".join(question)
    if not text.strip():
        raise typer.BadParameter("a question is not blank", param_hint="QUESTION")
    return text


def answer_by(context: typer.Context, question: str, searching: Callable[[Runtime], Retrieve], issuing: Issuing, answering: Answering, showing: Showing) -> None:
    """Answer a question from what a search finds, and show the answer."""
    with runtime_of(context) as runtime, proof_errors(), answering.pipeline(runtime, issuing.lifetime_s) as pipeline:
        said, issued, short = issuing.answered(question, searching(runtime), pipeline)
    showing.answer(question, said, issuing.certificate, issued)
    if short:
        raise CommandError(short, code="quorum_missing")
