"""Certificates of `rag answer` whose logging fails, is killed or is stopped: the certificate is in its file before it is in the log, and rag log append completes it."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from proven import ASKED, LOGGING, ORIGIN, QUESTION, SIGNING, TRUST, trusting

import replay
from rag_stdlib.cli.logged import Witnesses
from rag_stdlib.errors import fail
from rag_stdlib.proof.log import store
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.receipts import Receipt
from rag_stdlib.proof.log.store import Log
from replay.errors import Divergence

Write = Callable[..., Path]
Rag = Any  # see conftest

ISSUE = ("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING)
WHERE = "the certificate is in 'b.json' without a receipt, and rag log append answers.log b.json --keys log.keys logs it"
WAIT_S = 60.0  # for what takes a second, on a machine that is not busy

KILLED = """
import os, signal, sys
from pathlib import Path
from rag_stdlib.cli import main
from rag_stdlib.proof.log.store import Log

real, when = Log.append, sys.argv[1]

def killed(log, entry):
    if when == "after":
        real(log, entry)
    os.kill(os.getpid(), signal.SIGKILL)

def unnamed(*_names):
    os.kill(os.getpid(), signal.SIGKILL)

def unchanged(path, target):
    os.kill(os.getpid(), signal.SIGKILL)

if when == "unnamed":
    os.link = unnamed
elif when == "unchanged":
    Path.replace = unchanged
else:
    Log.append = killed
main(sys.argv[2:])
"""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of those who write to a log."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@contextmanager
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have logs wait for other writers for a moment only."""
    with monkeypatch.context() as patch:
        patch.setattr(store, "Log", partial(Log, busy_seconds=0.1))
        yield


