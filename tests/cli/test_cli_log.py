"""`rag log`: certificates into a log, proofs out of it, and those who watch it, as processes of their own."""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from proven import ASKED, KEYS, ORIGIN, TRUST, copied, issue

from rag_stdlib.cli import logappend
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.keyfile import save_new_key
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.merkle import leaf_hash, verify_consistency
from rag_stdlib.proof.log.notes import Note, open_note
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.log.witness import Witness

Write = Callable[..., Path]
Rag = Any  # see conftest


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
        assert told.out == f"lost.json: entry 1 of {ORIGIN}, with a new receipt\nc.json: entry 2 of {ORIGIN}\n"
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
        (("young.log", "b.json", *KEYS), "rag: error: 'b.json' has a receipt of entry 1 of this log under a checkpoint of size 2, and here the log has size 0: it went back, ")])
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

        def read_only(_target: Path) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        with monkeypatch.context() as patch:
            patch.setattr(logappend, "beside", read_only)
            refused = proven("log", "append", "answers.log", "b.json", *KEYS)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == ("rag: error: 'b.json' cannot be written, and its receipt belongs into it: Read-only file system; nothing is logged, "
                               "so copy it to where it can be written, and log that\n")
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"
        assert "receipt" not in json.loads((folder / "b.json").read_text())

    @pytest.mark.parametrize("keys", [("issuer.keys",), ("log.keys",), ("witness.keys",), ("node.key",), ("docs/refunds.md", "issuer.keys"), ("moved.keys",)])
    def test_secret_keys_are_no_entries(self, proven: Rag, folder: Path, keys: tuple[str, ...]) -> None:
        save_new_key("node.key", NodeKey.generate("pq_pure"))
        (folder / "moved.keys").write_bytes(b"\xef\xbb\xbf\n " + (folder / "issuer.keys").read_bytes())
        refused = proven("log", "append", "answers.log", *keys, *KEYS, "--raw")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == f"rag: error: {keys[-1]!r} holds secret keys, and what is in a log is for everyone to read; nothing is logged\n"
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"

    def test_an_entry_that_is_too_large_is_told_as_such(self, proven: Rag, folder: Path) -> None:
        (folder / "x.bin").write_bytes(bytes(70_000))
        refused = proven("log", "append", "answers.log", "x.bin", *KEYS, "--raw")
        assert refused.err == "rag: error [entry_too_large]: 'x.bin' has more than 65,535 bytes, which is the most that an entry has; nothing is logged\n"
        (folder / "x.bin").write_bytes(bytes(65_535))
        assert proven("log", "append", "answers.log", "x.bin", *KEYS, "--raw").code == 0

    def test_a_log_needs_a_folder_that_is_there(self, proven: Rag, folder: Path) -> None:
        for arguments in (("new", "no/l.log", *KEYS), ("check", "no/l.log"), ("check", "notes.db/l.log")):
            told = proven("log", *arguments)
            where = folder / Path(arguments[1]).parent
            assert (told.code, told.err) == (1, f"rag: error [missing]: there is no folder {str(where)!r} for the log {str(folder / arguments[1])!r}; make it, or name another one\n")

    def test_a_receipt_that_is_none_is_said_to_be_none(self, proven: Rag, folder: Path) -> None:
        envelope = json.loads((folder / "a.json").read_text())
        (folder / "a.json").write_text(json.dumps({**envelope, "receipt": "nonsense"}))
        assert proven("log", "append", "answers.log", "a.json", *KEYS).err.startswith("rag: error: 'a.json' has a receipt that is none: ")

    @pytest.mark.parametrize("arguments", [("answers.log", *KEYS), ("answers.log", "a.json"), ("answers.log", "-", *KEYS), ("answers.log", "a.json", *KEYS, "--witness", "http://x"),
                                           ("answers.log", "a.json", *KEYS, *TRUST, "--raw"), ("answers.log", "a.json", *KEYS, "--raw", "--renew")])
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
        (("prove", "answers.log", "0", "--cosigned"), 1, "rag: error: no witness has cosigned a checkpoint of this log that its present keys signed; "), (("checkpoint", "answers.log", "--cosigned"), 1, "rag: error: no witness "),
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

    def test_a_damaged_log_is_not_to_be_put_back(self, proven: Rag, folder: Path) -> None:
        connection = apsw.Connection(str(folder / "answers.log"))
        connection.execute("UPDATE log_entries SET leaf = zeroblob(32)")
        connection.close()
        told = proven("log", "checkpoint", "answers.log")
        assert told.err == (f"rag: error [damaged]: the tree of the log {ORIGIN} is not the one that its last checkpoint signs; nothing more may be signed over it, and a copy that is put "
                            "back is a fork: keep the newest copy for reading, and begin a new log under a new name\n")


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

    def test_a_folder_without_a_name_is_refused(self, proven: Rag, folder: Path) -> None:
        for name in ("", " "):
            refused = proven("log", "tiles", "answers.log", name)
            assert (refused.code, refused.out) == (2, "")
            assert refused.err == "rag: usage: Invalid value for FOLDER: it is empty; name a folder; see rag log tiles --help\n"
        assert not (folder / "checkpoint").exists()

    def test_a_folder_of_other_things_is_left_alone(self, proven: Rag, folder: Path) -> None:
        refused = proven("log", "tiles", "answers.log", ".")
        assert (refused.code, refused.err) == (1, "rag: error [file_foreign]: the folder '.' holds 'a.json', which is no part of a published log; name a new folder, or an empty one\n")
        assert not (folder / "checkpoint").exists()
        assert not (folder / "tile").exists()
        (folder / "site").mkdir()
        (folder / "site" / f".checkpoint.{'a' * 12}.tmp").touch()
        for _ in range(2):
            assert proven("log", "tiles", "answers.log", "site").code == 0, "empty, or with what a publishing left that was killed"
        (folder / "site" / "log.keys").touch()
        assert proven("log", "tiles", "answers.log", "site").err.startswith("rag: error [file_foreign]: the folder 'site' holds 'log.keys', ")

    def test_a_file_is_no_folder(self, proven: Rag) -> None:
        for name in ("notes.db", "notes.db/site"):
            refused = proven("log", "tiles", "answers.log", name)
            assert (refused.code, refused.err) == (1, f"rag: error [file_io]: {name!r} is a file, or lies below one, and a log is published as a folder; name a folder\n")


