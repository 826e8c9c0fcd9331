"""The file of an issuer's keys: its form, its rights, and processes that change it at once or die on the way."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from issuer_files import NOW, ROOT, SEED, public, refused, superseded, written

from rag_stdlib.proof.format import LONGEST_S
from rag_stdlib.proof.issuerkeys import (
    IssuerKey,
    IssuerKeys,
    load_issuer_keys,
    new_issuer_keys,
    retire_issuer_key,
    rotate_issuer_keys,
)
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.trust import Trust

CUT = "2026-12-01T12:00:00"


@pytest.mark.parametrize(("before", "changes"), [
    ((), {"schema": "v2"}), ((), {"extra": 1}), ((), {"name": ""}), ((), {"name": None}), ((), {"name": "x" * 201}), ((), {"signing": None}), ((), {"signing": []}),
    ((), {"keys": []}), ((), {"signing": {"seed": SEED}}), ((), {"signing": {"not_before": f"{CUT}Z"}}), ((), {"signing": {"seed": "A" * 44, "not_before": f"{CUT}Z"}}),
    ((), {"signing": {"seed": "*" * 44, "not_before": f"{CUT}Z"}}), ((), {"signing": {"seed": None, "not_before": f"{CUT}Z"}}),
    ((), {"signing": {"seed": SEED, "not_before": f"{CUT}Z", "not_after": None}}), ((), {"signing": {"seed": SEED, "not_before": "2026-02-30T00:00:00Z"}}),
    ((), {"signing": {"seed": SEED, "not_before": f"{CUT}+"}}), ((), {"signing": {"seed": SEED, "not_before": "1969-12-31T23:59:59Z"}}), ((), {"superseded": {}}), ((), {"superseded": None}),
    (({},), {}), (({**superseded(), "seed": SEED},), {}), (({**superseded(), "not_after": None},), {}), (({**superseded(), "public_key": "A" * 43 + "="},), {}),
    (({**superseded(), "public_key": "A" * 44},), {}), (({**superseded(), "public_key": base64.b64encode(b"\xff" * 32).decode()},), {}),
    ((superseded(1), superseded(1)), {}), (({**superseded(), "public_key": base64.b64encode(IssuerKey(bytes(range(32)), "").public).decode()},), {}),
    ((superseded(1, "2026-12-02T12:00:00Z", "2026-12-03T12:00:00Z"),), {}), ((superseded(1, "2026-11-02T12:00:00Z"), superseded(2, "2026-11-01T12:00:00Z")), {}),
    ((superseded(1, "2026-11-02T12:00:00Z", "2026-11-01T12:00:00Z"),), {}), (tuple(map(superseded, range(1, 65))), {}),
])
def test_a_file_with_other_members_is_refused(tmp_path: Path, before: tuple[dict[str, Any], ...], changes: dict[str, Any]) -> None:
    data = written(tmp_path / "keys", *before, **changes).read_bytes()
    key_id = "0" * 64
    for call in (lambda: load_issuer_keys(tmp_path / "keys"), lambda: rotate_issuer_keys(tmp_path / "keys", NOW), lambda: retire_issuer_key(tmp_path / "keys", key_id, NOW)):
        said = refused(call)
        assert said.startswith(f"file_foreign: {str(tmp_path / 'keys')!r} is no file of issuer keys")
        assert SEED not in said
    assert (tmp_path / "keys").read_bytes() == data


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"\xff", b"x" * 70_000, b"rag-stdlib/log-keys/v1\nsigning x\n"], ids=lambda data: repr(data[:20]))
def test_what_is_no_such_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "keys").write_bytes(data)
    (tmp_path / "keys").chmod(0o600)
    assert refused(lambda: load_issuer_keys(tmp_path / "keys")).startswith("file_foreign: ")
    assert refused(lambda: rotate_issuer_keys(tmp_path / "keys", NOW)).startswith("file_foreign: ")
    assert (tmp_path / "keys").read_bytes() == data


def test_a_file_that_was_written_by_hand_is_read(tmp_path: Path) -> None:
    keys = load_issuer_keys(written(tmp_path / "keys", superseded(1), superseded(2)))
    assert [key.not_after for key in keys.keys] == ["2026-12-01T12:00:00Z", "2026-12-01T12:00:00Z", None]
    assert (keys.signing.seed, [key.seed for key in keys.keys[:-1]]) == (bytes(range(32)), [None, None])
    assert [base64.b64encode(key.public).decode() for key in keys.keys[:-1]] == [public(1), public(2)]


def test_a_file_of_others_is_refused(tmp_path: Path) -> None:
    key_id = new_issuer_keys(tmp_path / "keys", "acme", NOW).signing.key_id
    before = (tmp_path / "keys").read_bytes()
    calls = (lambda: load_issuer_keys(tmp_path / "keys"), lambda: rotate_issuer_keys(tmp_path / "keys", NOW), lambda: retire_issuer_key(tmp_path / "keys", key_id, NOW))
    for mode in (0o640, 0o604, 0o620, 0o601):
        (tmp_path / "keys").chmod(mode)
        for call in calls:
            said = refused(call)
            assert said.startswith("file_unsafe: ")
            assert "chmod 600" in said
    (tmp_path / "keys").rename(tmp_path / "real")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / "keys").symlink_to(tmp_path / "real")
    assert all(refused(call).startswith("file_unsafe: ") for call in calls)
    (tmp_path / "keys").unlink()
    assert all(refused(call).startswith("missing: ") for call in calls)
    assert (tmp_path / "real").read_bytes() == before


def test_a_changed_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        new_issuer_keys(tmp_path / "keys", "acme", NOW)
        old = rotate_issuer_keys(tmp_path / "keys", NOW).keys[0]
        assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
        retire_issuer_key(tmp_path / "keys", old.key_id, NOW)
        assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_a_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    keys = new_issuer_keys(tmp_path / "keys", "\U0001f511" * 200, NOW)
    for day in range(1, 64):
        keys = rotate_issuer_keys(tmp_path / "keys", NOW + timedelta(days=day))
    assert isinstance(keys, IssuerKeys)
    assert load_issuer_keys(tmp_path / "keys") == keys
    assert len(keys.keys) == 64
    with pytest.raises(LogError, match="begin a new one"):
        rotate_issuer_keys(tmp_path / "keys", NOW + timedelta(days=64))


def test_of_a_full_file_the_oldest_key_is_taken_out_whose_certificates_have_all_expired(tmp_path: Path) -> None:
    dated = [superseded(number, "2025-01-01T00:00:00Z", f"2025-{2 if number % 2 else 3:02}-01T00:00:00Z") for number in range(1, 64)]
    path = written(tmp_path / "keys", *dated)
    over = datetime(2025, 2, 1, tzinfo=timezone.utc) + timedelta(seconds=LONGEST_S)
    assert over < NOW
    first, second, third, *_ = load_issuer_keys(path).keys
    keys = rotate_issuer_keys(path, NOW).keys
    assert (len(keys), keys[:2]) == (64, (second, third))
    assert rotate_issuer_keys(path, NOW + timedelta(seconds=1)).keys[:1] == (third,)
    assert load_issuer_keys(path).keys[0] == third
    assert first not in keys


def test_a_key_in_a_full_file_is_kept_as_long_as_a_certificate_by_it_may_be_good(tmp_path: Path) -> None:
    path = written(tmp_path / "keys", *(superseded(number) for number in range(1, 64)))
    until = NOW + timedelta(seconds=LONGEST_S)  # when its last certificate expires
    for now in (NOW, until - timedelta(seconds=1)):
        assert refused(lambda now=now: rotate_issuer_keys(path, now)).startswith("disk_full: ")  # type: ignore[misc]
    before = load_issuer_keys(path).keys
    assert rotate_issuer_keys(path, until).keys[:-2] == before[1:-1]


def test_a_clock_that_is_years_ahead_for_once_takes_no_key_out_of_a_file_with_room(tmp_path: Path) -> None:
    path = written(tmp_path / "keys", *(superseded(number) for number in range(1, 62)))
    before = load_issuer_keys(path).keys
    assert rotate_issuer_keys(path, NOW + timedelta(days=4_000)).keys[:-2] == before[:-1]
    assert [key.public for key in load_issuer_keys(path).keys[:-1]] == [key.public for key in before]


DYING = """
import os, sys
from datetime import datetime, timezone
from pathlib import Path
from rag_stdlib.proof.issuerkeys import rotate_issuer_keys
from rag_stdlib.proof.log import privatefile
owner, name, after = {"write": (os, "fsync", False), "rename": (Path, "replace", False), "done": (Path, "replace", True)}[sys.argv[2]]
real = getattr(owner, name)
def dying(*given):
    if after:
        real(*given)
    os._exit(9)
