"""Small cross-encoders that work: a tokenizer of whole words, and a model in ONNX form that adds up what each word of the span says."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ENTAILS, CONTRADICTS, NEUTRAL = "entailment", "contradiction", "neutral"
ORDERS = ((CONTRADICTS, ENTAILS, NEUTRAL), (ENTAILS, NEUTRAL, CONTRADICTS), (NEUTRAL, CONTRADICTS, ENTAILS), (CONTRADICTS, NEUTRAL, ENTAILS))
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "yes", "no", "perhaps", "slightly", "huge", "filler", "claim", "text", "both", "even")
# What a word of the span adds to the three meanings.
SAYS: dict[str, dict[str, float]] = {
    "yes": {ENTAILS: 4.0}, "no": {CONTRADICTS: 6.0}, "perhaps": {NEUTRAL: 3.0}, "slightly": {ENTAILS: 1.5}, "huge": {ENTAILS: 30_000.0}, "[CLS]": {NEUTRAL: 1.0},
    "both": {ENTAILS: 4.0, CONTRADICTS: 4.0}, "even": {ENTAILS: 1.0}}
_FLOAT, _INT64, _INT32 = 1, 7, 6


def make_folder(path: Path, order: Sequence[str], *, config: Mapping[str, Any] | None = None, model: bytes | None = None, **kind: Any) -> Path:
    """Write a model's folder; `order` is what each output means, `kind` goes to `onnx_model`."""
    path.mkdir(parents=True, exist_ok=True)
    labels = {"id2label": {str(place): label for place, label in enumerate(order)}, "label2id": {label: place for place, label in enumerate(order)}}
    base = {"model_type": "bert", "max_position_embeddings": 16, "pad_token_id": 0, **labels}
    (path / "config.json").write_text(json.dumps({**base, **(config or {})}))
    write_tokenizer(path)
    (path / "model.onnx").write_bytes(onnx_model(order, **kind) if model is None else model)
    return path


def write_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing

    unknown = WORDS[1]
    tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token=unknown))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.enable_padding(length=64)  # as files of the hub have it; a judge makes its own
    tokenizer.save(str(path / "tokenizer.json"))


def onnx_model(order: Sequence[str], *, pairs: int | None = None, tokens: int | None = None, integers: int = _INT64, inputs: Sequence[str] | None = None,
               outputs: int = 3, nan: bool = False) -> bytes:
    """Write a model: logits = sum over the tokens of the span of a row of a table (ONNX opset 13).

    `pairs` and `tokens` fix the shape of its inputs; `inputs` names others than a cross-encoder's; `outputs` is the number of its logits.
    """
    order = (*order, *[NEUTRAL] * 9)[:outputs]
    rows = [[SAYS.get(word, {}).get(meaning, 0.0) for meaning in order] for word in WORDS]
    if nan:
        rows[4] = [float("nan")] * outputs
    table = _tensor("table", _FLOAT, (len(WORDS), outputs), b"".join(struct.pack(f"<{outputs}f", *row) for row in rows))
    names = tuple(inputs or ("input_ids", "attention_mask", "token_type_ids"))
    nodes = [_node("Gather", ("table", names[0]), "rows"), _node("Cast", (names[1],), "mask", to=_FLOAT), _node("Cast", (names[2],), "types", to=_FLOAT),
             _node("Sub", ("one", "types"), "span"), _node("Mul", ("mask", "span"), "counts"), _node("Unsqueeze", ("counts", "last"), "column"),
             _node("Mul", ("rows", "column"), "said"), _node("ReduceSum", ("said", "tokens"), "logits", keepdims=0)]
    constants = [table, _tensor("one", _FLOAT, (1,), struct.pack("<f", 1.0)), _tensor("last", _INT64, (1,), struct.pack("<q", 2)),
                 _tensor("tokens", _INT64, (1,), struct.pack("<q", 1))]
    shape = (pairs if pairs is not None else "pairs", tokens if tokens is not None else "length")
    graph = b"".join([*(_field(1, node) for node in nodes), _field(2, b"judge"), *(_field(5, constant) for constant in constants),
                      *(_field(11, _value(name, integers, shape)) for name in names), _field(12, _value("logits", _FLOAT, (shape[0], outputs)))])
    return _number(1, 8) + _field(7, graph) + _field(8, _field(1, b"") + _number(2, 13))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _field(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _tensor(name: str, kind: int, dims: Sequence[int], raw: bytes) -> bytes:
    return b"".join(_number(1, dim) for dim in dims) + _number(2, kind) + _field(8, name.encode()) + _field(9, raw)


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    written = b"".join(_field(5, _field(1, name.encode()) + _number(3, value) + _number(20, 2)) for name, value in attributes.items())
    return b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode()) + _field(4, kind.encode()) + written


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    dims = b"".join(_field(1, _number(1, dim) if isinstance(dim, int) else _field(2, dim.encode())) for dim in shape)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, dims)))
