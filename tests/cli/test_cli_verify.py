"""`rag verify`: what it says of a certificate, its exit codes, and that nothing unverified is shown."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from proven import ASKED, CLAIM, LOGGING, ORIGIN, QUESTION, SIGNING, TRUST, trusting

from rag_stdlib.cli.verdictwords import MEANINGS
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
        assert proven("verify", "a.json", *TRUST, "--query", f"{QUESTION} ").out.startswith(
            "refuted [query]: it answers another question\ndetail     that may be the same one written otherwise: blanks, capitals and every sign count\n")
        assert proven("verify", "a.json", *TRUST, *ASKED, "--nonce", "n" * 16).out.startswith("refuted [nonce]: ")
        assert proven("verify", "a.json", *TRUST, "--query", "\udcff").code == 1

    def test_a_stranger_is_not_believed(self, proven: Rag, folder: Path) -> None:
        proven("keys", "new", "other.keys", "--name", "Acme")
        trusting(proven, folder, "other.keys", "log.keys")
        key_id = json.loads((folder / "a.json").read_text())["certificate"]["issuer"]["key_id"]
        assert proven("verify", "a.json", *TRUST, *ASKED).out.startswith(
            f"unknown [untrusted_issuer]: {MEANINGS['untrusted_issuer']}\ndetail     it names the key {key_id[:16]}…; if you trust it, get a trust file that has it\n")
        trusting(proven, folder, "issuer.keys")
        told = proven("verify", "a.json", *TRUST, *ASKED)
        assert told.out.startswith("unknown [untrusted_log]: ")
        detail = f"it names the log '{ORIGIN}'; if you trust it, get a trust file that has it, and the keys that it signs by"
        assert f"\ndetail     {detail} passed" in re.sub(r"\n +(?=\S)|\n(?=passed)", " ", told.out)
        assert proven("verify", "a.json", *TRUST, *ASKED, "--json").json["detail"] == detail

    def test_the_name_of_a_strange_log_is_cut_short_and_clean(self, proven: Rag, folder: Path) -> None:
        evil = f"\u202e{'x' * 200}"
        told = proven("verify", changed(folder, lambda envelope: envelope.update(receipt=envelope["receipt"].replace(f"\n{ORIGIN}\n", f"\n{evil}\n"))), *TRUST, *ASKED, "--json")
        assert (told.code, told.json["code"]) == (3, "untrusted_log")
        assert told.json["detail"].startswith(f"it names the log '\N{REPLACEMENT CHARACTER}{'x' * 99}'; ")

    @pytest.mark.parametrize(("data", "said"), [
        (b"\xef\xbb\xbf{}", "it begins with a byte order mark"), (gzip.compress(b"{}", mtime=0), "byte 1 is not UTF-8, and it begins as a file that gzip made"), (b" \n", "it is empty"), (b"", "it is empty"),
        (b'{"x": NaN}', "a number is none that JSON has (NaN, an infinity)"), (b'{"x": 1, "x": 2}', "an object has a member twice"), (b'{"' + b"x" * 96 + b"\xff", "byte 98 is not UTF-8"),
        (b'{"x": "y', "it is no JSON: it ends within a text"), (b'{"x": 1', "it is no JSON: it ends too early, Expecting ',' delimiter"), (b"{x}", "it is no JSON: Expecting property name enclosed in double quotes")])
    def test_what_is_wrong_with_the_json_is_told(self, proven: Rag, folder: Path, data: bytes, said: str) -> None:
        (folder / "x.json").write_bytes(data)
        told = proven("verify", "x.json", *TRUST, *ASKED)
        assert (told.code, told.out.splitlines()[:2]) == (1, [f"refuted [malformed_json]: {MEANINGS['malformed_json']}", f"detail     {said}"])
        assert proven("verify", "x.json", *TRUST, *ASKED, "--json").json["detail"] == said

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
        (("a.json",), "rag: usage: Missing option '--trust'"), (("a.json", *TRUST, "--log", "site"), "rag: usage: --log is for --memory"), (TRUST, "rag: usage: Missing argument 'FILE'")])
    def test_it_is_one_line(self, proven: Rag, write: Write, arguments: tuple[str, ...], said: str) -> None:
        write("twice.json", '{"issuers": [], "issuers": []}')
        write("unknown.json", '{"fail_open": true}')
        refused = proven("verify", *arguments)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
        assert refused.err.startswith(said)


    @pytest.mark.parametrize(("option", "value", "said"), [
        ("--query", "", "it is empty; give one, or leave the option out"), ("--query", " \n", "it is empty; give one, or leave the option out"), ("--nonce", "", "it is empty; give one, or leave the option out"),
        ("--nonce", "short", "it is no nonce, which is 16 to 128 letters, digits, - and _"), ("--nonce", f"{'n' * 16}\n", "it is no nonce, which is 16 to 128 letters, digits, - and _"),
        ("--memory", "", "it is empty; give one, or leave the option out"), ("--index", "", "it is empty; give one, or leave the option out")])
    def test_a_variable_that_is_not_set_is_no_verdict(self, proven: Rag, folder: Path, option: str, value: str, said: str) -> None:
        before = sorted(folder.iterdir())
        refused = proven("verify", "a.json", *TRUST, option, value)
        assert (refused.code, refused.out, refused.err) == (2, "", f"rag: usage: Invalid value for {option}: {said}; see rag verify --help\n")
        assert sorted(folder.iterdir()) == before

    def test_the_help_says_to_quote_the_question(self, rag: Rag) -> None:
        assert "in quotes" in rag("verify", "--help").out


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_exit_code_1_is_a_verdict_whatever_becomes_of_the_output(proven: Rag, folder: Path, spawn: Spawn, more: tuple[str, ...]) -> None:  # noqa: ARG001 - it lays out the folder
    changed(folder, lambda envelope: envelope["certificate"]["answer"].update(text="Never."))
    for file, code in (("a.json", 0), ("bad.json", 1)):
        with Path("/dev/full").open("wb") as full:
            done = spawn("verify", file, *TRUST, *ASKED, *more, stdout=full)
        assert (done.returncode, done.stderr) == (2, b"rag: error: standard output cannot be written: No space left on device\n")
        reader, writer = os.pipe()
        os.close(reader)
        done = spawn("verify", file, *TRUST, *ASKED, *more, stdout=writer)
        os.close(writer)
        assert (done.returncode, done.stderr) == (code, b"")


def test_real_exit_codes(proven: Rag, folder: Path, spawn: Spawn) -> None:  # noqa: ARG001 - it lays out the folder
    changed(folder, lambda envelope: envelope.pop("receipt"))
    codes = [spawn("verify", *arguments).returncode for arguments in (("a.json", *TRUST, *ASKED), ("bad.json", *TRUST, "--query", "x"), ("bad.json", *TRUST, *ASKED), ("a.json",))]
    assert codes == [0, 1, 3, 2]