setattr(owner, name, dying)
rotate_issuer_keys(sys.argv[1], datetime(2026, 12, 2, tzinfo=timezone.utc))
"""


@pytest.mark.parametrize(("at", "count"), [("write", 1), ("rename", 1), ("done", 2)])
def test_a_process_that_dies_while_it_rotates_leaves_the_old_keys_or_the_new_ones(tmp_path: Path, at: str, count: int) -> None:
    made = new_issuer_keys(tmp_path / "keys", "acme", NOW)
    assert subprocess.run([sys.executable, "-c", DYING, str(tmp_path / "keys"), at], cwd=ROOT, timeout=60, check=False).returncode == 9
    keys = load_issuer_keys(tmp_path / "keys")
    assert (len(keys.keys), keys.keys[0].public) == (count, made.signing.public)
    keys.signing.private.public_key().verify(keys.signing.private.sign(b"x"), b"x")
    assert len(rotate_issuer_keys(tmp_path / "keys", NOW + timedelta(days=2)).keys) == count + 1


READING = """
import sys
from rag_stdlib.proof.issuerkeys import load_issuer_keys
print("ready", flush=True)
while True:
    keys = load_issuer_keys(sys.argv[1])
    assert [key.seed is None for key in keys.keys] == [True] * (len(keys.keys) - 1) + [False]
    assert keys.signing.not_after is None and keys.signing.private.sign(b"x")
    if len(keys.keys) == 64:
        break
