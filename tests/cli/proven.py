"""An index, an issuer, a log and a first certificate, for the commands about certificates."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rag_stdlib.cli import main

QUESTION = "when are refunds paid?"
ORIGIN = "log.acme.example/answers"
FILES = {"docs/refunds.md": "Refunds are paid within ten days of the return. A receipt is needed for every refund.\n",
         "docs/shipping.md": "Goods are shipped on the next working day. Parcels are insured up to 500 euros.\n"}
CLAIM = "Refunds are paid within ten days of the return."
SIGNING = ("--keys", "issuer.keys")
LOGGING = ("--log", "answers.log", "--log-keys", "log.keys")
TRUST = ("--trust", "trust.json")
ASKED = ("--query", QUESTION)
KEYS = ("--keys", "log.keys")

Rag = Any  # see conftest

_MADE: list[Path] = []  # the folder with what was made, once it was


def quietly(*arguments: str) -> None:
    """Run a command that has to succeed."""
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, arguments  # noqa: PT017 - how a command ends


def lay_out(folder: Path, write: Callable[..., Path]) -> None:
    """Put into `folder`, which holds a corvid.toml: notes.db, issuer.keys, log.keys, witness.keys, and answers.log with a.json as its entry 0.

    The first test of a process makes them by the commands, and the others get copies.
    """
    if not _MADE:
        made = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, made)
        _make(folder, write)
        shutil.copytree(folder, made, dirs_exist_ok=True)
        _MADE.append(made)
    else:
        shutil.copytree(_MADE[0], folder, dirs_exist_ok=True)
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == [
        "a.json", "answers.log", "corvid.toml", "issuer.keys", "log.keys", "notes.db", "witness.keys"]


def _make(folder: Path, write: Callable[..., Path]) -> None:
    assert [path.name for path in folder.iterdir()] == ["corvid.toml"]
    for name, text in FILES.items():
        write(name, text)
    quietly("ingest", "notes.db", "docs")
    quietly("keys", "new", "issuer.keys", "--name", "Acme")
    quietly("keys", "new", "log.keys", "--log", ORIGIN)
    quietly("keys", "new", "witness.keys", "--witness", "witness.example/w1")
    quietly("log", "new", "answers.log", "--keys", "log.keys")
    quietly("answer", "notes.db", QUESTION, "--certificate", "a.json", *SIGNING, *LOGGING)


def trusting(rag: Rag, folder: Path, *keys: str) -> str:
    """Write the trust file of these files of keys, and name it."""
    (folder / "trust.json").write_text(rag("keys", "show", *(keys or ("issuer.keys", "log.keys")), "--trust").out)
    return "trust.json"


def copied(folder: Path, name: str, to: str) -> None:
    """Copy a database as it lies on the disk, with its side files."""
    for side in ("", "-wal", "-shm", "-journal"):
        if (folder / f"{name}{side}").exists():
            shutil.copy2(folder / f"{name}{side}", folder / f"{to}{side}")


def issue(rag: Rag, name: str, log: str | None = "answers.log", question: str = QUESTION) -> None:
    """Issue another certificate."""
    logging = () if log is None else ("--log", log, "--log-keys", "log.keys")
    assert rag("answer", "notes.db", question, "--certificate", name, *SIGNING, *logging).code == 0
