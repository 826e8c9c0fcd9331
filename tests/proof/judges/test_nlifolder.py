"""The folder of a cross-encoder: what its outputs mean is read from its config or it is refused, and its digest is of its contents."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helper beside this file, in either of pytest's import modes
pytest.importorskip("tokenizers", reason="the extra `local` is not installed")
from nli_models import CONTRADICTS, ENTAILS, NEUTRAL, ORDERS, make_folder

from rag_stdlib.errors import Failure
from rag_stdlib.proof.judges.nlifolder import downloaded, read_folder


def refusal(call: Any) -> str:
    with pytest.raises(Failure) as caught:
        call()
    assert caught.value.error.code == "judge_model"
    return str(caught.value.error)


def config_refusal(folder: Path, **config: Any) -> str:
    return refusal(lambda: read_folder(make_folder(folder, ORDERS[0], config=config)))


@pytest.mark.parametrize("order", ORDERS)
def test_what_the_outputs_mean_is_what_the_config_says(tmp_path: Path, order: tuple[str, ...]) -> None:
    assert read_folder(make_folder(tmp_path, order)).meanings == order


@pytest.mark.parametrize("config", [
    {"label2id": None}, {"id2label": None}, {"id2label": {}}, {"id2label": {"0": "Contradiction", "1": "ENTAILMENT", "2": "Neutral "}},
    {"label2id": {"CONTRADICTION": 0, "entailment": 1, "neutral": 2}},
])
def test_either_map_does_in_any_case(tmp_path: Path, config: dict[str, Any]) -> None:
    assert read_folder(make_folder(tmp_path, ORDERS[0], config=config)).meanings == (CONTRADICTS, ENTAILS, NEUTRAL)


@pytest.mark.parametrize(("config", "words"), [
    ({"id2label": None, "label2id": None}, "neither id2label nor label2id"),
    ({"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, "label2id": None}, "calls an output 'LABEL_0'"),
    ({"id2label": {"0": "contradiction", "1": "entailment"}, "label2id": None}, "does not give each of three outputs"),
    ({"id2label": {"0": "entailment", "1": "entailment", "2": "neutral"}, "label2id": None}, "does not give each of three outputs"),
    ({"id2label": {"1": "entailment", "2": "contradiction", "3": "neutral"}, "label2id": None}, "does not give each of three outputs"),
    ({"id2label": {"0": "not_entailment", "1": "entailment"}, "label2id": None}, "calls an output 'not_entailment'"),
    ({"id2label": {"zero": "entailment", "1": "contradiction", "2": "neutral"}, "label2id": None}, "calls an output"),
    ({"id2label": {"0": 7}, "label2id": None}, "calls an output '7'"), ({"id2label": None, "label2id": {"entailment": 0.0}}, "calls an output"),
    ({"id2label": None, "label2id": {"entailment": True}}, "calls an output"), ({"id2label": ["entailment"]}, "id2label of config.json is no object"),
    ({"label2id": {"entailment": 0, "contradiction": 1, "neutral": 2}}, "contradict each other"),
])
def test_labels_that_cannot_be_told_are_refused(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    assert words in config_refusal(tmp_path, **config)


@pytest.mark.parametrize(("config", "tokenizer", "most"), [
    ({}, None, 16), ({"max_position_embeddings": 40, "model_type": "roberta"}, None, 38), ({"max_position_embeddings": 5_000}, None, 512),
    ({}, {"model_max_length": 12}, 12), ({}, {"model_max_length": 10**30}, 16), ({"max_position_embeddings": "many"}, {"model_max_length": "many"}, 512),
    ({"max_position_embeddings": 0}, {}, 512),
])
def test_the_length_of_a_pair_is_the_least_that_is_declared(tmp_path: Path, config: dict[str, Any], tokenizer: dict[str, Any] | None, most: int) -> None:
    make_folder(tmp_path, ORDERS[0], config=config)
    if tokenizer is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    assert read_folder(tmp_path).most_tokens == most


def test_the_digest_is_of_the_contents_of_all_files_that_count(tmp_path: Path) -> None:
    digests = {read_folder(make_folder(tmp_path / "a", ORDERS[0])).digest, read_folder(make_folder(tmp_path / "b", ORDERS[0])).digest}
    assert len(digests) == 1
    for name in ("config.json", "tokenizer.json", "model.onnx", "model.onnx_data", "tokenizer_config.json"):
        folder = make_folder(tmp_path / name, ORDERS[0])
        with (folder / name).open("ab") as file:
            file.write(b"{}" if name == "tokenizer_config.json" else b"\n")
        digests.add(read_folder(folder).digest)
    (tmp_path / "a" / "README.md").write_text("of no account")
    digests.add(read_folder(tmp_path / "a").digest)
    assert len(digests) == 6


@pytest.mark.parametrize(("missing", "words"), [("config.json", "has no config.json"), ("tokenizer.json", "has no tokenizer.json"), ("model.onnx", "holds neither model.onnx nor model.safetensors")])
def test_a_missing_file_is_named(tmp_path: Path, missing: str, words: str) -> None:
    (make_folder(tmp_path, ORDERS[0]) / missing).unlink()
    assert words in refusal(lambda: read_folder(tmp_path))


@pytest.mark.parametrize(("content", "words"), [(b"{", "config.json is no JSON"), (b"[1]", "config.json is no JSON object"), (b"\xff", "is no JSON"), (b"[" * 100_000, "is no JSON")])
def test_a_config_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (make_folder(tmp_path, ORDERS[0]) / "config.json").write_bytes(content)
    assert words in refusal(lambda: read_folder(tmp_path))


def test_a_file_that_the_system_does_not_give_is_named(tmp_path: Path) -> None:
    make_folder(tmp_path, ORDERS[0])
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    assert "config.json cannot be read: Is a directory" in refusal(lambda: read_folder(tmp_path))
    (tmp_path / "config.json").rmdir()
    make_folder(tmp_path, ORDERS[0])
    (tmp_path / "model.onnx_data").mkdir()
    assert "model.onnx_data cannot be read: Is a directory" in refusal(lambda: read_folder(tmp_path))


@pytest.mark.parametrize(("files", "backend", "model"), [
    (["onnx/model.onnx"], "onnx", "onnx/model.onnx"), (["model_quantized.onnx"], "onnx", "model_quantized.onnx"), (["model.safetensors"], "transformers", "model.safetensors"),
    (["model.safetensors.index.json", "model-00001-of-00001.safetensors"], "transformers", "model.safetensors.index.json"),
    (["onnx/model.onnx", "model.safetensors"], "onnx", "onnx/model.onnx"),
])
def test_the_model_is_found_where_exports_put_it(tmp_path: Path, files: list[str], backend: str, model: str) -> None:
    (make_folder(tmp_path, ORDERS[0]) / "model.onnx").unlink()
    (tmp_path / "onnx").mkdir()
    for name in files:
        (tmp_path / name).write_bytes(b"x")
    folder = read_folder(tmp_path)
    assert (folder.backend, folder.model) == (backend, tmp_path / model)


def test_pickled_weights_are_no_model(tmp_path: Path) -> None:
    (make_folder(tmp_path, ORDERS[0]) / "model.onnx").rename(tmp_path / "pytorch_model.bin")
    assert "holds neither" in refusal(lambda: read_folder(tmp_path))


# --- the hub ---


def test_a_model_of_the_hub_is_downloaded_by_its_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def snapshot(name: str, **options: Any) -> str:
        asked.append((name, options.pop("revision"), "config.json" in options["allow_patterns"]))
        return str(tmp_path)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot))
    assert downloaded("someone/nli", "abc") == tmp_path
    assert asked == [("someone/nli", "abc", True)]


def test_a_download_that_fails_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: Any, **_options: Any) -> str:
        raise ConnectionError("secret words")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=fails))
    assert refusal(lambda: downloaded("someone/nli")) == "the model in 'someone/nli' cannot judge: it cannot be downloaded: ConnectionError"


def test_without_the_hubs_client_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> ModuleType:
        if name == "huggingface_hub":
            raise ImportError("No module named 'huggingface_hub'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Failure) as caught:
        downloaded("someone/nli")
    assert caught.value.error.code == "judge_not_installed"
