"""The judge by a cross-encoder: small models that work, in different orders of labels, and what is made of their numbers."""

from __future__ import annotations

import builtins
import importlib
import os
import sys
import threading
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helper beside this file, in either of pytest's import modes
pytest.importorskip("onnxruntime", reason="the extra `local` is not installed")
pytest.importorskip("tokenizers", reason="the extra `local` is not installed")
from nli_models import ORDERS, make_folder, onnx_model

import replay
from rag_stdlib.errors import Failure
from rag_stdlib.proof.judges import Judgement, make_judge, nlifolder, nlimodels
from rag_stdlib.proof.judges.nli import NliJudge
from rag_stdlib.proof.judges.nlimodels import probabilities


@pytest.fixture(scope="module", params=ORDERS, ids=" ".join)
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NliJudge:
    return NliJudge(make_folder(tmp_path_factory.mktemp("nli"), request.param))


@pytest.fixture
def one(tmp_path: Path) -> NliJudge:
    return NliJudge(make_folder(tmp_path / "model", ORDERS[0]))


def failure(call: Any) -> Any:
    with pytest.raises(Failure) as caught:
        call()
    return caught.value.error


# --- what is made of the numbers ---


def test_the_label_map_decides_and_not_the_place_of_an_output(judge: NliJudge) -> None:
    assert judge.judge("claim", ["text yes"]) == Judgement("entailed", "0.936240", "it follows from span 1")
    assert judge.judge("claim", ["text no"]) == Judgement("contradicted", "0.990867", "span 1 contradicts it")
    assert judge.judge("claim", ["text perhaps"]) == Judgement("not_supported", "0.982332", "it follows from no span")


def test_a_span_that_contradicts_outweighs_all_that_entail(judge: NliJudge) -> None:
    assert judge.judge("claim", ["huge", "text no", "huge", "no no"]) == Judgement("contradicted", "0.999977", "span 4 contradicts it")


def test_of_entailing_spans_the_surest_counts(judge: NliJudge) -> None:
    assert judge.judge("claim", ["slightly", "perhaps", "yes"]).detail == "it follows from span 3"


def test_great_numbers_do_not_overflow(judge: NliJudge) -> None:
    assert judge.judge("claim", ["huge " * 8]) == Judgement("entailed", "1.000000", "it follows from span 1")


def test_only_the_span_is_read_as_the_span(judge: NliJudge) -> None:
    assert judge.judge("claim no no", ["yes"]).label == "entailed"
    assert judge.judge("claim yes", ["text"]).label == "not_supported"


@pytest.mark.parametrize(("claim", "spans"), [("", ["yes"]), (" ", ["yes"]), ("claim", []), ("claim", ["", " \n"])])
def test_nothing_is_judged_by_nothing(tmp_path: Path, claim: str, spans: list[str]) -> None:
    assert NliJudge(tmp_path / "nowhere").judge(claim, spans) == Judgement("not_supported", "1.000000", "there is nothing to judge")


def test_blank_spans_are_passed_over_and_keep_their_numbers(one: NliJudge) -> None:
    assert one.judge("claim", ["", "yes"]).detail == "it follows from span 2"


def test_of_equally_likely_meanings_the_worse_counts(judge: NliJudge) -> None:
    assert judge.judge("claim", ["both"]).label == "contradicted"
    assert judge.judge("claim", ["even"]).label == "not_supported"


# --- length ---


def test_what_is_cut_of_a_span_entails_nothing_but_can_contradict(one: NliJudge) -> None:
    whole = "filler " * 11 + "yes"  # 12 tokens, a claim of one, three special ones: 16
    assert one.judge("claim", [whole]).label == "entailed"
    cut = Judgement("not_supported", "0.000000", "it follows only from what was read of a span too long for the model")
    assert one.judge("claim", [f"yes {whole}"]) == cut
    assert one.judge("claim", [f"yes {whole}", "yes"]).detail == "it follows from span 2"
    assert one.judge("claim", [f"no {whole}"]).label == "contradicted"
    assert one.judge("claim", [f"{whole} no"]).label == "not_supported", "what was cut off was not read"


def test_a_claim_that_does_not_fit_is_not_judged(one: NliJudge) -> None:
    assert one.judge("claim " * 12, ["yes"]).label == "entailed"
    assert one.judge("claim " * 13, ["yes"]) == Judgement("not_supported", "0.000000", "the claim is too long for the model and was not judged")


def test_many_spans_go_in_batches_and_change_nothing(one: NliJudge) -> None:
    spans = ["text", *["perhaps filler filler"] * 30, "yes", "slightly"]
    assert one.judge("claim", spans) == Judgement("entailed", "0.936240", "it follows from span 32")