class TestWitnessing:
    """What keeps `rag log witness` from beginning."""

    SERVE = ("log", "witness", "seen.db")

    def test_no_address(self, proven: Rag, folder: Path) -> None:
        refused = proven(*self.SERVE, "--keys", "witness.keys", *TRUST, "--new", "--host", "")
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith("rag: usage: Invalid value for --host: it is empty; ")
        assert not (folder / "seen.db").exists()

    def test_keys_that_are_none_of_a_witness(self, proven: Rag) -> None:
        refused = proven(*self.SERVE, *KEYS, *TRUST, "--new")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == f"rag: error [keys_unfit]: 'log.keys' holds keys of {ORIGIN} that do not cosign; give those of a witness, as rag keys new --witness makes them\n"

    def test_keys_of_another_witness(self, proven: Rag, folder: Path) -> None:
        Witness.create(folder / "seen.db", "witness.example/w9")
        refused = proven(*self.SERVE, "--keys", "witness.keys", *TRUST)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == f"rag: error [key_unknown]: the state in {str(folder / 'seen.db')!r} is not that of the witness witness.example/w1; give the keys that the state was made with\n"

    @pytest.mark.parametrize("what", ["seen.db", "."])
    def test_a_state_that_cannot_be_written(self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
        Witness.create(folder / "seen.db", "witness.example/w1")
        shut, real = folder / what, os.access
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).absolute() != shut and real(path, mode))
        refused = proven(*self.SERVE, "--keys", "witness.keys", *TRUST)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [readonly]: the state 'seen.db' cannot be written, ")

    def test_a_port_that_is_taken(self, proven: Rag) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            refused = proven(*self.SERVE, "--keys", "witness.keys", *TRUST, "--new", "--port", str(taken.getsockname()[1]))
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error: it cannot listen at 127.0.0.1 port ")


def test_options_say_by_themselves_what_they_are(rag: Rag) -> None:
    page = rag("log", "prove", "--help").out
    assert "…" not in page


def test_every_page_of_the_group_fits(rag: Rag) -> None:
    names = ["new", "append", "checkpoint", "prove", "check", "tiles", "witness", "monitor"]
    page = rag("log", "--help").out
    assert [line.split()[0] for line in page.partition("Commands:\n")[2].splitlines()] == names
    for name in names:
        page = rag("log", name, "--help")
        assert (page.code, page.err) == (0, "")
        assert all(len(line) <= 100 for line in page.out.splitlines())
