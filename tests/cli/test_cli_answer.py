"""`rag answer`: claims with their evidence, certificates that hold, and runs that replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from corpus_sources import Repo, needs_git
from embed.provider_server import Answer, ProviderServer, provider_server
from embedder_double import EmbedderDouble
from proof.judges.nli_models import ORDERS, make_folder
from proven import ASKED, CLAIM, LOGGING, ORIGIN, QUESTION, SIGNING, TRUST, lay_out, trusting

import replay
from rag_stdlib.cli.answering import Answering
from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.keyfile import save_new_key
from rag_stdlib.proof import verify as verifying
from rag_stdlib.proof.generators import make_generator
from rag_stdlib.proof.judges import make_judge, nli
from rag_stdlib.proof.pipeline import Pipeline
from rag_stdlib.proof.verdicts import Refuted

Write = Callable[..., Path]
Rag = Any  # see conftest
Spawn = Any

EVIDENCE = f"    quoted, docs/refunds.md: \u201c{CLAIM}\u201d\n"


@pytest.fixture
def proven(rag: Rag, folder: Path, write: Write) -> Rag:
    lay_out(folder, write)
    return rag


class TestWithoutCertificate:
    """What the command shows."""

    def test_claims_come_with_their_evidence(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", "when", "are", "refunds", "paid?")
        assert (told.code, told.out, told.err) == (0, f"{CLAIM}\n{EVIDENCE}", "")

    def test_what_is_not_shown_says_why_below_what_is(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--judge", "none")
        assert told.out == "not shown: 1 not_supported\n"
        assert told.err.endswith("rag: note: no claim of the answer may be shown\n")
        assert proven("answer", "notes.db", QUESTION, "--alignment", "none").out == "not shown: 1 no_span\n"

    def test_all_prints_what_may_not_be_shown_marked_so(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--judge", "none", "--all")
        assert told.out == f"may not be shown [not_supported]:\n    {CLAIM}\n"
        assert told.err.endswith("rag: note: no claim of the answer may be shown\n")

    def test_json_with_all_is_what_a_certificate_has(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--json", "--all", "-n", "1").json
        assert list(told) == ["question", "answer", "claims", "retrieval", "generator", "judge", "methods", "policy", "certificate"]
        assert (told["question"], told["answer"]["text"], told["certificate"]) == (QUESTION, CLAIM, None)
        assert [(claim["decision"], claim["judgement"]["label"]) for claim in told["claims"]] == [({"shown": True, "reason": None}, "quoted")]
        assert (told["retrieval"]["limit"], len(told["retrieval"]["items"])) == (1, 1)
        assert CLAIM in told["retrieval"]["items"][0]["text"]

    def test_json_is_what_may_be_shown(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--json", "-n", "1").json
        assert list(told) == ["question", "abstained", "claims", "blocked", "retrieval", "generator", "judge", "methods", "policy", "certificate"]
        assert (told["abstained"], told["blocked"]) == (False, [])
        assert told["claims"] == [{"place": 0, "text": CLAIM, "label": "quoted", "confidence": "1.000000", "sources": ["docs/refunds.md"], "quotes": [CLAIM]}]
        (item,) = told["retrieval"]["items"]
        assert set(item) == {"chunk_id", "doc_id", "source", "index", "start", "end", "content_sha256", "provenance", "score"}
        assert (item["source"], item["start"]) == ("docs/refunds.md", 0)

    @pytest.mark.parametrize("left_out", [("--judge", "none"), ("--alignment", "none"), ("--label", "entailed")])
    def test_without_all_no_text_of_what_may_not_be_shown_is_in_the_json(self, proven: Rag, left_out: tuple[str, str]) -> None:
        told = proven("answer", "notes.db", QUESTION, "--json", *left_out)
        assert (told.json["claims"], [claim["place"] for claim in told.json["blocked"]]) == ([], [0])
        assert "ten days" not in told.out
        assert "receipt" not in told.out
        assert "ten days" in proven("answer", "notes.db", QUESTION, "--json", "--all", *left_out).out

    @pytest.mark.parametrize(("question", "words"), [("xyzzy", "nothing was retrieved"), ("is a receipt of the moon insured?", "what was found does not answer the question")])
    def test_an_abstention_says_so(self, proven: Rag, question: str, words: str) -> None:
        told = proven("answer", "notes.db", question)
        assert (told.code, told.out) == (0, "")
        assert told.err.endswith(f"rag: note: no answer: {words}\n")
        assert proven("answer", "notes.db", question, "--json").json["abstained"]
        assert proven("answer", "notes.db", question, "--json", "--all").json["answer"]["abstained"]

    def test_the_ways_are_in_the_json(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--claims", "whole", "--minimum", "0.75", "--json").json
        assert (told["methods"], told["policy"]["minimum_confidence"]) == ({"decomposition": "whole", "alignment": "lexical"}, "0.750000")

    def test_labels_and_spans_are_chosen(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--label", "quoted", "--label", "quoted", "--spans", "1", "--json", "--all").json
        assert (told["policy"]["labels"], [len(claim["spans"]) for claim in told["claims"]]) == (["quoted"], [1])
        assert proven("answer", "notes.db", QUESTION, "--label", "entailed", "--label", "quoted").out == f"{CLAIM}\n{EVIDENCE}"
        assert proven("answer", "notes.db", QUESTION, "--label", "entailed").out == "not shown: 1 label_not_allowed\n"

    def test_without_a_generator_the_best_chunk_is_the_answer(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--generator", "none")
        receipt = "A receipt is needed for every refund."
        assert told.out == f"{CLAIM}\n{EVIDENCE}\n{receipt}\n    quoted, docs/refunds.md: \u201c{receipt}\u201d\n"
        assert proven("answer", "notes.db", QUESTION, "--generator", "none", "--json").json["generator"]["name"] == "none"

    def test_without_retrieval_there_is_no_answer_from_the_same_state_of_the_index(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--no-retrieval")
        assert (told.code, told.out, told.err) == (0, "", "rag: note: no answer: nothing was retrieved\n")
        without, retrieved = (proven("answer", "notes.db", QUESTION, "--json", *more).json["retrieval"] for more in (("--no-retrieval",), ()))
        assert without == {**retrieved, "items": []}
        refused = proven("answer", "notes.db", QUESTION, "--no-retrieval", "--mode", "vector")
        assert (refused.code, "[mode_needs_embedder]" in refused.err) == (1, True)
        assert "[index_missing]" in proven("answer", "gone.db", QUESTION, "--no-retrieval").err
        assert "[text_too_large]" in proven("answer", "notes.db", "x" * 100_001, "--no-retrieval").err

    def test_on_a_narrow_terminal_every_line_of_what_may_not_be_shown_is_indented(self, proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        assert proven("answer", "notes.db", QUESTION, "--judge", "none", "--all").out == (
            "may not be shown [not_supported]:\n    Refunds are paid within ten days of\n    the return.\n")

    def test_an_embedder_finds_sentences_and_spans(self, rag: Rag, write: Write, configure: Callable[[Any], None]) -> None:
        double = EmbedderDouble()
        configure(double)
        write("docs/a.md", "Refunds are paid within ten days.\n")
        rag("ingest", "x.db", "docs")
        asked = len(double.calls)
        told = rag("answer", "x.db", "Refunds are paid within ten days.", "--alignment", "embedder", "--json").json
        assert told["methods"]["alignment"] == "embedder"
        assert (len(told["claims"]), told["blocked"]) == (1, [])
        assert len(double.calls) > asked + 1

    def test_without_an_embedder_alignment_by_one_is_refused(self, proven: Rag) -> None:
        refused = proven("answer", "notes.db", QUESTION, "--alignment", "embedder")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [embedder_unconfigured]: ")

    @pytest.mark.parametrize("arguments", [
        ("", "--json"), ("   ",), (QUESTION, "--model", "m"), (QUESTION, "--endpoint", "http://x"), (QUESTION, "--style", "quote"), (QUESTION, "--judge", "nli"),
        (QUESTION, "--judge-model", "m"), (QUESTION, "--judge", "nli", "--judge-model", "m", "--judge-hub", "a/b"), (QUESTION, "--minimum", "nan"), (QUESTION, "--minimum", "2"),
        (QUESTION, "-n", "0"), (QUESTION, "-n", "1001"), (QUESTION, "--keys", "issuer.keys"), (QUESTION, "--nonce", "a" * 16), (QUESTION, "--force"), (QUESTION, *LOGGING),
        (QUESTION, "--certificate", "c.json"), (QUESTION, "--certificate", "c.json", *SIGNING, "--log", "answers.log"),
        (QUESTION, "--certificate", "c.json", *SIGNING, "--nonce", "short"), (QUESTION, "--certificate", "c.json", *SIGNING, "--witness", "http://x"),
        (QUESTION, "--certificate", "c.json", *SIGNING, "--witness", "http://x", *TRUST),
        (QUESTION, "--certificate", "c.json", *SIGNING, *LOGGING, "--witness", "http://x"), (QUESTION, "--certificate", "c.json", *SIGNING, *LOGGING, "--trust", "t"),
        (QUESTION, "--generator", "other"), (QUESTION, "--generator", "none", "--model", "m"), (QUESTION, "--label", "other"), (QUESTION, "--spans", "0"), (QUESTION, "--spans", "17"),
        (QUESTION, "--lifetime", "1"), *((QUESTION, "--certificate", "c.json", *SIGNING, "--lifetime", days) for days in ("0", "0.000001", "-1", "366.1", "nan", "inf"))])
    def test_what_does_not_fit_together_is_usage(self, proven: Rag, folder: Path, arguments: tuple[str, ...]) -> None:
        refused = proven("answer", "notes.db", *arguments)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
        assert refused.err.startswith("rag: usage: ")
        assert not (folder / "c.json").exists()

    @pytest.mark.parametrize(("arguments", "code"), [
        (("gone.db", QUESTION), "index_missing"), (("notes.db", QUESTION, "--mode", "vector"), "mode_needs_embedder"),
        (("notes.db", QUESTION, "--judge", "nli", "--judge-model", "nowhere"), "judge_model"),
        (("notes.db", QUESTION, "--generator", "openai"), "generator_key_missing"), (("notes.db", "x" * 100_001), "text_too_large")])
    def test_what_fails_is_one_line(self, proven: Rag, arguments: tuple[str, ...], code: str) -> None:
        refused = proven("answer", *arguments)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith(f"rag: error [{code}]: ")
        assert len(refused.err.splitlines()) == 1

    def test_a_judge_of_the_hub_is_had_in_the_revision_that_is_named(self, proven: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[tuple[str, str | None]] = []

        def downloaded(name: str, revision: str | None = None) -> Path:
            asked.append((name, revision))
            return Path("nowhere")

        monkeypatch.setattr(nli, "downloaded", downloaded)
        for named in ("acme/judge", "acme/judge@v1"):
            assert "[judge_model]" in proven("answer", "notes.db", QUESTION, "--judge", "nli", "--judge-hub", named).err
        assert asked == [("acme/judge", None), ("acme/judge", "v1")]

    def test_a_model_judges(self, rag: Rag, folder: Path, write: Write) -> None:
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
        pytest.importorskip("tokenizers", reason="tokenizers is not installed")
        write("docs/a.md", "Yes the claim text.\n\nNo both even.\n")
        rag("ingest", "x.db", "docs")
        model = make_folder(folder / "model", ORDERS[0])
        told = rag("answer", "x.db", "yes claim text", "--judge", "nli", "--judge-model", str(model), "--json")
        assert (told.code, told.json["judge"]["name"]) == (0, "nli")
        assert [*told.json["claims"], *told.json["blocked"]]

    def test_reading_has_to_be_granted(self, proven: Rag, folder: Path) -> None:
        (folder / "corvid.toml").write_text('[io]\nroot = "."\n[effects]\ngrant = []\n')
        assert "[effect_not_granted]" in proven("answer", "notes.db", QUESTION).err

    def test_what_documents_hold_never_reaches_the_terminal_raw(self, rag: Rag, write: Write) -> None:
        write("docs/a\u202eb.md", "Refunds\x1b[31m are paid\u202e within\u200b ten days.\n")
        rag("ingest", "x.db", "docs")
        told = rag("answer", "x.db", "when are refunds paid within ten days?")
        assert "within" in told.out
        assert not set("\x1b\u202e\u200b") & set(told.out + told.err)


class TestCertificates:
    """`--certificate`."""

    def test_it_holds_for_a_stranger(self, proven: Rag, folder: Path) -> None:
        told = proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING, "--nonce", "nonce-of-mine-0001")
        assert told.code == 0
        assert told.out == f"{CLAIM}\n{EVIDENCE}"
        assert told.err.endswith(f"rag: note: certificate 'b.json' by Acme, entry 1 of the log {ORIGIN}\n")
        trusting(proven, folder)
        assert proven("verify", "b.json", *TRUST, *ASKED, "--nonce", "nonce-of-mine-0001").code == 0
        assert proven("log", "check", "answers.log").out == f"clean: 2 entries of {ORIGIN}\n"

    def test_json_says_where_it_is(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING, "--json").json
        written = json.loads(Path("b.json").read_text())["certificate"]
        assert told["certificate"] == {"file": "b.json", "issuer": written["issuer"], "issued_at": written["issued_at"], "expires_at": written["expires_at"],
                                       "nonce": written["query"]["nonce"], "logged": {"origin": ORIGIN, "index": 1, "size": 2}}
        assert [claim["text"] for claim in told["claims"]] == [claim["text"] for claim in written["claims"]]
        everything = proven("answer", "notes.db", QUESTION, "--certificate", "c.json", *SIGNING, "--json", "--all").json
        assert everything["claims"] == json.loads(Path("c.json").read_text())["certificate"]["claims"]

    def test_without_a_log_it_has_no_receipt(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING)
        assert told.err.endswith("rag: note: certificate 'b.json' by Acme\n")
        assert set(json.loads(Path("b.json").read_text())) == {"certificate", "signature"}
        assert proven("answer", "notes.db", QUESTION, "--certificate", "c.json", *SIGNING, "--json").json["certificate"]["logged"] is None

    def test_what_is_not_said_is_as_in_a_program(self, proven: Rag) -> None:
        told = proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, "--json").json
        made = Pipeline(make_generator(), make_judge("quotation"))
        assert (told["policy"]["labels"], told["policy"]["minimum_confidence"]) == (sorted(made.labels), made.minimum_confidence)
        assert told["methods"] == {"decomposition": made.decomposition, "alignment": made.alignment}
        assert (Answering().spans, told["generator"]["digest"], told["judge"]["digest"]) == (made.spans, made.generator.identity.digest, made.judge.identity.digest)

    @pytest.mark.parametrize(("days", "seconds"), [("366", 31_622_400), ("0.5", 43_200), (None, 7_776_000)])
    def test_it_is_good_as_long_as_is_said(self, proven: Rag, folder: Path, days: str | None, seconds: int) -> None:
        assert proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING, *(("--lifetime", days) if days else ())).code == 0
        body = json.loads((folder / "b.json").read_text())["certificate"]
        issued, expires = (datetime.fromisoformat(body[name].replace("Z", "+00:00")) for name in ("issued_at", "expires_at"))
        assert (expires - issued).total_seconds() == seconds
        trusting(proven, folder)
        assert proven("verify", "b.json", *TRUST, *ASKED).code == 0

    @pytest.mark.parametrize("left_out", [("--no-retrieval",), ("--generator", "none"), ("--claims", "whole"), ("--alignment", "none"), ("--judge", "none")])
    def test_with_a_part_left_out_it_holds_too(self, proven: Rag, folder: Path, left_out: tuple[str, ...]) -> None:
        assert proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING, *left_out).code == 0
        trusting(proven, folder)
        assert proven("verify", "b.json", *TRUST, *ASKED).code == 0

    def test_an_abstention_is_certified_too(self, proven: Rag, folder: Path) -> None:
        assert proven("answer", "notes.db", "xyzzy", "--certificate", "b.json", *SIGNING, *LOGGING).code == 0
        trusting(proven, folder)
        told = proven("verify", "b.json", *TRUST, "--query", "xyzzy")
        assert (told.code, "\nNo answer by Acme, " in told.out) == (0, True)

    def test_a_mesh_node_signs_as_well(self, proven: Rag, folder: Path) -> None:
        node = NodeKey.generate("pq_pure", puzzle_bits=0)
        save_new_key(folder / "node.key", node)
        assert proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, "--node-key", "node.key").code == 0
        assert json.loads(Path("b.json").read_text())["certificate"]["issuer"]["node_id"] == node.node_id

    def test_a_file_that_is_there_is_left_as_it_is_and_nothing_is_logged(self, proven: Rag, folder: Path) -> None:
        before = (folder / "a.json").read_bytes()
        refused = proven("answer", "notes.db", QUESTION, "--certificate", "a.json", *SIGNING, *LOGGING)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.endswith("rag: error: there is a file 'a.json' already, and it is left as it is; name another one, or give --force\n")
        assert (folder / "a.json").read_bytes() == before
        assert proven("log", "check", "answers.log").out.startswith("clean: 1 entry")
        assert proven("answer", "notes.db", QUESTION, "--certificate", "a.json", *SIGNING, "--force").code == 0
        assert (folder / "a.json").read_bytes() != before

    @pytest.mark.parametrize(("arguments", "said"), [
        (("--certificate", "nowhere/b.json", *SIGNING), "rag: error: 'nowhere/b.json' cannot be written: No such file or directory; name another file"),
        (("--certificate", "b.json", "--keys", "gone.keys"), "rag: error [missing]: "), (("--certificate", "b.json", "--keys", "log.keys"), "rag: error [file_foreign]: "),
        (("--certificate", "b.json", *SIGNING, "--log", "answers.log", "--log-keys", "issuer.keys"), "rag: error [file_foreign]: "),
        (("--certificate", "b.json", *SIGNING, "--log", "gone.log", "--log-keys", "log.keys"), "rag: error [missing]: "),
        (("--certificate", "b.json", *SIGNING, "--node-key", "gone.key"), "rag: error [key_file_missing]: "),
        (("--certificate", "b.json", *SIGNING, *LOGGING, "--witness", "http://127.0.0.1:9", "--trust", "gone"), "rag: error: 'gone' cannot be read: ")])
    def test_what_cannot_be_used_is_one_line_and_leaves_nothing(self, proven: Rag, folder: Path, arguments: tuple[str, ...], said: str) -> None:
        before = sorted(folder.iterdir())
        refused = proven("answer", "notes.db", QUESTION, *arguments)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.splitlines()[-1].startswith(said)
        assert [path for path in sorted(folder.iterdir()) if "-" not in path.name] == [path for path in before if "-" not in path.name]

    def test_one_that_does_not_hold_is_neither_written_nor_logged(self, proven: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(verifying, "verify", lambda *_, **__: Refuted("key_not_valid", "/issued_at"))
            refused = proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING)
        assert refused.code == 1
        assert refused.err.splitlines()[-1].startswith("rag: error [key_not_valid]: the certificate that was made does not hold, and is not written: the issuer's key ")
        assert not (folder / "b.json").exists()
        assert proven("log", "check", "answers.log").out.startswith("clean: 1 entry")

    def test_witnesses_that_do_not_answer_are_told_and_the_certificate_is_there(self, proven: Rag, folder: Path) -> None:
        trusting(proven, folder, "issuer.keys", "log.keys", "witness.keys")
        told = proven("answer", "notes.db", QUESTION, "--certificate", "b.json", *SIGNING, *LOGGING, "--witness", "http://127.0.0.1:9", *TRUST)
        assert (told.code, told.out.splitlines()[0]) == (1, CLAIM)
        assert told.err.splitlines()[-1].startswith("rag: error [quorum_missing]: 0 of 1 witness cosigned, and 'trust.json' asks for 1: ")
        assert "http://127.0.0.1:9" in told.err
        assert told.err.endswith("; rag log append answers.log b.json --keys log.keys --witness http://127.0.0.1:9 --trust trust.json gets a cosigned receipt later\n")
        assert proven("verify", "b.json", *TRUST, *ASKED).out.startswith("unknown [witness_quorum]: ")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-tests")
    with provider_server() as server:
        yield server


def says(server: ProviderServer, text: str) -> None:
    """Have the chat models answer so."""
    def script(asked: Any) -> Answer:
        if asked.path.endswith("/api/chat"):
            return Answer(body={"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": text}, "done": True, "done_reason": "stop"})
        return Answer(body={"id": "x", "object": "chat.completion", "created": 1, "model": "m",
                            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]})

    server.script = script


class TestModels:
    """`--generator openai` and `ollama`, over a real connection."""

    @pytest.mark.parametrize("name", ["openai", "ollama"])
    def test_what_a_model_says_is_judged(self, proven: Rag, models: ProviderServer, name: str) -> None:
        says(models, f"{CLAIM}\n\nRefunds are paid in cash.")
        told = proven("answer", "notes.db", QUESTION, "--generator", name, "--endpoint", models.url, "--model", "small")
        assert told.out == f"{CLAIM}\n{EVIDENCE}\nnot shown: 1 not_supported\n"
        everything = proven("answer", "notes.db", QUESTION, "--generator", name, "--endpoint", models.url, "--all")
        assert everything.out == f"{CLAIM}\n{EVIDENCE}\nmay not be shown [not_supported]:\n    Refunds are paid in cash.\n"
        assert models.asked[0].body["model"] == "small"

    def test_a_recorded_run_replays_offline_to_the_same_certificate(self, proven: Rag, folder: Path, models: ProviderServer,
                                                                             monkeypatch: pytest.MonkeyPatch) -> None:
        says(models, CLAIM)
        words = ("answer", "notes.db", QUESTION, "--generator", "openai", "--endpoint", models.url, "--certificate", "b.json", *SIGNING, *LOGGING)
        with replay.record("run.jsonl"):
            recorded = proven(*words)
        first, asked, trace = (folder / "b.json").read_bytes(), len(models.asked), (folder / "run.jsonl").read_text()
        assert recorded.code == 0
        assert "sk-secret-of-the-tests" not in trace
        for gone in ("b.json", "notes.db", "answers.log", "corvid.toml"):
            (folder / gone).unlink()
        monkeypatch.delenv("OPENAI_API_KEY")
        for _ in range(2):  # the second time, the file that is there is the one that it writes
            with replay.substitute("run.jsonl"):
                assert proven(*words) == recorded
            assert ((folder / "b.json").read_bytes(), len(models.asked), (folder / "answers.log").exists()) == (first, asked, False)
        (folder / "b.json").write_text("another")
        with replay.substitute("run.jsonl"):
            refused = proven(*words)
        assert (refused.code, (folder / "b.json").read_text()) == (1, "another")
        assert refused.err == "rag: error: there is a file 'b.json' already, and it is left as it is; name another one, or give --force\n"

    def test_alignment_by_an_embedder_replays_without_one(self, rag: Rag, folder: Path, write: Write, configure: Callable[[Any], None]) -> None:
        configure(EmbedderDouble())
        write("docs/a.md", "Refunds are paid within ten days.\n")
        rag("ingest", "x.db", "docs")
        words = ("answer", "x.db", "Refunds are paid within ten days.", "--alignment", "embedder", "--json")
        with replay.record("run.jsonl"):
            recorded = rag(*words)
        (folder / "corvid.toml").unlink()
        with replay.substitute("run.jsonl"):
            assert rag(*words) == recorded
        assert recorded.json["claims"]


@needs_git
def test_of_a_corpus_the_commit_is_certified_whatever_the_index_can_say_of_the_whole(rag: Rag, folder: Path, configure: Callable[[Any], None]) -> None:
    source = Repo(folder / "src" / "handbook.git")
    pin = source.commit({"refunds.md": f"# Refunds\n\n{CLAIM}\n"})
    (folder / "corpus-repos.json").write_text(json.dumps({"repos": [{"id": "handbook", "url": source.url, "branch": "main", "commit": pin}]}))

    def answered(index: str) -> Any:
        told = rag("answer", index, QUESTION, "--mode", "lexical", "--json")
        assert told.code == 0, told.err
        (item,) = told.json["retrieval"]["items"]
        assert (item["provenance"]["kind"], item["provenance"]["repo_id"], item["provenance"]["commit"]) == ("corpus", "handbook", pin)
        return told.json["retrieval"]["corpus_hash"]

    assert rag("corpus", "sync", "words.db").code == 0
    assert answered("words.db") is None, "without a model a corpus has no hash"
    configure(EmbedderDouble())
    assert rag("corpus", "sync", "kb.db").code == 0
    assert answered("kb.db") == rag("corpus", "hash", "kb.db").out.strip()
    assert rag("shard", "split", "kb.db", "-n", "2").code == 0
    whole = [f"kb-{number}.db" for number in range(2) if rag("search", f"kb-{number}.db", "refunds", "--json").json]
    assert [answered(index) for index in whole] == [None], "a part of a corpus has none"


def test_many_answers_at_once_share_one_log(proven: Rag, folder: Path, spawn: Spawn) -> None:
    def issue(number: int) -> int:
        return int(spawn("answer", "notes.db", QUESTION, "--certificate", f"c{number}.json", *SIGNING, *LOGGING).returncode)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(issue, range(2))) == [0] * 2
    trusting(proven, folder)
    assert proven("log", "check", "answers.log", "--keys", "log.keys").out == f"clean: 3 entries of {ORIGIN}\n"
    assert [proven("verify", f"c{number}.json", *TRUST, *ASKED).code for number in range(2)] == [0] * 2
