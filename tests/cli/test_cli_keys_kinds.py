"""`rag keys`, and who else reads keys, given files that are none, or no whole ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from proven import ORIGIN

Rag = Any  # see conftest

ISSUER = ("keys", "new", "i.keys", "--name", "Acme")
LOG = ("keys", "new", "l.keys", "--log", ORIGIN)


@pytest.mark.parametrize("mode", [0o600, 0o644])
@pytest.mark.parametrize("content", ["", "no keys", '{"certificate": {}}', '{"issuers": []}'])
def test_what_holds_no_keys_is_said_before_the_rights_on_it(rag: Rag, folder: Path, content: str, mode: int) -> None:
    rag(*ISSUER)
    (folder / "x").write_text(content)
    (folder / "x").chmod(mode)
    for words in (("keys", "show", "x"), ("keys", "rotate", "x"), ("keys", "retire", "x", "00000000"), ("log", "new", "x.log", "--keys", "x"),
                  ("answer", "notes.db", "?", "--certificate", "c.json", "--keys", "x")):
        refused = rag(*words)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.startswith("rag: error [file_foreign]: ")
        assert "chmod" not in refused.err


@pytest.mark.parametrize("command", [ISSUER, LOG])
def test_of_keys_that_others_may_use_the_rights_are_told(rag: Rag, folder: Path, command: tuple[str, ...]) -> None:
    rag(*command)
    (folder / command[2]).chmod(0o644)
    refused = rag("keys", "show", command[2])
    assert (refused.code, refused.err) == (1, f"rag: error [file_unsafe]: others may use {command[2]!r} (mode 0644); run chmod 600 on it\n")


@pytest.mark.parametrize(("change", "why"), [
    (lambda text: "\ufeff" + text, "it begins with a byte order mark; put a good copy in its place"),
    (lambda text: text[:len(text) // 2], "it is no JSON: "), (lambda text: text.replace('"schema"', '"private": 1, "schema"'), "the file has an unknown member; put a good copy in its place"),
    (lambda text: text.replace("keys/v1", "keys/v2"), "its schema is not rag-stdlib/issuer-keys/v1; use the release that made it"),
    (lambda text: text.replace('"name"', '"nome"'), "/name is missing; put a good copy in its place")])
def test_what_is_wrong_with_an_issuer_s_file_is_said(rag: Rag, folder: Path, change: Callable[[str], str], why: str) -> None:
    rag(*ISSUER)
    text = (folder / "i.keys").read_text()
    (folder / "i.keys").write_text(change(text))
    for words in (("keys", "show", "i.keys"), ("keys", "rotate", "i.keys")):
        refused = rag(*words)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.startswith(f"rag: error [file_foreign]: 'i.keys' is no file of issuer keys: {why}")
        assert "name another file" not in refused.err
        assert json.loads(text)["signing"]["seed"][:8] not in refused.err


def test_what_is_wrong_with_a_log_s_file_is_said(rag: Rag, folder: Path) -> None:
    rag(*LOG)
    text = (folder / "l.keys").read_text()
    (folder / "l.keys").write_text("\ufeff" + text)
    assert rag("keys", "show", "l.keys").err == (
        "rag: error [file_foreign]: 'l.keys' is no file of log keys: it begins with a byte order mark; put a good copy in its place\n")
    (folder / "l.keys").write_text(text[:-20])
    assert rag("keys", "show", "l.keys").err.startswith("rag: error [file_foreign]: 'l.keys' is no file of log keys: it is not rag-stdlib/log-keys/v1 and up to 64 lines; put")
