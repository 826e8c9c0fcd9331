"""Checkpoints: three lines, read one way only."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signed import ORIGIN, head, refused

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.merkle import EMPTY_ROOT, MAX_SIZE

ROOT = base64.b64encode(EMPTY_ROOT).decode()


def test_a_checkpoint_is_origin_size_and_root() -> None:
    made = Checkpoint("example.com/behind-the-sofa", 20852163, base64.b64decode("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="))
    assert made.text() == "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    assert Checkpoint.parse(made.text()) == made
    assert Checkpoint.parse(head(7).text()) == head(7)


@pytest.mark.parametrize("text", [
    "", "\n", "\n\n\n", f"{ORIGIN}\n0\n{ROOT}", f"{ORIGIN}\n0\n{ROOT}\n\n", f"{ORIGIN}\n0\n{ROOT}\nextension\n", f"\n0\n{ROOT}\n", f"{ORIGIN}\n0\n",
    f"{ORIGIN}\n00\n{ROOT}\n", f"{ORIGIN}\n01\n{ROOT}\n", f"{ORIGIN}\n+1\n{ROOT}\n", f"{ORIGIN}\n-1\n{ROOT}\n", f"{ORIGIN}\n1 \n{ROOT}\n", f"{ORIGIN}\n1_0\n{ROOT}\n",
    f"{ORIGIN}\n\u0661\n{ROOT}\n", f"{ORIGIN}\n\n{ROOT}\n", f"{ORIGIN}\n{2**63}\n{ROOT}\n", f"{ORIGIN}\n{10**400}\n{ROOT}\n", f"{ORIGIN}\n0x1\n{ROOT}\n",
    f"{ORIGIN}\n0\n{ROOT[:-1]}\n", f"{ORIGIN}\n0\n {ROOT}\n", f"{ORIGIN}\n0\n{ROOT}=\n", f"{ORIGIN}\n0\n{ROOT.replace('/', '_')}\n", f"{ORIGIN}\n0\nAAAA\n",
    f"{ORIGIN}\n0\n{ROOT[:-2]}V=\n", f"{ORIGIN}\n0\n{ROOT}\r\n", f"{'x' * 256}\n0\n{ROOT}\n", f"{'é' * 128}\n0\n{ROOT}\n", f"a\tb\n0\n{ROOT}\n", f"\ud800\n0\n{ROOT}\n",
    f"{ORIGIN}\n0\n{ROOT}\n" * 2, "x" * 100_000,
], ids=lambda text: repr(text[:60]))
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    assert refused(lambda: Checkpoint.parse(text)) == "checkpoint_malformed"


@pytest.mark.parametrize(("size", "root"), [(-1, EMPTY_ROOT), (2**63, EMPTY_ROOT), (True, EMPTY_ROOT), (1.0, EMPTY_ROOT), (1, b""), (1, EMPTY_ROOT + b"\0"), (1, "x" * 32)])
def test_parts_that_no_checkpoint_has(size: Any, root: Any) -> None:
    assert refused(lambda: Checkpoint(ORIGIN, size, root)) == "checkpoint_malformed"


ORIGINS = st.text(st.characters(codec="utf-8", exclude_characters=[chr(code) for code in range(32)]), min_size=1, max_size=63)


@given(ORIGINS, st.integers(0, MAX_SIZE), st.binary(min_size=32, max_size=32))
def test_what_is_written_reads_the_same(origin: str, size: int, root: bytes) -> None:
    made = Checkpoint(origin, size, root)
    assert Checkpoint.parse(made.text()) == made


@given(st.one_of(st.text(max_size=90), st.lists(st.sampled_from([ORIGIN, "\n", "0", "1", ROOT, "=", " ", "\u0661"]), max_size=10).map("".join)))
def test_any_text_writes_itself_again_or_is_refused(text: str) -> None:
    try:
        read = Checkpoint.parse(text)
    except ProofError as error:
        assert error.code == "checkpoint_malformed"  # noqa: PT017 - or it is read
    else:
        assert read.text() == text
