"""The decoding rule against Macula's published vectors: accept or refuse, entry by entry."""

from __future__ import annotations

from typing import Any

import pytest
from mesh_vectors import needs_vectors, vectors

from rag_stdlib.contract.cbor import CborError, decode, encode

ENTRIES: list[dict[str, Any]] = dict(vectors("macula/decoding_rule_v1.json")).get("entries", [])

pytestmark = needs_vectors


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_each_entry_is_accepted_or_refused_as_published(entry: dict[str, Any]) -> None:
    data = bytes.fromhex(entry["cbor"])
    if entry["expect"] == "accept":
        assert encode(decode(encode(decode(data)))) == encode(decode(data))
    else:
        with pytest.raises(CborError):
            decode(data)


def test_all_54_entries_were_read() -> None:
    assert len(ENTRIES) == 54
    assert {entry["expect"] for entry in ENTRIES} == {"accept", "refuse"}
