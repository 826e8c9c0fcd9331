"""Keys of an issuer on disk: their owner's alone, and exchanged with overlap."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib.proof.issuerkeys import IssuerKeys, load_issuer_keys, new_issuer_keys, rotate_issuer_keys
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.trust import Trust

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=timezone.utc)


def test_a_new_file_holds_one_key_that_its_owner_alone_may_read(tmp_path: Path) -> None:
    made = new_issuer_keys(tmp_path / "keys", "acme", NOW)
    assert load_issuer_keys(tmp_path / "keys") == made
    assert (made.name, len(made.keys), made.signing.not_before, made.signing.not_after) == ("acme", 1, "2026-12-01T12:00:00Z", None)
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    assert made.signing.seed.hex() not in repr(made)
    with pytest.raises(LogError, match="already") as caught:
        new_issuer_keys(tmp_path / "keys", "acme", NOW)
    assert caught.value.code == "exists"


def test_rotating_adds_a_key_and_the_old_one_is_believed_for_the_overlap(tmp_path: Path) -> None:
    first = new_issuer_keys(tmp_path / "keys", "acme", NOW)
    later = NOW + timedelta(days=30)
    second = rotate_issuer_keys(tmp_path / "keys", later, overlap_s=3_600)
    assert load_issuer_keys(tmp_path / "keys") == second
    assert [key.key_id for key in second.keys] == [first.signing.key_id, second.signing.key_id]
    assert (second.keys[0].not_after, second.signing.not_before) == ("2026-12-31T13:00:00Z", "2026-12-31T12:00:00Z")
    trust = Trust.from_json({"issuers": second.trusted()})
    old, new = trust.issuers[first.signing.key_id], trust.issuers[second.signing.key_id]
    assert [old.is_valid(at) for at in ("2026-12-01T11:59:59Z", "2026-12-01T12:00:00Z", "2026-12-31T12:59:59Z", "2026-12-31T13:00:00Z")] == [False, True, True, False]
    assert [new.is_valid(at) for at in ("2026-12-31T11:59:59Z", "2026-12-31T12:00:00Z", "2999-01-01T00:00:00Z")] == [False, True, True]


def test_a_signature_by_the_key_of_the_file_is_one_by_its_public_half(tmp_path: Path) -> None:
    key = new_issuer_keys(tmp_path / "keys", "acme", NOW).signing
    key.private.public_key().verify(key.private.sign(b"x"), b"x")
    assert key.public == key.private.public_key().public_bytes_raw()


@pytest.mark.parametrize("name", ["", "x" * 201, "\ud800"])
def test_a_name_that_no_certificate_can_bear_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="1 to 200"):
        new_issuer_keys(tmp_path / "keys", name, NOW)
    assert not (tmp_path / "keys").exists()


def test_an_overlap_goes_forward(tmp_path: Path) -> None:
    made = new_issuer_keys(tmp_path / "keys", "acme", NOW)
    with pytest.raises(ValueError, match="overlap"):
        rotate_issuer_keys(tmp_path / "keys", NOW, overlap_s=-1)
    assert load_issuer_keys(tmp_path / "keys") == made


def damaged(change: Any) -> bytes:
    given = {"schema": "rag-stdlib/issuer-keys/v1", "name": "acme", "keys": [{"seed": "A" * 43 + "=", "not_before": "2026-12-01T12:00:00Z", "not_after": None}]}
    change(given)
    return json.dumps(given).encode()


@pytest.mark.parametrize("data", [
    b"", b"{}", b"[]", b"\xff", damaged(lambda keys: keys.update(keys=[])), damaged(lambda keys: keys.update(extra=1)), damaged(lambda keys: keys.pop("name")),
    damaged(lambda keys: keys["keys"][0].update(seed="A" * 44)), damaged(lambda keys: keys["keys"][0].update(seed="*" * 44)),
    damaged(lambda keys: keys["keys"][0].update(not_before="2026-02-30T00:00:00Z")), damaged(lambda keys: keys.update(schema="v2")),
])
def test_what_is_no_such_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "keys").write_bytes(data)
    (tmp_path / "keys").chmod(0o600)
    with pytest.raises(LogError, match="no file of issuer keys") as caught:
        load_issuer_keys(tmp_path / "keys")
    assert caught.value.code == "file_foreign"
    with pytest.raises(LogError):
        rotate_issuer_keys(tmp_path / "keys", NOW)
    assert (tmp_path / "keys").read_bytes() == data


def test_a_file_of_others_is_refused(tmp_path: Path) -> None:
    new_issuer_keys(tmp_path / "keys", "acme", NOW)
    (tmp_path / "keys").chmod(0o640)
    with pytest.raises(LogError, match="chmod 600"):
        load_issuer_keys(tmp_path / "keys")


def test_a_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    keys = new_issuer_keys(tmp_path / "keys", "acme", NOW)
    for day in range(1, 64):
        keys = rotate_issuer_keys(tmp_path / "keys", NOW + timedelta(days=day))
    assert isinstance(keys, IssuerKeys)
    assert len(keys.keys) == 64
    with pytest.raises(LogError, match="begin a new one"):
        rotate_issuer_keys(tmp_path / "keys", NOW)
