"""`rag verify`: what it says of a certificate, its exit codes, and that nothing unverified is shown."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from proven import ASKED, CLAIM, LOGGING, ORIGIN, QUESTION, SIGNING, TRUST, copied, trusting

from rag_stdlib.cli.verdictwords import MEANINGS
from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.merkle import compare
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.verify import CODES

Write = Callable[..., Path]
Rag = Any  # see conftest
Spawn = Any

VERIFIED = "verified: it holds under the keys and the policy that it was checked by\n"
NEVER = ("too_old", "nonce")  # done only where the policy or the command asks for them


def changed(folder: Path, change: Callable[[Any], Any], name: str = "bad.json") -> str:
    """Write another certificate, and name it."""
    envelope = json.loads((folder / "a.json").read_text())
    change(envelope)
    (folder / name).write_text(json.dumps(envelope))
    return name


def test_every_code_of_the_format_has_its_sentence() -> None:
    page = (Path(__file__).parents[2] / "docs" / "certificate.md").read_text()
    listed = re.findall(r"^\| \d+ \| (?:`(\w+)`)? ?\| (?:`(\w+)`)?", page, re.MULTILINE)
    assert set(MEANINGS) == set(CODES) == {code for pair in listed for code in pair if code}
    assert all(len(words) < 100 and not words.endswith(".") for words in MEANINGS.values())


class TestVerified:
    """A certificate that holds."""

    def test_what_may_be_shown_stands_below_the_checks(self, proven: Rag) -> None:
        told = proven("verify", "a.json", *TRUST, *ASKED)
        passed = [code for code in CODES if code not in NEVER]
        head, _, shown = told.out.partition("\n\n")
        assert (told.code, told.err) == (0, "")
        assert f"{head}\n".startswith(VERIFIED)
        lines = head.splitlines()[1:]
        assert {line[:11].strip() for line in lines} == {"passed", "", "not done"}
        assert " ".join(line[11:] for line in lines) == f"{', '.join(passed)} {', '.join(NEVER)}"
        assert all(len(line) <= 100 for line in lines)
        assert shown.startswith("An answer by Acme, 20")
        assert f"\n\n{CLAIM}\n    quoted, docs/refunds.md: \u201c{CLAIM}\u201d\n\nNot proven: answer_is_complete, " in shown

    def test_a_pipe_has_a_line_for_each_outcome(self, proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("COLUMNS")
        assert len(proven("verify", "a.json", *TRUST, *ASKED).out.partition("\n\n")[0].splitlines()) == 3

    def test_json_has_all_of_it(self, proven: Rag) -> None:
        told = proven("verify", "a.json", *TRUST, *ASKED, "--json").json
        assert (told["outcome"], told["code"], told["path"], told["chunks"]) == ("verified", None, None, None)
        assert [check["code"] for check in told["checks"]] == list(CODES)
        answer = told["answer"]
        assert (answer["issuer"], answer["abstained"], answer["blocked"]) == ("Acme", False, [])
        assert answer["claims"] == [{"place": 0, "text": CLAIM, "label": "quoted", "sources": ["docs/refunds.md"], "quotes": [CLAIM]}]
        assert answer["logged"] == {"origin": ORIGIN, "index": 0, "size": 1, "witnesses": []}
        assert answer["text"].startswith("An answer by Acme, ")

    def test_what_the_policy_blocks_is_counted_and_not_shown(self, proven: Rag, write: Write) -> None:
        write("policy.json", '{"labels": ["entailed"]}')
        told = proven("verify", "a.json", *TRUST, *ASKED, "--policy", "policy.json")
        assert (told.code, CLAIM in told.out, "Not shown: 1 label_not_allowed.\n" in told.out) == (0, False, True)
        answer = proven("verify", "a.json", *TRUST, *ASKED, "--policy", "policy.json", "--json").json["answer"]
        assert (answer["claims"], answer["blocked"]) == ([], [{"place": 0, "reason": "label_not_allowed"}])

    def test_it_is_read_from_standard_input_too(self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO((folder / "a.json").read_bytes())))
        assert proven("verify", "-", *TRUST, *ASKED).code == 0
        monkeypatch.setattr("sys.stdin", None)
        assert proven("verify", "-", *TRUST, *ASKED).err == "rag: error: '-' cannot be read: No such file or directory; name another file\n"

    def test_it_needs_no_configuration_and_no_index(self, proven: Rag, folder: Path) -> None:
        for name in ("corvid.toml", "notes.db", "answers.log", "issuer.keys", "log.keys"):
            (folder / name).unlink()
        assert proven("verify", "a.json", *TRUST, *ASKED).code == 0

    def test_the_index_says_which_chunks_it_still_has(self, proven: Rag, write: Write) -> None:
        before = proven("verify", "a.json", *TRUST, *ASKED, "--index", "notes.db")
        assert (before.code, "\nin index   2 of 2 retrieved chunks\n" in before.out) == (0, True)
        write("docs/refunds.md", "Nothing is ever refunded.\n")
        proven("ingest", "notes.db", "docs")
        after = proven("verify", "a.json", *TRUST, *ASKED, "--index", "notes.db")
        assert (after.code, "\nin index   1 of 2 retrieved chunks\ngone       docs/refunds.md:0\n" in after.out) == (0, True)
        assert proven("verify", "a.json", *TRUST, *ASKED, "--index", "notes.db", "--json").json["chunks"] == {"retrieved": 2, "gone": ["docs/refunds.md:0"]}
        refused = proven("verify", "a.json", *TRUST, *ASKED, "--index", "gone.db")
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith("rag: error [index_missing]: ")

    def test_after_a_rotation_old_certificates_hold_and_new_ones_do_too(self, proven: Rag, folder: Path) -> None:
        for name in ("issuer.keys", "log.keys"):
            assert proven("keys", "rotate", name).code == 0
        trusting(proven, folder)
        proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING)
        assert [proven("verify", file, *TRUST, *ASKED).code for file in ("a.json", "b.json")] == [0, 0]


class TestRefused:
    """Certificates that are refuted, or of which nothing can be told."""

    @pytest.mark.parametrize(("change", "code", "where"), [
        (lambda envelope: envelope["certificate"]["answer"].update(text="Refunds are never paid."), "signature", "/signature"),
        (lambda envelope: envelope["certificate"].update(x=1), "schema", "/certificate"),
        (lambda envelope: envelope["certificate"]["claims"][0].pop("sha256"), "schema", "/certificate/claims/0/sha256"),
        (lambda envelope: envelope.update(receipt=envelope["receipt"].replace("index 0", "index 1")), "inclusion", "/receipt"),
    ])
    def test_a_change_is_refuted_and_nothing_of_the_answer_is_shown(self, proven: Rag, folder: Path, change: Any, code: str, where: str) -> None:
        told = proven("verify", changed(folder, change), *TRUST, *ASKED)
        assert (told.code, told.err) == (1, "")
        assert told.out.startswith(f"refuted [{code}]: {MEANINGS[code]}\nwhere      {where}\n")
        assert "efunds" not in told.out
        as_json = proven("verify", "bad.json", *TRUST, *ASKED, "--json")
        assert (as_json.code, as_json.json["code"], as_json.json["meaning"], as_json.json["path"], as_json.json["answer"]) == (1, code, MEANINGS[code], where, None)

    @pytest.mark.parametrize(("data", "code"), [(b"", "malformed_json"), (b"{}", "schema"), (b"\xff", "malformed_json"), (b"[" * 100_000, "malformed_json"), (b'"\\ud800"', "malformed_json"),
                                                (b" " * (16 * 1024 * 1024 + 1), "too_large")])
    def test_what_is_no_certificate_is_refuted(self, proven: Rag, folder: Path, data: bytes, code: str) -> None:
        (folder / "x.json").write_bytes(data)
        told = proven("verify", "x.json", *TRUST, *ASKED)
        assert (told.code, told.out.partition("]")[0], told.err) == (1, f"refuted [{code}", "")

    @pytest.mark.parametrize(("arguments", "code"), [
        ((), "query_not_given"), ((*ASKED, "--policy", "nonce.json"), "nonce_not_given"), ((*ASKED, "--policy", "judges.json"), "judge_not_accepted")])
    def test_where_something_is_missing_it_cannot_tell(self, proven: Rag, write: Write, arguments: tuple[str, ...], code: str) -> None:
        write("nonce.json", '{"require_nonce": true}')
        write("judges.json", json.dumps({"judges": ["0" * 64]}))
        told = proven("verify", "a.json", *TRUST, *arguments)
        assert (told.code, told.err) == (3, "")
        assert told.out.startswith(f"unknown [{code}]: {MEANINGS[code]}\npassed     ")
        assert f"\nunknown    {code}\n" in told.out
        assert "where" not in told.out
        assert CLAIM not in told.out

    def test_another_question_and_another_nonce_are_refuted(self, proven: Rag) -> None:
        assert proven("verify", "a.json", *TRUST, "--query", "when are goods shipped?").out.startswith("refuted [query]: it answers another question\n")
        assert proven("verify", "a.json", *TRUST, *ASKED, "--nonce", "n" * 16).out.startswith("refuted [nonce]: ")
        assert proven("verify", "a.json", *TRUST, "--query", "\udcff").code == 1

    def test_a_stranger_is_not_believed(self, proven: Rag, folder: Path) -> None:
        proven("keys", "new", "other.keys", "--name", "Acme")
        trusting(proven, folder, "other.keys", "log.keys")
        assert proven("verify", "a.json", *TRUST, *ASKED).out.startswith("unknown [untrusted_issuer]: ")
        trusting(proven, folder, "issuer.keys")
        assert proven("verify", "a.json", *TRUST, *ASKED).out.startswith("unknown [untrusted_log]: ")

    def test_what_a_certificate_holds_never_reaches_the_terminal_raw(self, proven: Rag, folder: Path) -> None:
        evil = "x\x1b[2J\u202e\u200b"
        told = proven("verify", changed(folder, lambda envelope: envelope["certificate"].update({evil: 1})), *TRUST, *ASKED)
        assert told.code == 1
        assert "\nwhere      /certificate\n" in told.out
        assert "[2J" not in told.out
        said = proven("verify", changed(folder, lambda envelope: envelope.update({"The answer is 42": 1})), *TRUST, *ASKED)
        assert (said.code, "42" in said.out) == (1, False)


class TestUsage:
    """What cannot be begun is exit code 2, which no verdict has."""

    @pytest.mark.parametrize(("arguments", "said"), [
        (("gone.json", *TRUST), "rag: error: 'gone.json' cannot be read: No such file or directory; name another file\n"), (("docs", *TRUST), "rag: error: 'docs' cannot be read: Is a directory"),
        (("a.json", "--trust", "gone"), "rag: error: 'gone' cannot be read: "), (("a.json", "--trust", "a.json"), "rag: error: 'a.json' is no trust file: /issuers is missing"),
        (("a.json", "--trust", "twice.json"), "rag: error: 'twice.json' is no trust file: an object has a member twice"),
        (("a.json", *TRUST, "--policy", "unknown.json"), "rag: error: 'unknown.json' is no policy file: there is no 'fail_open' in a policy; "),
        (("a.json", *TRUST, "--policy", "notes.db"), "rag: error: 'notes.db' is no policy file: byte "), (("a.json", "--trust", "x\0"), "rag: error: "),
        (("a.json", *TRUST, *ASKED, "--memory", "a.json"), "rag: error ["),
        (("a.json",), "rag: usage: Missing option '--trust'"), (("a.json", *TRUST, "--log", "site"), "rag: usage: --log is for --memory"), (TRUST, "rag: usage: Missing argument 'FILE'")])
    def test_it_is_one_line(self, proven: Rag, write: Write, arguments: tuple[str, ...], said: str) -> None:
        write("twice.json", '{"issuers": [], "issuers": []}')
        write("unknown.json", '{"fail_open": true}')
        refused = proven("verify", *arguments)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
        assert refused.err.startswith(said)


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
        assert told.out.startswith(f"refuted [forked]: the log {ORIGIN} shows another tree than before: it signed a tree of 4 entries that does not continue its tree of {seen}\n")
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
        for place in ("mirror", "nowhere"):
            assert proven("verify", "c.json", *self.REMEMBER, "--log", place).out.startswith("refuted [forked]: ")

    def test_a_log_that_is_rolled_back_is_refuted(self, proven: Rag) -> None:
        proven("log", "tiles", "answers.log", "old")
        self.another(proven, "b.json")
        proven("log", "tiles", "answers.log", "site")
        assert proven("verify", "b.json", *self.REMEMBER, "--log", "site").code == 0
        told = proven("verify", "a.json", *self.REMEMBER, "--log", "old")
        assert (told.code, told.out.partition(":")[0]) == (1, "refuted [rolled_back]")

    def test_of_a_certificate_without_a_log_nothing_is_remembered(self, proven: Rag, folder: Path, write: Write) -> None:
        proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING)
        assert proven("verify", "b.json", *TRUST, *ASKED).out.startswith("unknown [no_receipt]: ")
        write("policy.json", '{"require_log": false}')
        told = proven("verify", "b.json", *self.REMEMBER, "--policy", "policy.json")
        assert (told.code, told.out.partition("\n")[0], told.err) == (3, f"unknown [no_receipt]: {MEANINGS['no_receipt']}", "")
        assert not (folder / "seen").exists()


def test_real_exit_codes(proven: Rag, folder: Path, spawn: Spawn) -> None:  # noqa: ARG001 - it lays out the folder
    changed(folder, lambda envelope: envelope.pop("receipt"))
    codes = [spawn("verify", *arguments).returncode for arguments in (("a.json", *TRUST, *ASKED), ("bad.json", *TRUST, "--query", "x"), ("bad.json", *TRUST, *ASKED), ("a.json",))]
    assert codes == [0, 1, 3, 2]
