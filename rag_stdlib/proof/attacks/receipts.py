"""Attacks on the receipt: on the entry's place in the log, on the path, on the checkpoint, and on those who signed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rag_stdlib.proof.attacks.attack import Attack, Make, Unsuited, beside, put, reread
from rag_stdlib.proof.attacks.parts import GONE, written
from rag_stdlib.proof.attacks.scene import Scene
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.notes import Note, NoteSigner, Signature, VerifierKey
from rag_stdlib.proof.log.receipts import Receipt

_FORK: Final = "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="
_HASH: Final = "A" * 43 + "="
_STRANGER: Final = "— stranger.example/w AAAAAAAA"


def _at_index(change: Callable[[int], str]) -> Make:
    """Exchange the number of the entry."""
    return reread(lambda lines: [f"index {change(int(line[6:]))}" if line.startswith("index ") else line for line in lines])


def _in_path(change: Callable[[list[str]], list[str]], least: int = 0) -> Make:
    """Change the lines of the path, from the one behind the index to the empty one; there have to be so many."""
    def make(lines: list[str]) -> list[str]:
        first = next(place for place, line in enumerate(lines) if line.startswith("index ")) + 1
        end = lines.index("")
        if end - first < least:
            raise Unsuited
        return [*lines[:first], *change(lines[first:end]), *lines[end:]]

    return reread(make)


def _in_checkpoint(change: Callable[[list[str]], list[str]]) -> Make:
    """Change the lines of the checkpoint: origin, size, root."""
    def make(lines: list[str]) -> list[str]:
        first = lines.index("") + 1
        return [*lines[:first], *change(lines[first:first + 3]), *lines[first + 3:]]

    return reread(make)


def _signed_by(change: Callable[[Scene, Receipt, Note], list[Signature]]) -> Make:
    """Exchange the signatures below the checkpoint."""
    def make(scene: Scene) -> bytes:
        if "receipt" not in scene.envelope:
            raise Unsuited
        receipt = Receipt.parse(scene.envelope["receipt"].encode())
        note = Note.parse(receipt.checkpoint)
        signed = Note(note.text, tuple(change(scene, receipt, note)))
        return written({**scene.envelope, "receipt": Receipt(receipt.index, receipt.path, signed.to_bytes()).to_bytes().decode()})

    return make


def _witnesses(scene: Scene, receipt: Receipt, note: Note) -> tuple[list[Signature], list[Signature]]:
    """Return the signatures of witnesses of this log that are trusted, and all others; there has to be a quorum."""
    log = scene.trust.logs[_head(receipt).origin]
    if not log.quorum:
        raise Unsuited
    known = {(key.name, key.key_id) for key in log.witnesses}
    cosigned = [line for line in note.signatures if (line.name, line.key_id) in known]
    return cosigned, [line for line in note.signatures if line not in cosigned]


def _head(receipt: Receipt) -> Checkpoint:
    return Checkpoint.parse(Note.parse(receipt.checkpoint).text)


def _no_witnesses(scene: Scene, receipt: Receipt, note: Note) -> list[Signature]:
    return _witnesses(scene, receipt, note)[1]


def _one_witness_often(scene: Scene, receipt: Receipt, note: Note) -> list[Signature]:
    cosigned, others = _witnesses(scene, receipt, note)
    if len({line.name for line in cosigned}) <= 1 or scene.trust.logs[_head(receipt).origin].quorum <= 1:  # one would do
        raise Unsuited
    return [*others, *cosigned[:1] * 3]


def _only_witnesses(scene: Scene, receipt: Receipt, note: Note) -> list[Signature]:
    return _witnesses(scene, receipt, note)[0]


def _false_witness(scene: Scene, receipt: Receipt, note: Note) -> list[Signature]:
    cosigned, others = _witnesses(scene, receipt, note)
    line = cosigned[0]
    return [*others, Signature(line.name, line.key_id, line.value[:-1] + bytes([line.value[-1] ^ 1])), *cosigned[1:]]


def _witness_with_another_time(scene: Scene, receipt: Receipt, note: Note) -> list[Signature]:
    cosigned, others = _witnesses(scene, receipt, note)
    line = cosigned[0]
    return [*others, Signature(line.name, line.key_id, bytes(8) + line.value[8:]), *cosigned[1:]]


def _key(scene: Scene, receipt: Receipt) -> VerifierKey:
    return scene.trust.logs[_head(receipt).origin].keys[0]


def _own_log(scene: Scene, receipt: Receipt, note: Note) -> list[Signature]:
    """Sign the checkpoint by a key of the attacker's under the log's name."""
    return [NoteSigner(_key(scene, receipt).name, scene.own_key.private_bytes_raw()).sign(note.text, 0)]


def _own_log_by_id(scene: Scene, receipt: Receipt, note: Note) -> list[Signature]:
    """The same, under the id of the log's key."""
    key = _key(scene, receipt)
    return [Signature(key.name, key.key_id, NoteSigner(key.name, scene.own_key.private_bytes_raw()).sign(note.text, 0).value)]


