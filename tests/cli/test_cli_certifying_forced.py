"""Certificates of `rag answer` that are written over a file: over a certificate, and over nothing else."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from proven import LOGGING, QUESTION, SIGNING, TRUST, trusting

Rag = Any  # see conftest

ISSUE = ("answer", "notes.db", QUESTION, "--certificate", "a.json", *SIGNING, *LOGGING)


def test_the_rights_on_it_stay(proven: Rag, folder: Path) -> None:
    (folder / "a.json").chmod(0o600)
    for logged in (ISSUE, ISSUE[:-4]):
        assert proven(*logged, "--force").code == 0
        assert (folder / "a.json").stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize(("name", "option"), [
    ("issuer.keys", "--keys"), ("node.key", "--node-key"), ("answers.log", "--log"), ("log.keys", "--log-keys"), ("trust.json", "--trust"), ("notes.db", "INDEX")])
def test_no_other_file_of_the_command_is_written_over(proven: Rag, folder: Path, name: str, option: str) -> None:
    trusting(proven, folder, "issuer.keys", "log.keys", "witness.keys")
    proven("mesh", "key", "node.key")
    os.link(name, "hard")
    Path("link").symlink_to(name)
    before = (folder / name).read_bytes()
    for written, forcing in itertools.product((name, f"docs/../{name}", "link", "hard"), ((), ("--force",))):
        words = ("--certificate", written, *forcing, *SIGNING, "--node-key", "node.key", *LOGGING, "--witness", "http://127.0.0.1:9", *TRUST)
        refused = proven("answer", "notes.db", QUESTION, *words)
        assert (refused.code, refused.out, (folder / name).read_bytes()) == (2, "", before)
        assert refused.err.startswith("rag: usage: Invalid value for --certificate: ")
        assert f" is the file of {option}; name another one" in refused.err


@pytest.mark.parametrize(("name", "content"), [
    ("other.keys", None), ("corvid.toml", None), ("docs/refunds.md", None), ("x.json", b"{}"), ("x.json", b"[]"), ("x.json", b'{"certificate": 1, "certificate": 2}'),
    ("x.json", b"\xef\xbb\xbf" + b'{"certificate": {}}'), ("x.json", b'{"certificate": "' + b"x" * (16 * 1024 * 1024) + b'"}')], ids=lambda value: repr(value)[:24])
def test_what_is_no_certificate_is_written_over_by_nobody(proven: Rag, folder: Path, name: str, content: bytes | None) -> None:
    proven("keys", "new", "other.keys", "--name", "Other")
    if content is not None:
        (folder / name).write_bytes(content)
    before = (folder / name).read_bytes()
    refused = proven("answer", "notes.db", QUESTION, "--certificate", name, *SIGNING, "--force")
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
    assert "already, and it is left as it is, with --force too: it is no certificate; name another one" in refused.err
    assert (folder / name).read_bytes() == before


@pytest.mark.parametrize("content", [b"", b'{"certificate": {}}', b'{"certificate": null, "x": 1}'])
def test_what_reads_as_a_certificate_is_written_over(proven: Rag, folder: Path, content: bytes) -> None:
    (folder / "x.json").write_bytes(content)
    assert proven("answer", "notes.db", QUESTION, "--certificate", "x.json", *SIGNING, "--force").code == 0
    assert set(json.loads((folder / "x.json").read_text())) == {"certificate", "signature"}


@pytest.mark.parametrize("forcing", [(), ("--force",)])
@pytest.mark.parametrize("name", ["-", "notes.db-wal", "notes.db-shm", "docs/../answers.log-journal", "side"])
def test_names_that_mean_something_else_are_usage(proven: Rag, folder: Path, name: str, forcing: tuple[str, ...]) -> None:
    Path("side").symlink_to("answers.log-wal")
    before = sorted(path.name for path in folder.iterdir())
    refused = proven("answer", "notes.db", QUESTION, "--certificate", name, *SIGNING, *forcing)
    assert (refused.code, refused.out, sorted(path.name for path in folder.iterdir())) == (2, "", before)
    assert refused.err.startswith("rag: usage: Invalid value for --certificate: ")


def test_a_name_that_ends_like_that_beside_nothing_is_a_name(proven: Rag, folder: Path) -> None:
    assert proven("answer", "notes.db", QUESTION, "--certificate", "mine-wal", *SIGNING).code == 0
    assert (folder / "mine-wal").exists()
