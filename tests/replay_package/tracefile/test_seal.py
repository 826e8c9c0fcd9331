"""Sealing: keys, what a seal covers, and what it catches that the chain does not."""

from __future__ import annotations

import base64
import json
import os
import stat
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from tracing import chained, create, events_of, plain_run, record, write_events

from replay.errors import ReplayError, TraceError
from replay.tracefile import chain
from replay.tracefile import seal as sealing
from replay.tracefile.seal import (
    check_sealable,
    key_id,
    load_private,
    load_public,
    make_key,
    problem_of_seal,
    seal_trace,
)
from replay.tracefile.verify import verify_trace


@pytest.fixture
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def refused(path: Path, key: Ed25519PrivateKey) -> TraceError:
    before = path.read_bytes()
    with pytest.raises(TraceError) as caught:
        seal_trace(path, key)
    assert path.read_bytes() == before
    if caught.value.code != "trace_exists":  # which depends on the key
        with pytest.raises(TraceError) as without:
            check_sealable(path)
        assert str(without.value) == str(caught.value)
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]
    return caught.value


def test_the_seal_is_a_signature_over_the_unsealed_line(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    path = record(tmp_path / "t.jsonl")
    before = path.read_bytes()
    path.chmod(0o640)
    check_sealable(path)
    assert seal_trace(path, key)
    *others, last = path.read_bytes().split(b"\n")[:-1]
    assert b"\n".join([*others, b""]) == before[:before.index(b'{"kind":"run_completed"')]
    seal = json.loads(last)["seal"]
    assert list(seal) == ["alg", "key_id", "signature"]
    raw = key.public_key().public_bytes_raw()
    assert (seal["alg"], seal["key_id"]) == ("ed25519", sha256(raw).hexdigest()[:16])
    digest = json.loads(before.split(b"\n")[-2])["sha256"]
    key.public_key().verify(base64.b64decode(seal["signature"]), b"rag-stdlib/trace-seal/v1\0" + digest.encode())
    assert list(json.loads(last))[-4:] == ["seq", "prev", "seal", "sha256"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.jsonl"]


def test_sealing_twice_changes_nothing_and_writing_with_a_key_gives_the_same(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    later, at_once = tmp_path / "later.jsonl", tmp_path / "at_once.jsonl"
    constant: dict[str, Any] = {"entropy": bytes, "clock_ms": lambda: 5}
    record(later, **constant)
    record(at_once, seal_key=key, **constant)
    assert seal_trace(later, key)
    assert later.read_bytes() == at_once.read_bytes()
    status = later.stat()
    assert not seal_trace(later, key)
    assert later.stat() == status


def test_a_seal_by_another_key_is_replaced_only_by_force(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    other = Ed25519PrivateKey.generate()
    path = record(tmp_path / "t.jsonl", seal_key=other)
    error = refused(path, key)
    assert error.code == "trace_exists"
    assert "force replaces it" in str(error)
    assert seal_trace(path, key, force=True)
    assert verify_trace(path, key.public_key()).ok
    assert json.dumps(events_of(path)[-1]).count("signature") == 1


def test_only_a_complete_intact_chained_trace_is_sealed(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    path = tmp_path / "t.jsonl"
    create(path).close()
    assert refused(path, key).code == "trace_incomplete"
    path.unlink()
    record(path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"torn')
    assert refused(path, key).code == "trace_incomplete"
    path.write_bytes(whole.replace(b'"args":[1,2]', b'"args":[1,3]'))
    error = refused(path, key)
    assert (error.code, error.line) == ("trace_tampered", 4)
    path.write_bytes(b"\n".join([*chained([*plain_run(), {"kind": "host_event", "ts_ms": 1, "run_id": "run-1", "name": "n", "payload": 1}]), b""]))
    assert refused(path, key).code == "trace_order"
    write_events(path, plain_run())
    assert refused(path, key).code == "trace_tampered"
    with pytest.raises(TraceError) as caught:
        seal_trace(tmp_path / "none.jsonl", key)
    assert caught.value.code == "trace_missing"


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    path = record(tmp_path / "t.jsonl")
    (tmp_path / "link").symlink_to(path)
    assert seal_trace(tmp_path / "link", key)
    assert (tmp_path / "link").is_symlink()
    assert verify_trace(path, key.public_key()).seal == "valid"


def test_what_a_killed_sealing_left_is_no_hindrance(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    path = record(tmp_path / "t.jsonl")
    (tmp_path / f".t.jsonl.sealing-{os.getpid()}-{threading.get_ident()}").write_bytes(b"left")
    assert seal_trace(path, key)
    assert verify_trace(path, key.public_key()).ok
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]


def test_where_nothing_can_be_written_the_trace_stays(tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(tmp_path / "t.jsonl")
    blocked = tmp_path / f".t.jsonl.sealing-{os.getpid()}-1"
    blocked.mkdir()  # stands where the copy would be made
    monkeypatch.setattr(threading, "get_ident", lambda: 1)
    before = path.read_bytes()
    with pytest.raises(TraceError, match="cannot be sealed") as caught:
        seal_trace(path, key)
    assert (caught.value.code, path.read_bytes()) == ("trace_io", before)


def test_a_trace_that_shrinks_while_it_is_copied_is_no_sealed_trace(tmp_path: Path) -> None:
    path = record(tmp_path / "t.jsonl")
    with pytest.raises(OSError, match="shorter"):
        sealing._replace(str(path), path.stat().st_size + 1, b"last\n")
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]


@pytest.mark.parametrize(("change", "reason"), [
    ({"alg": "none"}, "unknown kind 'none'"), ({"key_id": "0" * 16}, "sealed with the key '0000000000000000'"),
    ({"signature": "AA=="}, "does not fit"), ({"signature": "!"}, "does not fit"), ({"signature": None}, "does not fit"),
    ({"signature": "é"}, "does not fit"), ({"signature": ["A"]}, "does not fit"),
])
def test_a_seal_is_checked_in_all_its_parts(tmp_path: Path, key: Ed25519PrivateKey, change: dict[str, str], reason: str) -> None:
    path = record(tmp_path / "t.jsonl", seal_key=key)
    line = path.read_bytes().split(b"\n")[-2]
    good = json.loads(line)["seal"]
    assert problem_of_seal(key.public_key(), good, line) == ""
    assert reason in problem_of_seal(key.public_key(), {**good, **change}, line)


def test_a_signature_that_is_spelt_a_second_way_does_not_fit(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    line = record(tmp_path / "t.jsonl", seal_key=key).read_bytes().split(b"\n")[-2]
    good = json.loads(line)["seal"]
    text = good["signature"]
    assert text.endswith("==")
    spare = text[:-3] + chr(ord(text[-3]) + 1) + "=="  # the last letter's lowest bits are part of no byte
    assert base64.b64decode(spare) == base64.b64decode(text)
    for other in (spare, text[:-2], text + "=", f"{text[:8]}\n{text[8:]}", f" {text}", f"{text}\n", f"{text[:8]}!{text[8:]}"):
        assert "does not fit" in problem_of_seal(key.public_key(), {**good, "signature": other}, line)


def test_under_a_key_of_small_order_no_trace_is_vouched_for(tmp_path: Path) -> None:
    weak = Ed25519PublicKey.from_public_bytes(b"\1" + bytes(31))
    path = record(tmp_path / "t.jsonl")
    signature = b"\1" + bytes(63)
    weak.verify(signature, b"whatever is signed")
    seal = {"alg": "ed25519", "key_id": key_id(weak), "signature": base64.b64encode(signature).decode()}
    *others, last = path.read_bytes().split(b"\n")[:-1]
    sealed = chain.with_seal(chain.unseal(last)[0], json.dumps(seal, separators=(",", ":")).encode())
    path.write_bytes(b"\n".join([*others, sealed + chain.end(sealed)[0], b""]))
    assert verify_trace(path).seal == "unchecked"
    verdict = verify_trace(path, weak)
    assert (verdict.ok, verdict.seal) == (False, "invalid")
    assert "cannot vouch for a trace: this is a point of small order" in verdict.problem


# --- keys ---

def test_a_key_pair_is_written_and_read(tmp_path: Path) -> None:
    identity = make_key(tmp_path / "key")
    private, public = load_private(tmp_path / "key"), load_public(tmp_path / "key.pub")
    assert key_id(private.public_key()) == key_id(public) == identity
    assert len(identity) == 16
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert (tmp_path / "key").read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----")
    path = record(tmp_path / "t.jsonl", seal_key=private)
    assert verify_trace(path, public).seal == "valid"


def test_no_key_is_overwritten_and_none_is_half_made(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    before = [(tmp_path / name).read_bytes() for name in ("key", "key.pub")]
    with pytest.raises(ReplayError, match="there is a file already; a key is never overwritten"):
        make_key(tmp_path / "key")
    (tmp_path / "key").rename(tmp_path / "kept")
    with pytest.raises(ReplayError, match=r"key\.pub.*there is a file already"):
        make_key(tmp_path / "key")
    assert not (tmp_path / "key").exists()
    assert [(tmp_path / name).read_bytes() for name in ("kept", "key.pub")] == before
    with pytest.raises(ReplayError, match="No such file"):
        make_key(tmp_path / "none" / "key")


def test_what_is_no_key_is_refused_with_the_reason(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    (tmp_path / "text").write_text("text")
    other = x25519.X25519PrivateKey.generate()
    private = serialization.PrivateFormat.PKCS8
    (tmp_path / "other").write_bytes(other.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    (tmp_path / "locked").write_bytes(load_private(tmp_path / "key").private_bytes(
        serialization.Encoding.PEM, private, serialization.BestAvailableEncryption(b"word")))
    (tmp_path / "other.pub").write_bytes(other.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    for name, reason in [("text", "no unencrypted private key"), ("locked", "no unencrypted private key"), ("key.pub", "no unencrypted private key"),
                         ("other", "another kind"), ("", "is no regular file"), ("a\0b", "null (byte|character)")]:
        with pytest.raises(ReplayError, match=reason) as caught:
            load_private(tmp_path / name)
        assert "cryptography" not in str(caught.value)
    with pytest.raises(ReplayError) as caught:
        load_private(f"{tmp_path}/a key")
    assert str(caught.value) == (f"key '{tmp_path}/a key': there is no such file; make one with: "
                                 f"rag trace seal TRACE --key '{tmp_path}/a key' --make-key")
    for name, reason in [("text", "no public key"), ("key", "no public key"), ("other.pub", "another kind"), ("none", "there is no such file$")]:
        with pytest.raises(ReplayError, match=reason) as caught:
            load_public(tmp_path / name)
        assert "cryptography" not in str(caught.value)


@pytest.mark.parametrize(("raw", "reason"), [
    (b"\1" + bytes(31), "this is a point of small order, under which anyone can sign"), (bytes(32), "this is a point of small order"),
    (b"\xf0" + b"\xff" * 30 + b"\x7f", "this is not the canonical encoding of a point"), (b"\2" + bytes(31), "this is no point of the curve"),
    (bytes(31), "this is no public key in PEM form"), (bytes(33), "this is no public key in PEM form"),
])
def test_a_key_file_whose_key_binds_nobody_is_refused(tmp_path: Path, raw: bytes, reason: str) -> None:
    file = tmp_path / "key.pub"
    prefix = bytes.fromhex(f"30{len(raw) + 10:02x}300506032b657003{len(raw) + 1:02x}00")  # RFC 8410, section 4
    file.write_text(f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(prefix + raw).decode()}\n-----END PUBLIC KEY-----\n")
    with pytest.raises(ReplayError) as caught:
        load_public(file)
    assert str(caught.value).startswith(f"key '{file}': {reason}")
