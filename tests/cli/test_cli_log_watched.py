"""`rag log witness` and `monitor`, as processes of their own: who watches a log finds out where it does not keep what it has shown."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from proven import ASKED, KEYS, LOGGING, ORIGIN, QUESTION, SIGNING, TRUST, copied, issue, trusting

from rag_stdlib.cli.standing import Stop

Write = Callable[..., Path]
Rag = Any  # see conftest

WAIT_S = 60.0  # for what takes a second, on a machine that is not busy


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
        assert proven("log", "append", "answers.log", "a.json", *KEYS).out == f"a.json: entry 0 of {ORIGIN}, with a new receipt\n"
        assert proven("verify", "a.json", *trust, *ASKED).code == 0, "it has the cosigned checkpoint now"
        assert proven("log", "prove", "answers.log", "0", "--cosigned").out == json.loads((folder / "a.json").read_text())["receipt"]
        assert proven("log", "tiles", "answers.log", "site", "--cosigned").code == 0

        issue(proven, "c.json", "fork.log")
        refused = proven("log", "checkpoint", "fork.log", "--witness", url, *trust)
        assert (refused.code, refused.out) == (1, "")
        assert f"rag: note: not cosigned [refused]: the witness {url} does not cosign size 2 of the log {ORIGIN}: it answers 422, that it does not continue " in refused.err
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
def test_a_witness_that_cannot_serve_says_so_and_leaves_no_state(proven: Rag, folder: Path, write: Write, arguments: tuple[str, ...], code: int, said: str) -> None:
    write("none.json", "{}")
    refused = proven("log", "witness", *arguments)
    assert (refused.code, refused.out) == (code, "")
    assert refused.err.startswith(said)
    assert len(refused.err.splitlines()) == 1
    assert not list(folder.glob("seen.db*"))


def test_a_state_that_is_there_is_left_where_its_witness_cannot_serve(proven: Rag, folder: Path) -> None:
    from rag_stdlib.proof.log.witness import Witness

    Witness.create(folder / "seen.db", "witness.example/w1")
    before = (folder / "seen.db").read_bytes()
    for arguments in (("--host", "no.such.host.invalid"), ("--new",)):
        assert proven("log", "witness", "seen.db", "--keys", "witness.keys", *TRUST, *arguments).code == 1
        assert (folder / "seen.db").read_bytes() == before


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
        key, bodies = other["certificate"]["issuer"]["key_id"], self.bodies(folder, 0, 2)
        assert (told.code, told.err) == (1, "")
        assert told.out == (f"read       3 entries, 1 new\nconflict   entries 0 and 2 name the key {key}: two answers to one question over one state of an index, "
                            f"made in one way; ask the issuer for both certificates, whose signatures decide\nbody       {bodies[0]}\nbody       {bodies[1]}\n"
                            "so far     1 conflict, 0 alarms\n")
        again = proven(*self.WATCH, "answers.log", *TRUST, "--json")
        found = {"first": 0, "second": 2, "same_setup": True, "issuer_key_ids": [key, key], "body_sha256": bodies}
        assert (again.code, again.json["conflicts"], again.json["so_far"]["conflicts"]) == (0, [], [found])
        shorter = proven(*self.WATCH, "old.log", *TRUST, "--json")
        gone = {**found, "issuer_key_ids": [None, None], "body_sha256": [None, None]}
        assert (shorter.code, shorter.json["so_far"]["conflicts"]) == (1, [gone]), "it does not show the entries any more"

    def test_the_keys_of_one_name_are_one_issuers(self, proven: Rag, folder: Path, write: Write) -> None:
        """The issuer rotates, and says another thing by the new key; who knows of logs alone cannot see that it is the same issuer."""
        body = json.loads((folder / "a.json").read_text())["certificate"]
        old = body["issuer"]["key_id"]
        assert proven("keys", "rotate", "issuer.keys").code == 0
        self.equivocate(body, folder, place=-1)
        new = body["issuer"]["key_id"]
        assert old != new
        write("logs.json", proven("keys", "show", "log.keys", "--trust").out)
        trusting(proven, folder)
        assert proven(*self.WATCH, "answers.log", "--trust", "logs.json", "--new").code == 0
        told = proven(*self.WATCH, "answers.log", *TRUST, "--whole")
        assert (told.code, told.out.splitlines()[1].partition(": ")[0]) == (1, f"conflict   entries 0 and 1 name the keys {old} and {new}")
        assert proven("log", "monitor", "other.db", "answers.log", *TRUST, "--new", "--json").json["conflicts"][0]["issuer_key_ids"] == [old, new]

    def bodies(self, folder: Path, *places: int) -> list[str]:
        from rag_stdlib.cli.logged import open_log

        with open_log(str(folder / "answers.log")) as log:
            return [json.loads(log.entry(place))["body_sha256"] for place in places]

    def test_two_answers_that_were_made_in_different_ways_are_told_as_such(self, proven: Rag, folder: Path) -> None:
        body = json.loads((folder / "a.json").read_text())["certificate"]
        body["judge"]["version"] = "another"
        self.equivocate(body, folder)
        told = proven(*self.WATCH, "answers.log", *TRUST, "--new")
        assert told.code == 1
        assert told.out.splitlines()[1].endswith(" to one question over one state of an index, "
                                                    "made in different ways, as by another model, judge, limit or policy; ask the issuer for both certificates, whose signatures decide")
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

    def equivocate(self, body: dict[str, Any], folder: Path, place: int = 0) -> None:
        """Let the issuer log another answer to the same question over the same state, by one of its keys, beside its commands."""
        from rag_stdlib.cli.logged import open_log
        from rag_stdlib.proof.certificate import entry_of, sign
        from rag_stdlib.proof.issuerkeys import load_issuer_keys

        key = load_issuer_keys(folder / "issuer.keys").keys[place]
        body["answer"]["sha256"], body["issuer"]["key_id"] = "f" * 64, key.key_id
        with open_log(str(folder / "answers.log"), str(folder / "log.keys")) as log:
            log.append(entry_of(sign(body, key.private)))

    def test_a_log_that_drops_forks_or_changes_is_found(self, proven: Rag, folder: Path) -> None:
        copied(folder, "answers.log", "old.log")
        issue(proven, "b.json")
        assert proven(*self.WATCH, "answers.log", *TRUST, "--new").code == 0
        shrunk = proven(*self.WATCH, "old.log", *TRUST)
        assert (shrunk.code, shrunk.out.splitlines()[1]) == (1, "alarm      [rolled_back] the log shows a tree of size 1, and it showed one of size 2 before: it went back, or whoever serves it is behind")
        for name in ("c.json", "d.json"):
            issue(proven, name, "old.log")
        forked = proven(*self.WATCH, "old.log", *TRUST, "--json")
        assert (forked.code, [alarm["code"] for alarm in forked.json["alarms"]]) == (1, ["forked"])
        assert proven(*self.WATCH, "answers.log", *TRUST).out == "read       2 entries, 0 new\nso far     0 conflicts, 2 alarms\n"

    @pytest.mark.parametrize(("arguments", "code", "said"), [
        (("state.db", "site", *TRUST), 2, "rag: error [missing]: there is no monitor 'state.db'; give --new to make one\n"), (("state.db", "nowhere", *TRUST, "--new"), 3, "rag: error [missing]: there is no published log at 'nowhere'\n"),
        (("state.db", "page", *TRUST, "--new"), 3, "rag: error [note_malformed]: what is at 'page' as a checkpoint is none: "), (("state.db", "corvid.toml", *TRUST, "--new"), 2, "rag: usage: Invalid value for SOURCE: 'corvid.toml' is neither a log nor a folder in which one is published; "),
        (("state.db", "notes.db", *TRUST, "--new"), 2, "rag: error [file_"),
        (("state.db", "ftp://x", *TRUST, "--new"), 2, "rag: usage: Invalid value for SOURCE: 'ftp://x' is no http URL; "), (("state.db", "answers.log", "--trust", "corvid.toml", "--new"), 2, "rag: error: 'corvid.toml' is no trust file: "),
        (("corvid.toml", "answers.log", *TRUST), 2, "rag: error [file_"), (("gone/state.db", "answers.log", *TRUST, "--new"), 2, "rag: error [missing]: there is no folder "),
        (("state.db", "http://127.0.0.1:9", *TRUST, "--new"), 3, "rag: error [unreachable]: "), (("state.db", "answers.log", "--trust", "none.json", "--new"), 2, "rag: error: 'none.json' names several logs or none; "),
        (("state.db", "answers.log", *TRUST, "--origin", "x", "--new"), 2, f"rag: error: 'trust.json' does not name the log x; --origin names one of: {ORIGIN}"),
        (("state.db", "answers.log", "--trust", "other.json", "--new"), 3, "rag: error [signature_missing]: "), (("state.db", "answers.log"), 2, "rag: usage: "),
        (("state.db", "answers.log", *TRUST, "--every", "0"), 2, "rag: usage: "), (("state.db", "answers.log", *TRUST, "--every", "nan"), 2, "rag: usage: ")])
    def test_a_log_that_cannot_be_read_is_another_matter(self, proven: Rag, write: Write, arguments: tuple[str, ...], code: int, said: str) -> None:
        write("none.json", "{}")
        write("page/checkpoint", "<html>\n\n</html>\n")
        proven("keys", "new", "other.keys", "--log", ORIGIN)
        write("other.json", proven("keys", "show", "other.keys", "--trust").out)
        refused = proven("log", "monitor", *arguments)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (code, "", 1)
        assert refused.err.startswith(said)
        assert not list(Path().glob("state.db*")), "no state is left behind"

    def test_a_state_of_which_something_came_stays(self, proven: Rag) -> None:
        """A log that was read is known, and so is an alarm; and a state that was there is nobody's to take away."""
        proven("log", "tiles", "answers.log", "site")
        site = Path("site")
        assert proven(*self.WATCH, "site", *TRUST, "--new").code == 0
        site.rename("gone")
        assert proven(*self.WATCH, "site", *TRUST).code == 3
        again = proven(*self.WATCH, "site", *TRUST, "--new")
        assert (again.code, again.err) == (2, f"rag: error [exists]: there is a monitor '{Path.cwd() / 'state.db'}' already; it is left as it is; leave --new out to go on with it\n")
        assert Path("state.db").exists()
        Path("gone").rename(site)
        (site / "tile/entries/000.p/1").write_bytes(b"\0\1x")
        assert proven("log", "monitor", "alarmed.db", "site", *TRUST, "--new").code == 1
        assert Path("alarmed.db").exists()
        (site / "tile/entries/000.p/1").unlink()
        assert proven("log", "monitor", "new.db", "site", *TRUST, "--new").err.startswith("rag: error [missing]: ")
        assert not list(Path().glob("new.db*"))

    def test_a_new_state_that_is_not_what_was_made_is_not_taken_away(self, proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        from rag_stdlib.proof.log.errors import LogError
        from rag_stdlib.proof.log.monitor import Monitor

        def failing(*_: object, **__: object) -> None:
            Path("state.db").chmod(0o644)
            raise LogError("unreachable", "nobody there")

        monkeypatch.setattr(Monitor, "scan", failing)
        assert proven(*self.WATCH, "answers.log", *TRUST, "--new").err == "rag: error [unreachable]: nobody there\n"
        assert Path("state.db").exists()

    def test_a_state_that_cannot_be_used_is_told_from_a_log_that_cannot(self, proven: Rag, folder: Path) -> None:
        import apsw

        proven("log", "tiles", "answers.log", "site")
        assert proven(*self.WATCH, "site", *TRUST, "--new").code == 0
        connection = apsw.Connection(str(folder / "state.db"))
        connection.execute("UPDATE monitor_state SET size = size + 1")
        connection.close()
        damaged = proven(*self.WATCH, "site", *TRUST)
        assert (damaged.code, damaged.err.partition(":")[0], damaged.err.startswith("rag: error [damaged]: the state of the monitor")) == (2, "rag", True)

    def test_exit_code_1_is_a_finding_whatever_becomes_of_the_output(self, proven: Rag, spawn: Any) -> None:
        assert proven(*self.WATCH, "answers.log", *TRUST, "--new").code == 0
        with Path("/dev/full").open("wb") as full:
            done = spawn(*self.WATCH, "answers.log", *TRUST, stdout=full)
        assert (done.returncode, done.stderr) == (2, b"rag: error: standard output cannot be written: No space left on device\n")

    def test_a_log_is_named_where_the_trust_file_has_several(self, proven: Rag, write: Write) -> None:
        proven("keys", "new", "other.keys", "--log", "log.example/other")
        write("two.json", proven("keys", "show", "issuer.keys", "log.keys", "other.keys", "--trust").out)
        several = proven(*self.WATCH, "answers.log", "--trust", "two.json", "--new")
        assert (several.code, several.err) == (2, f"rag: error: 'two.json' names several logs or none; --origin names one of: {ORIGIN}, log.example/other\n")
        assert proven(*self.WATCH, "answers.log", "--trust", "two.json", "--origin", ORIGIN, "--new").code == 0

    def test_a_state_of_another_release_is_told_as_such(self, proven: Rag, folder: Path) -> None:
        import apsw

        assert proven(*self.WATCH, "answers.log", *TRUST, "--new").code == 0
        connection = apsw.Connection(str(folder / "state.db"))
        connection.execute("PRAGMA user_version = 1")
        connection.close()
        refused = proven(*self.WATCH, "answers.log", *TRUST)
        assert (refused.code, refused.err.partition(": the monitor ")[0]) == (2, "rag: error [file_foreign]")
        assert refused.err.endswith(" was made by another release: it is of version 1, and 2 is known here; go on with that release, or make a new one\n")

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
            waited(output, r"^(rag: note: not read \[missing\]: there is no published log at 'site'; trying again in 0.1 s)$")
            issue(proven, "b.json")
            (folder / "checkpoint").rename(folder / "site" / "checkpoint")
            proven("log", "tiles", "answers.log", "site")
            waited(output, "^(read       2 entries, 1 new)$")
            child.send_signal(signal.SIGTERM)
            assert child.wait(WAIT_S) == 0
            assert output.read_text().count("read       1 entry") == 1
