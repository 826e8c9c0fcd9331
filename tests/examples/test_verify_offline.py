"""A stored answer is judged by a program of its own, with nothing but the contract."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "verify_offline"
ANSWER: dict[str, Any] = json.loads((EXAMPLE / "answer.json").read_bytes())
PROVIDER = ANSWER["provider"]
KEPT = "  that it answered, and with these hits, is the word of whoever kept the file\n"
HITS = "  hit 'chunk-0': content_verified 1, in_corpus 1\n  hit 'chunk-1': content_verified 1, in_corpus 0 (deposit)\n"


def run(*arguments: object, program: tuple[object, ...] = (EXAMPLE / "verify.py",)) -> tuple[int, str]:
    done = subprocess.run([sys.executable, *map(str, (*program, *arguments))], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def altered(tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], object]], Path]:
    """Write the stored answer anew with a change."""
    def write(change: Callable[[dict[str, Any]], object]) -> Path:
        copy = json.loads(json.dumps(ANSWER))
        change(copy)
        (tmp_path / "copy.json").write_text(json.dumps(copy))
        return tmp_path / "copy.json"

    return write


def test_the_answer_that_comes_with_it_is_signed() -> None:
    assert run(EXAMPLE / "answer.json") == (0, f"signed by {PROVIDER}\n{KEPT}{HITS}")
    assert run(EXAMPLE / "answer.json", PROVIDER.upper()) == (0, f"signed by {PROVIDER}\n{KEPT}{HITS}")


def test_another_provider_than_the_one_that_is_asked_for() -> None:
    code, printed = run(EXAMPLE / "answer.json", "0" * 64)
    assert (code, printed) == (1, f"not signed: other_provider: it was kept as an answer of {PROVIDER}\n")


@pytest.mark.parametrize(("change", "printed"), [
    (lambda kept: kept["answer"]["hits"][0].update(content="Refunds are never paid."),
     f"signed by {PROVIDER}\n{KEPT}" + HITS.replace("verified 1", "verified 0 (content_mismatch)", 1)),
    (lambda kept: kept["description"].pop("signature"), f"not signed: nobody vouches for this corpus\n{KEPT}{HITS}"),
    (lambda kept: kept.update(provider=None), f"not signed: nobody vouches for this corpus\n{KEPT}{HITS}"),
    (lambda kept: kept.update(provider="1" * 64), "not signed: signer_not_provider\n"),
    (lambda kept: kept.update(profile="pq_hybrid"), "not signed: signature: malformed\n"),
    (lambda kept: kept["description"]["repos"].reverse(), "not signed: corpus_hash_mismatch\n"),
    (lambda kept: kept["answer"].update(corpus_hash="0" * 64), "not signed: not_the_answering_corpus\n"),
    (lambda kept: kept["description"].update(dim=256.0),
     "not signed: malformed_description: dim is no integer from 1 to 2^53 - 1\n"),
    (lambda kept: kept["answer"].update(hits=[{"chunk_id": "\x1b[2J\u202e"}]),
     f"signed by {PROVIDER}\n{KEPT}  hit '\\x1b[2J\\u202e': content_verified 0 (malformed_provenance), in_corpus 0 (malformed_provenance)\n"),
    (lambda kept: kept.pop("profile"), "cannot tell: a stored answer is a map of provider, profile, description and answer\n"),
], ids=["hit altered", "no signature", "not pinned", "another provider's", "other profile", "order of repositories", "other corpus",
        "malformed", "hostile id", "part missing"])
def test_what_keeps_an_answer_from_being_signed(
        altered: Callable[[Callable[[dict[str, Any]], object]], Path], change: Callable[[dict[str, Any]], object], printed: str) -> None:
    assert run(altered(change)) == (1, printed)


def test_a_file_that_is_none_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    code, printed = run(tmp_path / "bad.json")
    assert code == 1
    assert printed.startswith("cannot tell: it is no JSON in UTF-8")
    code, printed = run(tmp_path / "none.json")
    assert code == 1
    assert printed.startswith("cannot tell: ")
    code, printed = run()
    assert code == 1
    assert printed.startswith("usage: ")
    assert run(EXAMPLE / "answer.json", "P") == (1, "cannot tell: a node id is 64 hex digits or 32 bytes\n")


def test_it_loads_no_index_no_arrays_and_no_network() -> None:
    watched = ("apsw", "sqlite_vec", "numpy", "asyncio", "socket", "_socket", "httpx", "openai", "rag_stdlib.index.store")
    program = (f"import runpy, sys\ntry:\n    runpy.run_path(sys.argv[0], run_name='__main__')\nfinally:\n"
               f"    print([name for name in {watched!r} if name in sys.modules], 'cryptography' in sys.modules)")
    start = f"import sys; sys.argv = [{str(EXAMPLE / 'verify.py')!r}, {str(EXAMPLE / 'answer.json')!r}]\n{program}"
    assert run(program=("-c", start)) == (0, f"signed by {PROVIDER}\n{KEPT}{HITS}[] True\n")