"""


def test_two_processes_that_read_while_a_third_rotates_always_find_one_key_that_signs(tmp_path: Path) -> None:
    new_issuer_keys(tmp_path / "keys", "acme", NOW)
    children = [subprocess.Popen([sys.executable, "-c", READING, str(tmp_path / "keys")], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for day in range(1, 64):
            rotate_issuer_keys(tmp_path / "keys", NOW + timedelta(days=day))
        assert [child.wait(60) for child in children] == [0, 0]
    finally:
        for child in children:
            child.kill()
            child.communicate()


def test_processes_that_rotate_at_once_lose_no_key(tmp_path: Path) -> None:
    new_issuer_keys(tmp_path / "keys", "acme", NOW)
    program = ("import sys\nfrom datetime import datetime, timezone\nfrom rag_stdlib.proof.issuerkeys import rotate_issuer_keys\n"
               "for _ in range(5): rotate_issuer_keys(sys.argv[1], datetime(2027, 1, 1, tzinfo=timezone.utc))")
    children = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "keys")], cwd=ROOT) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert len(load_issuer_keys(tmp_path / "keys").keys) == 16
    assert [file.name for file in tmp_path.iterdir()] == ["keys"]


STEP = st.tuples(st.sampled_from(["rotate", "retire", "compromised"]), st.integers(-3_600, 40 * 86_400), st.integers(0, 100 * 86_400), st.integers(0, 5))


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=12))
def test_any_sequence_of_changes_keeps_one_key_that_signs_and_the_times_in_order(steps: list[tuple[str, int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, now = Path(folder, "keys"), NOW
        keys = new_issuer_keys(path, "acme", now)
        for what, passes, overlap_s, place in steps:
            now += timedelta(seconds=passes)
            one = keys.keys[place % len(keys.keys)]
            before = path.read_bytes()
            try:
                after = (rotate_issuer_keys(path, now, overlap_s) if what == "rotate"
                         else retire_issuer_key(path, one.key_id, now, compromised=what == "compromised"))
            except (LogError, ValueError):
                assert path.read_bytes() == before
                continue
            assert load_issuer_keys(path) == after
            if what == "rotate":
                assert [key.public for key in after.keys[:-1]] == [key.public for key in keys.keys]
            else:
                assert one != keys.signing == after.signing
            assert (one.key_id in {key.key_id for key in after.keys}) is (what != "compromised")
            for old, new in zip(keys.keys, after.keys, strict=False):
                assert what == "compromised" or old.not_after is None or (new.not_after is not None and new.not_after <= old.not_after), "no key's time is made longer"
            keys = after
            assert [key.seed is None for key in keys.keys] == [True] * (len(keys.keys) - 1) + [False]
            assert [key.not_after is None for key in keys.keys] == [key.seed is not None for key in keys.keys]
            assert path.read_text().count("seed") == 1
            assert all(earlier.not_before <= later.not_before for earlier, later in pairwise(keys.keys))
            assert all(key.not_before <= (key.not_after or key.not_before) for key in keys.keys)
            assert Trust.from_json({"issuers": keys.trusted()}).issuers.keys() == {key.key_id for key in keys.keys}
