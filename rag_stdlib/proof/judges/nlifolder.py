"""The folder of a cross-encoder for natural language inference: which label its outputs mean, how long a pair may be, and a digest of its files.

What an output means stands in the model's config.json and nowhere else: there are as many orders of the three labels as there are models. A folder that does
not say it is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from rag_stdlib.errors import Failure, fail

Meaning: TypeAlias = Literal["entailment", "contradiction", "neutral"]
Backend: TypeAlias = Literal["onnx", "transformers"]

MEANINGS: Final[tuple[Meaning, ...]] = ("entailment", "contradiction", "neutral")
MOST_TOKENS: Final = 512

_CONFIG: Final = "config.json"
_TOKENIZER: Final = "tokenizer.json"
_TOKENIZER_CONFIG: Final = "tokenizer_config.json"
_ONNX: Final = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
_WEIGHTS: Final = "model.safetensors"
_SHARDS: Final = ("model.safetensors.index.json", "model-*.safetensors")
_OF_HUB: Final = (_CONFIG, _TOKENIZER, _TOKENIZER_CONFIG, _ONNX[0], f"{_ONNX[0]}_data", _ONNX[1], f"{_ONNX[1]}_data", _WEIGHTS, *_SHARDS)
# Positions of these count from behind the padding's, so that as many more are declared than there are.
_SHIFTED: Final = frozenset(("camembert", "data2vec-text", "longformer", "mpnet", "roberta", "xlm-roberta", "xlm-roberta-xl", "xmod"))
_SHIFT: Final = 2
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A cross-encoder's files, read and found fit.

    `meanings` are those of the outputs, in their order; `most_tokens` bounds a pair, special tokens included; `padding` is the id of the token that
    fills up; `digest` is of the contents of all files that judgements depend on, by name.
    """

    path: Path
    backend: Backend
    model: Path
    meanings: tuple[Meaning, ...]
    most_tokens: int
    padding: int
    digest: str

    @property
    def tokenizer(self) -> Path:
        """The file of the tokenizer."""
        return self.path / _TOKENIZER


def downloaded(name: str, revision: str | None = None) -> Path:
    """Return the folder of a model of the Hugging Face hub, downloaded where it is not here yet.

    Args:
        name: Such as ``cross-encoder/nli-deberta-v3-xsmall``.
        revision: A commit, tag or branch; the main branch if not given.

    Raises:
        Failure: `judge_not_installed`, or `judge_model` where it cannot be had.
    """
    try:
        import huggingface_hub
    except ImportError as error:
        raise not_installed(str(error)) from None
    try:
        return Path(huggingface_hub.snapshot_download(name, revision=revision, allow_patterns=list(_OF_HUB)))
    except Exception as error:
        raise refused(name, f"it cannot be downloaded: {type(error).__name__}") from error


def read_folder(path: Path) -> ModelFolder:
    """Read a folder: config.json, tokenizer.json, and the model as ONNX or, where there is none, as safetensors.

    Raises:
        Failure: `judge_model` where a file is missing or unreadable, or the config does not say what the outputs mean.
    """
    config = _json_object(path, _CONFIG)
    backend, models = _models(path)
    extra = [path / _TOKENIZER_CONFIG] if (path / _TOKENIZER_CONFIG).is_file() else []
    if not (path / _TOKENIZER).is_file():
        raise refused(path, f"it has no {_TOKENIZER}")
    most = _most_tokens(config, _json_object(path, _TOKENIZER_CONFIG) if extra else {})
    padding = config.get("pad_token_id")
    files = [path / _CONFIG, path / _TOKENIZER, *extra, *models]
    return ModelFolder(path, backend, models[0], meanings(path, config), most, padding if type(padding) is int and padding >= 0 else 0,
                       _digest(path, files))