def _one_true_one_false(scene: Scene, receipt: Receipt, note: Note) -> list[Signature]:
    return [*note.signatures, *_own_log_by_id(scene, receipt, note)]


def _no_receipt(scene: Scene) -> bytes:
    if not scene.policy.require_log:
        raise Unsuited
    return beside(("receipt",), GONE)(scene)


def _other_receipt(scene: Scene) -> bytes:
    if scene.other is None or not {"receipt"} <= scene.other.keys() & scene.envelope.keys():
        raise Unsuited
    return written({**scene.envelope, "receipt": scene.other["receipt"]})


_PLACES: Final = (
    Attack("M1", "another place in the log", "no_key", _at_index(lambda index: f"{index ^ 1}"), "refuted", "inclusion"),
    Attack("M2", "a place before the first", "no_key", _at_index(lambda _: "-1"), "refuted", "receipt"),
    Attack("M3a", "a place beyond the tree", "no_key", _at_index(lambda index: f"{index + 2**40}"), "refuted", "inclusion"),
    Attack("M3b", "a place with a leading zero", "no_key", _at_index(lambda index: f"0{index}"), "refuted", "receipt"),
    Attack("M3c", "a place of 64 bits", "no_key", _at_index(lambda _: "18446744073709551615"), "refuted", "receipt"),
    Attack("M3e", "a place behind the last there can be", "no_key", _at_index(lambda _: "9223372036854775808"), "refuted", "receipt"),
    Attack("M3d", "the last place there can be", "no_key", _at_index(lambda _: "9223372036854775807"), "refuted", "inclusion"),
    Attack("M4a", "a hash too many", "no_key", _in_path(lambda path: [*path, _HASH]), "refuted", "inclusion"),
    Attack("M4b", "a hash too few", "no_key", _in_path(lambda path: path[:-1], 1), "refuted", "inclusion"),
    Attack("M4c", "64 hashes", "no_key", _in_path(lambda path: [*path, *[_HASH] * (64 - len(path))]), "refuted", "receipt"),
    Attack("M4d", "hashes in another order", "no_key", _in_path(lambda path: path[::-1], 2), "refuted", "inclusion"),
    Attack("M4e", "empty lines behind the path", "no_key", _in_path(lambda path: [*path, "", ""]), "refuted", "receipt"),
    Attack("M5a", "a line that is no hash", "no_key", _in_path(lambda path: ["nothex", *path[1:]]), "refuted", "receipt"),
    Attack("M5b", "a hash of 31 bytes", "no_key", _in_path(lambda path: ["A" * 42 + "==", *path[1:]]), "refuted", "receipt"),
    Attack("M5c", "a hash with bits that nobody reads", "no_key", _in_path(lambda path: ["A" * 42 + "B=", *path[1:]]), "refuted", "receipt"),
    Attack("M6", "the receipt of another certificate", "no_key", _other_receipt, "refuted", "inclusion"))

_ENTRIES: Final = (
    Attack("29a", "the receipt is taken away", "no_key", _no_receipt, "unknown", "no_receipt"),
    Attack("29b", "the receipt is null", "no_key", beside(("receipt",), None), "refuted", "schema"),
    Attack("30", "the receipt is junk", "no_key", beside(("receipt",), "nothex\nzz\n-1\n"), "refuted", "receipt"),
    Attack("30b", "the receipt is empty", "no_key", beside(("receipt",), ""), "refuted", "receipt"),
    Attack("31a", "the checkpoint has another size and root under its old signature", "no_key",
           _in_checkpoint(lambda head: [head[0], "1000000000", _FORK]), "refuted", "checkpoint_signature"),
    Attack("31b", "a changed certificate under the old receipt", "issuer", put("issuer", (("generator", "name"), "another")), "refuted", "inclusion"))

