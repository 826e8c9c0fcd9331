"""Keys of an issuer on disk: their owner's alone, exchanged with overlap, and without the secrets of those that sign no more."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta, timezone
from pathlib import Path

import certified
import pytest
from issuer_files import NOW, public, refused, superseded, written

from rag_stdlib.proof.certificate import LIFETIME_S, make_body, sign
from rag_stdlib.proof.issuerkeys import (
    OVERLAP_S,
    load_issuer_keys,
    new_issuer_keys,
    retire_issuer_key,
    rotate_issuer_keys,
)
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.policy import Policy
from rag_stdlib.proof.trust import Trust
from rag_stdlib.proof.verify import verify


def test_a_new_file_holds_one_key_that_its_owner_alone_may_read(tmp_path: Path) -> None:
    made = new_issuer_keys(tmp_path / "keys", "acme", NOW)
    assert load_issuer_keys(tmp_path / "keys") == made
    assert (made.name, len(made.keys), made.signing.not_before, made.signing.not_after) == ("acme", 1, "2026-12-01T12:00:00Z", None)
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    assert made.signing.seed is not None
    assert made.signing.seed.hex() not in repr(made)
    assert str(made.signing.seed) not in repr(made)
    with pytest.raises(LogError, match="already") as caught:
        new_issuer_keys(tmp_path / "keys", "acme", NOW)
    assert caught.value.code == "exists"


def test_rotating_adds_a_key_and_the_old_one_is_believed_for_the_overlap(tmp_path: Path) -> None:
    first = new_issuer_keys(tmp_path / "keys", "acme", NOW)
    later = NOW + timedelta(days=30)
    second = rotate_issuer_keys(tmp_path / "keys", later, overlap_s=3_600)
    assert load_issuer_keys(tmp_path / "keys") == second
    assert [key.key_id for key in second.keys] == [first.signing.key_id, second.signing.key_id]
    assert (second.keys[0].not_after, second.signing.not_before) == ("2026-12-31T13:00:01Z", "2026-12-31T12:00:00Z")
    trust = Trust.from_json({"issuers": second.trusted()})
    old, new = trust.issuers[first.signing.key_id], trust.issuers[second.signing.key_id]
    assert [old.is_valid(at) for at in ("2026-12-01T11:59:59Z", "2026-12-01T12:00:00Z", "2026-12-31T13:00:00Z", "2026-12-31T13:00:01Z")] == [False, True, True, False]
    assert [new.is_valid(at) for at in ("2026-12-31T11:59:59Z", "2026-12-31T12:00:00Z", "2999-01-01T00:00:00Z")] == [False, True, True]


def test_the_secret_of_a_superseded_key_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    first = new_issuer_keys(path, "acme", NOW).signing
    assert first.seed is not None
    secret = base64.b64encode(first.seed).decode()
    assert secret in path.read_text()
    old = rotate_issuer_keys(path, NOW).keys[0]
    assert secret not in path.read_text()
    assert path.read_text().count('"seed"') == 1
    assert (old.seed, old.public, old.key_id) == (None, first.public, first.key_id)
    assert refused(lambda: old.private) == (f"key_unknown: the secret of the key {first.key_id} was forgotten when another key took its place; "
                                            "only the last key of an issuer signs")
    assert [file.name for file in tmp_path.iterdir()] == ["keys"]


def test_without_another_word_an_old_key_is_believed_for_as_long_as_certificates_last(tmp_path: Path) -> None:
    new_issuer_keys(tmp_path / "keys", "acme", NOW)
    assert OVERLAP_S == LIFETIME_S == 90 * 86_400
    assert rotate_issuer_keys(tmp_path / "keys", NOW).keys[0].not_after == "2027-03-01T12:00:01Z"


@pytest.mark.parametrize("milliseconds", [0, 1, 200, 700, 999])
@pytest.mark.parametrize("retired", [False, True])
def test_what_was_issued_within_the_second_in_which_a_key_ends_is_believed(tmp_path: Path, milliseconds: int, retired: bool) -> None:
    now = NOW + timedelta(milliseconds=milliseconds)
    old = new_issuer_keys(tmp_path / "keys", "acme", NOW).signing
    keys = rotate_issuer_keys(tmp_path / "keys", now, overlap_s=3_600 if retired else 0)
    if retired:
        keys = retire_issuer_key(tmp_path / "keys", old.key_id, now)
    assert (keys.keys[0].not_after, keys.signing.not_before) == ("2026-12-01T12:00:01Z", "2026-12-01T12:00:00Z")
    envelope = sign(make_body(certified.draft(), "acme", old.public, now=now, salt=certified.SALT), old.private)
    trust = Trust.from_json({"issuers": keys.trusted()})
    verdict = verify(certified.as_bytes(envelope), trust, Policy(require_log=False), certified.QUESTION, now=now)
    assert verdict, getattr(verdict, "code", "")


def test_a_signature_by_the_key_of_the_file_is_one_by_its_public_half(tmp_path: Path) -> None:
    key = new_issuer_keys(tmp_path / "keys", "acme", NOW).signing
    key.private.public_key().verify(key.private.sign(b"x"), b"x")
    assert key.public == key.private.public_key().public_bytes_raw()


@pytest.mark.parametrize("name", ["", "x" * 201, "\ud800"])
def test_a_name_that_no_certificate_can_bear_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="1 to 200"):
        new_issuer_keys(tmp_path / "keys", name, NOW)
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("name", ["x" * 200, "\U0001f511" * 200, '"\\\n\0', "schema", " "])
def test_every_name_that_a_certificate_can_bear_is_kept(tmp_path: Path, name: str) -> None:
    new_issuer_keys(tmp_path / "keys", name, NOW)
    rotate_issuer_keys(tmp_path / "keys", NOW)
    assert load_issuer_keys(tmp_path / "keys").name == name


@pytest.mark.parametrize("now", [datetime(1969, 12, 31, tzinfo=timezone.utc), datetime(999, 1, 1, tzinfo=timezone.utc),
                                 datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))])
def test_a_time_that_no_certificate_can_state_is_refused(tmp_path: Path, now: datetime) -> None:
    with pytest.raises(ValueError, match=r"no certificate can state the time .*; set the clock right"):
        new_issuer_keys(tmp_path / "new", "acme", now)
    assert not (tmp_path / "new").exists()
    path = written(tmp_path / "keys", superseded(1, ends="2027-12-01T12:00:00Z"))
    before = path.read_bytes()
    for call in (lambda: rotate_issuer_keys(path, now), lambda: retire_issuer_key(path, load_issuer_keys(path).keys[0].key_id, now)):
        with pytest.raises(ValueError, match="set the clock right"):
            call()
    assert path.read_bytes() == before


def test_a_time_needs_its_zone_and_any_zone_will_do(tmp_path: Path) -> None:
    for call in (lambda: new_issuer_keys(tmp_path / "keys", "acme", NOW.replace(tzinfo=None)), lambda: rotate_issuer_keys(tmp_path / "keys", NOW.replace(tzinfo=None))):
        with pytest.raises(ValueError, match="needs its zone"):
            call()
    made = new_issuer_keys(tmp_path / "keys", "acme", NOW.astimezone(timezone(timedelta(hours=-9))))
    assert made.signing.not_before == "2026-12-01T12:00:00Z"


@pytest.mark.parametrize(("overlap_s", "said"), [(-1, "from 0 on"), (10**12, "later than a time can be written"), (10**30, "later than"), (8_000 * 366 * 86_400, "later than")])
def test_an_overlap_goes_forward_and_ends(tmp_path: Path, overlap_s: int, said: str) -> None:
    made = new_issuer_keys(tmp_path / "keys", "acme", NOW)
    with pytest.raises(ValueError, match=f"overlap.*{said}"):
        rotate_issuer_keys(tmp_path / "keys", NOW, overlap_s=overlap_s)
    assert load_issuer_keys(tmp_path / "keys") == made


def test_a_clock_that_was_set_back_rotates_nothing(tmp_path: Path) -> None:
    made = new_issuer_keys(tmp_path / "keys", "acme", NOW)
    with pytest.raises(ValueError, match="it is 2026-12-01T11:59:59Z by the clock, and the key that signs began at 2026-12-01T12:00:00Z; set the clock right"):
        rotate_issuer_keys(tmp_path / "keys", NOW - timedelta(seconds=1))
    assert load_issuer_keys(tmp_path / "keys") == made


class TestRetirement:
    """`retire_issuer_key`."""

    def test_a_superseded_key_ends_now(self, tmp_path: Path) -> None:
        new_issuer_keys(tmp_path / "keys", "acme", NOW)
        before = rotate_issuer_keys(tmp_path / "keys", NOW + timedelta(days=1))
        after = retire_issuer_key(tmp_path / "keys", before.keys[0].key_id, NOW + timedelta(days=2))
        assert after == load_issuer_keys(tmp_path / "keys")
        assert (after.keys[0].not_after, after.keys[0].public, after.signing) == ("2026-12-03T12:00:01Z", before.keys[0].public, before.signing)

    def test_a_key_that_ended_stays_as_it_is(self, tmp_path: Path) -> None:
        path = written(tmp_path / "keys", superseded(1))
        before, (old, _) = path.read_bytes(), load_issuer_keys(path).keys
        for now in (NOW - timedelta(seconds=1), NOW, NOW + timedelta(days=900)):
            assert refused(lambda now=now: retire_issuer_key(path, old.key_id, now)) == (  # type: ignore[misc]
                f"key_unknown: the key {old.key_id} of acme ended at 2026-12-01T12:00:00Z; it is left as it is")
        assert path.read_bytes() == before
        assert retire_issuer_key(path, old.key_id, NOW - timedelta(seconds=2)).keys[0].not_after == "2026-12-01T11:59:59Z"

    def test_with_a_clock_that_was_set_back_it_ends_where_it_began(self, tmp_path: Path) -> None:
        path = written(tmp_path / "keys", superseded(1))
        old = retire_issuer_key(path, load_issuer_keys(path).keys[0].key_id, NOW - timedelta(days=300)).keys[0]
        assert old.not_after == old.not_before == "2026-11-01T12:00:00Z"
        assert load_issuer_keys(path).keys[0] == old

    @pytest.mark.parametrize("compromised", [False, True])
    def test_the_key_that_signs_stays(self, tmp_path: Path, compromised: bool) -> None:
        path = written(tmp_path / "keys", superseded(1))
        before, signing = path.read_bytes(), load_issuer_keys(path).signing
        assert refused(lambda: retire_issuer_key(path, signing.key_id, NOW, compromised=compromised)) == (
            f"key_unknown: the key {signing.key_id} signs for acme; rotate first")
        assert path.read_bytes() == before

    def test_a_key_that_got_into_other_hands_is_forgotten(self, tmp_path: Path) -> None:
        path = written(tmp_path / "keys", superseded(1), superseded(2), superseded(3))
        first, stolen, third, signing = load_issuer_keys(path).keys
        after = retire_issuer_key(path, stolen.key_id, NOW, compromised=True)
        assert after.keys == (first, third, signing)
        assert load_issuer_keys(path) == after
        assert public(2) not in path.read_text()
        assert [entry["public_key"] for entry in after.trusted()] == [public(1), public(3), base64.b64encode(signing.public).decode()]
        assert refused(lambda: retire_issuer_key(path, stolen.key_id, NOW, compromised=True)).endswith("; name one of those in its file")

    def test_a_key_is_named_by_the_beginning_of_its_id(self, tmp_path: Path) -> None:
        path = written(tmp_path / "keys", superseded(1), superseded(2))
        first, second, _ = load_issuer_keys(path).keys
        retire_issuer_key(path, second.key_id[:8].upper(), NOW, compromised=True)
        retire_issuer_key(path, first.key_id[:9], NOW, compromised=True)
        assert len(load_issuer_keys(path).keys) == 1

    def test_a_beginning_of_two_ids_names_neither(self, tmp_path: Path) -> None:
        path = written(tmp_path / "keys", superseded(45_008, ends="2027-01-01T00:00:00Z"), superseded(95_693))  # their ids begin alike
        first, second, _ = load_issuer_keys(path).keys
        assert first.key_id[:8] == second.key_id[:8]
        assert refused(lambda: retire_issuer_key(path, first.key_id[:8], NOW)) == (
            f"key_unknown: 2 keys of acme have an id that begins with {first.key_id[:8]}; give more of it")
        assert retire_issuer_key(path, first.key_id[:9], NOW).keys[0].not_after == "2026-12-01T12:00:01Z"

    @pytest.mark.parametrize("key_id", ["", "0", "0123456", "0" * 65, "g" * 8, "01234567\n", "\u0661" * 8, "\ud800" * 8, "x" * 10_000])
    def test_what_is_no_id_names_no_key(self, tmp_path: Path, key_id: str) -> None:
        path = written(tmp_path / "keys", superseded(1))
        said = refused(lambda: retire_issuer_key(path, key_id, NOW))
        assert said.startswith("key_unknown: ")
        assert said.endswith(" names no key of an issuer; give the 64 hex digits of its id, or at least the first 8")
        assert len(said) < 200

    def test_an_id_of_no_key_is_told(self, tmp_path: Path) -> None:
        path = written(tmp_path / "keys", superseded(1))
        for key_id in ("0" * 8, "0" * 64):
            assert refused(lambda key_id=key_id: retire_issuer_key(path, key_id, NOW)) == (  # type: ignore[misc]
                f"key_unknown: acme has no key with the id {key_id}; name one of those in its file")