def held(name: str = "b.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(name).read_text())
    return found


def named(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix in (".json", ".tmp") and path.name != "trust.json")


def completed(rag: Rag, line: str = WHERE) -> None:
    """Do what a line says of a certificate without a receipt."""
    command = line.partition("receipt, and rag ")[2].removesuffix(" logs it")
    assert "receipt" not in held()
    assert rag("verify", "b.json", *TRUST, *ASKED).out.startswith("unknown [no_receipt]: ")
    assert rag(*shlex.split(command)).code == 0
    assert rag("verify", "b.json", *TRUST, *ASKED).code == 0
    assert rag("log", "check", "answers.log", "--keys", "log.keys").out.startswith("clean: ")


class TestKilled:
    """A process that ends in the middle, at no time of its own."""

    def test_while_it_waits_for_the_log(self, proven: Rag, folder: Path) -> None:
        command = [sys.executable, "-m", "rag_stdlib", *ISSUE]
        with locked(folder / "answers.log"), subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            until = time.monotonic() + WAIT_S
            while not (folder / "b.json").exists() and time.monotonic() < until and process.poll() is None:
                time.sleep(0.01)
            process.kill()
            assert process.wait(WAIT_S) == -signal.SIGKILL
        assert set(held()) == {"certificate", "signature"}
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"
        completed(proven)

    @pytest.mark.parametrize(("when", "entries"), [("before", 1), ("after", 2)])
    def test_at_the_log(self, proven: Rag, when: str, entries: int) -> None:
        assert killed(when) == -signal.SIGKILL
        with Log("answers.log") as log:
            assert log.size == entries
        completed(proven)

    def test_before_the_file_has_its_name_nothing_is_logged(self, proven: Rag, folder: Path) -> None:
        assert killed("unnamed") == -signal.SIGKILL
        assert "b.json" not in named(folder)
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"
        assert proven(*ISSUE).code == 0

    def test_before_the_receipt_is_in(self, proven: Rag) -> None:
        assert killed("unchanged") == -signal.SIGKILL
        completed(proven)

    def test_an_old_certificate_is_there_until_the_new_one_is(self, proven: Rag, folder: Path) -> None:
        before = (folder / "a.json").read_bytes()
        words = tuple("a.json" if word == "b.json" else word for word in ISSUE)
        assert killed("unchanged", *words, "--force") == -signal.SIGKILL
        assert (folder / "a.json").read_bytes() == before
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"
        assert killed("before", *words, "--force") == -signal.SIGKILL
        assert set(held("a.json")) == {"certificate", "signature"}
        assert proven("verify", "a.json", *TRUST, *ASKED).code == 3


def killed(when: str, *words: str) -> int:
    """Issue in a process that is killed then, and return how it ended."""
    return subprocess.run([sys.executable, "-c", KILLED, when, *(words or ISSUE)], capture_output=True, timeout=WAIT_S, check=False).returncode


class TestFailing:
    """A log or a witness that fails while the command runs."""

    def test_a_log_that_is_locked(self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with locked(folder / "answers.log"), in_a_hurry(monkeypatch):
            refused = proven(*ISSUE)
        assert (refused.code, refused.out) == (1, "")
        (line,) = (line for line in refused.err.splitlines() if "note" not in line)
        assert line.startswith("rag: error [busy]: ")
        assert line.endswith(f"; {WHERE}")
        assert named(folder) == ["a.json", "b.json"]
        completed(proven, line)

    def test_names_that_a_shell_would_take_apart_are_quoted(self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "answers.log").rename(folder / "my log")
        words = ("answer", "notes.db", QUESTION, "--certificate", "it's.json", *SIGNING, "--log", "my log", "--log-keys", "log.keys")
        with locked(folder / "my log"), in_a_hurry(monkeypatch):
            refused = proven(*words)
        command = shlex.split(refused.err.partition("receipt, and rag ")[2].rpartition(" logs it")[0])
        assert command == ["log", "append", "my log", "it's.json", "--keys", "log.keys"]
        assert proven(*command).code == 0

    @pytest.mark.parametrize(("option", "code"), [("other.keys", "key_unknown"), ("witness.keys", "keys_unfit")])
    def test_keys_of_another_log_are_refused_before_anything_is_asked(self, proven: Rag, folder: Path, option: str, code: str) -> None:
        proven("keys", "new", "other.keys", "--log", ORIGIN)
        refused = proven(*ISSUE[:-1], option)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.startswith(f"rag: error [{code}]: ")
        assert named(folder) == ["a.json"]
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"

    def test_keys_of_a_log_that_are_retired_meanwhile(self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        old = proven("keys", "show", "log.keys").out.split("key        ")[1][:8]
        real = Log.append

        def behind(log: Log, entry: bytes) -> Receipt:
            for words in (("keys", "rotate", "log.keys"), ("keys", "retire", "log.keys", old), ("log", "checkpoint", "answers.log", "--keys", "log.keys")):
                assert proven(*words).code == 0
            return real(log, entry)

        with monkeypatch.context() as patch:
            patch.setattr(Log, "append", behind)
            refused = proven(*ISSUE)
        assert refused.code == 1
        assert refused.err.splitlines()[-1].startswith("rag: error [key_unknown]: ")
        assert refused.err.splitlines()[-1].endswith(f"; {WHERE}")
        trusting(proven, folder)
        completed(proven)

    @pytest.mark.parametrize(("error", "lines"), [
        (LogError("forked", "it is another tree"), [f"rag: error [forked]: it is another tree; {WHERE}"]),
        (fail("index_io", path="answers.log", detail="this process was forked"),
         [f"rag: error [index_io]: the operating system failed on the index 'answers.log': this process was forked; {WHERE}"]),
        (OSError(errno.ENOENT, "No such file or directory", "ca.pem"), [f"rag: note: {WHERE}", "rag: error: 'ca.pem': No such file or directory"])])
    def test_witnesses_that_fail_otherwise_than_by_saying_no(self, proven: Rag, monkeypatch: pytest.MonkeyPatch, error: Exception, lines: list[str]) -> None:
        def failing(*_given: object) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(Witnesses, "ask", failing)
            refused = proven(*ISSUE)
        assert (refused.code, refused.out) == (1, "")
        assert [line for line in refused.err.splitlines() if "lexical" not in line] == lines
        completed(proven)

    def test_ctrl_c(self, proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        def pressed(*_given: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Witnesses, "ask", pressed)
            stopped = proven(*ISSUE)
        assert (stopped.code, stopped.out) == (130, "")
        assert stopped.err.splitlines()[-1] == f"rag: stopped; {WHERE}"
        completed(proven)

    @pytest.mark.parametrize("late", [False, True])
    @pytest.mark.parametrize("at", ["first", "receipt"])
    @pytest.mark.parametrize("logging", [(), LOGGING])
    def test_ctrl_c_while_the_file_is_written_tells_what_is_in_it(
            self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch, logging: tuple[str, ...], at: str, late: bool) -> None:
        owner, name = (os, "link") if at == "first" else (Path, "replace")
        real = getattr(owner, name)

        def pressed(*given: object) -> None:
            if late:
                real(*given)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, pressed)
            stopped = proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *logging)
        if at == "receipt" and not logging:
            assert stopped.code == 0
            return
        told = {("first", False): "rag: stopped", ("first", True): f"rag: stopped; {WHERE if logging else WHERE.partition(' without')[0]}",
                ("receipt", False): f"rag: stopped; {WHERE}", ("receipt", True): "rag: stopped; the certificate is in 'b.json' with its receipt"}[at, late]
        assert (stopped.code, stopped.out, stopped.err.splitlines()[-1]) == (130, "", told)
        assert named(folder) == (["a.json"] if (at, late) == ("first", False) else ["a.json", "b.json"])
        if at == "receipt" and late:
            assert proven("verify", "b.json", *TRUST, *ASKED).code == 0
        elif WHERE in told:
            completed(proven)

    def test_a_receipt_that_is_not_one_of_the_certificate(self, proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        real = Log.append
        with monkeypatch.context() as patch:
            patch.setattr(Log, "append", lambda log, entry: real(log, entry[::-1]))
            refused = proven(*ISSUE)
        assert refused.code == 1
        assert refused.err.splitlines()[-1] == (
            "rag: error [inclusion]: the certificate does not hold with the receipt that it was given: the log has another entry at the place that the receipt names; "
            f"{WHERE}")
        completed(proven)

    def test_a_disk_that_is_full_when_the_receipt_is_there(self, proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(_path: Path, _target: Path) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", full)
            refused = proven(*ISSUE)
        assert refused.code == 1
        assert refused.err.splitlines()[-1] == f"rag: error: 'b.json' cannot be written again: No space left on device; {WHERE}"
        completed(proven)

    def test_a_disk_that_is_full_before_logs_nothing(self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(_handle: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            refused = proven(*ISSUE)
        assert (refused.code, refused.err.splitlines()[-1]) == (1, "rag: error: 'b.json' cannot be written: No space left on device; name another file")
        assert named(folder) == ["a.json"]
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"

    def test_another_file_that_takes_the_place_meanwhile(self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def replaced(*_given: object) -> None:
            (folder / "b.json").write_text("another's")

        with monkeypatch.context() as patch:
            patch.setattr(Witnesses, "ask", replaced)
            refused = proven(*ISSUE)
        assert (refused.code, (folder / "b.json").read_text()) == (1, "another's")
        line = refused.err.splitlines()[-1]
        assert line.startswith("rag: error: another file has taken the place of 'b.json', and is left as it is; what was to be written is in '")
        assert proven("verify", line.rpartition(" in ")[2].strip("'"), *TRUST, *ASKED).code == 0


class TestReplaying:
    """A replay of a run that certified."""

    def test_needs_neither_the_log_nor_what_is_known_of_its_witnesses(self, proven: Rag, folder: Path) -> None:
        trusting(proven, folder, "issuer.keys", "log.keys", "witness.keys")
        words = (*ISSUE, "--witness", "http://127.0.0.1:9", *TRUST)
        with replay.record("run.jsonl"):
            recorded = proven(*words)
        assert recorded.code == 1, "no witness has cosigned"
        first = (folder / "b.json").read_bytes()
        for gone in ("answers.log", "notes.db", "trust.json", "b.json"):
            (folder / gone).unlink()
        for _ in range(2):  # the second time, the file is there
            with replay.substitute("run.jsonl"):
                again = proven(*words)
            assert (again.code, again.out, again.err, (folder / "b.json").read_bytes()) == (1, recorded.out, recorded.err, first)
        assert not (folder / "answers.log").exists()

    def test_of_a_run_whose_log_failed_fails_alike_and_leaves_everything_as_it_is(self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with locked(folder / "answers.log"), in_a_hurry(monkeypatch), replay.record("run.jsonl"):
            recorded = proven(*ISSUE)
        first = (folder / "b.json").read_bytes()
        for there in (True, False):
            if not there:
                (folder / "b.json").unlink()
            with replay.substitute("run.jsonl"):
                again = proven(*ISSUE)
            assert (again.code, again.out) == (recorded.code, recorded.out)
            assert again.err == recorded.err.replace(f"; {WHERE}", "")
            assert named(folder) == (["a.json", "b.json"] if there else ["a.json"])
            assert not there or (folder / "b.json").read_bytes() == first

    @pytest.mark.parametrize("forcing", [(), ("--force",)])
    def test_by_other_keys_of_the_log_says_what_it_needs_and_takes_nothing_away(self, proven: Rag, folder: Path, forcing: tuple[str, ...]) -> None:
        with replay.record("run.jsonl"):
            assert proven(*ISSUE, *forcing).code == 0
        first = (folder / "b.json").read_bytes()
        (old,) = (line.split()[1] for line in proven("keys", "show", "log.keys").out.splitlines() if line.startswith("key"))
        proven("keys", "rotate", "log.keys")
        assert proven("keys", "retire", "log.keys", old, "--compromised").code == 0
        for there in (True, False):
            with replay.substitute("run.jsonl"):
                again = proven(*ISSUE, *forcing)
            assert (again.code, again.out, named(folder)) == (1, "", ["a.json", "b.json"] if there else ["a.json"])
            assert again.err.splitlines()[-1].startswith("rag: error [untrusted_log]: the certificate does not hold with the receipt that it was given: ")
            assert again.err.endswith("; a replay needs the files of keys as they were at the recording\n")
            if there:
                assert (folder / "b.json").read_bytes() == first
                (folder / "b.json").unlink()

    def test_by_a_key_that_took_the_place_of_the_one_that_signed_says_so(self, proven: Rag, folder: Path) -> None:
        with replay.record("run.jsonl"):
            assert proven(*ISSUE).code == 0
        before, first = (folder / "issuer.keys").read_bytes(), (folder / "b.json").read_bytes()
        time.sleep(1.1)  # a key that began within the second of the run would do
        proven("keys", "rotate", "issuer.keys")
        told = "rag: error [key_not_valid]: the certificate that was made does not hold, and is not written: "
        needed = "a replay needs the files of keys as they were at the recording\n"
        for is_there in (True, False):
            if not is_there:
                proven("keys", "retire", "issuer.keys", json.loads(first)["certificate"]["issuer"]["key_id"], "--compromised")
            refused = []
            with pytest.raises(Divergence, match="rag_log_append"), replay.substitute("run.jsonl"):
                refused.append(proven(*ISSUE))
            assert (refused[0].code, refused[0].out, (folder / "b.json").read_bytes()) == (1, "", first)
            assert (told in refused[0].err, refused[0].err.endswith(needed)) == (True, True)
            assert ("; the key that signed the recorded run was superseded since, and a replay needs" in refused[0].err) is is_there
        (folder / "issuer.keys").write_bytes(before)
        with replay.substitute("run.jsonl"):
            assert proven(*ISSUE).code == 0

    def test_of_one_that_wrote_over_a_file(self, proven: Rag, folder: Path) -> None:
        with replay.record("run.jsonl"):
            recorded = proven(*ISSUE, "--force")
        first = (folder / "b.json").read_bytes()
        (folder / "b.json").write_text('{"certificate": "another one"}')
        with replay.substitute("run.jsonl"):
            assert proven(*ISSUE, "--force") == recorded
        assert (folder / "b.json").read_bytes() == first

    def test_that_departs_leaves_everything_as_it_is(self, proven: Rag, folder: Path) -> None:
        with replay.record("run.jsonl"):
            assert proven(*ISSUE).code == 0
        (folder / "b.json").unlink()
        before = (folder / "answers.log").read_bytes()
        refused = []
        with pytest.raises(Divergence), replay.substitute("run.jsonl"):
            refused.append(proven(*ISSUE, "--nonce", "another-nonce-0001"))
        assert (refused[0].code, refused[0].out, len(refused[0].err.splitlines())) == (1, "", 1)
        assert (named(folder), (folder / "answers.log").read_bytes()) == (["a.json"], before)
