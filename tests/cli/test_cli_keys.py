"""`rag keys`: files of keys that nobody else may read, and what of them is public."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from proven import ASKED, LOGGING, ORIGIN, QUESTION, SIGNING, TRUST, lay_out, trusting

from rag_stdlib.proof.format import read_time
from rag_stdlib.proof.issuerkeys import load_issuer_keys
from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.witness import Witness
from rag_stdlib.proof.log.witnesshttp import WitnessServer
from rag_stdlib.proof.trust import Trust, logs_from_json

Rag = Any  # see conftest
Write = Callable[..., Path]

ISSUER = ("keys", "new", "i.keys", "--name", "Acme")
LOG = ("keys", "new", "l.keys", "--log", ORIGIN)
WITNESS = ("keys", "new", "w.keys", "--witness", "witness.example/w1")
KEYS = ("issuer.keys", "log.keys", "witness.keys")
COPIES = "rag: note: a secret was taken out of the file; copies of the file from before still hold it, so destroy them\n"


@pytest.fixture
def proven(rag: Rag, folder: Path, write: Write) -> Rag:
    lay_out(folder, write)
    return rag


def keys_of(trust: dict[str, Any]) -> list[list[Any]]:
    """Every list of keys in a trust file."""
    return [trust[name] for name in ("issuers", "witnesses") if name in trust] + [log["keys"] for log in trust.get("logs", ())]


def witnessed(rag: Rag, folder: Path, name: str) -> None:
    """Issue a certificate that the log and its witness sign with the keys that they have now."""
    trust = trusting(rag, folder, *KEYS)
    if not (folder / "seen.db").exists():
        Witness.create("seen.db", "witness.example/w1")
    logs = logs_from_json(json.loads((folder / trust).read_text()))
    with Witness("seen.db", load_keys("witness.keys"), logs.values()) as witness, WitnessServer(witness) as server:
        server.start()
        told = rag("answer", "notes.db", QUESTION, "--certificate", name, *SIGNING, *LOGGING, "--witness", server.url, "--trust", trust)
    assert (told.code, "not cosigned" in told.err) == (0, False)


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
    ("--witness", ""), ("--name", "a\nb"), ("--name", "a" * 201), *((option, name) for option in ("--log", "--witness")
                                                               for name in ("https://a.example/l", "HTTP://a", "a b", "a+b", "a" * 256))])
def test_wrong_usage_makes_nothing(rag: Rag, folder: Path, arguments: tuple[str, ...]) -> None:
    refused = rag("keys", "new", "x.keys", *arguments)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
    assert refused.err.startswith(f"rag: usage: Invalid value for {arguments[0]}: " if len(arguments) == 2 else "rag: usage: ")
    assert not (folder / "x.keys").exists()


@pytest.mark.parametrize(("arguments", "said"), [
    (("nowhere/x.keys", "--log", "a"), "rag: error [missing]: "), (("x\0.keys", "--name", "a"), "rag: error [file_io]: ")])
def test_what_cannot_be_made_is_one_line(rag: Rag, folder: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = rag("keys", "new", *arguments)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
    assert refused.err.startswith(said)
    assert not (folder / "x.keys").exists()


class TestRotation:
    """`rag keys rotate` and `retire`."""

    @pytest.mark.parametrize(("arguments", "days"), [((), 90), (("--overlap", "30"), 30), (("--overlap", "0"), 0), (("--overlap", "36500"), 36_500)])
    def test_the_old_key_of_an_issuer_ends_with_the_overlap(self, rag: Rag, folder: Path, arguments: tuple[str, ...], days: int) -> None:
        rag(*ISSUER)
        secret = json.loads((folder / "i.keys").read_text())["signing"]["seed"]
        rotated = rag("keys", "rotate", "i.keys", *arguments)
        old, new = load_issuer_keys("i.keys").keys
        assert (rotated.code, rotated.err) == (0, COPIES)
        assert secret not in (folder / "i.keys").read_text()
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
        secret = (folder / file).read_text().splitlines()[1].split("+", 4)[4]
        retired = rag("keys", "retire", file, before.signing[0].key_id.hex())
        assert (retired.code, retired.err) == (0, COPIES)
        assert f"key        {before.signing[0].key_id.hex()}  retired\n" in retired.out
        assert secret not in (folder / file).read_text()

    @pytest.mark.parametrize(("arguments", "code"), [
        (("retire", "l.keys", "00000000"), "key_unknown"), (("retire", "l.keys", "x\x1b"), "key_unknown"), (("rotate", "none.keys"), "missing"),
        (("retire", "none.keys", "0"), "missing"), (("rotate", "corvid.toml"), "file_foreign"), (("rotate", "other"), "file_foreign"), (("show", "other"), "file_foreign")])
    def test_what_cannot_be_changed_is_one_line(self, rag: Rag, folder: Path, arguments: tuple[str, ...], code: str) -> None:
        rag(*LOG)
        (folder / "other").touch(0o600)
        (folder / "other").write_text("no keys")
        before = (folder / "l.keys").read_bytes()
        refused = rag("keys", *arguments)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.startswith(f"rag: error [{code}]: ")
        assert "that the log was made with" not in refused.err
        assert (folder / "l.keys").read_bytes() == before

    @pytest.mark.parametrize("forgetting", [(), ("--compromised",)])
    @pytest.mark.parametrize("command", [ISSUER, LOG, WITNESS])
    def test_the_key_that_signs_alone_cannot_be_retired(self, rag: Rag, folder: Path, command: tuple[str, ...], forgetting: tuple[str, ...]) -> None:
        key_id = rag(*command).out.splitlines()[1].split()[1]
        before = (folder / command[2]).read_bytes()
        refused = rag("keys", "retire", command[2], key_id, *forgetting)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.startswith(f"rag: error [key_unknown]: the key {key_id} ")
        assert refused.err.endswith("; rotate first\n")
        assert (folder / command[2]).read_bytes() == before

    def test_a_superseded_key_of_an_issuer_is_ended_by_the_beginning_of_its_id(self, rag: Rag) -> None:
        rag(*ISSUER)
        rag("keys", "rotate", "i.keys")
        old, new = load_issuer_keys("i.keys").keys
        retired = rag("keys", "retire", "i.keys", old.key_id[:8])
        ended = load_issuer_keys("i.keys").keys[0]
        assert (retired.code, retired.err) == (0, "")
        assert retired.out == (f"issuer     Acme\nkey        {old.key_id}\n           from {old.not_before}, until {ended.not_after}\n"
                               f"key        {new.key_id}\n           from {new.not_before}, signs\n")
        assert str(ended.not_after) < str(old.not_after)

    @pytest.mark.parametrize("command", [ISSUER, LOG, WITNESS])
    def test_a_retired_key_is_not_retired_again(self, rag: Rag, command: tuple[str, ...]) -> None:
        rag(*command)
        key_id = rag("keys", "rotate", command[2], *(("--overlap", "0") if command == ISSUER else ())).out.splitlines()[1].split()[1]
        if command != ISSUER:
            rag("keys", "retire", command[2], key_id)
        refused = rag("keys", "retire", command[2], key_id)
        assert (refused.code, refused.out) == (1, "")
        assert re.fullmatch(rf"rag: error \[key_unknown\]: the key {key_id} of \S+ (is retired already|ended at \S+); it is left as it is\n", refused.err)

    @pytest.mark.parametrize("is_retired", [False, True])
    @pytest.mark.parametrize("command", [ISSUER, LOG, WITNESS])
    def test_a_compromised_key_is_shown_and_trusted_no_more(self, rag: Rag, command: tuple[str, ...], is_retired: bool) -> None:
        file = command[2]
        rag(*command)
        old = rag("keys", "rotate", file).out.splitlines()[1].split()[1]
        assert old in rag("keys", "show", file).out
        before = rag("keys", "show", file, "--trust").json
        secret_goes = file != ISSUER[2] and not is_retired
        if is_retired and file != ISSUER[2]:
            rag("keys", "retire", file, old)
        forgotten = rag("keys", "retire", file, old, "--compromised")
        told = "rag: note: give a new trust file to all who verify: by the one that they have, the key is still good\n"
        assert (forgotten.code, forgotten.err) == (0, COPIES + told if secret_goes else told)
        assert old not in forgotten.out
        assert forgotten.out == rag("keys", "show", file).out
        after = rag("keys", "show", file, "--trust").json
        assert [len(listed) for listed in keys_of(after)] == [len(listed) - 1 for listed in keys_of(before)]
        for forgetting in ((), ("--compromised",)):
            again = rag("keys", "retire", file, old, *forgetting)
            name = forgotten.out.splitlines()[0].split()[1]
            words = f"{name} has no key with the id {old}; name one of those in its file" if file == ISSUER[2] else f"the key {old} of {name} is compromised already; it is left as it is"
            assert (again.code, again.out, again.err) == (1, "", f"rag: error [key_unknown]: {words}\n")

    @pytest.mark.parametrize("command", [LOG, WITNESS])
    def test_the_newest_key_of_a_log_is_retired_only_where_it_is_compromised(self, rag: Rag, folder: Path, command: tuple[str, ...]) -> None:
        file = command[2]
        rag(*command)
        rag("keys", "rotate", file)
        before, newest = (folder / file).read_bytes(), load_keys(file).signing[-1].key_id.hex()
        refused = rag("keys", "retire", file, newest)
        assert (refused.code, refused.out, (folder / file).read_bytes()) == (1, "", before)
        assert refused.err == f"rag: error [key_unknown]: the key {newest} of {load_keys(file).name} is the newest; retire an older one, or give --compromised\n"
        assert rag("keys", "retire", file, newest, "--compromised").code == 0
        assert newest not in [key.key_id.hex() for key in load_keys(file).signing]

    def test_ids_that_name_no_key_of_an_issuer_are_told(self, rag: Rag) -> None:
        rag(*ISSUER)
        for key_id, told in (("0", "names no key of an issuer; give the 64 hex digits of its id, or at least the first 8"), ("x\x1b[2J", "names no key of an issuer; "),
                             ("00000000", "Acme has no key with the id 00000000; name one of those in its file")):
            refused = rag("keys", "retire", "i.keys", key_id)
            assert (refused.code, refused.out, len(refused.err.splitlines()), "\x1b" in refused.err) == (1, "", 1, False)
            assert told in refused.err

    def test_what_is_for_the_other_kind_is_refused(self, rag: Rag) -> None:
        rag(*ISSUER)
        rag(*LOG)
        assert rag("keys", "rotate", "l.keys", "--overlap", "3").code == 2
        assert rag("keys", "rotate", "i.keys", "--overlap", "nan").code == 2
        assert rag("keys", "rotate", "i.keys", "--overlap", "36501").code == 2
        assert rag("keys", "rotate", "i.keys", "--overlap", "-1").code == 2

    def test_a_clock_that_was_set_back_is_told(self, rag: Rag, folder: Path) -> None:
        rag(*ISSUER)
        held = json.loads((folder / "i.keys").read_text())
        held["signing"]["not_before"] = "9000-01-01T00:00:00Z"
        (folder / "i.keys").write_text(json.dumps(held))
        refused = rag("keys", "rotate", "i.keys")
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.endswith("and the key that signs began at 9000-01-01T00:00:00Z; set the clock right, or begin a new file\n")


class TestShow:
    """`rag keys show`."""

    def test_a_trust_file_without_an_issuer_is_noted(self, rag: Rag) -> None:
        for command in (ISSUER, LOG, WITNESS):
            rag(*command)
        told = rag("keys", "show", "w.keys", "l.keys", "--trust")
        assert (told.code, told.err) == (0, "rag: note: no issuer is in it; rag verify needs one, so give the file of the issuer's keys as well\n")
        assert rag("keys", "show", "w.keys", "i.keys", "--trust").err == ""

    def test_all_files_make_one_trust_file(self, rag: Rag) -> None:
        for command in (ISSUER, LOG, WITNESS, ("keys", "new", "v.keys", "--witness", "witness.example/w2")):
            rag(*command)
        written = rag("keys", "show", "i.keys", "l.keys", "w.keys", "v.keys", "--trust").json
        trust = Trust.from_json(written)
        assert [issuer.name for issuer in trust.issuers.values()] == ["Acme"]
        assert (len(trust.logs[ORIGIN].witnesses), trust.logs[ORIGIN].quorum) == (4, 2)
        assert set(rag("keys", "show", "i.keys", "--trust").json) == {"issuers"}
        assert list(logs_from_json(rag("keys", "show", "l.keys", "--trust").json)) == [ORIGIN]

    def test_what_is_given_twice_counts_once(self, rag: Rag, folder: Path) -> None:
        for command in (ISSUER, LOG, WITNESS):
            rag(*command)
            rag("keys", "rotate", command[2])
        files = ("i.keys", "l.keys", "w.keys")
        for file in files:
            shutil.copy2(folder / file, folder / f"copy-{file}")
        once = rag("keys", "show", *files, "--trust")
        assert rag("keys", "show", *files, *files, *(f"copy-{file}" for file in files), "--trust") == once
        assert len(Trust.from_json(once.json).issuers) == 2

    def test_of_two_states_of_a_log_s_keys_both_are_trusted_but_for_what_others_have(self, rag: Rag, folder: Path) -> None:
        rag(*LOG)
        shutil.copy2(folder / "l.keys", folder / "before.keys")
        old = load_keys("l.keys").signing[0]
        rag("keys", "rotate", "l.keys")
        new = load_keys("l.keys").signing[1]
        for files in (("l.keys", "before.keys"), ("before.keys", "l.keys")):
            assert rag("keys", "show", *files, "--trust").json["logs"] == [{"origin": ORIGIN, "keys": [old.text(), new.text()]}]
        rag("keys", "retire", "l.keys", old.key_id.hex(), "--compromised")
        for files in (("l.keys", "before.keys"), ("before.keys", "l.keys")):
            assert rag("keys", "show", *files, "--trust").json["logs"] == [{"origin": ORIGIN, "keys": [new.text()]}]

    def test_two_states_of_an_issuer_s_keys_make_no_trust_file(self, rag: Rag, folder: Path) -> None:
        rag(*ISSUER)
        shutil.copy2(folder / "i.keys", folder / "before.keys")
        rag("keys", "rotate", "i.keys")
        public = rag("keys", "show", "before.keys", "--trust").json["issuers"][0]["public_key"][:12]
        refused = rag("keys", "show", "i.keys", "before.keys", "--trust")
        assert (refused.code, refused.out, refused.err) == (
            1, "", f"rag: error: these files make no trust file: a public key is listed twice: {public}\u2026; give of each party's files the newest alone\n")

    def test_rotated_keys_are_trusted_both_and_retired_ones_too(self, rag: Rag) -> None:
        rag(*ISSUER)
        rag("keys", "rotate", "i.keys")
        assert [set(one) for one in rag("keys", "show", "i.keys", "--trust").json["issuers"]] == [
            {"name", "public_key", "not_before", "not_after"}, {"name", "public_key", "not_before"}]
        rag(*LOG)
        old = load_keys("l.keys").signing[0]
        rag("keys", "rotate", "l.keys")
        assert old.text() in rag("keys", "show", "l.keys", "--trust").json["logs"][0]["keys"]
        rag("keys", "retire", "l.keys", old.key_id.hex())
        assert rag("keys", "show", "l.keys", "--trust").json["logs"][0]["keys"] == [old.text(), load_keys("l.keys").signing[0].text()]

    def test_no_secret_is_shown(self, rag: Rag, folder: Path) -> None:
        for command in (ISSUER, LOG, WITNESS):
            rag(*command)
            rag("keys", "rotate", command[2])
        files = ("i.keys", "l.keys", "w.keys")
        shown = rag("keys", "show", *files).out + rag("keys", "show", *files, "--trust").out
        held = "".join((folder / file).read_text() for file in files)
        secrets = [json.loads((folder / "i.keys").read_text())["signing"]["seed"], *re.findall(r"PRIVATE\+KEY\+[^+]+\+[^+]+\+(\S+)", held)]
        assert len(secrets) == 1 + 2 + 4
        assert all(secret not in shown for secret in secrets)

    def test_several_files_are_shown_one_below_the_other(self, rag: Rag) -> None:
        rag(*ISSUER)
        rag(*LOG)
        assert rag("keys", "show", "i.keys", "l.keys").out == f"{rag('keys', 'show', 'i.keys').out}\n{rag('keys', 'show', 'l.keys').out}"


class TestAnswersFromBefore:
    """Certificates that were made with keys that were since exchanged, verified by one trust file."""

    def test_a_log_and_its_witness_change_their_keys(self, proven: Rag, folder: Path) -> None:
        parties = ("log.keys", "witness.keys")
        old = {file: [key.key_id.hex() for key in load_keys(file).signing] for file in parties}
        witnessed(proven, folder, "before.json")
        for file in parties:
            proven("keys", "rotate", file)
        witnessed(proven, folder, "meanwhile.json")
        for file in parties:
            assert [proven("keys", "retire", file, key_id).code for key_id in old[file]] == [0] * len(old[file])
        witnessed(proven, folder, "after.json")
        trust = json.loads((folder / trusting(proven, folder, *KEYS)).read_text())
        assert (len(trust["logs"][0]["keys"]), len(trust["witnesses"]), trust["quorum"]) == (2, 4, 1)
        for name, count in (("before.json", 1), ("meanwhile.json", 2), ("after.json", 1)):
            told = proven("verify", name, *TRUST, *ASKED, "--json").json
            assert (told["outcome"], told["answer"]["logged"]["witnesses"][0]["name"]) == ("verified", "witness.example/w1")
            assert json.loads((folder / name).read_text())["receipt"].count(f"\u2014 {ORIGIN} ") == count

        for key_id in old["witness.keys"]:
            proven("keys", "retire", "witness.keys", key_id, "--compromised")
        trusting(proven, folder, *KEYS)
        assert proven("verify", "before.json", *TRUST, *ASKED).out.startswith("unknown [witness_quorum]: ")
        proven("keys", "retire", "log.keys", *old["log.keys"], "--compromised")
        trusting(proven, folder, *KEYS)
        assert proven("verify", "before.json", *TRUST, *ASKED).out.startswith("unknown [untrusted_log]: ")
        witnessed(proven, folder, "last.json")
        assert [proven("verify", name, *TRUST, *ASKED).code for name in ("meanwhile.json", "after.json", "last.json")] == [0, 0, 0]

    def test_an_issuer_changes_its_key(self, proven: Rag, folder: Path) -> None:
        old = load_issuer_keys("issuer.keys").signing.key_id
        witnessed(proven, folder, "w.json")
        proven("keys", "rotate", "issuer.keys")
        proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING)
        trusting(proven, folder)
        assert [proven("verify", name, *TRUST, *ASKED).code for name in ("a.json", "b.json")] == [0, 0]
        gone = proven("attack", "a.json", *TRUST, *ASKED, *SIGNING)
        assert (gone.code, gone.out) == (2, "")
        assert gone.err == ("rag: error: 'issuer.keys' does not hold the key that signed the certificate; give the file whose last key did, "
                            "or a certificate by that key\n")

        proven("keys", "retire", "issuer.keys", old[:8])
        time.sleep(1.1)  # it ends with this second
        trusting(proven, folder, *KEYS)
        lax = json.loads((folder / "trust.json").read_text())
        (folder / "lax.json").write_text(json.dumps({**lax, "quorum": 0}))
        assert [proven("verify", name, "--trust", "lax.json", *ASKED).out.partition(":")[0] for name in ("a.json", "w.json", "b.json")] == [
            "unknown [key_ended]", "verified", "verified"]
        proven("keys", "retire", "issuer.keys", old, "--compromised")
        trusting(proven, folder)
        assert proven("verify", "a.json", *TRUST, *ASKED).out.startswith("unknown [untrusted_issuer]: ")
        assert proven("verify", "b.json", *TRUST, *ASKED).code == 0


def test_every_page_of_the_group_fits(rag: Rag) -> None:
    page = rag("keys", "--help").out
    assert [line.split()[0] for line in page.partition("Commands:\n")[2].splitlines()] == ["new", "rotate", "retire", "show"]
    for command in ("new", "rotate", "retire", "show"):
        page = rag("keys", command, "--help")
        assert (page.code, page.err) == (0, "")
        assert all(len(line) <= 100 for line in page.out.splitlines())
