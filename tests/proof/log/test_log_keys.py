"""Key files of logs and witnesses: their owner's alone, exchanged with overlap, and never lost by two who change them at once."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signed import NOW, ORIGIN, refused, signer

from rag_stdlib.proof.log import privatefile
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.logkeys import (
    LOG_KINDS,
    WITNESS_KINDS,
    LogKeys,
    load_keys,
    new_keys,
    retire,
    rotate,
)
from rag_stdlib.proof.log.notes import sign_note
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.store import Log


@pytest.fixture
def file(tmp_path: Path) -> Path:
    new_keys(tmp_path / "log.keys", ORIGIN)
    return tmp_path / "log.keys"


def test_new_keys_are_loaded_again_and_only_their_owner_may_read_them(file: Path) -> None:
    keys = load_keys(file)
    assert (keys.name, [key.kind for key in keys.signing], keys.retired) == (ORIGIN, [1], ())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == f"rag-stdlib/log-keys/v1\nsigning {keys.signers[0].private_text()}\n"
    assert [path.name for path in file.parent.iterdir()] == ["log.keys"]


def test_a_witness_has_a_key_of_either_kind(tmp_path: Path) -> None:
    made = new_keys(tmp_path / "witness.keys", "witness.example/w1", WITNESS_KINDS)
    assert [key.kind for key in made.signing] == [4, 6]
    assert load_keys(tmp_path / "witness.keys").signing == made.signing
    assert [key.kind for key in rotate(tmp_path / "witness.keys").signing] == [4, 6, 4, 6]


def test_nothing_is_written_over(file: Path) -> None:
    before = file.read_bytes()
    assert refused(lambda: new_keys(file, ORIGIN)) == "exists"
    assert file.read_bytes() == before


def test_the_longest_name_that_a_file_can_have_will_do(tmp_path: Path) -> None:
    path = tmp_path / ("k" * 255)
    new_keys(path, ORIGIN)
    assert len(rotate(path).signers) == 2


def test_a_file_shows_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "log.keys", []
    sync = os.fsync

    def looking(handle: int) -> None:
        seen.append(path.exists())
        sync(handle)

    monkeypatch.setattr(os, "fsync", looking)
    new_keys(path, ORIGIN)
    assert seen[0] is False
    assert path.stat().st_nlink == 1


def test_of_those_who_make_a_file_at_once_one_does(tmp_path: Path) -> None:
    said: list[str] = []

    def make() -> None:
        try:
            privatefile.create_private(tmp_path / "file", b"x" * 10_000)
            said.append("made")
        except LogError as error:
            said.append(error.code)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == ["exists"] * 7 + ["made"]
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_keys_are_exchanged_with_overlap(file: Path) -> None:
    old = load_keys(file).signing
    both = rotate(file).signing
    assert (both[0], len(both)) == (old[0], 2)
    new = retire(file, old[0].key_id.hex())
    assert (new.signing, new.retired) == (both[1:], old)
    assert load_keys(file).verifiers == (*old, *both[1:])
    assert b"signing PRIVATE+KEY+" in file.read_bytes()
    assert file.read_bytes().count(b"PRIVATE") == 1, "the secret of the old key is gone"
    assert [path.name for path in file.parent.iterdir()] == ["log.keys"]


def test_clients_of_either_key_go_on_during_the_overlap(file: Path) -> None:
    text = f"{ORIGIN}\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"
    old = load_keys(file).signing
    for keys in (load_keys(file), rotate(file)):
        assert PinnedLog(ORIGIN, old).open(sign_note(text, keys.signers, NOW)).checkpoint.size == 0
    assert PinnedLog(ORIGIN, keys.signing[1:]).open(sign_note(text, keys.signers, NOW)).checkpoint.size == 0
    after = sign_note(text, retire(file, old[0].key_id.hex()).signers, NOW)
    assert refused(lambda: PinnedLog(ORIGIN, old).open(after)) == "signature_missing"
    assert PinnedLog(ORIGIN, (*old, *load_keys(file).signing)).open(after).checkpoint.size == 0


def said(call: Callable[[], object]) -> str:
    """Return what is said of a key that cannot be retired."""
    with pytest.raises(LogError) as caught:
        call()
    assert caught.value.code == "key_unknown"
    return caught.value.words


@pytest.mark.parametrize("compromised", [False, True])
def test_the_last_key_is_not_retired(file: Path, compromised: bool) -> None:
    only = load_keys(file).signing[0].key_id.hex()
    before = file.read_bytes()
    assert said(lambda: retire(file, only, compromised=compromised)) == f"the key {only} is the last of its kind that signs for {ORIGIN}; rotate first"
    for key_id in ("00000000", "", only[:7], f"{only}0"):
        assert said(lambda key_id=key_id: retire(file, key_id, compromised=compromised)) == (  # type: ignore[misc]
            f"{ORIGIN} has no key with the id {key_id}; name one of those in its file")
    assert file.read_bytes() == before


def test_a_key_is_retired_once(file: Path) -> None:
    old = load_keys(file).signing[0].key_id.hex()
    rotate(file)
    retire(file, old.upper())
    before = file.read_bytes()
    assert said(lambda: retire(file, old)) == f"the key {old} of {ORIGIN} is retired already; it is left as it is"
    assert file.read_bytes() == before


@pytest.mark.parametrize("is_retired", [False, True])
def test_a_key_that_got_into_other_hands_is_told_to_nobody(file: Path, is_retired: bool) -> None:
    old, = load_keys(file).signing
    new = rotate(file).signing[1]
    if is_retired:
        assert retire(file, old.key_id.hex()).trusted == (old, new)
    after = retire(file, old.key_id.hex(), compromised=True)
    assert (after.trusted, after.signing, after.retired, after.compromised) == ((new,), (new,), (), (old,))
    assert load_keys(file).verifiers == (old, new), "the log knows by it what it signed itself"
    first, compromised, signing, last = file.read_text().split("\n")
    assert (first, compromised, signing[:8], last) == ("rag-stdlib/log-keys/v1", f"compromised {old.text()}", "signing ", "")
    for again in (False, True):
        assert said(lambda again=again: retire(file, old.key_id.hex(), compromised=again)) == (  # type: ignore[misc]
            f"the key {old.key_id.hex()} of {ORIGIN} is compromised already; it is left as it is")
    third = rotate(file)
    assert (third.compromised, third.trusted[0]) == ((old,), new), "a rotation forgets nothing of that"


@pytest.mark.parametrize("with_both", [False, True])
def test_a_log_goes_on_without_a_key_that_others_have(file: Path, with_both: bool) -> None:
    """Its last checkpoint is by that key alone, or it has noted that the key signs: it must not be locked out for either."""
    path, old = file.parent / "answers.log", load_keys(file).signing[0]
    with Log.create(path, load_keys(file)) as log:
        log.append(b"1")
    both = rotate(file)
    if with_both:
        with Log(path, both) as log:
            log.append(b"2")
    after = retire(file, old.key_id.hex(), compromised=True)
    with Log(path, after) as log:
        note = log.append(b"3").checkpoint
    assert PinnedLog(ORIGIN, after.trusted).open(note).keys == (after.signing[0].text(),)
    assert refused(lambda: PinnedLog(ORIGIN, (old,)).open(note)) == "signature_missing"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["rotate", "retire", "compromised"]), st.integers(0, 7)), max_size=12), st.sampled_from([LOG_KINDS, WITNESS_KINDS]))
def test_any_sequence_of_changes_keeps_a_key_of_each_kind_that_signs(steps: list[tuple[str, int]], kinds: tuple[int, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "keys")
        keys = new_keys(path, ORIGIN, kinds)
        for what, place in steps:
            one = keys.verifiers[place % len(keys.verifiers)]
            before = path.read_bytes()
            try:
                after = rotate(path) if what == "rotate" else retire(path, one.key_id.hex(), compromised=what == "compromised")
            except LogError:
                assert path.read_bytes() == before
                continue
            assert {key.kind for key in after.signing} == set(kinds)
            assert {key.text() for key in keys.verifiers} <= {key.text() for key in after.verifiers}
            assert what == "rotate" or (one in after.trusted, one in after.signing) == (what == "retire", False)
            assert path.read_bytes().count(b"PRIVATE") == len(after.signing)
            assert not {key.text() for key in keys.compromised} & {key.text() for key in after.trusted}
            keys = load_keys(path)
            assert (keys.verifiers, keys.trusted) == (after.verifiers, after.trusted)


def test_the_last_key_of_a_kind_is_not_retired(tmp_path: Path) -> None:
    path = tmp_path / "witness.keys"
    ids = [key.key_id.hex() for key in new_keys(path, "w.example", WITNESS_KINDS).signing]
    assert [refused(lambda one=one: retire(path, one)) for one in ids] == ["key_unknown"] * 2  # type: ignore[misc]


@pytest.mark.parametrize("data", [
    b"", b"\n", b"rag-stdlib/log-keys/v1\n", b"rag-stdlib/log-keys/v2\nsigning x\n", b"\xff", b"rag-stdlib/log-keys/v1\nsigning x\n", b"rag-stdlib/log-keys/v1\nother x\n",
    b"x" * 300_000, b"rag-stdlib/log-keys/v1\n" + b"signing x\n" * 65,
], ids=lambda data: repr(data[:40]))
def test_what_is_no_key_file_is_refused_and_its_content_is_not_told(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log.keys"
    privatefile.create_private(path, data)
    assert refused(lambda: load_keys(path)) == "file_foreign"


def test_every_other_spelling_of_a_key_file_is_refused(file: Path) -> None:
    rotate(file)
    retire(file, load_keys(file).signing[0].key_id.hex())
    good = file.read_text()
    first, retired, signing, _ = good.split("\n")
    secret = signing.split("+", 4)[4]
    foreign = f"signing {signer(5, 'else.example').private_text()}"
    compromised = retired.replace("retired", "compromised")
    for lines in ([first, signing, retired, ""], [first, retired, signing], [first, retired, ""], [first, retired, signing, "", ""], [first, retired, signing, signing, ""],
                  [first, retired, retired, signing, ""], [first, retired, signing + " ", ""], [first, retired, foreign, ""], [first, signing, foreign, ""],
                  [first, compromised, retired, signing, ""], [first, retired, compromised, signing, ""], [first, signing, compromised, ""], [first, compromised, ""],
                  [first, retired, signing[:-4], ""], [first, retired, signing, "signing", ""], [first + "\r", retired, signing, ""]):
        file.write_text("\n".join(lines))
        with pytest.raises(LogError) as caught:
            load_keys(file)
        assert caught.value.code == "file_foreign"
        assert secret not in str(caught.value)
    file.write_text(good)
    assert len(load_keys(file).verifiers) == 2


def test_files_that_others_may_use_are_refused(tmp_path: Path, file: Path) -> None:
    for mode in (0o640, 0o604, 0o620, 0o601):
        file.chmod(mode)
        assert refused(lambda: load_keys(file)) == "file_unsafe"
        assert refused(lambda: rotate(file)) == "file_unsafe"
    file.chmod(0o600)
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(0o700)
    for name in ("link", "pipe", "folder"):
        assert refused(lambda name=name: load_keys(tmp_path / name)) == "file_unsafe"  # type: ignore[misc]
        assert refused(lambda name=name: rotate(tmp_path / name)) == "file_unsafe"  # type: ignore[misc]


@pytest.mark.parametrize(("name", "code"), [("none", "missing"), ("none/none", "missing"), ("a\0b", "file_io"), ("\ud800", "file_io"), ("x" * 300, "file_io")])
def test_names_that_lead_nowhere(tmp_path: Path, name: str, code: str) -> None:
    assert refused(lambda: load_keys(f"{tmp_path}/{name}")) == code
    assert refused(lambda: rotate(f"{tmp_path}/{name}")) == code


def test_a_log_is_made_only_with_a_name_that_a_key_can_have(tmp_path: Path) -> None:
    assert refused(lambda: new_keys(tmp_path / "k", "a b")) == "key_malformed"
    assert refused(lambda: new_keys(tmp_path / "k", "a", [9])) == "key_malformed"
    assert refused(lambda: new_keys(tmp_path / "k", "a", [])) == "keys_unfit"
    assert refused(lambda: new_keys(tmp_path / "none" / "k", "a")) == "missing"
    assert not list(tmp_path.iterdir())


def test_keys_of_two_names_are_not_one_logs() -> None:
    for pair in ((signer(1), signer(2, "else.example")), (signer(1), signer(1))):
        assert refused(lambda pair=pair: LogKeys(ORIGIN, pair)) == "keys_unfit"  # type: ignore[misc]
    assert refused(lambda: LogKeys(ORIGIN, (signer(1),), (), (signer(1).verifier,))) == "keys_unfit"
    assert refused(lambda: LogKeys(ORIGIN, (), (), (signer(1).verifier,))) == "keys_unfit"
    assert refused(lambda: LogKeys("else.example", (signer(1),))) == "keys_unfit"


def test_a_file_takes_64_keys_and_says_so(file: Path) -> None:
    path = file.parent / "full.keys"
    keys = LogKeys(ORIGIN, tuple(signer(number) for number in range(1, 65)))
    privatefile.create_private(path, ("rag-stdlib/log-keys/v1\n" + "".join(f"signing {one.private_text()}\n" for one in keys.signers)).encode())
    assert len(load_keys(path).signers) == 64
    assert refused(lambda: rotate(path)) == "keys_unfit"
    assert len(retire(path, keys.signing[0].key_id.hex()).signers) == 63


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "disk_full"), (errno.EDQUOT, "disk_full"), (errno.EROFS, "readonly"), (errno.EIO, "file_io"), (errno.EACCES, "file_io")])
def test_where_nothing_can_be_written_the_old_keys_stand(file: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str) -> None:
    before = file.read_bytes()

    def failing(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", failing)
    assert refused(lambda: rotate(file)) == code
    assert refused(lambda: new_keys(file.parent / "new.keys", ORIGIN)) == code
    assert [(path.name, path.read_bytes()) for path in file.parent.iterdir()] == [("log.keys", before)]


def test_threads_that_rotate_at_once_lose_no_key(file: Path) -> None:
    threads = [threading.Thread(target=rotate, args=(file,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(load_keys(file).signers) == 13


def test_processes_that_rotate_at_once_lose_no_key(file: Path) -> None:
    program = "import sys\nfrom rag_stdlib.proof.log.logkeys import rotate\nfor _ in range(5): rotate(sys.argv[1])"
    children = [subprocess.Popen([sys.executable, "-c", program, str(file)], cwd=Path(__file__).parents[3]) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert len(load_keys(file).signers) == 16
    assert [path.name for path in file.parent.iterdir()] == ["log.keys"]


def test_a_file_that_is_taken_away_while_one_waits_for_it(file: Path) -> None:
    seen: list[str] = []
    with privatefile.changing(file, 10_000):
        waiting = threading.Thread(target=lambda: seen.append(refused(lambda: rotate(file))))
        waiting.start()
        file.unlink()
    waiting.join(30)
    assert seen == ["missing"]


def test_a_folder_for_private_files_is_made_and_others_may_not_write_to_it(tmp_path: Path) -> None:
    made = privatefile.folder_for(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert privatefile.folder_for(str(made)) == made
    made.chmod(0o770)
    assert refused(lambda: privatefile.folder_for(made)) == "file_unsafe"
    (tmp_path / "file").touch()
    assert refused(lambda: privatefile.folder_for(tmp_path / "file")) == "exists"