@pytest.mark.parametrize("kind", [{"pairs": 1}, {"tokens": 16}, {"tokens": 9}, {"pairs": 1, "tokens": 16}, {"integers": 6}])
def test_exports_of_fixed_shapes_and_small_integers_judge_alike(tmp_path: Path, kind: dict[str, Any]) -> None:
    if "pairs" not in kind and "tokens" in kind:
        kind = {**kind, "pairs": None}
    judge = NliJudge(make_folder(tmp_path, ORDERS[2], **kind))
    assert judge.judge("claim", ["text perhaps", "text yes", "text"]) == Judgement("entailed", "0.936240", "it follows from span 2")
    assert judge.judge("claim", ["filler " * 20 + "yes"]).label == "not_supported"


# --- identity and recording ---


def test_the_identity_is_of_files_and_meanings(tmp_path: Path) -> None:
    identities = [NliJudge(make_folder(tmp_path / str(number), order)).identity for number, order in enumerate((ORDERS[0], ORDERS[0], ORDERS[1]))]
    assert identities[0] == identities[1] != identities[2]
    assert (identities[0].name, identities[0].version, len(identities[0].digest)) == ("nli", "1", 64)


def test_a_recorded_judgement_needs_no_model(one: NliJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "t.jsonl"
    with replay.record(trace):
        judged = one.judge("claim", ["yes"])
    monkeypatch.setattr(NliJudge, "_judged", lambda *_given: pytest.fail("it judged again"))
    with replay.substitute(trace):
        assert one.judge("claim", ["yes"]) == judged


def test_threads_share_a_judge(one: NliJudge) -> None:
    wrong: list[str] = []

    def work(word: str, label: str) -> None:
        wrong.extend(word for _ in range(20) if one.judge("claim", [f"text {word}"]).label != label)

    threads = [threading.Thread(target=work, args=pair) for pair in (("yes", "entailed"), ("no", "contradicted"), ("perhaps", "not_supported"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_judges(one: NliJudge) -> None:
    before = one.judge("claim", ["yes"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking is the very case
        child = os.fork()
    if child == 0:
        os._exit(0 if one.judge("claim", ["yes"]) == before else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_judge_is_made_of_a_folder_or_a_name_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(tmp_path, ORDERS[0])
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=lambda *_given, **_options: str(folder)))
    by_folder, by_hub = make_judge("nli", folder=folder), make_judge("nli", hub="someone/nli")
    assert by_folder.identity == by_hub.identity
    for wrong in ({}, {"folder": folder, "hub": "someone/nli"}):
        assert failure(lambda wrong=wrong: make_judge("nli", **wrong)).code == "config_invalid"


# --- models that cannot judge ---


@pytest.mark.parametrize(("kind", "words"), [
    ({"model": b"no model"}, "model.onnx cannot be loaded"), ({"inputs": ("input_ids", "attention_mask", "pixels")}, "its inputs are input_ids, attention_mask, pixels"),
    ({"inputs": ("ids", "attention_mask", "token_type_ids")}, "its inputs are ids"),
])
def test_what_is_no_cross_encoder_is_refused(tmp_path: Path, kind: dict[str, Any], words: str) -> None:
    error = failure(lambda: NliJudge(make_folder(tmp_path, ORDERS[0], **kind)).identity)
    assert error.code == "judge_model"
    assert words in error


@pytest.mark.parametrize("kind", [{"outputs": 2}, {"outputs": 4}, {"nan": True}])
def test_numbers_that_say_nothing_are_refused(tmp_path: Path, kind: dict[str, Any]) -> None:
    error = failure(lambda: NliJudge(make_folder(tmp_path, ORDERS[0], **kind)).judge("claim", ["yes"]))
    assert "it gave no 3 finite numbers for each pair" in error


def test_a_model_that_fails_at_work_is_refused(tmp_path: Path) -> None:
    error = failure(lambda: NliJudge(make_folder(tmp_path, ORDERS[0], pairs=2)).judge("claim", ["yes"]))
    assert error.startswith(f"the model in {str(tmp_path)!r} cannot judge: the model failed: ")


def test_a_tokenizer_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (make_folder(tmp_path, ORDERS[0]) / "tokenizer.json").write_text("{}")
    assert "tokenizer.json cannot be read" in failure(lambda: NliJudge(tmp_path).identity)


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    make_folder(tmp_path, ORDERS[0])
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> ModuleType:
        if name == package:
            raise ImportError(f"No module named {package!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    error = failure(lambda: NliJudge(tmp_path).judge("claim", ["yes"]))
    assert error.code == "judge_not_installed"
    assert package in error


def test_shares_add_up_to_one(tmp_path: Path) -> None:
    folder = nlifolder.read_folder(make_folder(tmp_path, ORDERS[0]))
    shares = probabilities(folder, np.array([[1e4, -1e4, 0.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]), 3)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert shares[1].tolist() == pytest.approx([1 / 3] * 3)


# --- transformers ---


class Tensor:
    """As much of a tensor as is used."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def to(self, _kind: Any) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self.values


class TransformersDouble:
    """Stands for a model of transformers: it says `yes` to pairs whose segments it is given, and `no` to others."""

    def __init__(self, segments: int, fails: str) -> None:
        self.config = SimpleNamespace(type_vocab_size=segments)
        self.fails = fails
        self.asked: dict[str, Any] = {}

    def from_pretrained(self, name: str, **options: Any) -> TransformersDouble:
        if self.fails == "load":
            raise OSError("no such weights")
        self.asked = {"name": name, **options}
        return self

    def float(self) -> TransformersDouble:
        return self

    def eval(self) -> TransformersDouble:
        return self

    def __call__(self, **inputs: Any) -> Any:
        if self.fails == "run":
            raise RuntimeError("out of memory")
        row = [0.0, 4.0, 1.0] if "token_type_ids" in inputs else [6.0, 0.0, 1.0]
        return SimpleNamespace(logits=Tensor([row] * len(inputs["input_ids"].values)))


def with_double(monkeypatch: pytest.MonkeyPatch, folder: Path, *, segments: int = 2, fails: str = "") -> TransformersDouble:
    double = TransformersDouble(segments, fails)
    (make_folder(folder, ORDERS[0]) / "model.onnx").rename(folder / "model.safetensors")
    torch = SimpleNamespace(as_tensor=Tensor, inference_mode=warnings.catch_warnings, float64="float64")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoModelForSequenceClassification=double))
    return double


@pytest.mark.parametrize(("segments", "label"), [(2, "entailed"), (1, "contradicted"), (0, "contradicted")])
def test_by_transformers_a_model_gets_segments_if_it_knows_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, segments: int, label: str) -> None:
    double = with_double(monkeypatch, tmp_path, segments=segments)
    assert NliJudge(tmp_path).judge("claim", ["text", "text"]).label == label
    assert double.asked == {"name": str(tmp_path), "local_files_only": True, "use_safetensors": True, "trust_remote_code": False}


@pytest.mark.parametrize(("fails", "words"), [("load", "the model cannot be loaded: OSError"), ("run", "the model failed: RuntimeError")])
def test_by_transformers_what_fails_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: str, words: str) -> None:
    with_double(monkeypatch, tmp_path, fails=fails)
    assert words in failure(lambda: NliJudge(tmp_path).judge("claim", ["text"]))


def test_without_transformers_such_a_model_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_double(monkeypatch, tmp_path)
    monkeypatch.setattr(nlimodels, "importlib", SimpleNamespace(import_module=_missing))
    assert failure(lambda: NliJudge(tmp_path).judge("claim", ["text"])).code == "judge_not_installed"


def _missing(name: str) -> ModuleType:
    raise ImportError(f"No module named {name!r}")


def test_by_transformers_itself_a_model_judges_as_the_library_computes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="transformers and torch are no part of any extra")
    transformers: Any = importlib.import_module("transformers")
    make_folder(tmp_path, ORDERS[0])
    labels = {str(place): label for place, label in enumerate(ORDERS[0])}
    torch.manual_seed(1)
    config = transformers.BertConfig(vocab_size=14, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, max_position_embeddings=16,
                                     id2label=labels, label2id={label: int(place) for place, label in labels.items()})
    model = transformers.BertForSequenceClassification(config).eval()
    (tmp_path / "model.onnx").unlink()
    model.save_pretrained(tmp_path)
    judged = NliJudge(tmp_path).judge("claim", ["text yes"])
    with torch.inference_mode():
        shares = torch.softmax(model(input_ids=torch.tensor([[2, 11, 4, 3, 10, 3]]), token_type_ids=torch.tensor([[0, 0, 0, 0, 1, 1]])).logits, 1)[0]
    likeliest = ORDERS[0][int(shares.argmax())]
    assert judged.label == {"entailment": "entailed", "contradiction": "contradicted", "neutral": "not_supported"}[likeliest]


def test_the_helpers_model_is_a_model_of_three_inputs() -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_model(ORDERS[0]), providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["input_ids", "attention_mask", "token_type_ids"]
