"""`rag log append`: which receipts stay, that nothing is logged twice, what is refused before, and what is said where a file could not be written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from appended import APPEND, envelope, receipt, signers, stripped, witnessing
from proven import ASKED, KEYS, ORIGIN, QUESTION, TRUST, issue, trusting

from rag_stdlib.cli import logappend
from rag_stdlib.cli.frame import CommandError
from rag_stdlib.proof.certificate import entry_of
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.logkeys import load_keys, retire, rotate
from rag_stdlib.proof.log.notes import Note, Signature
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.trust import Trust
from rag_stdlib.proof.verify import verify

Write = Callable[..., Path]
Rag = Any  # see conftest

LATER_S = 40 * 86_400
WAIT_S = 60.0  # for what takes a second, on a machine that is not busy
NO_RECEIPT = "'b.json' is logged, and its receipt is not written; the same command again writes it"

SEARCHED = """
import sys
from contextlib import contextmanager
from rag_stdlib.cli import main
from rag_stdlib.proof.log.database import Database

real = Database.writing

@contextmanager
def writing(database):
    print("searched", file=sys.stderr, flush=True)
    sys.stdin.readline()
    with real(database) as connection:
        yield connection

Database.writing = writing
main(sys.argv[1:])
"""


@pytest.fixture
def witnessed(proven: Rag, folder: Path) -> Rag:
    """The command line, with two witnesses that are trusted, of which one has to cosign; a.json is logged, and nobody has."""
    proven("keys", "new", "witness2.keys", "--witness", "witness.example/w2")
    trusting(proven, folder, "issuer.keys", "log.keys", "witness.keys", "witness2.keys")
    set_quorum(1)
    return proven


def set_quorum(quorum: int, **others: Any) -> None:
    Path("trust.json").write_text(json.dumps({**json.loads(Path("trust.json").read_text()), "quorum": quorum, **others}))


class TestReceiptsThatStay:
    """A cosigned receipt is the only evidence of when a certificate was there."""

    def test_one_that_is_cosigned_is_left_as_it_is(self, witnessed: Rag, folder: Path) -> None:
        with witnessing() as url:
            assert witnessed(*APPEND, "a.json", *KEYS, "--witness", url, *TRUST).out == f"a.json: entry 0 of {ORIGIN}, with a new receipt\n"
        (folder / "a.json").chmod(0o600)
        before = ((folder / "a.json").read_bytes(), (folder / "a.json").stat().st_ino)
        issue(witnessed, "b.json")
        with witnessing(later=LATER_S) as url:
            for more in ((), ("--witness", url, *TRUST)):
                told = witnessed(*APPEND, "a.json", *KEYS, *more)
                assert (told.code, told.out, told.err) == (0, f"a.json: entry 0 of {ORIGIN}, left as it is\n", "")
                assert ((folder / "a.json").read_bytes(), (folder / "a.json").stat().st_ino) == before
            row, = witnessed(*APPEND, "a.json", *KEYS, "--json").json
            assert row == {"file": "a.json", "origin": ORIGIN, "index": 0, "receipt": envelope("a.json")["receipt"], "done": "left as it is", "short": None}
            assert self.outcome_after_the_key() == "verified"
            renewed = witnessed(*APPEND, "a.json", *KEYS, "--renew", "--witness", url, *TRUST)
            assert (renewed.code, renewed.out) == (0, f"a.json: entry 0 of {ORIGIN}, with a new receipt\n")
        assert (folder / "a.json").stat().st_mode & 0o777 == 0o600
        assert self.outcome_after_the_key() == "key_ended", "what a new receipt cannot show"

    @staticmethod
    def outcome_after_the_key() -> str:
        """Verify a.json once its issuer's key has ended, which it does in ten days."""
        trust = json.loads(Path("trust.json").read_text())
        trust["issuers"][0]["not_after"] = (datetime.now(timezone.utc) + timedelta(days=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
        verdict = verify(Path("a.json").read_bytes(), Trust.from_json(trust), Policy(), QUESTION, now=datetime.now(timezone.utc) + timedelta(days=50))
        return str(getattr(verdict, "code", verdict.outcome))

    def test_one_that_is_not_cosigned_stays_where_nothing_better_is_to_be_had(self, proven: Rag, folder: Path) -> None:
        issue(proven, "b.json")
        before = (folder / "a.json").read_bytes()
        assert proven(*APPEND, "a.json", *KEYS).out == f"a.json: entry 0 of {ORIGIN}, as before\n"
        assert [row["done"] for row in proven(*APPEND, "a.json", *KEYS, "--json").json] == ["as before"]
        assert (folder / "a.json").read_bytes() == before
        assert proven(*APPEND, "a.json", *KEYS, "--renew").out == f"a.json: entry 0 of {ORIGIN}, with a new receipt\n"
        assert receipt("a.json").checkpoint.split(b"\n")[1] == b"2"
        assert proven(*APPEND, "a.json", *KEYS, "--renew").out == f"a.json: entry 0 of {ORIGIN}, as before\n", "there is none that is newer"

    def test_a_new_one_is_had_of_most_witnesses(self, witnessed: Rag) -> None:
        stripped("a.json", "lost.json")
        with witnessing(1) as one, witnessing(2) as two:
            assert witnessed("log", "checkpoint", "answers.log", "--witness", one, "--witness", two, *TRUST).code == 0
            issue(witnessed, "b.json")
            told = witnessed(*APPEND, "lost.json", "b.json", *KEYS, "--witness", two, *TRUST)
            assert (told.code, told.err) == (0, "")
        assert set(signers("lost.json")) == {ORIGIN, "witness.example/w1", "witness.example/w2"}
        assert set(signers("b.json")) == {ORIGIN, "witness.example/w2"}, "the other checkpoint does not cover it"

    def test_a_receipt_of_nothing_is_exchanged(self, witnessed: Rag, folder: Path) -> None:
        issue(witnessed, "b.json")
        good = receipt("b.json")
        assert len(good.path) == 1
        signed = Note.parse(good.checkpoint)
        own, = signed.signatures
        forged = Signature("witness.example/w1", load_keys("witness.keys").signing[0].key_id, b"\0" * 72)
        for index, path, lines in ((1, (b"\0" * 32,), (own,)), (2, good.path, (own,)), (1, good.path, (Signature(own.name, own.key_id, b"\0" * 64),)), (1, good.path, (own, forged))):
            wrong = Receipt(index, path, Note(signed.text, lines).to_bytes())
            (folder / "b.json").write_text(json.dumps({**envelope("b.json"), "receipt": wrong.to_bytes().decode()}))
            with witnessing() as url:
                assert witnessed(*APPEND, "b.json", *KEYS, "--witness", url, *TRUST).out == f"b.json: entry 1 of {ORIGIN}, with a new receipt\n"
            assert witnessed("verify", "b.json", *TRUST, *ASKED).code == 0

    def test_one_that_is_none_is_exchanged_where_it_is_asked_for(self, proven: Rag, folder: Path) -> None:
        (folder / "a.json").write_text(json.dumps({**envelope("a.json"), "receipt": "nonsense"}))
        assert proven(*APPEND, "a.json", *KEYS).err.endswith("; --renew puts in a new one\n")
        assert proven(*APPEND, "a.json", *KEYS, "--renew").out == f"a.json: entry 0 of {ORIGIN}, with a new receipt\n"
        assert proven("verify", "a.json", *TRUST, *ASKED).code == 0


class TestKeysThatEnded:
    """No receipt and no checkpoint is given that only a key signed that nobody is to trust."""

    @pytest.fixture
    def compromised(self, witnessed: Rag, folder: Path) -> Rag:
        """A log whose checkpoint of one entry was cosigned, and then its only key had to be forgotten."""
        stripped("a.json", "lost.json")
        with witnessing() as url:
            assert witnessed(*APPEND, "a.json", *KEYS, "--witness", url, *TRUST).code == 0
        assert set(signers("a.json")) == {ORIGIN, "witness.example/w1"}
        old = load_keys("log.keys").signing[0]
        rotate("log.keys")
        retire("log.keys", old.key_id.hex(), compromised=True)
        trusting(witnessed, folder, "issuer.keys", "log.keys", "witness.keys")
        set_quorum(1)
        return witnessed

    def test_receipts_are_signed_again_and_keep_their_cosignatures(self, compromised: Rag) -> None:
        assert compromised("verify", "a.json", *TRUST, *ASKED).out.startswith("unknown [untrusted_log]: ")
        cosignatures = [one for one in Note.parse(receipt("a.json").checkpoint).signatures if one.name != ORIGIN]
        assert compromised(*APPEND, "a.json", "lost.json", *KEYS).out == f"a.json: entry 0 of {ORIGIN}, with a new receipt\nlost.json: entry 0 of {ORIGIN}, with a new receipt\n"
        for name in ("a.json", "lost.json"):
            assert [one for one in Note.parse(receipt(name).checkpoint).signatures if one.name != ORIGIN] == cosignatures
            assert compromised("verify", name, *TRUST, *ASKED).code == 0
        assert compromised(*APPEND, "a.json", *KEYS).out == f"a.json: entry 0 of {ORIGIN}, left as it is\n"

    def test_so_are_the_checkpoints_that_are_published(self, compromised: Rag, folder: Path) -> None:
        issue(compromised, "b.json")
        told = compromised("log", "checkpoint", "answers.log", "--cosigned", "--json").json
        assert [line["key_id"] for line in told["signatures"] if line["name"] == ORIGIN] == [key.key_id.hex() for key in load_keys("log.keys").trusted]
        assert compromised("log", "tiles", "answers.log", "site", "--cosigned").out == f"published 1 entry of {ORIGIN}\n"
        log = Trust.from_json(json.loads((folder / "trust.json").read_text())).logs[ORIGIN]
        assert [one.name for one in log.open((folder / "site" / "checkpoint").read_bytes()).cosigned] == ["witness.example/w1"]
        proof = Receipt.parse(compromised("log", "prove", "answers.log", "0", "--cosigned").out.encode())
        assert proof.verify(entry_of(envelope("a.json")), log).checkpoint.size == 1

    def test_one_without_cosignatures_is_had_anew(self, proven: Rag, folder: Path) -> None:
        old = load_keys("log.keys").signing[0]
        rotate("log.keys")
        retire("log.keys", old.key_id.hex(), compromised=True)
        trusting(proven, folder)
        assert proven(*APPEND, "a.json", *KEYS).out == f"a.json: entry 0 of {ORIGIN}, with a new receipt\n"
        assert proven("verify", "a.json", *TRUST, *ASKED).code == 0


class TestOnce:
    """What is in the log is not logged again."""

    def test_copies_and_other_names_are_one_entry(self, proven: Rag, folder: Path) -> None:
        issue(proven, "b.json", None)
        shutil.copy(folder / "b.json", folder / "c.json")
        (folder / "d.json").symlink_to("c.json")
        told = proven(*APPEND, "b.json", "./b.json", "c.json", "d.json", "docs/../b.json", *KEYS)
        assert (told.code, told.out, told.err) == (0, f"b.json: entry 1 of {ORIGIN}\nc.json: entry 1 of {ORIGIN}\n", "")
        assert [proven("verify", name, *TRUST, *ASKED).code for name in ("b.json", "c.json", "d.json")] == [0, 0, 0]
        assert (folder / "d.json").is_symlink()
        assert proven("log", "check", "answers.log").out == f"clean: 2 entries of {ORIGIN}\n"

    @pytest.mark.parametrize("names", [("b.json", "c.json"), ("b.json", "b.json")], ids=["copies", "one file"])
    def test_two_processes_that_append_it_at_once(self, proven: Rag, folder: Path, names: tuple[str, str]) -> None:
        issue(proven, "b.json", None)
        shutil.copy(folder / "b.json", folder / "c.json")
        with ExitStack() as ending:
            children = [ending.enter_context(subprocess.Popen(
                [sys.executable, "-c", SEARCHED, *APPEND, name, *KEYS], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)) for name in names]
            for child in children:
                ending.callback(child.kill)
                assert child.stderr is not None
                assert child.stderr.readline() == b"searched\n", "and found nothing"
            told = [child.communicate(b"\n" * 9, WAIT_S) for child in children]
        assert [child.returncode for child in children] == [0, 0], told
        assert sorted(out.decode().partition(": ")[2] for out, _ in told) == [f"entry 1 of {ORIGIN}\n", f"entry 1 of {ORIGIN}, with a new receipt\n"]
        assert [proven("verify", name, *TRUST, *ASKED).code for name in names] == [0, 0]
        assert proven("log", "check", "answers.log").out == f"clean: 2 entries of {ORIGIN}\n"


class TestWriting:
    """Receipts come into files that are still what they were; what fails does not keep the others from theirs."""

    @pytest.fixture
    def three(self, proven: Rag, folder: Path) -> Rag:
        for name in ("b.json", "c.json", "d.json"):
            issue(proven, name, None)
            (folder / name).chmod(0o600)
        return proven

    def meanwhile(self, monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
        """Do something once the entries are logged."""
        real = Log.append_missing

        def append(log: Log, entries: list[bytes]) -> Any:
            placed = real(log, entries)
            do()
            return placed

        monkeypatch.setattr(Log, "append_missing", append)

    def test_a_file_that_was_exchanged_is_left_as_it_is(self, three: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.meanwhile(monkeypatch, lambda: shutil.copy(folder / "d.json", folder / "b.json"))
        other = (folder / "d.json").read_bytes()
        told = three(*APPEND, "b.json", "c.json", *KEYS)
        assert (told.code, told.out) == (1, f"b.json: entry 1 of {ORIGIN}, its receipt is not written\nc.json: entry 2 of {ORIGIN}\n")
        assert told.err == f"rag: note: 'b.json' was changed meanwhile, and is left as it is\nrag: error: {NO_RECEIPT}\n"
        assert (folder / "b.json").read_bytes() == other
        assert (folder / "c.json").stat().st_mode & 0o777 == 0o600
        assert three("verify", "c.json", *TRUST, *ASKED).code == 0

    def test_a_failure_is_told_at_the_end_and_made_good_by_the_same_command(self, three: Rag, folder: Path) -> None:
        real = logappend.replace_file
        written: list[str] = []

        def replace(path: str, data: bytes, *, held: bytes) -> None:
            written.append(path)
            if path in ("b.json", "d.json"):
                raise CommandError(f"{path!r} cannot be written: No space left on device; name another file")
            real(path, data, held=held)

        words = (*APPEND, "b.json", "c.json", "d.json", *KEYS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logappend, "replace_file", replace)
            told = three(*words, "--json")
        assert written == ["b.json", "c.json", "d.json"]
        assert told.code == 1
        assert [(row["file"], row["index"], row["done"]) for row in told.json] == [("b.json", 1, "its receipt is not written"), ("c.json", 2, "logged"), ("d.json", 3, "its receipt is not written")]
        *notes, last = told.err.splitlines()
        assert [line.partition(" cannot be")[0] for line in notes] == ["rag: note: 'b.json'", "rag: note: 'd.json'"]
        assert last == "rag: error: 'b.json' and 'd.json' are logged, and their receipts are not written; the same command again writes them"
        again = three(*words)
        assert (again.code, again.err) == (0, "")
        assert again.out == f"b.json: entry 1 of {ORIGIN}, with a new receipt\nc.json: entry 2 of {ORIGIN}, as before\nd.json: entry 3 of {ORIGIN}, with a new receipt\n"
        assert [three("verify", name, *TRUST, *ASKED).code for name in ("b.json", "c.json", "d.json")] == [0, 0, 0]
        assert [(folder / name).stat().st_mode & 0o777 for name in ("b.json", "c.json", "d.json")] == [0o600] * 3

    def test_what_fails_after_the_entries_says_that_they_are_logged(self, three: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.meanwhile(monkeypatch, lambda: (folder / "log.keys").unlink() or (folder / "trust.json").unlink())
        with witnessing() as url:
            trust = ("--trust", trusting(three, folder, "issuer.keys", "log.keys", "witness.keys"))
            told = three(*APPEND, "b.json", *KEYS, "--witness", url, *trust)
        assert (told.code, told.out) == (1, "")
        assert told.err == f"rag: error: 'trust.json' cannot be read: No such file or directory; name another file; {NO_RECEIPT}\n"

    def test_a_receipt_that_another_process_put_in_meanwhile_is_as_good(self, three: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        theirs: list[bytes] = []

        def put() -> None:
            with Log("answers.log") as log:
                (folder / "b.json").write_text(json.dumps({**envelope("b.json"), "receipt": log.receipt(1).to_bytes().decode()}))
            theirs.append((folder / "b.json").read_bytes())

        self.meanwhile(monkeypatch, put)
        told = three(*APPEND, "b.json", "c.json", *KEYS)
        assert (told.code, told.out, told.err) == (0, f"b.json: entry 1 of {ORIGIN}\nc.json: entry 2 of {ORIGIN}\n", "")
        assert [(folder / "b.json").read_bytes()] == theirs
        assert three("verify", "b.json", *TRUST, *ASKED).code == 0

    @pytest.mark.parametrize("content", [b"{}", b"nonsense"])
    def test_what_was_read_of_a_file_is_what_is_logged_or_refused(self, three: Rag, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
        monkeypatch.setattr(logappend, "read_bytes", lambda _path, _most: content)  # the file holds a certificate again a moment later
        told = three(*APPEND, "b.json", *KEYS)
        assert (told.code, told.out) == (1, "")
        assert told.err.startswith("rag: error: 'b.json' is no certificate: ")
        assert three("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"

    def test_what_nobody_thought_of_is_told_with_it(self, three: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(_log: Log) -> bytes | None:
            raise LookupError("where is it?")

        monkeypatch.setattr(Log, "cosigned", fail)
        told = three(*APPEND, "b.json", *KEYS)
        assert (told.code, told.out) == (1, "")
        assert told.err == f"rag: note: {NO_RECEIPT}\nrag: error: unexpected LookupError: where is it?; please report it\n"

    def test_where_every_receipt_stays_a_failure_is_that_and_no_more(self, witnessed: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        with witnessing() as url:
            assert witnessed(*APPEND, "a.json", *KEYS, "--witness", url, *TRUST).code == 0

        def fail(_log: Log) -> bytes | None:
            raise LogError("file_io", "the disk is on fire")

        monkeypatch.setattr(Log, "cosigned", fail)
        assert witnessed(*APPEND, "a.json", *KEYS).err == "rag: error [file_io]: the disk is on fire\n"

    def test_ctrl_c_says_it_too(self, three: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        def stop(_log: Log) -> bytes | None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Log, "cosigned", stop)
        told = three(*APPEND, "b.json", *KEYS)
        assert (told.code, told.out, told.err) == (130, "", f"rag: stopped; {NO_RECEIPT}\n")

    def test_of_bytes_that_are_logged_the_places_are_told(self, proven: Rag, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(_log: Log) -> bytes | None:
            raise CommandError("the disk is on fire")

        write("x.bin", "x")
        monkeypatch.setattr(Log, "cosigned", fail)
        told = proven(*APPEND, "x.bin", "x.bin", *KEYS, "--raw")
        assert (told.code, told.out) == (1, "")
        assert told.err == "rag: error: the disk is on fire; the files are logged, from entry 1 on; rag log prove prints their receipts\n"

    def test_many_are_not_all_named(self) -> None:
        assert logappend._unwritten([]) == ""
        names = [f"{number}.json" for number in range(30)]
        assert logappend._unwritten(names[:20]).count(".json") == 20
        assert " and 10 more are logged" in logappend._unwritten(names)
