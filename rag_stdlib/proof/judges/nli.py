"""The judge by a model of natural language inference: a cross-encoder reads a span and a claim together.

One span that contradicts outweighs all that entail. Of a pair too long for the model only the span is cut, and what is cut entails nothing: what the
model has not seen may say otherwise. A claim that does not fit is not judged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rag_stdlib.embed.process import PerProcess
from rag_stdlib.proof.certificate import share
from rag_stdlib.proof.judges import nlimodels
from rag_stdlib.proof.judges.nlifolder import Meaning, ModelFolder, downloaded, not_installed, read_folder, refused
from rag_stdlib.proof.judges.protocol import CERTAIN, NONE, JudgeIdentity, Judgement
from rag_stdlib.proof.recording import recorded

if TYPE_CHECKING:
    from rag_stdlib.proof.judges.nlimodels import Ids, Model

VERSION: Final = "1"  # of what is made of the model's numbers
_BATCH: Final = 16
_WORST_FIRST: Final[tuple[Meaning, ...]] = ("contradiction", "neutral", "entailment")  # of equally likely ones the first counts


class NliJudge:
    """Judges by a cross-encoder in a local folder: config.json, tokenizer.json, and model.onnx or model.safetensors.

    Files are read at the first use, once per process. Judgements are calls that a session records.
    """

    def __init__(self, folder: Path) -> None:
        """Keep the folder; nothing is opened yet."""
        self._loaded = PerProcess(lambda: _Loaded(Path(folder)))

    @classmethod
    def from_hub(cls, name: str, revision: str | None = None) -> NliJudge:
        """Judge by a model of the Hugging Face hub, which is downloaded if it is not here yet: see `nlifolder.downloaded`."""
        return cls(downloaded(name, revision))

    @property
    def identity(self) -> JudgeIdentity:
        """See `Judge.identity`; the digest is of the rules' version, what each output means, the length, and the files."""
        folder = self._loaded.get().folder
        said = f"rag-stdlib/judge/nli/{VERSION}\n{','.join(folder.meanings)}\n{folder.most_tokens}\n{folder.digest}\n"
        return JudgeIdentity("nli", VERSION, hashlib.sha256(said.encode()).hexdigest())

    def judge(self, claim: str, spans: Sequence[str]) -> Judgement:
        """See `Judge.judge`; the failures are `judge_not_installed` and `judge_model`."""
        if not claim.strip() or not any(span.strip() for span in spans):
            return Judgement("not_supported", CERTAIN, "there is nothing to judge")
        digest = self.identity.digest
        found: list[Any] = recorded("judge", [digest, claim, list(spans)], lambda: self._judged(claim, spans))
        return Judgement(*found)

    def _judged(self, claim: str, spans: Sequence[str]) -> list[Any]:
        loaded = self._loaded.get()
        if not loaded.fits(claim):
            return ["not_supported", NONE, "the claim is too long for the model and was not judged"]
        readings = loaded.read(claim, spans)
        said = _decided(readings)
        return [said.label, said.confidence, said.detail]


class _Reading(NamedTuple):
    """What the model makes of a span: its number from 1, the likeliest meaning, the shares of two, and whether the span was cut."""

    span: int
    meaning: Meaning
    entails: float
    contradicts: float
    is_cut: bool


class _Pair(NamedTuple):
    """A span, by its number, and the claim as the model reads them."""

    span: int
    ids: list[int]
    segments: list[int]
    is_cut: bool


def _decided(readings: Sequence[_Reading]) -> Judgement:
    against = [reading for reading in readings if reading.meaning == "contradiction"]
    if against:
        strongest = max(against, key=lambda reading: reading.contradicts)
        return Judgement("contradicted", share(strongest.contradicts), f"span {strongest.span} contradicts it")
    entailing = [reading for reading in readings if reading.meaning == "entailment"]
    whole = [reading for reading in entailing if not reading.is_cut]
    if whole:
        strongest = max(whole, key=lambda reading: reading.entails)
        return Judgement("entailed", share(strongest.entails), f"it follows from span {strongest.span}")
    if entailing:
        return Judgement("not_supported", NONE, "it follows only from what was read of a span too long for the model")
    return Judgement("not_supported", share(1.0 - max(reading.entails for reading in readings)), "it follows from no span")


class _Loaded:
    """A folder's model and tokenizer, in one process."""

    def __init__(self, path: Path) -> None:
        self.folder: ModelFolder = read_folder(path)
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise not_installed(str(error)) from None
        try:
            self._tokenizer = Tokenizer.from_file(str(self.folder.tokenizer))
        except Exception as error:
            raise refused(path, f"{self.folder.tokenizer.name} cannot be read") from error
        self._model: Model = nlimodels.load(self.folder)
        self._most = min(self.folder.most_tokens, self._model.fixed_length or self.folder.most_tokens)
        self._special = self._tokenizer.num_special_tokens_to_add(is_pair=True)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def fits(self, claim: str) -> bool:
        """Tell whether a claim leaves room for a span beside it."""
        return self._room(claim) > 0

    def read(self, claim: str, spans: Sequence[str]) -> list[_Reading]:
        """Have the model read a claim with each span that is not blank."""
        room = self._room(claim)
        pairs = [self._pair(number, span, claim, room) for number, span in enumerate(spans, 1) if span.strip()]
        size = 1 if self._model.one_by_one else _BATCH
        return [reading for start in range(0, len(pairs), size) for reading in self._batch(pairs[start:start + size])]

    def _room(self, claim: str) -> int:
        return self._most - self._special - len(self._tokenizer.encode(claim, add_special_tokens=False).ids)

    def _pair(self, number: int, span: str, claim: str, room: int) -> _Pair:
        """Give the ids and segments of a pair, the span cut to the tokens there is room for."""
        tokens = self._tokenizer.encode(span, add_special_tokens=False)
        is_cut = len(tokens.ids) > room
        if is_cut:
            tokens.truncate(room)
        pair = self._tokenizer.post_process(tokens, self._tokenizer.encode(claim, add_special_tokens=False))
        return _Pair(number, pair.ids, pair.type_ids, is_cut)

    def _batch(self, pairs: Sequence[_Pair]) -> list[_Reading]:
        import numpy as np

        longest = self._model.fixed_length or max(len(pair.ids) for pair in pairs)
        ids: Ids = np.full((len(pairs), longest), self.folder.padding, dtype=np.int64)
        mask, types = np.zeros_like(ids), np.zeros_like(ids)
        for row, pair in enumerate(pairs):
            behind = len(pair.ids)
            ids[row, :behind], mask[row, :behind], types[row, :behind] = pair.ids, 1, pair.segments
        shares = nlimodels.probabilities(self.folder, self._model.logits(ids, mask, types), len(pairs))
        return [self._reading(pair, row.tolist()) for pair, row in zip(pairs, shares, strict=True)]

    def _reading(self, pair: _Pair, shares: list[float]) -> _Reading:
        shares_of = dict(zip(self.folder.meanings, shares, strict=True))
        likeliest = max(_WORST_FIRST, key=lambda meaning: shares_of[meaning])
        return _Reading(pair.span, likeliest, shares_of["entailment"], shares_of["contradiction"], pair.is_cut)
