"""`rag corpus verify`, and `rag corpus hash` of a description."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Write = Callable[..., Path]
Rag = Any  # see conftest

STORED = json.loads((Path(__file__).parents[2] / "examples" / "verify_offline" / "answer.json").read_text())
PROVIDER = STORED["provider"]
OTHER = PROVIDER[::-1]
HASH = STORED["description"]["corpus_hash"]
PURE = ("--profile", "pq_pure")


@pytest.fixture
def keep(write: Write) -> Callable[[Any], str]:
    """Write a value as JSON and give the file's name."""

    def put(value: Any) -> str:
        write("kept.json", json.dumps(value))
        return "kept.json"

    return put


def described(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**STORED["description"], **changes}.items() if value is not None}


def answered(*, first: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    hits = STORED["answer"]["hits"]
    answer = {**STORED["answer"], "hits": [{**hits[0], **(first or {})}, *hits[1:]]}
    return {**STORED, "answer": answer, **changes}


class TestDescriptions:
    """A description of a corpus."""

    def test_one_that_the_named_provider_signed(self, rag: Rag, keep: Any) -> None:
        for named in (PROVIDER, PROVIDER.upper()):
            told = rag("corpus", "verify", keep(described()), "--provider", named, *PURE)
            assert (told.code, told.err) == (0, "")
            assert told.out.splitlines()[0] == f"signed: {PROVIDER} vouches for exactly this corpus, and the signature does not say since when"

    def test_what_the_hash_covers_is_shown_and_nothing_else(self, rag: Rag, keep: Any) -> None:
        lines = rag("corpus", "verify", keep(described(motto="trust me", signed_by=OTHER)), "--provider", PROVIDER, *PURE).out.splitlines()
        assert lines[1:] == [
            f"corpus     {HASH}",
            "model      hashing/words:v1, 256 numbers",
            f"repository handbook  main at {'1' * 40}  https://example.org/handbook.git",
            f"repository lamps     trunk at {'2' * 40}  /srv/mirrors/lamps.git",
        ]

    def test_without_a_provider_a_signature_vouches_for_nothing(self, rag: Rag, keep: Any) -> None:
        told = rag("corpus", "verify", keep(described()), *PURE)
        assert told.code == 0
        assert told.out.startswith(f"unsigned: the signature by {PROVIDER} is whole, and nobody vouches for the corpus until --provider says")

    def test_one_without_a_signature_holds_unless_a_provider_is_named(self, rag: Rag, keep: Any) -> None:
        file = keep(described(signature=None))
        told = rag("corpus", "verify", file)
        assert (told.code, told.out.splitlines()[0]) == (0, "unsigned: it carries no signature, so nobody vouches for it")
        assert rag("corpus", "verify", file, "--provider", PROVIDER).code == 1

    @pytest.mark.parametrize(("value", "named", "first"), [
        (["no", "description"], PROVIDER, "refused [malformed_description]: it is no description of a corpus ("),
        (described(dim="256"), PROVIDER, "refused [malformed_description]: it is no description of a corpus (dim "),
        (described(dim=255), PROVIDER, "refused [corpus_hash_mismatch]: the hash that it names is not that of the corpus it describes"),
        (described(corpus_hash=HASH.upper()), PROVIDER, "refused [corpus_hash_mismatch]: "),
        (described(signature={"$bytes": "AAAA"}), None, "refused [signature: malformed]: the signature is no signed object of this profile"),
        (described(), OTHER, "refused [signer_not_provider]: it is signed by another node than this provider"),
    ])
    def test_what_does_not_hold_is_named_by_the_contract_and_explained(self, rag: Rag, keep: Any, value: Any, named: str | None, first: str) -> None:
        told = rag("corpus", "verify", keep(value), *PURE, *(() if named is None else ("--provider", named)))
        assert told.code == 1
        assert told.out.startswith(first)
        assert len(told.out.splitlines()) == 1, "nothing of a refused corpus is shown"

    def test_a_signature_of_another_corpus_or_a_changed_one_does_not_hold(self, rag: Rag, keep: Any) -> None:
        moved = [{**repo, "commit": "3" * 40} for repo in STORED["description"]["repos"]]
        (rag_hash,) = rag("corpus", "hash", "--description", keep(described(repos=moved))).out.split()
        told = rag("corpus", "verify", keep(described(repos=moved, corpus_hash=rag_hash)), "--provider", PROVIDER, *PURE)
        assert (told.code, told.out.partition(":")[0]) == (1, "refused [signature_hash_mismatch]")
        signature = bytearray(base64.b64decode(STORED["description"]["signature"]["$bytes"]))
        signature[-1] ^= 1
        broken = {"$bytes": base64.b64encode(signature).decode()}
        told = rag("corpus", "verify", keep(described(signature=broken)), *PURE)
        assert told.out.startswith("refused [signature: signature_invalid]: ")

    def test_the_profile_is_pq_hybrid_unless_another_is_named(self, rag: Rag, keep: Any) -> None:
        told = rag("corpus", "verify", keep(described()))
        assert told.out == ("refused [signature: malformed]: the signature is no signed object of this profile; "
                            "--profile names another\n")

    def test_nothing_in_it_can_act_on_a_terminal(self, rag: Rag, keep: Any) -> None:
        hostile = described(signature=None, model="m\x1b[2J", repos=[{"id": "a\u202eb", "url": "/\x07", "branch": "\n", "commit": "\x9b"}])
        (computed,) = rag("corpus", "hash", "--description", keep(hostile)).out.split()
        told = rag("corpus", "verify", keep({**hostile, "corpus_hash": computed}))
        assert told.code == 0
        assert not set(told.out) & set("\x1b\x07\x9b\u202e")
        assert len(told.out.splitlines()) == 4

    def test_a_corpus_without_repositories_is_one(self, rag: Rag, keep: Any) -> None:
        empty = {"model": "m", "dim": 1, "repos": []}
        (computed,) = rag("corpus", "hash", "--description", keep(empty)).out.split()
        assert rag("corpus", "verify", keep({**empty, "corpus_hash": computed})).out.splitlines()[-2:] == ["model      m, 1 number", "repository none"]


class TestAnswers:
    """An answer that was stored with the description."""

    def test_one_that_the_named_provider_signed(self, rag: Rag, keep: Any) -> None:
        told = rag("corpus", "verify", keep(STORED), "--provider", PROVIDER)
        assert told.code == 0
        assert told.out.splitlines()[0] == (f"signed: {PROVIDER} vouches for exactly this corpus; "
                                            "that it gave this answer is the word of whoever kept it")
        assert told.out.splitlines()[5:] == [
            "hit 1  content ok  in_corpus  handbook/refunds.md:3-5",
            "hit 2  content ok  deposit    conversational",
            "deposit: the text was left with the provider and belongs to no repository",
        ]

    def test_without_a_provider_the_one_in_the_file_is_a_stranger(self, rag: Rag, keep: Any) -> None:
        told = rag("corpus", "verify", keep(STORED))
        assert told.code == 0
        assert told.out.startswith(f"unsigned: the signature by {PROVIDER} is whole, and nobody vouches")

    def test_one_that_is_kept_as_the_answer_of_another_provider(self, rag: Rag, keep: Any) -> None:
        for kept in (PROVIDER, None):
            told = rag("corpus", "verify", keep(answered(provider=kept)), "--provider", OTHER)
            assert told.code == 1
            assert told.out.startswith("refused [other_provider]: the provider that was asked is another one (")

    def test_one_whose_call_was_not_pinned(self, rag: Rag, keep: Any) -> None:
        told = rag("corpus", "verify", keep(answered(provider=None)))
        assert told.code == 0
        assert told.out.startswith("unsigned: the call was not pinned, so nobody knows who answered; nobody vouches for the corpus\n")

    def test_one_over_a_corpus_that_nobody_signed(self, rag: Rag, keep: Any) -> None:
        file = keep(answered(description=described(signature=None)))
        told = rag("corpus", "verify", file)
        assert (told.code, told.out.splitlines()[0]) == (0, f"unsigned: {PROVIDER} was asked, and signed nothing; nobody vouches for the corpus")
        assert rag("corpus", "verify", file, "--provider", PROVIDER).code == 1

    @pytest.mark.parametrize(("value", "reason"), [
        (answered(description={}), "malformed_description"),
        (answered(description=described(dim=1)), "corpus_hash_mismatch"),
        (answered(answer=[]), "malformed_answer"),
        (answered(answer={**STORED["answer"], "corpus_hash": "0" * 64}), "not_the_answering_corpus"),
        (answered(profile="pq_hybrid"), "signature: malformed"),
    ])
    def test_what_does_not_hold_is_named_and_no_hit_is_judged(self, rag: Rag, keep: Any, value: Any, reason: str) -> None:
        told = rag("corpus", "verify", keep(value))
        assert told.code == 1
        assert told.out.startswith(f"refused [{reason}]: ")
        assert len(told.out.splitlines()) == 1

    def test_a_named_profile_counts_before_the_stored_one(self, rag: Rag, keep: Any) -> None:
        assert rag("corpus", "verify", keep(answered(profile="pq_hybrid")), "--provider", PROVIDER, *PURE).code == 0

    def test_a_text_that_was_changed_is_found_and_the_exit_code_says_so(self, rag: Rag, keep: Any) -> None:
        told = rag("corpus", "verify", keep(answered(first={"content": "forged"})), "--provider", PROVIDER)
        assert told.code == 1
        assert told.out.startswith("signed: ")
        assert "\nhit 1  content content_mismatch  in_corpus  handbook/refunds.md:3-5\n" in told.out
        assert "\ncontent_mismatch: the text is not the one that its provenance names\n" in told.out

    @pytest.mark.parametrize(("provenance", "row"), [
        (None, ["malformed_provenance", "malformed_provenance", "-"]),
        ({"path": "x\x1b[2J", "start_line": "3"}, ["malformed_provenance", "malformed_provenance", "x\ufffd[2J"]),
        ({**STORED["answer"]["hits"][0]["provenance"], "repo_id": "ghost"}, ["ok", "repo_not_in_corpus", "handbook/refunds.md:3-5"]),
        ({**STORED["answer"]["hits"][0]["provenance"], "commit": "9" * 40}, ["ok", "commit_not_in_corpus", "handbook/refunds.md:3-5"]),
    ])
    def test_whatever_a_hit_says_of_its_origin_is_shown_safely(self, rag: Rag, keep: Any, provenance: Any, row: list[str]) -> None:
        lines = rag("corpus", "verify", keep(answered(first={"provenance": provenance}))).out.splitlines()
        assert [line.split() for line in lines if line.startswith("hit 1")] == [["hit", "1", "content", *row]]
        assert any(line.startswith(f"{row[1]}: ") for line in lines), "the verdict is explained"

    def test_json_has_the_marks_on_each_hit(self, rag: Rag, keep: Any) -> None:
        found = rag("corpus", "verify", keep(answered(first={"content": "forged", "blob": {"$bytes": "AA=="}})), "--json")
        assert found.code == 1
        assert (found.json["outcome"], found.json["reason"], found.json["signer"], found.json["corpus_hash"]) == ("unsigned", "", PROVIDER, HASH)
        first, second = found.json["hits"]
        assert (first["content_verified"], first["in_corpus"], first["blob"]) == (0, 1, {"$bytes": "AA=="})
        assert (second["content_verified"], second["in_corpus"], second["corpus_reason"]) == (1, 0, "deposit")

    def test_json_of_a_refusal_has_the_reason_and_no_hits(self, rag: Rag, keep: Any) -> None:
        found = rag("corpus", "verify", keep(answered(answer=[])), "--json")
        assert (found.code, found.json) == (1, {"outcome": "refused", "reason": "malformed_answer", "detail": found.json["detail"],
                                                "signer": None, "corpus_hash": None, "hits": []})
        assert found.json["detail"]


class TestFiles:
    """What is no description and no answer."""

    @pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"a": 1, "a": 2}', b'{"dim": true}', b"[" * 3000, b'{"a": NaN}',
                                         b'{"description": {}, "answer": {}}', b'{"provider": "x", "profile": "pq_pure", "description": 1, "answer": 2}'])
    def test_a_file_that_holds_no_value_of_the_mesh_is_one_line(self, rag: Rag, write: Write, content: bytes) -> None:
        write("x.json", content)
        told = rag("corpus", "verify", "x.json")
        assert (told.code, told.out, len(told.err.splitlines())) == (1, "", 1)
        assert told.err.startswith("rag: error: 'x.json' cannot be checked: ")
        told = rag("corpus", "hash", "--description", "x.json")
        assert (told.code, told.out, len(told.err.splitlines())) == (1, "", 1)
        assert told.err.startswith("rag: error: 'x.json' ")

    @pytest.mark.parametrize("name", ["nope.json", ".", "a\x00b", "x" * 300, "\udcff"])
    def test_a_file_that_cannot_be_read_is_one_line(self, rag: Rag, name: str) -> None:
        for command in (("verify", name), ("hash", "--description", name)):
            told = rag("corpus", *command)
            assert (told.code, told.out, len(told.err.splitlines())) == (1, "", 1)
            assert "cannot be read: " in told.err

    def test_a_file_that_is_too_large_is_refused(self, rag: Rag, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_stdlib.contract.jsonform.MAX_CHARS", 10)
        write("x.json", "[" + "0" * 60 + "]")
        assert rag("corpus", "verify", "x.json").err == "rag: error: 'x.json' is larger than 40 bytes\n"

    def test_marks_that_make_an_answer_too_large_for_json_are_one_line(self, rag: Rag, keep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        file = keep(STORED)
        monkeypatch.setattr("rag_stdlib.cli.corpusverify._Found.to_dict", lambda _found: {"hits": [True]})
        assert rag("corpus", "verify", file, "--json").err.startswith("rag: error: 'kept.json' cannot be shown as JSON: ")

    def test_a_node_id_has_64_hex_digits(self, rag: Rag, keep: Any) -> None:
        told = rag("corpus", "verify", keep(STORED), "--provider", PROVIDER[:-1])
        assert (told.code, told.out) == (2, "")
        assert told.err.startswith("rag: usage: Invalid value for --provider: ")


class TestHash:
    """`rag corpus hash --description`."""

    def test_the_hash_is_computed_whatever_the_description_says(self, rag: Rag, keep: Any) -> None:
        told = rag("corpus", "hash", "--description", keep(described()))
        assert (told.code, told.out, told.err) == (0, f"{HASH}\n", "")
        told = rag("corpus", "hash", "--description", keep(described(corpus_hash="0" * 64)))
        assert (told.code, told.out) == (0, f"{HASH}\n")
        assert told.err == "rag: note: the description names another hash, so whoever checks it refuses it\n"

    def test_what_is_no_description_is_an_error_and_a_file_need_not_lie_below_a_root(self, rag: Rag, keep: Any, folder: Path) -> None:
        file = keep({"model": "m"})
        (folder / "corvid.toml").unlink()
        told = rag("corpus", "hash", "--description", file)
        assert (told.code, told.err) == (1, told.err)
        assert told.err.startswith("rag: error: 'kept.json' is no description of a corpus: dim ")

    def test_it_takes_an_index_or_a_description(self, rag: Rag, keep: Any) -> None:
        for arguments in ((), ("kb.db", "--description", keep(described()))):
            told = rag("corpus", "hash", *arguments)
            assert (told.code, told.err) == (2, "rag: usage: give one of INDEX and --description; see rag corpus hash --help\n")
