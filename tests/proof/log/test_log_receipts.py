"""Receipts: written and read one way, and true of one entry at one place in one log only."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_trees import Leaves, entries
from signed import LOG, ORIGIN, PINNED, WITNESSES, head, note, refused, signer

from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.merkle import inclusion_path
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.receipts import MAX_EXTRA_BYTES, MAX_RECEIPT_BYTES, Receipt

SIZE = 11
DATA = entries(SIZE)
NOTE = note(SIZE)


def receipt(index: int = 6, extra: bytes = b"") -> Receipt:
    return Receipt(index, tuple(inclusion_path(index, SIZE, Leaves(DATA))), NOTE, extra)


BYTES = receipt().to_bytes()
LINES = BYTES.decode().split("\n")
EXTRA = receipt(extra=b"more").to_bytes()


def test_the_bytes_are_those_of_c2sp() -> None:
    path = [base64.b64encode(value).decode() for value in receipt().path]
    assert BYTES.decode() == "\n".join(["c2sp.org/tlog-proof@v1", "index 6", *path, "", NOTE.decode()])
    assert EXTRA.decode().split("\n")[1:3] == ["extra bW9yZQ==", "index 6"]
    assert Receipt.parse(BYTES) == receipt()
    assert Receipt.parse(EXTRA) == receipt(extra=b"more")


def test_every_entry_has_a_receipt_that_is_true_of_it_alone() -> None:
    for index in range(SIZE):
        made = Receipt.parse(receipt(index).to_bytes())
        assert made.verify(DATA[index], PINNED).checkpoint == head(SIZE)
        for other in (*DATA[:index], *DATA[index + 1:], b"", DATA[index] + b" "):
            assert refused(lambda made=made, other=other: made.verify(other, PINNED)) == "inclusion_invalid"  # type: ignore[misc]


def test_a_single_entry_has_an_empty_path() -> None:
    made = Receipt.parse(b"c2sp.org/tlog-proof@v1\nindex 0\n\n" + note(1))
    assert (made.path, made.verify(DATA[0], PINNED).checkpoint.size) == ((), 1)


def test_a_receipt_says_who_signed_and_cosigned() -> None:
    made = Receipt(3, tuple(inclusion_path(3, SIZE, Leaves(DATA))), note(SIZE, LOG, *WITNESSES))
    log = PinnedLog(ORIGIN, (LOG.verifier,), tuple(one.verifier for one in WITNESSES), 3)
    assert [one.name[-2:] for one in Receipt.parse(made.to_bytes()).verify(DATA[3], log).cosigned] == ["w1", "w2", "w3"]
    assert refused(lambda: receipt(3).verify(DATA[3], log)) == "quorum_missing"


def test_other_logs_and_keys_refuse_it() -> None:
    assert refused(lambda: receipt().verify(DATA[6], PinnedLog("log.example/second", (LOG.verifier,)))) == "origin_mismatch"
    assert refused(lambda: receipt().verify(DATA[6], PinnedLog(ORIGIN, (signer(2).verifier,)))) == "signature_missing"


def test_the_extra_line_vouches_for_nothing_and_changes_nothing() -> None:
    assert receipt(extra=b"anything").verify(DATA[6], PINNED) == receipt().verify(DATA[6], PINNED)


@pytest.mark.parametrize("change", [
    lambda made: Receipt(made.index + 1, made.path, made.checkpoint), lambda made: Receipt(made.index + 16, made.path, made.checkpoint),
    lambda made: Receipt(0, made.path, made.checkpoint), lambda made: Receipt(made.index, made.path[:-1], made.checkpoint),
    lambda made: Receipt(made.index, made.path[::-1], made.checkpoint), lambda made: Receipt(made.index, (*made.path, made.path[0]), made.checkpoint),
    lambda made: Receipt(made.index, (), made.checkpoint), lambda made: Receipt(made.index, made.path, note(SIZE - 1)),
    lambda made: Receipt(made.index, made.path, note(0)), lambda made: Receipt(made.index, made.path, note(SIZE, LOG).replace(b"\n11\n", b"\n12\n")),
])
def test_a_changed_receipt_is_refused(change: Any) -> None:
    changed = Receipt.parse(change(receipt()).to_bytes())
    assert refused(lambda: changed.verify(DATA[6], PINNED)) in ("inclusion_invalid", "signature_invalid")


@pytest.mark.parametrize("data", [
    b"", b"\n\n", NOTE, b"\n\n" + NOTE, BYTES[:-1], BYTES + b"\n", BYTES.replace(b"@v1", b"@v2"), BYTES.replace(b"\n", b"\r\n"), BYTES.replace(b"index 6", b"index 06"),
    BYTES.replace(b"index 6", b"index -6"), BYTES.replace(b"index 6", b"index  6"), BYTES.replace(b"index 6", b"index 6 "), BYTES.replace(b"index 6\n", b""),
    BYTES.replace(b"index 6", b"index %d" % 2**63), BYTES.replace(b"index 6", b"index 6\nindex 6"), BYTES.replace(b"index 6", b"INDEX 6"), b" " + BYTES,
    BYTES.replace(b"index 6", b"extra AAAA\nextra AAAA\nindex 6"), BYTES.replace(b"index 6", b"index 6\nextra AAAA"), BYTES.replace(b"index 6", b"extra \nindex 6"),
    BYTES.replace(b"index 6", b"extra\nindex 6"), BYTES.replace(b"index 6", b"extra AAA\nindex 6"), BYTES.replace(b"index 6", b"extra AA B\nindex 6"), b"c2sp.org/tlog-proof@v1\n\n" + NOTE,
    BYTES.replace(LINES[2].encode(), LINES[2].encode() + b"="), BYTES.replace(LINES[2].encode(), b"AAAA"), BYTES.replace(LINES[2].encode(), LINES[2].lower().encode() + b" "),
    BYTES.replace(b"index 6", b"index 6" + b"\n" + b"\n".join([LINES[2].encode()] * 70)), BYTES.replace(b"\n\n", b"\n", 1), BYTES.replace(b"\n\n", b"\n\n\n", 1),
    BYTES.replace(b"c2sp", "ç2sp".encode()), BYTES + b"x" * MAX_RECEIPT_BYTES,
    BYTES.replace(b"index 6", b"extra " + base64.b64encode(b"x" * (MAX_EXTRA_BYTES + 1)) + b"\nindex 6"), BYTES.replace(b"\n11\n", b"\n011\n"),
], ids=lambda data: repr(data[:50]))
def test_what_is_no_receipt_is_refused(data: bytes) -> None:
    assert refused(lambda: Receipt.parse(data)) in ("receipt_malformed", "note_malformed", "checkpoint_malformed")


def test_text_is_no_receipt() -> None:
    assert refused(lambda: Receipt.parse(BYTES.decode())) == "receipt_malformed"  # type: ignore[arg-type]


@pytest.mark.parametrize("made", [
    Receipt(-1, (), NOTE), Receipt(2**63, (), NOTE), Receipt(0, (b"x",), NOTE), Receipt(0, (b"x" * 32,) * 64, NOTE), Receipt(0, (), b""), Receipt(0, (), NOTE, b"x" * 65_537),
    Receipt(0, (), b"\n" + NOTE),
])
def test_parts_that_make_no_receipt_are_not_written(made: Receipt) -> None:
    with pytest.raises(ProofError):
        made.to_bytes()


@given(st.integers(0, 2**63 - 1), st.lists(st.binary(min_size=32, max_size=32), max_size=63), st.binary(max_size=100))
def test_what_is_written_reads_the_same(index: int, path: list[bytes], extra: bytes) -> None:
    made = Receipt(index, tuple(path), NOTE, extra)
    assert Receipt.parse(made.to_bytes()) == made


PIECES = st.sampled_from([b"c2sp.org/tlog-proof@v1", b"\n", b"\n\n", b"index 6", b"index ", b"6", b"extra AAAA", LINES[2].encode(), NOTE, NOTE[:40], BYTES, b"=", b"\xff"])


@settings(max_examples=120)
@given(st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=9).map(b"".join), st.tuples(st.integers(0, len(BYTES) - 1), st.integers(0, 255)).map(
    lambda change: BYTES[:change[0]] + bytes([change[1]]) + BYTES[change[0] + 1:])))
def test_any_bytes_are_refused_by_the_one_error_or_write_themselves_again(data: bytes) -> None:
    try:
        read = Receipt.parse(data)
    except ProofError as error:
        assert error.code in ("receipt_malformed", "note_malformed", "checkpoint_malformed")  # noqa: PT017 - or it is read
    else:
        assert read.to_bytes() == data
        if data != BYTES:
            assert refused(lambda: read.verify(DATA[6], PINNED)) in ("inclusion_invalid", "signature_invalid", "signature_missing", "origin_mismatch")
