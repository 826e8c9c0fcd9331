"""`rag log`: certificates into a log, proofs out of it, and those who watch it, as processes of their own."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from proven import ASKED, LOGGING, ORIGIN, QUESTION, SIGNING, TRUST, copied, lay_out, trusting

from rag_stdlib.cli import log as log_commands
from rag_stdlib.cli.frame import CommandError
from rag_stdlib.cli.standing import Stop
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.merkle import leaf_hash, verify_consistency
from rag_stdlib.proof.log.notes import Note, open_note
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.receipts import Receipt

Write = Callable[..., Path]
Rag = Any  # see conftest
Spawn = Any

KEYS = ("--keys", "log.keys")
WAIT_S = 60.0  # for what takes a second, on a machine that is not busy


@pytest.fixture
def proven(rag: Rag, folder: Path, write: Write) -> Rag:
    lay_out(folder, write)
    trusting(rag, folder)
    return rag


def issue(rag: Rag, name: str, log: str | None = "answers.log", question: str = QUESTION) -> None:
    """Issue another certificate."""
    logging = () if log is None else ("--log", log, "--log-keys", "log.keys")
    assert rag("answer", "notes.db", question, "--certificate", name, *SIGNING, *logging).code == 0


def head_of(note: str) -> Checkpoint:
    return Checkpoint.parse(Note.parse(note.encode()).text)


class TestAppending:
    """`rag log new` and `append`."""

    def test_a_new_log_is_empty_and_signed(self, rag: Rag) -> None:
        rag("keys", "new", "l.keys", "--log", "log.example/a")
        made = rag("log", "new", "a.log", "--keys", "l.keys")
        assert (made.code, made.out, made.err) == (0, "log        log.example/a\nentries    0\n", "")
        note = rag("log", "checkpoint", "a.log").out
        assert (head_of(note).size, len(open_note(note.encode(), load_keys("l.keys").signing).signed)) == (0, 1)
        refused = rag("log", "new", "a.log", "--keys", "l.keys")
        assert (refused.code, refused.out, refused.err.partition(":")[2].partition(":")[0]) == (1, "", " error [exists]")

    def test_certificates_get_their_receipts(self, proven: Rag, folder: Path) -> None:
        for name in ("b.json", "c.json"):
            issue(proven, name, None)
        assert proven("verify", "b.json", *TRUST, *ASKED).code == 3
        (folder / "b.json").chmod(0o640)
        told = proven("log", "append", "answers.log", "b.json", "c.json", "b.json", *KEYS)
        assert (told.code, told.err) == (0, "")
        assert told.out == f"b.json: entry 1 of {ORIGIN}\nc.json: entry 2 of {ORIGIN}\n"
        assert [proven("verify", name, *TRUST, *ASKED).code for name in ("a.json", "b.json", "c.json")] == [0, 0, 0]
        assert (folder / "b.json").stat().st_mode & 0o777 == 0o640

    def test_one_whose_receipt_was_lost_gets_one_and_is_not_logged_again(self, proven: Rag, folder: Path) -> None:
        issue(proven, "b.json", None)
        issue(proven, "c.json", None)
        shutil.copy(folder / "b.json", folder / "lost.json")
        assert proven("log", "append", "answers.log", "b.json", *KEYS).code == 0
        told = proven("log", "append", "answers.log", "lost.json", "c.json", *KEYS)
        assert told.out == f"lost.json: entry 1 of {ORIGIN}, as before\nc.json: entry 2 of {ORIGIN}\n"
        assert [proven("verify", name, *TRUST, *ASKED).code for name in ("lost.json", "c.json")] == [0, 0]
        assert proven("log", "check", "answers.log").out == f"clean: 3 entries of {ORIGIN}\n"

    def test_one_that_is_logged_is_not_logged_again(self, proven: Rag, folder: Path) -> None:
        before = (folder / "a.json").read_bytes()
        told = proven("log", "append", "answers.log", "a.json", *KEYS, "--json").json
        assert [(row["file"], row["origin"], row["index"]) for row in told] == [("a.json", ORIGIN, 0)]
        assert proven("log", "append", "answers.log", "a.json", *KEYS).out == f"a.json: entry 0 of {ORIGIN}, as before\n"
        assert (folder / "a.json").read_bytes() == before
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"

    def test_any_bytes_can_be_entries(self, proven: Rag, write: Write) -> None:
        write("x.bin", b"\x00\xff any bytes")
        told = proven("log", "append", "answers.log", "x.bin", "x.bin", *KEYS, "--raw")
        first, _, second = told.out.partition("c2sp.org/tlog-proof@v1\n")[2].partition("c2sp.org/tlog-proof@v1\n")
        log = PinnedLog(ORIGIN, load_keys("log.keys").signing)
        for place, text in enumerate((first, second), 1):
            receipt = Receipt.parse(f"c2sp.org/tlog-proof@v1\n{text}".encode())
            assert receipt.index == place
            receipt.verify(b"\x00\xff any bytes", log)

    @pytest.mark.parametrize(("arguments", "said"), [
        (("answers.log", "gone.json", *KEYS), "rag: error: 'gone.json' cannot be read: "), (("answers.log", "docs/refunds.md", *KEYS), "rag: error: 'docs/refunds.md' is no certificate: it is no JSON"),
        (("answers.log", "trust.json", *KEYS), "rag: error: 'trust.json' is no certificate: /certificate is missing"), (("gone.log", "a.json", *KEYS), "rag: error [missing]: "),
        (("answers.log", "a.json", "--keys", "issuer.keys"), "rag: error [file_foreign]: "), (("notes.db", "a.json", *KEYS), "rag: error ["),
        (("answers.log", "a.json", "--keys", "other.keys"), "rag: error [key_unknown]: "), (("answers.log", "notes.db", *KEYS, "--raw"), "rag: error [entry_too_large]: "),
        (("answers.log", "a.json", *KEYS, "--witness", "http://127.0.0.1:9", *TRUST), "rag: error: 'trust.json' cannot serve for --witness: it names no witness"),
        (("other.log", "a.json", "--keys", "other.keys"), "rag: error: 'a.json' has a receipt of the log log.acme.example/answers already"),
        (("young.log", "b.json", *KEYS), "rag: error: 'b.json' has a receipt of entry 1 of this log, which has another one there; ")])
    def test_what_cannot_be_logged_is_one_line_and_changes_nothing(self, proven: Rag, folder: Path, arguments: tuple[str, ...], said: str) -> None:
        proven("keys", "new", "other.keys", "--log", "log.example/other")
        proven("log", "new", "other.log", "--keys", "other.keys")
        proven("log", "new", "young.log", *KEYS)
        issue(proven, "b.json")
        before = {name: (folder / name).read_bytes() for name in ("a.json", "b.json")}
        refused = proven("log", "append", *arguments)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.startswith(said)
        assert {name: (folder / name).read_bytes() for name in before} == before
        assert proven("log", "check", "answers.log").out == f"clean: 2 entries of {ORIGIN}\n"

    def test_what_cannot_take_its_receipt_is_not_logged(self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        issue(proven, "b.json", None)

        def refused(path: str) -> None:
            raise CommandError(f"{path!r} cannot be written")

        monkeypatch.setattr(log_commands, "check_target", refused)
        assert proven("log", "append", "answers.log", "b.json", *KEYS).code == 1
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"
        assert "receipt" not in json.loads((folder / "b.json").read_text())

    def test_a_receipt_that_is_none_is_said_to_be_none(self, proven: Rag, folder: Path) -> None:
        envelope = json.loads((folder / "a.json").read_text())
        (folder / "a.json").write_text(json.dumps({**envelope, "receipt": "nonsense"}))
        assert proven("log", "append", "answers.log", "a.json", *KEYS).err.startswith("rag: error: 'a.json' has a receipt that is none: ")

    @pytest.mark.parametrize("arguments", [("answers.log", *KEYS), ("answers.log", "a.json"), ("answers.log", "-", *KEYS), ("answers.log", "a.json", *KEYS, "--witness", "http://x"),
                                           ("answers.log", "a.json", *KEYS, *TRUST)])
    def test_wrong_usage(self, proven: Rag, arguments: tuple[str, ...]) -> None:
        refused = proven("log", "append", *arguments)
        assert (refused.code, refused.out, refused.err[:12]) == (2, "", "rag: usage: ")


class TestProofs:
    """`rag log checkpoint`, `prove` and `check`."""

    def test_receipts_verify(self, proven: Rag) -> None:
        issue(proven, "b.json")
        told = proven("log", "prove", "answers.log", "0")
        receipt = Receipt.parse(told.out.encode())
        assert (told.code, receipt.index, head_of(receipt.checkpoint.decode()).size) == (0, 0, 2)
        assert proven("log", "prove", "answers.log", "0", "--json").json == {"origin": ORIGIN, "index": 0, "receipt": told.out}

    def test_consistency_verifies(self, proven: Rag) -> None:
        heads = [head_of(proven("log", "checkpoint", "answers.log").out)]
        for number in range(2, 6):
            issue(proven, f"{number}.json")
            heads.append(head_of(proven("log", "checkpoint", "answers.log").out))
        for old in heads:
            for new in heads[old.size - 1:]:
                path = [base64.b64decode(line) for line in proven("log", "prove", "answers.log", "--from", str(old.size), "--to", str(new.size)).out.split()]
                verify_consistency(old.size, old.root, new.size, new.root, path)
        assert proven("log", "prove", "answers.log", "--from", "3").out == proven("log", "prove", "answers.log", "--from", "3", "--to", "5").out
        assert proven("log", "prove", "answers.log", "--from", "3", "--json").json["to"] == 5

    def test_a_checkpoint_is_signed_again_with_rotated_keys(self, proven: Rag) -> None:
        proven("keys", "rotate", "log.keys")
        both = load_keys("log.keys").signing
        assert len(open_note(proven("log", "checkpoint", "answers.log").out.encode(), both).signed) == 1
        told = proven("log", "checkpoint", "answers.log", *KEYS, "--json").json
        assert [line["key_id"] for line in told["signatures"]] == [key.key_id.hex() for key in both]
        assert (told["origin"], told["size"], len(base64.b64decode(told["root"]))) == (ORIGIN, 1, 32)
        assert told["note"] == proven("log", "checkpoint", "answers.log").out

    @pytest.mark.parametrize(("arguments", "code", "said"), [
        (("prove", "answers.log", "1"), 1, "rag: error [out_of_range]: "), (("prove", "answers.log", "9" * 30), 1, "rag: error [out_of_range]: "),
        (("prove", "answers.log", "--from", "2"), 1, "rag: error [out_of_range]: "), (("prove", "answers.log", "--from", "0", "--to", "7"), 1, "rag: error [out_of_range]: "),
        (("prove", "answers.log", "0", "--cosigned"), 1, "rag: error: no witness has cosigned a checkpoint of this log; "), (("checkpoint", "answers.log", "--cosigned"), 1, "rag: error: no witness "),
        (("tiles", "answers.log", "out", "--cosigned"), 1, "rag: error: no witness "), (("check", "gone.log"), 1, "rag: error [missing]: "), (("check", "notes.db"), 1, "rag: error ["),
        (("prove", "answers.log"), 2, "rag: usage: give INDEX"), (("prove", "answers.log", "0", "--from", "0"), 2, "rag: usage: "), (("prove", "answers.log", "0", "--to", "0"), 2, "rag: usage: "),
        (("prove", "answers.log", "-1"), 2, "rag: usage: "), (("prove", "answers.log", "--from", "0", "--cosigned"), 2, "rag: usage: ")])
    def test_what_is_not_there_is_one_line(self, proven: Rag, arguments: tuple[str, ...], code: int, said: str) -> None:
        refused = proven("log", *arguments)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (code, "", 1)
        assert refused.err.startswith(said)

    def test_a_damaged_log_is_found_out(self, proven: Rag, folder: Path) -> None:
        issue(proven, "b.json")
        connection = apsw.Connection(str(folder / "answers.log"))
        connection.execute("UPDATE log_entries SET entry = x'00' WHERE position = 0")
        connection.close()
        told = proven("log", "check", "answers.log")
        assert (told.code, told.out[:9]) == (1, "problem: ")
        assert proven("log", "check", "answers.log", "--json").json["problems"]


class TestTiles:
    """`rag log tiles`."""

    def test_a_folder_is_published_and_follows_the_log(self, proven: Rag, folder: Path) -> None:
        assert proven("log", "tiles", "answers.log", "site").out == f"published 1 entry of {ORIGIN}\n"
        issue(proven, "b.json")
        assert proven("log", "tiles", "answers.log", "site", "--json").json == {"origin": ORIGIN, "size": 2, "folder": "site"}
        assert (folder / "site" / "checkpoint").read_text() == proven("log", "checkpoint", "answers.log").out
        assert leaf_hash(b"") not in (folder / "site" / "tile" / "0" / "000.p" / "2").read_bytes()

    def test_a_folder_that_shows_another_tree_is_left_as_it_is(self, proven: Rag, folder: Path) -> None:
        copied(folder, "answers.log", "fork.log")
        issue(proven, "b.json")
        issue(proven, "c.json", "fork.log")
        proven("log", "tiles", "answers.log", "site")
        shown = (folder / "site" / "checkpoint").read_bytes()
        refused = proven("log", "tiles", "fork.log", "site")
        assert (refused.code, refused.out, refused.err.partition(": ")[2][:14]) == (1, "", "error [forked]")
        assert (folder / "site" / "checkpoint").read_bytes() == shown


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run a command as a process that is ended with the block; its output is in a file."""
    output = folder / f"output-{time.monotonic_ns()}"
    with output.open("w") as file:
        child = subprocess.Popen([sys.executable, "-m", "rag_stdlib", *arguments], cwd=folder, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield child, output
    finally:
        child.terminate()
        child.wait(WAIT_S)


def waited(output: Path, pattern: str) -> str:
    """Wait for a line, and return what its group holds."""
    end = time.monotonic() + WAIT_S
    while not (found := re.search(pattern, output.read_text(), re.MULTILINE)):
        assert time.monotonic() < end, output.read_text()
        time.sleep(0.02)
    return found.group(1)


def test_a_witness_cosigns_what_goes_on_and_refuses_a_fork(proven: Rag, folder: Path) -> None:
    trust = ("--trust", trusting(proven, folder, "issuer.keys", "log.keys", "witness.keys"))
    copied(folder, "answers.log", "fork.log")
    serving = ("log", "witness", "seen.db", "--keys", "witness.keys", *trust)
    with running(folder, *serving, "--new") as (child, output):
        url = waited(output, r"^listening  (http://127\.0\.0\.1:\d+)$")
        assert output.read_text().startswith(f"witness    witness.example/w1\nof         {ORIGIN}\n")
        assert proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING, "--witness", url, *trust).code == 0
        assert proven("verify", "b.json", *trust, *ASKED, "--json").json["answer"]["logged"]["witnesses"][0]["name"] == "witness.example/w1"
        assert proven("verify", "a.json", *trust, *ASKED).out.startswith("unknown [witness_quorum]: ")
        assert proven("log", "append", "answers.log", "a.json", *KEYS).out == f"a.json: entry 0 of {ORIGIN}, as before\n"
        assert proven("verify", "a.json", *trust, *ASKED).code == 0, "it has the cosigned checkpoint now"
        assert proven("log", "prove", "answers.log", "0", "--cosigned").out == json.loads((folder / "a.json").read_text())["receipt"]
        assert proven("log", "tiles", "answers.log", "site", "--cosigned").code == 0

        issue(proven, "c.json", "fork.log")
        refused = proven("log", "checkpoint", "fork.log", "--witness", url, *trust)
        assert (refused.code, refused.out) == (1, "")
        assert "rag: note: not cosigned [forked]: " in refused.err
        again = proven("log", "checkpoint", "answers.log", "--witness", url, *trust)
        assert (again.code, again.out) == (0, proven("log", "checkpoint", "answers.log", "--cosigned").out)
        child.send_signal(signal.SIGTERM)
        assert child.wait(WAIT_S) == 0
        assert output.read_text().endswith("rag: note: stopped\n")
    assert proven(*serving, "--new").err.startswith("rag: error [exists]: ")


