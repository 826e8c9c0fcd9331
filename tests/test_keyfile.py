"""Key files: only their owner may read them, only regular files are read, and none is ever written over."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA87PrivateKey

from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.errors import Failure
from rag_stdlib.keyfile import load_key, save_new_key

KEY = NodeKey(MLDSA87PrivateKey.from_seed_bytes(b"\7" * 32), None)


def refused(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(Failure) as caught:
        call()
    return caught.value.error.code, str(caught.value.error)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node.key"
    save_new_key(path, KEY)
    return path


def test_a_saved_key_is_loaded_again_and_only_its_owner_may_read_it(file: Path) -> None:
    assert load_key(file) == load_key(str(file), "pq_pure") == KEY
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_bytes() == KEY.to_seed_form()
    assert names(file.parent) == ["node.key"]


@pytest.mark.parametrize("mask", [0o000, 0o777, 0o077])
def test_the_umask_has_no_say(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        save_new_key(tmp_path / "node.key", KEY)
    finally:
        os.umask(before)
    assert load_key(tmp_path / "node.key") == KEY


def test_nothing_is_ever_written_over(tmp_path: Path, file: Path) -> None:
    other = NodeKey(MLDSA87PrivateKey.from_seed_bytes(b"\1" * 32), None)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    for name in ("node.key", "dangling", "folder", "empty"):
        code, message = refused(lambda name=name: save_new_key(tmp_path / name, other))  # type: ignore[misc]
        assert code == "key_file_exists"
        assert name in message
    assert load_key(file) == KEY
    assert not (tmp_path / "nowhere").exists()
    assert (tmp_path / "empty").read_bytes() == b""


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o601, 0o620, 0o666, 0o610, 0o777])
def test_a_file_that_others_may_use_is_refused_and_the_way_out_is_told(file: Path, mode: int) -> None:
    file.chmod(mode)
    code, message = refused(lambda: load_key(file))
    assert code == "key_file_unsafe"
    assert f"{mode:04o}" in message
    assert "chmod 600" in message


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_of_its_owner_alone_is_read(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert load_key(file) == KEY


def test_links_fifos_sockets_folders_and_devices_are_refused_without_waiting(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to(file)
    os.mkfifo("fifo", 0o600)
    Path("folder").mkdir(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        codes = {name: refused(lambda name=name: load_key(name))[0]  # type: ignore[misc]
                 for name in ("link", "fifo", "folder", "socket", "/dev/null")}
    assert set(codes.values()) == {"key_file_unsafe"}, codes


def test_a_missing_file_is_told_from_an_unreadable_one(tmp_path: Path, file: Path) -> None:
    assert refused(lambda: load_key(tmp_path / "absent"))[0] == "key_file_missing"
    assert refused(lambda: load_key(tmp_path / "absent" / "node.key"))[0] == "key_file_missing"
    assert refused(lambda: load_key(file / "node.key"))[0] == "key_file_missing"
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert refused(lambda: load_key(tmp_path / "dangling"))[0] == "key_file_unsafe"


@pytest.mark.parametrize("data", [b"", b"\0", b"-----BEGIN PRIVATE KEY-----\n", KEY.to_seed_form()[:-1], KEY.to_seed_form() + b"\n", bytes(20_000)],
                         ids=["empty", "zero", "PEM", "cut", "newline", "large"])
def test_a_file_without_a_key_is_refused(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    code, message = refused(lambda: load_key(file))
    assert code == "key_file_invalid"
    assert str(file) in message


def test_a_large_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as handle:
        handle.truncate(1 << 40)
    path.chmod(0o600)
    code, message = refused(lambda: load_key(path))
    assert (code, "more than 16,384 bytes" in message) == ("key_file_invalid", True)


def test_a_key_of_another_profile_is_refused_where_one_is_named(file: Path) -> None:
    code, message = refused(lambda: load_key(file, "pq_hybrid"))
    assert code == "key_file_invalid"
    assert "holds a pq_pure key, and a pq_hybrid key is needed" in message


@pytest.mark.parametrize(("name", "code"), [("a\0b", "path_nul"), ("a\ud800", "invalid_text"), ("x" * 300, "path_too_long"), ("", "key_file_missing")],
                         ids=["NUL", "surrogate", "long", "empty"])
def test_a_path_that_names_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(lambda: load_key(name))[0] == code
    assert refused(lambda: save_new_key(name, KEY))[0] == code.replace("key_file_missing", "path_folder_missing")
    assert names(tmp_path) == []


def test_a_folder_that_is_missing_is_named(tmp_path: Path, file: Path) -> None:
    assert refused(lambda: save_new_key(tmp_path / "absent" / "node.key", KEY))[0] == "path_folder_missing"
    assert refused(lambda: save_new_key(file / "node.key", KEY))[0] == "path_folder_missing"


def test_what_the_system_forbids_is_told_as_such(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    was = os.geteuid()
    if was == 0:  # whom nothing is forbidden
        os.seteuid(65_534)
    try:
        assert refused(lambda: save_new_key(tmp_path / "node.key", KEY))[0] == "path_permission"
    finally:
        os.seteuid(was)
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk full", "interrupt"])
def test_a_key_that_could_not_be_written_whole_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
    def fail(_handle: int) -> None:
        raise fault

    monkeypatch.setattr("rag_stdlib.keyfile.os.fsync", fail)
    with pytest.raises((Failure, KeyboardInterrupt)) as caught:
        save_new_key(tmp_path / "node.key", KEY)
    assert isinstance(caught.value, KeyboardInterrupt) or "No space left" in str(caught.value)
    assert names(tmp_path) == []


def test_a_file_system_that_cannot_sync_folders_still_keeps_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(22, "Invalid argument")
        genuine(handle)

    monkeypatch.setattr("rag_stdlib.keyfile.os.fsync", fsync)
    save_new_key(tmp_path / "node.key", KEY)
    assert load_key(tmp_path / "node.key") == KEY


@pytest.mark.parametrize("call", ["open", "fdopen"])
def test_whatever_the_system_refuses_is_told_with_its_own_words(file: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(f"rag_stdlib.keyfile.os.{call}", refuse)
        code, message = refused(lambda: load_key(file))
    assert (code, "Input/output error" in message) == ("key_file_io", True)
