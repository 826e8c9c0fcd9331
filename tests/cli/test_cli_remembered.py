"""`rag verify --memory`: a log is held to what was seen of it, and only what it signed itself speaks against it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from proven import ASKED, CLAIM, KEYS, ORIGIN, QUESTION, SIGNING, TRUST, copied, trusting

from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.merkle import compare
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.log.tiles import PublishedLog
from rag_stdlib.proof.log.witness import Witness
from rag_stdlib.proof.log.witnessclient import WitnessClient
from rag_stdlib.proof.log.witnesshttp import WitnessServer

Write = Callable[..., Path]
Rag = Any  # see conftest


@pytest.fixture
def site(folder: Path) -> Iterator[str]:
    """A web server over the folder."""
    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(folder))

        def log_message(self, *_: object) -> None:  # type: ignore[override]
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


class TestMemory:
    """`--memory` and `--log`."""

    REMEMBER = (*TRUST, *ASKED, "--memory", "seen")

    def another(self, rag: Rag, name: str, log: str = "answers.log") -> None:
        assert rag("answer", "notes.db", QUESTION, "--certificate", name, *SIGNING, "--log", log, "--log-keys", "log.keys").code == 0

    def test_a_log_that_grows_is_followed(self, proven: Rag, site: str) -> None:
        assert proven("verify", "a.json", *self.REMEMBER).code == 0
        self.another(proven, "b.json")
        alone = proven("verify", "b.json", *self.REMEMBER)
        said = f"it is not shown that the log {ORIGIN} goes on from what was seen of it: give the folder or URL where it is published by --log"
        assert (alone.code, alone.out.splitlines()[0]) == (3, f"unknown [consistency_not_shown]: {said}")
        assert CLAIM not in alone.out
        proven("log", "tiles", "answers.log", "site")
        for place in ("site", f"{site}/site"):
            told = proven("verify", "b.json", *self.REMEMBER, "--log", place)
            assert (told.code, ", memory\n" in told.out) == (0, True)
        assert proven("verify", "a.json", *self.REMEMBER, "--log", "site").code == 0, "an older certificate is of the same log"
        missing = proven("verify", "a.json", *self.REMEMBER, "--log", f"{site}/nowhere")
        assert (missing.code, missing.out.partition("]")[0]) == (3, "unknown [consistency_not_shown")

    def test_a_log_that_forks_is_refuted(self, proven: Rag, folder: Path) -> None:
        copied(folder, "answers.log", "fork.log")
        self.another(proven, "b.json")
        self.another(proven, "c.json", "fork.log")
        assert [proven("verify", file, *TRUST, *ASKED).code for file in ("b.json", "c.json")] == [0, 0], "each holds by itself"
        proven("log", "tiles", "answers.log", "site")
        proven("log", "tiles", "fork.log", "forked")
        assert proven("verify", "b.json", *self.REMEMBER, "--log", "site").code == 0
        for arguments in ((), ("--log", "forked"), ("--log", "site")):
            told = proven("verify", "c.json", *self.REMEMBER, *arguments)
            assert (told.code, told.err) == (1, "")
            assert told.out.startswith(f"refuted [forked]: the log {ORIGIN} shows another tree than before: ")
            assert "\nwhere      /receipt\n" in told.out
            assert "\nrefuted    memory\n" in told.out
            assert CLAIM not in told.out
        assert proven("verify", "c.json", *self.REMEMBER, "--json").json["answer"] is None
        assert self.evidence(folder)["path"] == [], "two signed trees of one size are enough"

    def evidence(self, folder: Path) -> dict[str, Any]:
        file, = (folder / "seen").glob("*.forked")
        assert file.stat().st_mode & 0o777 == 0o600
        told: dict[str, Any] = json.loads(file.read_text())
        return told

    @pytest.mark.parametrize("seen", [2, 3])
    def test_a_fork_that_the_log_itself_publishes_is_refuted_with_evidence(self, proven: Rag, folder: Path, seen: int) -> None:
        copied(folder, "answers.log", "fork.log")
        for name in ("b.json", "c.json")[:seen - 1]:
            self.another(proven, name)
        for name in ("d.json", "e.json", "f.json"):
            self.another(proven, name, "fork.log")
        proven("log", "tiles", "answers.log", "site")
        proven("log", "tiles", "fork.log", "forked")
        assert proven("verify", "a.json", *self.REMEMBER, "--log", "site").code == 0
        told = proven("verify", "f.json", *self.REMEMBER, "--log", "forked")
        assert told.code == 1
        assert told.out.startswith(f"refuted [forked]: the log {ORIGIN} shows another tree than before: it signed a tree of size 4 that does not continue its tree of size {seen}\n")
        told = self.evidence(folder)
        signed = [PinnedLog(ORIGIN, load_keys(str(folder / "log.keys")).signing).open(told[name].encode()).checkpoint for name in ("remembered", "shown")]
        old, new = ((each.size, each.root) for each in signed)
        assert (old[0], new[0]) == (seen, 4)
        assert compare(*old, *new, [base64.b64decode(each) for each in told["path"]]) == "another"

    @pytest.mark.parametrize("seen", [2, 3])
    def test_whoever_serves_garbage_makes_no_fork_of_an_honest_log(self, proven: Rag, folder: Path, seen: int) -> None:
        for name in ("b.json", "c.json")[:seen - 1]:
            self.another(proven, name)
        proven("log", "tiles", "answers.log", "site")
        assert proven("verify", "a.json", *self.REMEMBER, "--log", "site").code == 0
        for name in ("d.json", "e.json"):
            self.another(proven, name)
        proven("log", "tiles", "answers.log", "mirror")
        real = {file: file.read_bytes() for file in sorted((folder / "mirror").glob("tile/[0-9]/**/*")) if file.is_file()}
        before = {file.name: file.read_bytes() for file in (folder / "seen").iterdir()}
        for garbage in (lambda data: hashlib.sha256(data).digest() * (len(data) // 32), lambda data: data[:-1], lambda _: b"", lambda data: data[32:] + data[:32]):
            for file, data in real.items():
                file.write_bytes(garbage(data))
            for arguments in (("e.json",), ("d.json",), ("e.json", "--json")):
                told = proven("verify", *arguments, *self.REMEMBER, "--log", "mirror")
                assert (told.code, "forked" in told.out, CLAIM in told.out) == (3, False, False), told.out
                assert told.json["code"] == "consistency_not_shown" if "--json" in arguments else told.out.startswith("unknown [consistency_not_shown]: ")
            assert {file.name: file.read_bytes() for file in (folder / "seen").iterdir()} == before, "nobody is accused, and nothing is forgotten"
        for file, data in real.items():
            file.write_bytes(data)
        assert proven("verify", "e.json", *self.REMEMBER, "--log", "mirror").code == 0

    def test_whoever_shows_nothing_of_use_hides_no_fork(self, proven: Rag, folder: Path) -> None:
        copied(folder, "answers.log", "fork.log")
        self.another(proven, "b.json")
        self.another(proven, "c.json", "fork.log")
        assert proven("verify", "b.json", *self.REMEMBER).code == 0
        self.another(proven, "d.json")
        proven("log", "tiles", "answers.log", "mirror")
        for file in (folder / "mirror").glob("tile/0/**/3"):
            file.write_bytes(b"\1" * 96)
        (folder / "empty").mkdir()
        for place in ("mirror", "empty"):
            assert proven("verify", "c.json", *self.REMEMBER, "--log", place).out.startswith("refuted [forked]: ")

    def test_whoever_serves_less_than_was_seen_is_told_as_such_and_accuses_no_log(self, proven: Rag, folder: Path) -> None:
        proven("log", "tiles", "answers.log", "old")
        self.another(proven, "b.json")
        proven("log", "tiles", "answers.log", "site")
        assert proven("verify", "b.json", *self.REMEMBER, "--log", "site").code == 0
        for file in ("a.json", "b.json"):
            told = proven("verify", file, *self.REMEMBER, "--log", "old")
            assert (told.code, told.err) == (3, "")
            assert told.out.splitlines()[0] == (f"unknown [rolled_back]: the log {ORIGIN} shows a tree of size 1, and it showed one of size 2 before: "
                                                "it went back, or whoever serves it is behind")
            assert ("\nunknown    memory\n" in told.out, "where" in told.out, CLAIM in told.out) == (True, False, False)
        assert [file.suffix for file in (folder / "seen").iterdir()] == [".checkpoint"]
        assert proven("verify", "a.json", *self.REMEMBER, "--log", "site").code == 0, "where it is served as it is, it goes on"

    def test_a_log_that_grows_while_another_verify_looks_at_it_has_not_gone_back(self, proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        """The one has fetched the checkpoint when the log grows and the other remembers what it is then."""
        proven("log", "tiles", "answers.log", "site")
        assert proven("verify", "a.json", *self.REMEMBER, "--log", "site").code == 0
        fetch = PublishedLog.checkpoint

        def slow(self: PublishedLog) -> bytes:
            shown = fetch(self)
            monkeypatch.setattr(PublishedLog, "checkpoint", fetch)
            TestMemory().another(proven, "b.json")
            proven("log", "tiles", "answers.log", "site")
            assert proven("verify", "b.json", *TestMemory.REMEMBER, "--log", "site").code == 0
            return shown

        monkeypatch.setattr(PublishedLog, "checkpoint", slow)
        assert proven("verify", "a.json", *self.REMEMBER, "--log", "site").code == 0
        assert proven("verify", "b.json", *self.REMEMBER).code == 0, "the larger one is remembered"

    @pytest.mark.parametrize("served", ["old", "empty", "site"])
    def test_a_fork_that_the_receipt_proves_is_hidden_by_no_stale_or_useless_site(self, proven: Rag, folder: Path, served: str) -> None:
        proven("log", "tiles", "answers.log", "old")
        (folder / "empty").mkdir()
        copied(folder, "answers.log", "fork.log")
        self.another(proven, "b.json")
        self.another(proven, "c.json", "fork.log")
        assert proven("verify", "b.json", *self.REMEMBER).code == 0
        self.another(proven, "d.json")
        proven("log", "tiles", "answers.log", "site")
        told = proven("verify", "c.json", *self.REMEMBER, "--log", served)
        assert (told.code, told.out.partition(":")[0]) == (1, "refuted [forked]")
        assert self.evidence(folder)["path"] == []

    def test_a_fork_is_found_by_what_the_log_shows_now_though_the_receipt_is_of_no_tree_that_is_remembered(self, proven: Rag, folder: Path) -> None:
        """One entry was seen; the receipt is of a fork with two, and the log has three."""
        assert proven("verify", "a.json", *self.REMEMBER).code == 0
        copied(folder, "answers.log", "fork.log")
        self.another(proven, "c.json", "fork.log")
        for name in ("b.json", "d.json"):
            self.another(proven, name)
        proven("log", "tiles", "answers.log", "site")
        told = proven("verify", "c.json", *self.REMEMBER, "--log", "site")
        assert told.out.startswith(f"refuted [forked]: the log {ORIGIN} shows another tree than before: it signed a tree of size 3 that does not continue its tree of size 2\n")
        assert len(self.evidence(folder)["path"]) == 2

    def test_a_receipt_between_what_was_seen_and_what_is_shown_needs_no_files_of_its_own_size(self, proven: Rag) -> None:
        assert proven("verify", "a.json", *self.REMEMBER).code == 0
        for name in ("b.json", "c.json", "d.json"):
            self.another(proven, name)
        proven("log", "tiles", "answers.log", "site")
        assert [proven("verify", name, *self.REMEMBER, "--log", "site").code for name in ("c.json", "b.json", "d.json")] == [0, 0, 0]

    def test_a_log_is_held_to_what_it_signed_though_witnesses_did_not_cosign_it(self, proven: Rag, folder: Path) -> None:
        """Witnesses cosign no fork, and have not seen what a log published just now."""
        trust = trusting(proven, folder, "issuer.keys", "log.keys", "witness.keys")
        copied(folder, "answers.log", "fork.log")
        log, witness = load_keys(folder / "log.keys"), load_keys(folder / "witness.keys")
        Witness.create(folder / "witness.db", witness.name)
        with Witness(folder / "witness.db", witness, [PinnedLog(ORIGIN, log.signing)]) as served, WitnessServer(served) as server:
            server.start()
            client = WitnessClient(server.url, witness.signing)
            with Log(folder / "answers.log", log) as opened:
                client.cosign(opened)
            assert proven("log", "append", "answers.log", "a.json", *KEYS).code == 0
            self.another(proven, "b.json")
            proven("log", "tiles", "answers.log", "site")
            remember = ("--trust", trust, *ASKED, "--memory", "seen", "--log")
            assert proven("verify", "b.json", "--trust", trust, *ASKED).out.startswith("unknown [witness_quorum]: ")
            assert proven("verify", "a.json", *remember, "site").code == 0, "an honest log whose last checkpoint is not cosigned yet"
            for name in ("c.json", "d.json", "e.json"):
                self.another(proven, name, "fork.log")
            with client, Log(folder / "answers.log", log) as opened, Log(folder / "fork.log", log) as fork:
                client.cosign(opened)
                with pytest.raises(LogError):
                    client.cosign(fork)
        proven("log", "tiles", "fork.log", "forked")
        told = proven("verify", "a.json", *remember, "forked")
        assert (told.code, told.out.partition(":")[0]) == (1, "refuted [forked]")
        assert len(self.evidence(folder)["path"]) > 0

    def test_a_folder_that_cannot_be_used_is_no_verdict(self, proven: Rag, folder: Path) -> None:
        assert proven("verify", "a.json", *self.REMEMBER).code == 0
        (folder / "empty").mkdir()
        file, = (folder / "seen").iterdir()
        for spoil, code in ((lambda: file.chmod(0o644), "file_unsafe"), (lambda: (file.chmod(0o600), file.write_bytes(b"x")), "damaged"), (lambda: (folder / "seen").chmod(0o777), "file_unsafe")):
            spoil()
            for more in ((), ("--log", "empty")):
                told = proven("verify", "a.json", *self.REMEMBER, *more)
                assert (told.code, told.out, told.err.partition("]")[0]) == (2, "", f"rag: error [{code}")
                assert code != "damaged" or f"in 'seen/{file.name}' is no checkpoint: " in told.err
                assert code != "damaged" or told.err.endswith("; put a good copy there, or move the file away if you accept to forget what you saw of this log\n")

    def test_a_file_is_no_folder_to_remember_in(self, proven: Rag) -> None:
        told = proven("verify", "a.json", *TRUST, *ASKED, "--memory", "a.json")
        assert (told.code, told.out, told.err) == (2, "", "rag: error [file_foreign]: 'a.json' is no folder, which is needed to remember logs in; name another one\n")

    @pytest.mark.parametrize(("place", "said"), [
        ("nosuchfolder", "there is no such folder: 'nosuchfolder'"), ("ftp://x", "'ftp://x' is no http URL"), ("https://", "'https://' is no http URL"),
        ("http://[", "'http://[' is no http URL"), ("corvid.toml", "'corvid.toml' is no folder in which a log is published"),
        ("answers.log", "'answers.log' is the log's own file; rag log tiles publishes it"), ("x\0", "there is no such folder: 'x\\x00'"), ("", "it is empty; give one, or leave the option out")])
    def test_what_is_no_place_of_a_log_is_no_verdict(self, proven: Rag, folder: Path, place: str, said: str) -> None:
        told = proven("verify", "a.json", *self.REMEMBER, "--log", place)
        assert (told.code, told.out, told.err) == (2, "", f"rag: usage: Invalid value for --log: {said}; see rag verify --help\n")
        assert not (folder / "seen").exists()

    def test_a_place_that_shows_no_log_is_named(self, proven: Rag, folder: Path, site: str) -> None:
        for name in ("empty", "page"):
            (folder / name).mkdir()
        (folder / "page" / "checkpoint").write_text("<html>\n\n</html>\n")
        for place, said in (("empty", "there is no published log at 'empty'"), ("page", "what is at 'page' as a checkpoint is none: "),
                            (f"{site}/page", f"what is at '{site}/page' as a checkpoint is none: "), (f"{site}/gone", f"there is no published log at '{site}/gone'")):
            told = proven("verify", "a.json", *self.REMEMBER, "--log", place)
            assert told.code == 3
            assert f"goes on from what was seen of it: {said}" in told.out.splitlines()[0]

    def test_of_a_certificate_without_a_log_nothing_is_remembered(self, proven: Rag, folder: Path, write: Write) -> None:
        proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING)
        assert proven("verify", "b.json", *TRUST, *ASKED).out.startswith("unknown [no_receipt]: ")
        write("policy.json", '{"require_log": false}')
        told = proven("verify", "b.json", *self.REMEMBER, "--policy", "policy.json")
        assert (told.code, told.out.partition("\n")[0], told.err) == (3, "unknown [no_receipt]: --memory is for a log, and it has no receipt of one", "")
        rows = {line[:11].strip(): line[11:] for line in told.out.splitlines()[1:] if line[0] != " "}
        assert (rows["detail"], rows["unknown"], ", memory\n" in told.out) == ("get it with a receipt, or leave --memory out", "no_receipt", True)
        assert "no_receipt" not in re.split("unknown    ", told.out.partition("\n")[2])[0], "it did not pass"
        assert not (folder / "seen").exists()