_CHECKPOINTS: Final = (
    Attack("M7a", "another size of the tree", "no_key", _in_checkpoint(lambda head: [head[0], f"{int(head[1]) + 1}", head[2]]), "refuted", "checkpoint_signature"),
    Attack("M7b", "a size of -1", "no_key", _in_checkpoint(lambda head: [head[0], "-1", head[2]]), "refuted", "receipt"),
    Attack("M7c", "another log's name", "no_key", _in_checkpoint(lambda head: ["elsewhere.example/log", *head[1:]]), "unknown", "untrusted_log"),
    Attack("M7d", "a line of extension", "no_key", _in_checkpoint(lambda head: [*head, "extension"]), "refuted", "receipt"),
    Attack("M7e", "lines that end as on Windows", "no_key", reread(lambda lines: [f"{line}\r" for line in lines[:-1]] + [""]), "refuted", "receipt"),
    Attack("M7f", "no line feed at the end", "no_key", reread(lambda lines: lines[:-1]), "refuted", "receipt"),
    Attack("M7g", "65 signatures", "no_key", reread(lambda lines: [*lines[:-1], *[_STRANGER] * (65 - _signatures(lines)), ""]), "refuted", "receipt"),
    Attack("M7h", "a signature without a value", "no_key", reread(lambda lines: [*lines[:-1], "— stranger.example/w AAAAAA==", ""]), "refuted", "receipt"),
    Attack("M7i", "a signature without a name", "no_key", reread(lambda lines: [*lines[:-1], "—  AAAAAAAA", ""]), "refuted", "receipt"),
    Attack("M7j", "a signature by a name of 256 bytes", "no_key", reread(lambda lines: [*lines[:-1], f"— {'n' * 256} AAAAAAAA", ""]), "refuted", "receipt"),
    Attack("M7k", "a signature by a name with a plus", "no_key", reread(lambda lines: [*lines[:-1], "— n+w AAAAAAAA", ""]), "refuted", "receipt"),
    Attack("M7l", "a control character in a name", "no_key", reread(lambda lines: [*lines[:-1], "— n\x07 AAAAAAAA", ""]), "refuted", "receipt"),
    Attack("M7m", "an origin of 256 bytes", "no_key", _in_checkpoint(lambda head: ["n" * 256, *head[1:]]), "refuted", "receipt"))


def _signatures(lines: list[str]) -> int:
    return sum(line.startswith("— ") for line in lines)


_SIGNERS: Final = (
    Attack("M8a", "a checkpoint by a key of the attacker's", "own_key", _signed_by(_own_log), "unknown", "untrusted_log"),
    Attack("M8b", "the same under the id of the log's key", "own_key", _signed_by(_own_log_by_id), "refuted", "checkpoint_signature"),
    Attack("M8c", "a signature of the log's that holds, and one that does not", "own_key", _signed_by(_one_true_one_false), "refuted", "checkpoint_signature"),
    Attack("M8d", "witnesses alone", "no_key", _signed_by(_only_witnesses), "unknown", "untrusted_log"),
    Attack("M9a", "no witness", "no_key", _signed_by(_no_witnesses), "unknown", "witness_quorum"),
    Attack("M9b", "one witness, three times", "no_key", _signed_by(_one_witness_often), "unknown", "witness_quorum"),
    Attack("M9c", "a witness's signature has another bit", "no_key", _signed_by(_false_witness), "refuted", "cosignature"),
    Attack("M9d", "a witness's signature has another time", "no_key", _signed_by(_witness_with_another_time), "refuted", "cosignature"))

_HARMLESS: Final = (
    Attack("H4", "a line of extra data, which nobody vouches for", "no_key", reread(lambda lines: [lines[0], "extra QUFB", *lines[1:]]), "verified"),
    Attack("H5", "a signature by somebody unknown", "no_key", reread(lambda lines: [*lines[:-1], _STRANGER, ""]), "verified"),
    Attack("H6", "signatures in another order", "no_key", _signed_by(lambda _scene, _receipt, note: [*note.signatures[::-1]]), "verified"))

RECEIPTS: Final[tuple[Attack, ...]] = (*_ENTRIES, *_PLACES, *_CHECKPOINTS, *_SIGNERS, *_HARMLESS)
