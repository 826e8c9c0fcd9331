"""`rag corpus describe`, `hash` and `sign` of an index; what a description is, is tested with the contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_sources import Repo, needs_git
from embedder_double import EmbedderDouble

from rag_stdlib.contract import NodeKey, Signed, Unsigned, corpus_hash, verify_corpus
from rag_stdlib.contract.jsonform import from_json
from rag_stdlib.keyfile import save_new_key

Rag = Any  # see conftest
pytestmark = needs_git

TEXT = "# Refunds\n\nRefunds are paid within ten days of the return.\n"
PURE = ("--profile", "pq_pure")


@pytest.fixture(scope="module")
def key() -> NodeKey:
    return NodeKey.generate("pq_pure", puzzle_bits=0)


@pytest.fixture
def key_file(folder: Path, key: NodeKey) -> str:
    save_new_key(folder / "node.key", key)
    return "node.key"


@pytest.fixture
def source(folder: Path) -> Repo:
    return Repo(folder / "src" / "handbook.git")


@pytest.fixture
def move(rag: Rag, folder: Path, source: Repo, configure: Callable[[Any], None]) -> Callable[..., str]:
    """Commit files to the one repository, and bring kb.db there; the commit."""
    configure(EmbedderDouble())

    def to(files: dict[str, str]) -> str:
        pin = source.commit(files)
        entry = {"id": "handbook", "url": source.url, "branch": "main", "commit": pin}
        (folder / "corpus-repos.json").write_text(json.dumps({"repos": [entry]}))
        assert rag("corpus", "sync", "kb.db").code == 0
        return pin

    return to


class TestDescribe:
    """`rag corpus describe` and `hash`."""

    def test_it_shows_what_the_hash_covers_and_the_hash(self, rag: Rag, move: Any, source: Repo) -> None:
        pin = move({"a.md": TEXT})
        told = rag("corpus", "describe", "kb.db")
        assert (told.code, told.err) == (0, "")
        (computed,) = rag("corpus", "hash", "kb.db").out.split()
        assert told.out.splitlines() == [
            f"corpus     {computed}", "model      words-sha256, 32 numbers", f"repository handbook  main at {pin}  {source.url}", "signature  none"]

    def test_json_is_the_description_and_can_be_checked(self, rag: Rag, move: Any, folder: Path) -> None:
        pin = move({"a.md": TEXT})
        told = rag("corpus", "describe", "kb.db", "--json")
        (folder / "described.json").write_text(told.out)
        assert [repo["commit"] for repo in told.json["repos"]] == [pin]
        assert told.json["corpus_hash"] == corpus_hash(told.json)
        assert isinstance(verify_corpus(from_json(told.out), "0" * 64, "pq_hybrid"), Unsigned)
        assert rag("corpus", "hash", "--description", "described.json").out == f"{told.json['corpus_hash']}\n"
        assert rag("corpus", "verify", "described.json").out.startswith("unsigned: ")

    @pytest.mark.parametrize("command", [("describe",), ("hash",), ("sign", "--key", "node.key", *PURE)])
    def test_without_an_index_or_its_model_there_is_nothing_to_describe(
            self, rag: Rag, folder: Path, key_file: str, command: tuple[str, ...]) -> None:  # noqa: ARG002 - there for sign
        missing = rag("corpus", *command, "kb.db")
        assert (missing.code, missing.out) == (1, "")
        assert missing.err.startswith("rag: error [index_missing]: ")
        (folder / "a.txt").write_text("words")
        rag("ingest", "kb.db", "a.txt")
        refused = rag("corpus", *command, "kb.db")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [no_embed_model]: the index 'kb.db' has no embedding model")

    def test_effects_that_are_not_granted(self, rag: Rag, move: Any, folder: Path, key_file: str) -> None:
        move({"a.md": TEXT})
        for grant, command in (('["rag_write"]', ("describe",)), ('["rag_write"]', ("hash",)), ('["rag_read"]', ("sign", "--key", key_file, *PURE)),
                               ('["rag_write"]', ("sign", "--key", key_file, *PURE))):
            (folder / "corvid.toml").write_text(f'[io]\nroot = "."\n[effects]\ngrant = {grant}\n')
            assert rag("corpus", *command, "kb.db").err.startswith(f"rag: error [effect_not_granted]: rag corpus {command[0]} ")


class TestSign:
    """`rag corpus sign`."""

    def test_what_is_signed_is_the_corpus_and_verifies(self, rag: Rag, move: Any, key: NodeKey, key_file: str, folder: Path) -> None:
        move({"a.md": TEXT})
        (computed,) = rag("corpus", "hash", "kb.db").out.split()
        signed = rag("corpus", "sign", "kb.db", "--key", key_file, *PURE)
        assert (signed.code, signed.err) == (0, "")
        assert signed.out == f"signed     {computed}\nby node    {key.node_id} (pq_pure)\n"
        assert rag("corpus", "describe", "kb.db").out.endswith(f"\nsignature  by {key.node_id}\n")
        described = rag("corpus", "describe", "kb.db", "--json").out
        assert verify_corpus(from_json(described), key.node_id, "pq_pure") == Signed(key.node_id)
        (folder / "described.json").write_text(described)
        assert rag("corpus", "verify", "described.json", "--provider", key.node_id, *PURE).out.startswith(f"signed: {key.node_id} ")

    def test_a_corpus_that_has_changed_since_is_unsigned_until_it_is_signed_again(self, rag: Rag, move: Any, key_file: str) -> None:
        move({"a.md": TEXT})
        rag("corpus", "sign", "kb.db", "--key", key_file, *PURE)
        move({"b.md": TEXT})
        assert rag("corpus", "describe", "kb.db").out.endswith("\nsignature  none\n")
        rag("corpus", "sign", "kb.db", "--key", key_file, *PURE)
        assert "\nsignature  by " in rag("corpus", "describe", "kb.db").out

    def test_an_unchanged_sync_leaves_the_signature(self, rag: Rag, move: Any, key_file: str) -> None:
        move({"a.md": TEXT})
        rag("corpus", "sign", "kb.db", "--key", key_file, *PURE)
        rag("corpus", "sync", "kb.db")
        assert "\nsignature  by " in rag("corpus", "describe", "kb.db").out

    def test_a_key_is_made_for_its_owner_alone_and_never_over_another_file(self, rag: Rag, move: Any, folder: Path) -> None:
        move({"a.md": TEXT})
        signed = rag("corpus", "sign", "kb.db", "--key", "new.key", "--make-key", *PURE)
        assert signed.code == 0
        assert signed.err == "rag: note: made a pq_pure key: keep 'new.key' to yourself, and give its node id to those who verify\n"
        assert (folder / "new.key").stat().st_mode & 0o777 == 0o600
        before = (folder / "new.key").read_bytes()
        refused = rag("corpus", "sign", "kb.db", "--key", "new.key", "--make-key", *PURE)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [key_file_exists]: there is a file 'new.key' already")
        assert (folder / "new.key").read_bytes() == before
        assert rag("corpus", "sign", "kb.db", "--key", "new.key", *PURE).code == 0

    def test_no_key_is_made_where_there_is_nothing_to_sign(self, rag: Rag, folder: Path) -> None:
        assert rag("corpus", "sign", "gone.db", "--key", "new.key", "--make-key").code == 1
        assert not (folder / "new.key").exists()

    def test_the_profile_is_pq_hybrid_unless_another_is_named(self, rag: Rag, move: Any, key_file: str) -> None:
        move({"a.md": TEXT})
        refused = rag("corpus", "sign", "kb.db", "--key", key_file)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [key_file_invalid]: ")
        assert "a pq_hybrid key is needed" in refused.err
        assert rag("corpus", "describe", "kb.db").out.endswith("\nsignature  none\n")

    @pytest.mark.parametrize(("make", "code"), [
        (lambda _path: None, "key_file_missing"), (lambda path: path.mkdir(), "key_file_unsafe"), (lambda path: path.write_bytes(b"x"), "key_file_unsafe"),
        (lambda path: (path.touch(0o600), path.write_bytes(b"no key")), "key_file_invalid"),
        (lambda path: path.symlink_to(path.parent / "node.key"), "key_file_unsafe"),
    ])
    def test_a_key_file_that_is_none_is_one_line(self, rag: Rag, move: Any, folder: Path, key_file: str, make: Any, code: str) -> None:  # noqa: ARG002
        move({"a.md": TEXT})
        make(folder / "bad.key")
        refused = rag("corpus", "sign", "kb.db", "--key", "bad.key", *PURE)
        assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
        assert refused.err.startswith(f"rag: error [{code}]: ")

    def test_an_empty_corpus_can_be_signed_and_is_said_to_be_one(self, rag: Rag, move: Any, key_file: str, folder: Path) -> None:
        move({"a.md": TEXT})
        (folder / "note.txt").write_text("Not of a repository.")
        rag("ingest", "kb.db", "note.txt")
        (folder / "corpus-repos.json").write_text('{"repos": []}')
        rag("corpus", "sync", "kb.db")
        signed = rag("corpus", "sign", "kb.db", "--key", key_file, *PURE)
        assert signed.code == 0
        assert signed.err == "rag: note: the index serves no repository; what is signed is the empty corpus\n"
        assert "\nrepository none\nsignature  by " in rag("corpus", "describe", "kb.db").out
