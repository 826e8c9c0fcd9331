"""The provenance of an item: whatever is said of a chunk, what is made of it is of the format, or there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import certified
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.provenance import fitting
from rag_stdlib.proof.trust import Issuer, Trust
from rag_stdlib.proof.verify import verify

WHOLE = {"kind": "corpus", "path": "a.md", "repo_id": "acme/policy", "commit": "c" * 40, "start_line": 3, "end_line": 5}
LINES = st.one_of(st.none(), st.integers(-2, 4), st.sampled_from([2**53, True, 1.0, "1"]))


def test_what_fits_is_kept_and_nothing_else() -> None:
    assert fitting({**WHOLE, "another": 1}) == WHOLE
    assert fitting({"kind": "deposit", "path": ""}) == {"kind": "deposit", "path": "", "repo_id": None, "commit": None, "start_line": None, "end_line": None}


@pytest.mark.parametrize("given", [
    None, 1, "corpus", [], {}, {"kind": "corpus"}, {**WHOLE, "kind": "other"}, {**WHOLE, "path": "x" * 4_097}, {**WHOLE, "path": None}, {**WHOLE, "commit": "c"},
    {**WHOLE, "start_line": 6}, {**WHOLE, "start_line": None}, {**WHOLE, "end_line": None}, {**WHOLE, "end_line": -1}, {**WHOLE, "start_line": True}])
def test_what_does_not_fit_is_none(given: Any) -> None:
    assert fitting(given) is None


@given(first=LINES, last=LINES)
def test_what_is_made_is_certified(first: Any, last: Any) -> None:
    made = fitting({**WHOLE, "start_line": first, "end_line": last})
    one, other = certified.draft().retrieval.items
    found = replace(certified.draft().retrieval, items=(replace(one, provenance=made), other))
    trust = Trust.of([Issuer(certified.ISSUER, certified.PUBLIC)])
    verdict = verify(certified.as_bytes(certified.envelope(retrieval=found)), trust, Policy(require_log=False), certified.QUESTION, now=certified.NOW)
    assert verdict, getattr(verdict, "code", "")
