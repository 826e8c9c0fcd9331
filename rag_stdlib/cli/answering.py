"""How `rag answer` makes answers, as its options say: what generates, how claims are found and aligned, who judges."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Protocol, TypeAlias, runtime_checkable

import typer

from rag_stdlib.cli.frame import replayed
from rag_stdlib.cli.prooffiles import number
from rag_stdlib.config import OPENAI_VARIABLE
from rag_stdlib.errors import fail

if TYPE_CHECKING:
    from rag_stdlib.embed.protocol import Embedder, EmbedderIdentity, Matrix, Role
    from rag_stdlib.proof.generators.protocol import Generator
    from rag_stdlib.proof.judges.protocol import Judge
    from rag_stdlib.proof.pipeline import Pipeline
    from rag_stdlib.runtime import Runtime

GeneratorName: TypeAlias = Literal["extractive", "openai", "ollama", "none"]
JudgeName: TypeAlias = Literal["quotation", "nli", "none"]
AlignmentName: TypeAlias = Literal["lexical", "embedder", "none"]
StyleName: TypeAlias = Literal["quote", "write"]
ClaimsName: TypeAlias = Literal["rules", "model", "whole"]

_LABELS: Final = ("quoted", "entailed")  # of the format's four those that are ever shown
_MODELS: Final = ("openai", "ollama")


@runtime_checkable
class _Closing(Protocol):
    """What keeps connections, such as a generator that asks a model."""

    def close(self) -> None:
        """Close them."""


@dataclass(frozen=True, slots=True)
class Answering:
    """The options, as commands take them (`rag_stdlib.cli.optiongroup`); those that do not fit together are refused as usage."""

    generator: Annotated[GeneratorName, typer.Option(
        "--generator", metavar="NAME", help="extractive (copies sentences, offline), openai, ollama, or none (the best chunk as it is).")] = "extractive"
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="The chat model of openai or ollama.")] = None
    endpoint: Annotated[str | None, typer.Option("--endpoint", metavar="URL", help="Where it is served; otherwise the provider's own.")] = None
    style: Annotated[StyleName | None, typer.Option(
        "--style", metavar="NAME", help="Have it quote the evidence, or write; quote unless the judge is nli.")] = None
    claims: Annotated[ClaimsName, typer.Option(
        "--claims", metavar="NAME", help="rules (a claim a sentence), model (a claim a line) or whole (one claim).")] = "rules"
    alignment: Annotated[AlignmentName, typer.Option(
        "--alignment", metavar="NAME", help="lexical, embedder (the configured one, which then also finds the sentences to copy), or none.")] = "lexical"
    spans: Annotated[int, typer.Option("--spans", metavar="N", min=1, max=16, help="Judge a claim by at most so many pieces of text.")] = 3
    judge: Annotated[JudgeName, typer.Option(
        "--judge", metavar="NAME", help="quotation (offline), nli (a model), or none, so that nothing is shown.")] = "quotation"
    judge_model: Annotated[str | None, typer.Option("--judge-model", metavar="FOLDER", help="The model of nli, a cross-encoder.")] = None
    judge_hub: Annotated[str | None, typer.Option(
        "--judge-hub", metavar="NAME", help="The same, of the Hugging Face hub: NAME or NAME@REVISION.")] = None
    label: Annotated[list[str] | None, typer.Option(
        "--label", metavar="LABEL", help="Show only claims with this label, quoted or entailed; may be repeated, otherwise both.")] = None
    minimum: Annotated[float, typer.Option("--minimum", metavar="X", min=0, max=1, help="Show no claim whose judgement is less sure.")] = 0.5

    def __post_init__(self) -> None:
        """Look whether they fit together."""
        if self.generator not in _MODELS:
            for option, value in (("--model", self.model), ("--endpoint", self.endpoint), ("--style", self.style)):
                if value is not None:
                    raise typer.BadParameter("it is for the generators openai and ollama", param_hint=option)
        if (self.judge == "nli") != (self.judge_model is not None or self.judge_hub is not None) or None not in (self.judge_model, self.judge_hub):
            raise typer.BadParameter("nli takes one of --judge-model and --judge-hub, and no other judge takes one", param_hint="--judge")
        number(self.minimum, "--minimum")
        for label in self.label or ():
            if label not in _LABELS:
                raise typer.BadParameter(f"{label!r} is not one of {', '.join(map(repr, _LABELS))}", param_hint="--label")

    @contextmanager
    def pipeline(self, runtime: Runtime, lifetime_s: int | None = None) -> Iterator[Pipeline]:
        """Give the pipeline; nothing is opened yet, and at the end of the block the connections of a model are closed.

        Args:
            runtime: Has the embedder.
            lifetime_s: How long its certificates are good; as long as the format's own, where it is not said.

        Raises:
            Failure: a part cannot work as it is configured.
        """
        from rag_stdlib.proof.certificate import LABELS, LIFETIME_S, share
        from rag_stdlib.proof.pipeline import Pipeline

        embedder = _configured(runtime) if self.alignment == "embedder" else None

        def embed(texts: Sequence[str]) -> Matrix:
            from rag_stdlib.embed.boundary import embedded

            assert embedder is not None  # noqa: S101 - it is asked for by alignment by embedder alone
            return embedded(embedder, texts, "passage")

        generator = self._generator(embedder)
        try:
            yield Pipeline(
                generator, self._judge(), decomposition=self.claims, alignment=self.alignment, embed=None if embedder is None else embed, spans=self.spans,
                labels=LABELS if self.label is None else tuple(dict.fromkeys(self.label)), minimum_confidence=share(self.minimum),
                lifetime_s=LIFETIME_S if lifetime_s is None else lifetime_s)
        finally:
            if isinstance(generator, _Closing):
                generator.close()

    def _generator(self, embedder: Embedder | None) -> Generator:
        from rag_stdlib.proof.generators import ChatSettings, make_generator

        if self.generator == "extractive" or self.generator == "none":  # noqa: PLR1714 - which tells the type checker what is left
            return make_generator(self.generator, embedder=embedder)
        key = os.environ.get(OPENAI_VARIABLE) if self.generator == "openai" else None
        if not key and replayed():
            key = "none"  # the trace answers
        style = self.style or ("write" if self.judge == "nli" else "quote")
        return make_generator(ChatSettings(self.generator, self.model, self.endpoint, style=style, api_key=key))

    def _judge(self) -> Judge:
        from rag_stdlib.proof.judges import make_judge

        if self.judge_hub is None:
            return make_judge(self.judge, folder=None if self.judge_model is None else Path(self.judge_model))
        name, _, revision = self.judge_hub.partition("@")
        return make_judge(self.judge, hub=name, revision=revision or None)


def _configured(runtime: Runtime) -> Embedder:
    """Return the configured embedder, or in a replay without one what stands for it there."""
    embedder = runtime.embedder
    if embedder is None and not replayed():
        raise fail("embedder_unconfigured")
    return embedder or _Unasked()


class _Unasked:
    """An embedder whose calls a trace answers."""

    remote = False

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:  # noqa: ARG002 - the protocol's
        """See `Embedder.identity`."""
        raise fail("embedder_unconfigured")

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:  # noqa: ARG002 - the same
        """See `Embedder.embed`."""
        raise fail("embedder_unconfigured")
