"""Cross-encoders at work: token ids of pairs to three numbers a pair, by onnxruntime or by transformers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from rag_stdlib.proof.judges.nlifolder import MEANINGS, ModelFolder, not_installed, refused

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids: TypeAlias = npt.NDArray[np.int64]
    Logits: TypeAlias = npt.NDArray[np.float64]

_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_RANK: Final = 2


class Model(Protocol):
    """A cross-encoder; safe to use from several threads."""

    @property
    def fixed_length(self) -> int | None:
        """How many tokens a pair has to have, if the model takes no other number."""

    @property
    def one_by_one(self) -> bool:
        """Whether it takes one pair at a time only."""

    def logits(self, ids: Ids, mask: Ids, types: Ids) -> Logits:
        """Return three numbers for each pair: float64 of shape (pairs, 3). All arguments have the shape (pairs, tokens)."""


def load(folder: ModelFolder) -> Model:
    """Load a folder's model.

    Raises:
        Failure: `judge_not_installed`, `judge_model`.
    """
    return _OnnxModel(folder) if folder.backend == "onnx" else _TransformersModel(folder)


class _OnnxModel:
    def __init__(self, folder: ModelFolder) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise not_installed(str(error)) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what it has to say comes as an exception as well
        try:
            self._session = onnxruntime.InferenceSession(str(folder.model), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise refused(folder.path, f"{folder.model.name} cannot be loaded: {type(error).__name__}") from error
        self._path = folder.path
        self._kinds = {each.name: each.type for each in self._session.get_inputs()}
        shapes = [each.shape for each in self._session.get_inputs()]
        if "input_ids" not in self._kinds or not set(self._kinds) <= set(_INPUTS) or any(len(shape) != _RANK for shape in shapes):
            raise refused(folder.path, f"its inputs are {', '.join(self._kinds) or 'none'}; a cross-encoder's are {', '.join(_INPUTS)}, of pairs and tokens")
        outputs = [each.name for each in self._session.get_outputs()]
        self._output = "logits" if "logits" in outputs else outputs[0]
        pairs, tokens = shapes[0]
        self.one_by_one = pairs == 1
        self.fixed_length = tokens if isinstance(tokens, int) else None

    def logits(self, ids: Ids, mask: Ids, types: Ids) -> Logits:
        import numpy as np

        given = dict(zip(_INPUTS, (ids, mask, types), strict=True))
        inputs = {name: given[name].astype(np.int32 if "int32" in kind else np.int64) for name, kind in self._kinds.items()}
        try:
            found = self._session.run([self._output], inputs)[0]
        except Exception as error:
            raise refused(self._path, f"the model failed: {type(error).__name__}") from error
        return np.asarray(found, dtype=np.float64)


class _TransformersModel:
    fixed_length = None
    one_by_one = False

    def __init__(self, folder: ModelFolder) -> None:
        try:
            torch = importlib.import_module("torch")
            transformers = importlib.import_module("transformers")
        except ImportError as error:
            raise not_installed(str(error)) from None
        self._torch: Any = torch
        self._path = folder.path
        try:
            model: Any = transformers.AutoModelForSequenceClassification.from_pretrained(
                str(folder.path), local_files_only=True, use_safetensors=True, trust_remote_code=False)
        except Exception as error:
            raise refused(folder.path, f"the model cannot be loaded: {type(error).__name__}") from error
        self._model = model.float().eval()
        self._typed = getattr(self._model.config, "type_vocab_size", 0) >= _RANK

    def logits(self, ids: Ids, mask: Ids, types: Ids) -> Logits:
        import numpy as np

        torch = self._torch
        inputs = {"input_ids": torch.as_tensor(ids), "attention_mask": torch.as_tensor(mask)}
        if self._typed:
            inputs["token_type_ids"] = torch.as_tensor(types)
        try:
            with torch.inference_mode():
                found = self._model(**inputs).logits
        except Exception as error:
            raise refused(self._path, f"the model failed: {type(error).__name__}") from error
        return np.asarray(found.to(torch.float64).numpy(), dtype=np.float64)


def probabilities(folder: ModelFolder, logits: Logits, pairs: int) -> Logits:
    """Turn logits into shares that add up to 1 in each row, without overflow.

    Raises:
        Failure: `judge_model` where they are not three finite numbers for each pair.
    """
    import numpy as np

    if logits.shape != (pairs, len(MEANINGS)) or not np.isfinite(logits).all():
        raise refused(folder.path, f"it gave no {len(MEANINGS)} finite numbers for each pair")
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Logits = powers / powers.sum(axis=1, keepdims=True)
    return shares