def meanings(path: Path, config: Mapping[str, Any]) -> tuple[Meaning, ...]:
    """Read what each output means, in order, out of `id2label` or `label2id`; where both are given they have to agree.

    Raises:
        Failure: `judge_model`.
    """
    readings = [_by_place(path, [(place, label) for place, label in _members(path, config, "id2label")]),
                _by_place(path, [(place, label) for label, place in _members(path, config, "label2id")])]
    said = [reading for reading in readings if reading]
    if not said:
        raise refused(path, "config.json has neither id2label nor label2id, so nobody can tell what its outputs mean")
    if said[0] != said[-1]:
        raise refused(path, "id2label and label2id of config.json contradict each other")
    return said[0]


def _members(path: Path, config: Mapping[str, Any], name: str) -> Iterable[tuple[Any, Any]]:
    given = config.get(name) or {}
    if not isinstance(given, Mapping):
        raise refused(path, f"{name} of config.json is no object")
    return given.items()


def _by_place(path: Path, pairs: list[tuple[Any, Any]]) -> tuple[Meaning, ...]:
    """Order labels by the places of their outputs: 0, 1 and 2, each label once."""
    placed: dict[int, Meaning] = {}
    for place, label in pairs:
        number = int(place) if isinstance(place, str) and place.isascii() and place.isdigit() else place
        meaning = next((each for each in MEANINGS if isinstance(label, str) and label.strip().casefold() == each), None)
        if meaning is None or type(number) is not int:
            raise refused(path, f"config.json calls an output {str(label)[:40]!r}; the labels are entailment, contradiction and neutral")
        placed[number] = meaning
    if placed and (sorted(placed) != [0, 1, 2] or len(set(placed.values())) != len(MEANINGS)):
        raise refused(path, "config.json does not give each of three outputs another one of the labels entailment, contradiction and neutral")
    return tuple(placed[number] for number in sorted(placed))


def _models(path: Path) -> tuple[Backend, list[Path]]:
    """Find the model's files, the one to open first."""
    for name in _ONNX:
        model = path / name
        if model.is_file():
            return "onnx", [model, *sorted(model.parent.glob(f"{model.name}[_.]data*"))]
    if (path / _WEIGHTS).is_file():
        return "transformers", [path / _WEIGHTS]
    if (path / _SHARDS[0]).is_file():
        return "transformers", [path / _SHARDS[0], *sorted(path.glob(_SHARDS[1]))]
    raise refused(path, f"it holds neither {_ONNX[0]} nor {_WEIGHTS}")


def _most_tokens(config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> int:
    positions = config.get("max_position_embeddings")
    shift = _SHIFT if config.get("model_type") in _SHIFTED else 0
    declared = [positions - shift if type(positions) is int else MOST_TOKENS, tokenizer.get("model_max_length")]
    return min([MOST_TOKENS, *(each for each in declared if type(each) is int and each > 0)])


def _json_object(path: Path, name: str) -> dict[str, Any]:
    try:
        read = json.loads((path / name).read_bytes())
    except FileNotFoundError:
        raise refused(path, f"it has no {name}") from None
    except OSError as error:
        raise refused(path, f"{name} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise refused(path, f"{name} is no JSON") from None
    if not isinstance(read, dict):
        raise refused(path, f"{name} is no JSON object")
    return read


def _digest(path: Path, files: list[Path]) -> str:
    """Hash the names and contents of files."""
    whole = hashlib.sha256()
    for file in files:
        try:
            with file.open("rb") as opened:
                content = hashlib.sha256()
                while piece := opened.read(_PIECE):
                    content.update(piece)
        except OSError as error:
            raise refused(path, f"{file.name} cannot be read: {error.strerror}") from None
        whole.update(f"{content.hexdigest()}  {file.relative_to(path).as_posix()}\n".encode())
    return whole.hexdigest()


def refused(path: Path | str, detail: str) -> Failure:
    """Make the failure of a model that cannot judge."""
    return fail("judge_model", path=os.fspath(path), detail=detail)


def not_installed(detail: str) -> Failure:
    """Make the failure of packages that are missing."""
    return fail("judge_not_installed", detail=detail)
