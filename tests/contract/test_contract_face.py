"""The public names of the contract, and what it costs to import them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rag_stdlib import contract

ROOT = Path(__file__).parents[2]


def test_every_public_name_is_there_and_listed() -> None:
    assert set(contract.__all__) <= set(dir(contract))
    assert all(getattr(contract, name) is not None for name in contract.__all__)
    assert sorted(contract.__all__, key=lambda name: (not name[0].isupper(), name)) == contract.__all__


def test_every_other_name_is_none() -> None:
    with pytest.raises(AttributeError, match=r"module 'rag_stdlib\.contract' has no attribute 'verify'"):
        _ = contract.verify
    with pytest.raises(ImportError, match="verify_all"):
        from rag_stdlib.contract import verify_all  # noqa: F401


@pytest.mark.parametrize(("statement", "loaded"), [
    ("import rag_stdlib.contract", []),
    ("from rag_stdlib.contract import *", []),
    ("from rag_stdlib.contract import verify_hit; verify_hit({})", []),
    ("from rag_stdlib.contract import verify_corpus; verify_corpus({}, bytes(32), 'pq_pure')", []),
    ("from rag_stdlib.contract import corpus_hash; corpus_hash({'model': '', 'dim': 1, 'repos': []})", []),
])
def test_importing_loads_nothing_that_is_not_needed(statement: str, loaded: list[str]) -> None:
    heavy = ("cryptography", "cbor2", "rfc8785", "apsw", "numpy", "asyncio", "socket")
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{statement}\nprint([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(loaded), "")
