"""What checks a proof opens nothing and asks for no time; the whole room is told apart from what keeps a log."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rag_stdlib.proof.log as room
from rag_stdlib.proof.log.errors import CODES

FOLDER = Path(room.__file__).parent
CHECKING = ("errors", "merkle", "frontier", "keytext", "checkpoints", "cosignatures", "notes", "pinned", "receipts", "tiles", "sightings")
WORLD = {"os", "io", "socket", "time", "datetime", "pathlib", "subprocess", "sqlite3", "tempfile", "shutil", "urllib", "http", "ssl", "random", "secrets", "threading",
         "asyncio", "apsw", "httpx", "fcntl", "numpy"}


def imported(module: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize("module", CHECKING)
def test_what_checks_a_proof_opens_nothing(module: str) -> None:
    names = imported(module)
    assert {name.partition(".")[0] for name in names} & WORLD == set()
    ours = {name.removeprefix("rag_stdlib.proof.log.").partition(".")[0] for name in names if name.startswith("rag_stdlib.proof.log.")}
    assert ours <= set(CHECKING)
    assert not [name for name in names if name.startswith(("rag_stdlib.index", "rag_stdlib.embed", "rag_stdlib.mesh", "rag_stdlib.root"))]


def test_checking_a_receipt_loads_no_database_and_no_network() -> None:
    program = "\n".join([*(f"import rag_stdlib.proof.log.{module}" for module in CHECKING), "import sys",
                         "print(sorted({name.partition('.')[0] for name in sys.modules} & {'apsw', 'numpy', 'httpx', 'sqlite3', 'asyncio', 'cbor2'}))"])
    done = subprocess.run([sys.executable, "-c", program], cwd=FOLDER.parents[2], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_every_code_is_raised_somewhere_and_described() -> None:
    page = (FOLDER.parents[2] / "docs" / "transparency-log.md").read_text(encoding="utf-8")
    sources = "".join(file.read_text(encoding="utf-8") for file in FOLDER.glob("*.py") if file.name != "errors.py")
    for code, meaning in CODES.items():
        assert f"| `{code}` | {meaning} |" in page
        assert f'"{code}"' in sources, code
