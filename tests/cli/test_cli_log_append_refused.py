"""What `rag log append` refuses before anything is logged: what does not hold, witnesses that cannot be asked, receipts of another past."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from appended import APPEND, envelope, receipt, signers, witnessing
from proven import KEYS, LOGGING, ORIGIN, QUESTION, SIGNING, TRUST, issue, trusting

from rag_stdlib.proof.certificate import entry_of, sign
from rag_stdlib.proof.issuerkeys import load_issuer_keys
from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.store import Log

Rag = Any  # see conftest


class TestHolding:
    """Certificates are held to what can be computed again before anything is logged."""

    def forged(self, change: Callable[[dict[str, Any]], object], *, key: str = "issuer.keys") -> None:
        """Write b.json: the body of a.json, maybe changed, and signed by its issuer or by somebody else."""
        body = envelope("a.json")["certificate"]
        change(body)
        Path("b.json").write_text(json.dumps(sign(body, load_issuer_keys(key).signing.private)))

    @pytest.mark.parametrize(("change", "said"), [
        (lambda body: body["answer"].update(sha256="f" * 64), "[hash]: 'b.json' does not hold, so nothing is logged: a digest is not that of what it names (/answer/sha256)"),
        (lambda body: body.update(expires_at=body["issued_at"]), "[time]: 'b.json' does not hold, so nothing is logged: it ends before it begins, or is good for longer than any certificate (/expires_at)"),
        (lambda body: body["not_proven"].pop(), "[not_proven]: 'b.json' does not hold, so nothing is logged: it does not say what it does not prove (/not_proven)"),
        (lambda body: body["issuer"].update(node_id="e" * 64), "[node_signature]: 'b.json' does not hold, so nothing is logged: the mesh node that it names did not sign it (/node_signature)")])
    def test_what_does_not_fit_together_is_not_logged(self, proven: Rag, change: Callable[[dict[str, Any]], object], said: str) -> None:
        self.forged(change)
        refused = proven(*APPEND, "a.json", "b.json", *KEYS)
        assert (refused.code, refused.out, refused.err) == (1, "", f"rag: error {said}\n")
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"

    def test_a_signature_that_is_not_the_issuers_is_refused_where_the_issuer_is_known(self, proven: Rag) -> None:
        proven("keys", "new", "other.keys", "--name", "Mallory")
        self.forged(dict, key="other.keys")
        refused = proven(*APPEND, "b.json", *KEYS, *TRUST)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == "rag: error [signature]: 'b.json' does not hold, so nothing is logged: the signature is not that of the issuer's key over this text (/signature)\n"
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"
        assert proven(*APPEND, "b.json", *KEYS).code == 0, "whoever appends vouches for nothing"

    def test_a_trust_file_without_issuers_is_for_witnesses(self, proven: Rag, folder: Path) -> None:
        issue(proven, "b.json", None)
        trust = json.loads(Path(trusting(proven, folder, "issuer.keys", "log.keys", "witness.keys")).read_text())
        (folder / "logs.json").write_text(json.dumps({name: part for name, part in trust.items() if name != "issuers"}))
        refused = proven(*APPEND, "b.json", *KEYS, "--trust", "logs.json")
        assert (refused.code, refused.err) == (1, "rag: error: 'logs.json' is of no use here: it names no issuer, and without --witness nobody is asked to cosign\n")
        assert "receipt" not in envelope("b.json")
        with witnessing() as url:
            assert proven(*APPEND, "b.json", *KEYS, "--trust", "logs.json", "--witness", url).code == 0
        assert set(signers("b.json")) == {ORIGIN, "witness.example/w1"}

    def test_one_that_has_expired_or_is_by_anybody_is_logged(self, proven: Rag) -> None:
        proven("keys", "new", "other.keys", "--name", "Somebody")
        assert proven("answer", "notes.db", QUESTION, "--certificate", "b.json", "--keys", "other.keys", "--lifetime", "0.00002").code == 0
        assert proven(*APPEND, "b.json", *KEYS, *TRUST).out == f"b.json: entry 1 of {ORIGIN}\n"

    @pytest.mark.parametrize("url", ["", "ftp://witness.example", "witness.example", "http://", "https://w.example/?x=1", "https://w.example/#x", "http://[::1", "http://w.example:x"])
    def test_a_witness_that_cannot_be_asked_is_refused_first(self, proven: Rag, folder: Path, url: str) -> None:
        issue(proven, "b.json", None)
        trust = ("--trust", trusting(proven, folder, "issuer.keys", "log.keys", "witness.keys"))
        for words, page in (((*APPEND, "b.json", *KEYS), "log append"), (("log", "checkpoint", "answers.log"), "log checkpoint"),
                            (("answer", "notes.db", QUESTION, "--certificate", "c.json", *SIGNING, *LOGGING), "answer")):
            refused = proven(*words, "--witness", url, *trust)
            assert (refused.code, refused.out, refused.err) == (2, "", f"rag: usage: Invalid value for --witness: {url!r} is no URL of a witness, such as https://witness.example/w1; see rag {page} --help\n")
        assert proven("log", "check", "answers.log").out == f"clean: 1 entry of {ORIGIN}\n"

    def test_what_takes_no_receipt_is_not_logged(self, proven: Rag, folder: Path) -> None:
        os.mkfifo(folder / "b.json")
        refused = proven(*APPEND, "b.json", *KEYS)
        assert (refused.code, refused.err) == (1, "rag: error: 'b.json' cannot take a receipt: it is no regular file; name one\n")


class TestOtherPasts:
    """A receipt that speaks of what this log is not is no matter for a new one."""

    def test_a_log_that_went_back(self, proven: Rag, folder: Path) -> None:
        issue(proven, "b.json")
        proven("log", "new", "young.log", *KEYS)
        with Log("young.log", load_keys("log.keys")) as young:
            young.append(entry_of(envelope("a.json")))
        late = receipt("b.json").checkpoint
        with Log("answers.log") as log:
            (folder / "a.json").write_text(json.dumps({**envelope("a.json"), "receipt": log.receipt(0, late).to_bytes().decode()}))
        for name, place in (("b.json", 1), ("a.json", 0)):
            before = (folder / name).read_bytes()
            for renew in ((), ("--renew",)):
                refused = proven("log", "append", "young.log", name, *KEYS, *renew)
                assert (refused.code, refused.out) == (1, "")
                assert refused.err == (f"rag: error: {name!r} has a receipt of entry {place} of this log under a checkpoint of size 2, and here the log has size 1: it went back, "
                                       "or is another log of the same name; append to the file that signed last\n")
            assert (folder / name).read_bytes() == before

    def test_a_log_that_forked(self, proven: Rag) -> None:
        issue(proven, "b.json")
        proven("log", "new", "fork.log", *KEYS)
        with Log("fork.log", load_keys("log.keys")) as fork:
            fork.append_many([b"another", entry_of(envelope("b.json")), b"more"])
        refused = proven("log", "append", "fork.log", "b.json", *KEYS)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [forked]: 'b.json' has a receipt of another tree: ")
        refused = proven("log", "append", "fork.log", "a.json", *KEYS)
        assert refused.err == "rag: error: 'a.json' has a receipt of entry 0 of this log, which has another one there; see rag log check\n"

    def test_a_certificate_with_the_receipt_of_another(self, proven: Rag) -> None:
        issue(proven, "b.json")
        Path("b.json").write_text(json.dumps({**envelope("b.json"), "receipt": envelope("a.json")["receipt"]}))
        refused = proven(*APPEND, "b.json", *KEYS)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == ("rag: error: 'b.json' is not the certificate that was logged as entry 0 of this log, whose receipt it has: it was changed since, "
                               "or the receipt is another's; take the certificate as it was issued\n")
