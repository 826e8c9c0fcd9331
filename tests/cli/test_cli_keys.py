"""`rag keys`: files of keys that nobody else may read, and what of them is public."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from proven import ORIGIN

from rag_stdlib.proof.format import read_time
from rag_stdlib.proof.issuerkeys import load_issuer_keys
from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.trust import Trust, logs_from_json

Rag = Any  # see conftest

ISSUER = ("keys", "new", "i.keys", "--name", "Acme")
LOG = ("keys", "new", "l.keys", "--log", ORIGIN)
WITNESS = ("keys", "new", "w.keys", "--witness", "witness.example/w1")


def test_an_issuer_gets_a_key_that_only_it_can_read(rag: Rag, folder: Path) -> None:
    made = rag(*ISSUER)
    (key,) = load_issuer_keys("i.keys").keys
    assert (made.code, made.err) == (0, "rag: note: made 'i.keys'; keep it to yourself, and keep a copy in a safe place\n")
    assert made.out == f"issuer     Acme\nkey        {key.key_id}\n           from {key.not_before}, signs\n"
    assert (folder / "i.keys").stat().st_mode & 0o777 == 0o600


def test_logs_and_witnesses_get_keys_of_their_kinds(rag: Rag) -> None:
    log, witness = rag(*LOG), rag(*WITNESS)
    ids = [key.key_id.hex() for name in ("l.keys", "w.keys") for key in load_keys(name).signing]
    assert log.out == f"log        {ORIGIN}\nkey        {ids[0]}  Ed25519, signs\n"
    assert witness.out == f"witness    witness.example/w1\nkey        {ids[1]}  Ed25519, cosigns\nkey        {ids[2]}  ML-DSA-44, cosigns\n"


@pytest.mark.parametrize("command", [ISSUER, LOG, WITNESS])
def test_no_file_is_written_over(rag: Rag, folder: Path, command: tuple[str, ...]) -> None:
    (folder / command[2]).write_text("mine")
    refused = rag(*command)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("rag: error [exists]: ")
    assert (folder / command[2]).read_text() == "mine"


@pytest.mark.parametrize("arguments", [
    (), ("--name", "A", "--log", "a.example/l"), ("--name", "A", "--witness", "w"), ("--name", ""), ("--name", " "), ("--name", "a\x1b[2Jb"), ("--log", "a\u202eb"),
    ("--witness", ""), ("--name", "a\nb")])
def test_wrong_usage_makes_nothing(rag: Rag, folder: Path, arguments: tuple[str, ...]) -> None:
    refused = rag("keys", "new", "x.keys", *arguments)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
    assert refused.err.startswith("rag: usage: ")
    assert not (folder / "x.keys").exists()


@pytest.mark.parametrize(("arguments", "said"), [
    (("x.keys", "--name", "a" * 201), "rag: error: an issuer's name is 1 to 200 characters; choose another name"),
    (("x.keys", "--log", "a b"), "rag: error [key_malformed]: a key's name holds no white space"),
    (("nowhere/x.keys", "--log", "a"), "rag: error [missing]: "), (("x\0.keys", "--name", "a"), "rag: error [file_io]: ")])
def test_what_cannot_be_made_is_one_line(rag: Rag, folder: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = rag("keys", "new", *arguments)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
    assert refused.err.startswith(said)
    assert not (folder / "x.keys").exists()


class TestRotation:
    """`rag keys rotate` and `retire`."""

    @pytest.mark.parametrize(("arguments", "days"), [((), 7), (("--overlap", "30"), 30), (("--overlap", "0"), 0)])
    def test_the_old_key_of_an_issuer_ends_with_the_overlap(self, rag: Rag, arguments: tuple[str, ...], days: int) -> None:
        rag(*ISSUER)
        rotated = rag("keys", "rotate", "i.keys", *arguments)
        old, new = load_issuer_keys("i.keys").keys
        assert (rotated.code, rotated.err) == (0, "")
        assert rotated.out == (f"issuer     Acme\nkey        {old.key_id}\n           from {old.not_before}, until {old.not_after}\n"
                               f"key        {new.key_id}\n           from {new.not_before}, signs\n")
        ends, begins = read_time(str(old.not_after)), read_time(new.not_before)
        assert ends is not None
        assert begins is not None
        assert (ends - begins).days == days

    @pytest.mark.parametrize("command", [LOG, WITNESS])
    def test_old_keys_of_logs_and_witnesses_sign_until_they_are_retired(self, rag: Rag, folder: Path, command: tuple[str, ...]) -> None:
        file = command[2]
        rag(*command)
        before = load_keys(file)
        assert rag("keys", "rotate", file).out.count("signs\n") == 2 * len(before.signing) == len(load_keys(file).signing)
        secret = (folder / file).read_text().splitlines()[1].rpartition("+")[2]
        retired = rag("keys", "retire", file, before.signing[0].key_id.hex())
        assert f"key        {before.signing[0].key_id.hex()}  retired\n" in retired.out
        assert secret not in (folder / file).read_text()

    @pytest.mark.parametrize(("arguments", "code"), [
        (("retire", "l.keys", "00000000"), "key_unknown"), (("retire", "l.keys", "x\x1b"), "key_unknown"), (("rotate", "none.keys"), "missing"),
        (("retire", "none.keys", "0"), "missing"), (("rotate", "corvid.toml"), "file_unsafe"), (("rotate", "other"), "file_foreign"), (("show", "other"), "file_foreign")])
    def test_what_cannot_be_changed_is_one_line(self, rag: Rag, folder: Path, arguments: tuple[str, ...], code: str) -> None:
        rag(*LOG)
        (folder / "other").touch(0o600)
        (folder / "other").write_text("no keys")
        before = (folder / "l.keys").read_bytes()
        refused = rag("keys", *arguments)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.startswith(f"rag: error [{code}]: ")
        assert (folder / "l.keys").read_bytes() == before

    def test_the_last_key_of_a_log_cannot_be_retired(self, rag: Rag) -> None:
        rag(*LOG)
        refused = rag("keys", "retire", "l.keys", load_keys("l.keys").signing[0].key_id.hex())
        assert (refused.code, refused.err.endswith("; rotate first\n")) == (1, True)

    def test_what_is_for_the_other_kind_is_refused(self, rag: Rag) -> None:
        rag(*ISSUER)
        rag(*LOG)
        assert rag("keys", "rotate", "l.keys", "--overlap", "3").code == 2
        assert rag("keys", "rotate", "i.keys", "--overlap", "nan").code == 2
        refused = rag("keys", "retire", "i.keys", "0")
        assert (refused.code, refused.err) == (1, "rag: error: 'i.keys' holds keys of an issuer, which end by themselves when the overlap of rag keys rotate is over\n")


class TestShow:
    """`rag keys show`."""

    def test_all_files_make_one_trust_file(self, rag: Rag) -> None:
        for command in (ISSUER, LOG, WITNESS, ("keys", "new", "v.keys", "--witness", "witness.example/w2")):
            rag(*command)
        written = rag("keys", "show", "i.keys", "l.keys", "w.keys", "v.keys", "--trust").json
        trust = Trust.from_json(written)
        assert [issuer.name for issuer in trust.issuers.values()] == ["Acme"]
        assert (len(trust.logs[ORIGIN].witnesses), trust.logs[ORIGIN].quorum) == (4, 2)
        assert set(rag("keys", "show", "i.keys", "--trust").json) == {"issuers"}
        assert list(logs_from_json(rag("keys", "show", "l.keys", "--trust").json)) == [ORIGIN]

    def test_rotated_keys_are_trusted_both_and_retired_ones_not(self, rag: Rag) -> None:
        rag(*ISSUER)
        rag("keys", "rotate", "i.keys")
        assert [set(one) for one in rag("keys", "show", "i.keys", "--trust").json["issuers"]] == [
            {"name", "public_key", "not_before", "not_after"}, {"name", "public_key", "not_before"}]
        rag(*LOG)
        old = load_keys("l.keys").signing[0]
        rag("keys", "rotate", "l.keys")
        assert old.text() in rag("keys", "show", "l.keys", "--trust").json["logs"][0]["keys"]
        rag("keys", "retire", "l.keys", old.key_id.hex())
        assert old.text() not in rag("keys", "show", "l.keys", "--trust").json["logs"][0]["keys"]

    def test_no_secret_is_shown(self, rag: Rag, folder: Path) -> None:
        for command in (ISSUER, LOG, WITNESS):
            rag(*command)
            rag("keys", "rotate", command[2])
        files = ("i.keys", "l.keys", "w.keys")
        shown = rag("keys", "show", *files).out + rag("keys", "show", *files, "--trust").out
        held = "".join((folder / file).read_text() for file in files)
        secrets = [*(key["seed"] for key in json.loads((folder / "i.keys").read_text())["keys"]), *re.findall(r"PRIVATE\+KEY\+[^+]+\+[^+]+\+(\S+)", held)]
        assert len(secrets) == 2 + 2 + 4
        assert all(secret not in shown for secret in secrets)

    def test_several_files_are_shown_one_below_the_other(self, rag: Rag) -> None:
        rag(*ISSUER)
        rag(*LOG)
        assert rag("keys", "show", "i.keys", "l.keys").out == f"{rag('keys', 'show', 'i.keys').out}\n{rag('keys', 'show', 'l.keys').out}"


def test_every_page_of_the_group_fits(rag: Rag) -> None:
    page = rag("keys", "--help").out
    assert [line.split()[0] for line in page.partition("Commands:\n")[2].splitlines()] == ["new", "rotate", "retire", "show"]
    for command in ("new", "rotate", "retire", "show"):
        page = rag("keys", command, "--help")
        assert (page.code, page.err) == (0, "")
        assert all(len(line) <= 100 for line in page.out.splitlines())