def test_a_witness_serves_until_a_signal(proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(stop: Stop, seconds: float | None = None) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return bool(stop) and seconds is None

    monkeypatch.setattr(Stop, "wait", wait)
    told = proven("log", "witness", "seen.db", "--keys", "witness.keys", *TRUST, "--new", "--prefix", "/w")
    assert (told.code, told.err) == (0, "rag: note: stopped\n")
    assert re.fullmatch(rf"witness    witness\.example/w1\nof         {ORIGIN}\nlistening  http://127\.0\.0\.1:\d+/w\n", told.out)


@pytest.mark.parametrize(("arguments", "code", "said"), [
    (("seen.db", "--keys", "witness.keys", *TRUST), 1, "rag: error [missing]: "), (("seen.db", "--keys", "log.keys", *TRUST, "--new"), 1, "rag: error [keys_unfit]: "),
    (("seen.db", "--keys", "witness.keys", "--trust", "none.json", "--new"), 1, "rag: error: 'none.json' names no log, "),
    (("seen.db", "--keys", "witness.keys", *TRUST, "--new", "--host", "no.such.host.invalid"), 1, "rag: error: it cannot listen at no.such.host.invalid port 0: "),
    (("seen.db", "--keys", "witness.keys", *TRUST, "--prefix", "x"), 2, "rag: usage: "), (("seen.db", "--keys", "witness.keys", *TRUST, "--port", "65536"), 2, "rag: usage: ")])
def test_a_witness_that_cannot_serve_says_so(proven: Rag, write: Write, arguments: tuple[str, ...], code: int, said: str) -> None:
    write("none.json", "{}")
    refused = proven("log", "witness", *arguments)
    assert refused.code == code
    assert refused.err.startswith(said)
    assert len(refused.err.splitlines()) == 1


class TestMonitor:
    """`rag log monitor`."""

    WATCH = ("log", "monitor", "state.db")

    def test_it_reads_what_is_new(self, proven: Rag, write: Write) -> None:
        write("x.bin", "no certificate")
        proven("log", "tiles", "answers.log", "site")
        assert proven(*self.WATCH, "site", *TRUST, "--new").out == "read       1 entry, 1 new\n"
        issue(proven, "b.json")
        proven("log", "append", "answers.log", "x.bin", *KEYS, "--raw")
        told = proven(*self.WATCH, "answers.log", *TRUST)
        assert (told.code, told.out) == (0, "read       3 entries, 2 new\npassed by  1 new entry of no certificate: 2\n")
        assert proven(*self.WATCH, "answers.log", *TRUST, "--whole", "--json").json == {
            "size": 3, "new": 0, "conflicts": [], "unreadable": [], "alarms": [], "so_far": {"conflicts": [], "alarms": []}}

    def test_two_answers_to_one_question_are_found(self, proven: Rag, folder: Path) -> None:
        proven("log", "new", "old.log", *KEYS)
        assert proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING, "--judge", "none", "-n", "1").code == 0
        assert proven(*self.WATCH, "answers.log", *TRUST, "--new").code == 0, "it is the same answer"
        other = json.loads((folder / "a.json").read_text())
        self.equivocate(other["certificate"], folder)
        told = proven(*self.WATCH, "answers.log", *TRUST)
        key = other["certificate"]["issuer"]["key_id"]
        assert (told.code, told.err) == (1, "")
        assert told.out == (f"read       3 entries, 1 new\nconflict   entries 0 and 2: two answers by the issuer's key {key} to one question over one state of an index, "
                            "made in one way\n"
                            "so far     1 conflict, 0 alarms\n")
        again = proven(*self.WATCH, "answers.log", *TRUST, "--json")
        assert (again.code, again.json["conflicts"], again.json["so_far"]["conflicts"]) == (0, [], [{"first": 0, "second": 2, "same_setup": True, "issuer_key_id": key}])
        shorter = proven(*self.WATCH, "old.log", *TRUST, "--json")
        assert (shorter.code, shorter.json["so_far"]["conflicts"]) == (1, [{"first": 0, "second": 2, "same_setup": True, "issuer_key_id": None}]), "it does not show the entries any more"

    def test_two_answers_that_were_made_in_different_ways_are_told_as_such(self, proven: Rag, folder: Path) -> None:
        body = json.loads((folder / "a.json").read_text())["certificate"]
        body["judge"]["version"] = "another"
        self.equivocate(body, folder)
        told = proven(*self.WATCH, "answers.log", *TRUST, "--new")
        assert told.code == 1
        assert told.out.splitlines()[1].endswith(" to one question over one state of an index, made in different ways: another model, judge, limit or policy")
        assert [each["same_setup"] for each in proven(*self.WATCH, "answers.log", *TRUST, "--json").json["so_far"]["conflicts"]] == [False]

    def test_whoever_serves_garbage_is_told_as_such_and_accuses_no_log(self, proven: Rag, folder: Path) -> None:
        proven("log", "tiles", "answers.log", "site")
        assert proven(*self.WATCH, "site", *TRUST, "--new").code == 0
        issue(proven, "b.json")
        proven("log", "tiles", "answers.log", "site")
        entries = folder / "site" / "tile" / "entries" / "000.p" / "2"
        real = entries.read_bytes()
        entries.write_bytes(real.replace(b"issuer_key_id", b"issuer_key_ix"))
        told = proven(*self.WATCH, "site", *TRUST)
        assert (told.code, told.out.splitlines()[1].partition("]")[0], "may be at fault" in told.out) == (1, "alarm      [entries_differ", True)
        entries.write_bytes(b"garbage")
        assert proven(*self.WATCH, "site", *TRUST).err.startswith("rag: error [tile_malformed]: ")
        entries.write_bytes(real)
        assert proven(*self.WATCH, "site", *TRUST).out == "read       2 entries, 1 new\nso far     0 conflicts, 1 alarm\n"

    def equivocate(self, body: dict[str, Any], folder: Path) -> None:
        """Let the issuer log another answer to the same question over the same state, beside its commands."""
        from rag_stdlib.cli.logged import open_log
        from rag_stdlib.proof.certificate import entry_of, sign
        from rag_stdlib.proof.issuerkeys import load_issuer_keys

        body["answer"]["sha256"] = "f" * 64
        with open_log(str(folder / "answers.log"), str(folder / "log.keys")) as log:
            log.append(entry_of(sign(body, load_issuer_keys("issuer.keys").signing.private)))

    def test_a_log_that_drops_forks_or_changes_is_found(self, proven: Rag, folder: Path) -> None:
        copied(folder, "answers.log", "old.log")
        issue(proven, "b.json")
        assert proven(*self.WATCH, "answers.log", *TRUST, "--new").code == 0
        shrunk = proven(*self.WATCH, "old.log", *TRUST)
        assert (shrunk.code, shrunk.out.splitlines()[1]) == (1, "alarm      [rolled_back] the log shows 1 entries, and it showed 2 before; whoever serves it may be behind")
        for name in ("c.json", "d.json"):
            issue(proven, name, "old.log")
        forked = proven(*self.WATCH, "old.log", *TRUST, "--json")
        assert (forked.code, [alarm["code"] for alarm in forked.json["alarms"]]) == (1, ["forked"])
        assert proven(*self.WATCH, "answers.log", *TRUST).out == "read       2 entries, 0 new\nso far     0 conflicts, 2 alarms\n"

    @pytest.mark.parametrize(("arguments", "code", "said"), [
        (("state.db", "site", *TRUST), 3, "rag: error [missing]: "), (("state.db", "nowhere", *TRUST, "--new"), 3, "rag: error [missing]: "),
        (("state.db", "http://127.0.0.1:9", *TRUST, "--new"), 3, "rag: error [unreachable]: "), (("state.db", "answers.log", "--trust", "none.json", "--new"), 3, "rag: error: 'none.json' names several logs or none; "),
        (("state.db", "answers.log", *TRUST, "--origin", "x", "--new"), 3, f"rag: error: 'trust.json' does not name the log x; --origin names one of: {ORIGIN}"),
        (("state.db", "answers.log", "--trust", "other.json", "--new"), 3, "rag: error [signature_missing]: "), (("state.db", "answers.log"), 2, "rag: usage: "),
        (("state.db", "answers.log", *TRUST, "--every", "0"), 2, "rag: usage: "), (("state.db", "answers.log", *TRUST, "--every", "nan"), 2, "rag: usage: ")])
    def test_a_log_that_cannot_be_read_is_another_matter(self, proven: Rag, write: Write, arguments: tuple[str, ...], code: int, said: str) -> None:
        write("none.json", "{}")
        proven("keys", "new", "other.keys", "--log", ORIGIN)
        write("other.json", proven("keys", "show", "other.keys", "--trust").out)
        refused = proven("log", "monitor", *arguments)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (code, "", 1)
        assert refused.err.startswith(said)

    def test_what_it_finds_while_it_stands_is_its_exit_code(self, proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        proven("log", "tiles", "answers.log", "old")
        issue(proven, "b.json")
        proven("log", "tiles", "answers.log", "site")
        scans: list[str] = []

        def wait(stop: Stop, seconds: float | None = None) -> bool:
            scans.append(f"{seconds:g}")
            if len(scans) == 1:
                Path("old").rename("gone")
            elif len(scans) == 2:
                Path("site").rename("new")
                Path("gone").rename("site")
            elif len(scans) == 4:
                os.kill(os.getpid(), signal.SIGTERM)
            return bool(stop)

        monkeypatch.setattr(Stop, "wait", wait)
        told = proven(*self.WATCH, "site", *TRUST, "--new", "--every", "5")
        assert (told.code, scans) == (1, ["5"] * 4)
        assert told.out.count("read       2 entries, 2 new\n") == 1
        assert told.out.count("[rolled_back]") == 2

    def test_it_stands_until_it_is_told_to_stop(self, proven: Rag, folder: Path) -> None:
        proven("log", "tiles", "answers.log", "site")
        with running(folder, *self.WATCH, "site", *TRUST, "--new", "--every", "0.1") as (child, output):
            waited(output, "^(read       1 entry, 1 new)$")
            (folder / "site" / "checkpoint").rename(folder / "checkpoint")
            waited(output, r"^(rag: note: not read \[missing\]: there is no published log there; trying again in 0.1 s)$")
            issue(proven, "b.json")
            (folder / "checkpoint").rename(folder / "site" / "checkpoint")
            proven("log", "tiles", "answers.log", "site")
            waited(output, "^(read       2 entries, 1 new)$")
            child.send_signal(signal.SIGTERM)
            assert child.wait(WAIT_S) == 0
            assert output.read_text().count("read       1 entry") == 1


def test_every_page_of_the_group_fits(rag: Rag) -> None:
    names = ["new", "append", "checkpoint", "prove", "check", "tiles", "witness", "monitor"]
    page = rag("log", "--help").out
    assert [line.split()[0] for line in page.partition("Commands:\n")[2].splitlines()] == names
    for name in names:
        page = rag("log", name, "--help")
        assert (page.code, page.err) == (0, "")
        assert all(len(line) <= 100 for line in page.out.splitlines())
