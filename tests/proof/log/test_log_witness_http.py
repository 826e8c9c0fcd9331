"""A witness over HTTP: real sockets, strangers who dribble, shout and hang up, and a log's client that knows what an answer means."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from log_trees import entries
from logs import ROOT, new_log, write_keys
from signed import LOG, NOW, ORIGIN, PINNED, head, note, refused, signer, witness

from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.logkeys import LogKeys
from rag_stdlib.proof.log.pinned import PinnedLog
from rag_stdlib.proof.log.witness import MAX_REQUEST_BYTES, Request, Witness
from rag_stdlib.proof.log.witnessclient import WitnessClient
from rag_stdlib.proof.log.witnesshttp import WitnessServer

NAME = "witness.example/w1"
KEYS = LogKeys(NAME, (witness(1, 4), witness(1, 6)))
DATA = entries(12)
WITNESSED = PinnedLog(ORIGIN, (LOG.verifier,), KEYS.signing, 1)
CHILD = Path(__file__).with_name("witness_child.py")


@contextmanager
def serving(folder: Path, seconds: float) -> Iterator[WitnessServer]:
    Witness.create(folder / "witness.db", NAME)
    with Witness(folder / "witness.db", KEYS, [PINNED], synchronous="normal", clock=lambda: NOW) as made, \
            WitnessServer(made, prefix="/w", request_seconds=seconds, max_connections=8) as server:
        yield server.start()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[WitnessServer]:
    with serving(tmp_path, 60) as server:
        yield server


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[WitnessServer]:
    """A witness that soon has enough of slow strangers."""
    with serving(tmp_path, 0.6) as server:
        yield server


def talk(server: WitnessServer, data: bytes, *, close: bool = False) -> bytes:
    """Send bytes, and return all that comes back until the connection ends."""
    with socket.create_connection(server.server_address[:2], timeout=10) as line:
        line.sendall(data)
        if close:
            line.shutdown(socket.SHUT_WR)
        said = b""
        while part := line.recv(65_536):
            said += part
        return said


def post(body: bytes, path: str = "/w/add-checkpoint", *headers: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: w", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


GOOD = Request(0, (), note(5)).to_bytes()


def test_a_checkpoint_is_cosigned_and_served(served: WitnessServer) -> None:
    digest = hashlib.sha256(ORIGIN.encode()).hexdigest()
    with httpx.Client(base_url=served.url) as client:
        assert client.get(f"/{digest}/checkpoint").status_code == 404
        reply = client.post("/add-checkpoint", content=GOOD)
        assert (reply.status_code, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        assert WITNESSED.open(note(5) + reply.content).cosigned[0].name == NAME
        again = client.get(f"/{digest}/checkpoint")
        assert (again.status_code, again.headers["cache-control"]) == (200, "no-store")
        assert WITNESSED.open(again.content).checkpoint == head(5)
        conflict = client.post("/add-checkpoint", content=GOOD)
        assert (conflict.status_code, conflict.content, conflict.headers["content-type"]) == (409, b"5\n", "text/x.tlog.size")
        assert reply.headers["server"] == "rag-stdlib-witness"


def test_a_connection_is_kept_for_several_requests(served: WitnessServer) -> None:
    said = talk(served, post(GOOD) + post(GOOD) + post(b"x", "/elsewhere") + post(b"x", "/w/add-checkpoint", "Connection: close"))
    assert re.findall(rb"HTTP/1.1 (\d+) ", said) == [b"200", b"409", b"404", b"400"]


@pytest.mark.parametrize(("data", "status"), [
    (b"POST /w/add-checkpoint HTTP/1.1\r\nHost: w\r\n\r\n", 411), (post(GOOD).replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nContent-Length"), 411),
    (post(GOOD).replace(b"Content-Length", b"Content-Length: 5\r\nContent-Length"), 411), (b"POST /w/add-checkpoint HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 411), (b"POST /w/add-checkpoint HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n", 411),
    ("POST /w/add-checkpoint HTTP/1.1\r\nContent-Length: \u00b2\r\n\r\n".encode("latin-1"), 411), (b"POST /w/add-checkpoint HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n", 411),
    (f"POST /w/add-checkpoint HTTP/1.1\r\nContent-Length: {MAX_REQUEST_BYTES + 1}\r\n\r\n".encode(), 413), (b"GET /w/x/checkpoint HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 404),
    (b"BREW /w HTTP/1.1\r\n\r\n", 501), (b"nonsense\r\n\r\n", 400), (b"GET / HTTP/9.9\r\n\r\n", 505), (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
    (b"GET / HTTP/1.1\r\n" + b"".join(b"a%d: b\r\n" % number for number in range(120)) + b"\r\n", 431), (b"GET /w/../etc/passwd HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
    (b"GET /w//checkpoint HTTP/1.1\r\nConnection: close\r\n\r\n", 404), (b"GET /w/checkpoint HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
])
def test_what_is_out_of_bounds_is_answered_and_the_connection_ends(served: WitnessServer, data: bytes, status: int) -> None:
    said = talk(served, data)
    assert said.startswith(f"HTTP/1.1 {status} ".encode())
    assert said.count(b"HTTP/1.1 ") <= 1
    assert b"Traceback" not in said
    assert b"Python" not in said


def test_a_body_that_ends_early_is_refused(served: WitnessServer) -> None:
    assert talk(served, post(GOOD)[:-10], close=True).startswith(b"HTTP/1.1 400 ")


def test_a_stranger_who_dribbles_is_hung_up_on(hasty: WitnessServer) -> None:
    start = time.monotonic()
    with socket.create_connection(hasty.server_address[:2], timeout=10) as line, pytest.raises(OSError):  # noqa: PT011 - reset or pipe
        line.sendall(post(GOOD)[:20])
        while True:
            line.sendall(b"x")
            time.sleep(0.05)
    assert time.monotonic() - start < 8


def test_silent_strangers_are_hung_up_on_and_hold_nobody_up(hasty: WitnessServer) -> None:
    strangers = [socket.create_connection(hasty.server_address[:2], timeout=10) for _ in range(12)]
    assert [one.recv(10) for one in strangers] == [b""] * 12, "those beyond the bound at once, the others after their time"
    with socket.create_connection(hasty.server_address[:2], timeout=10) as line:
        line.sendall(b"GET /w/x/checkpoint HTTP/1.1\r\n\r\n")
        assert line.recv(12) == b"HTTP/1.1 404", "there is room again"
    for one in strangers:
        one.close()


def test_where_the_state_cannot_be_had_nobody_is_told_why(served: WitnessServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def full(_: bytes) -> None:
        raise LogError("disk_full", "/secret/path is full")

    def broken(_: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(served.witness, "add_checkpoint", full)
    with caplog.at_level(logging.ERROR, "rag_stdlib.witness"):
        said = talk(served, post(GOOD, "/w/add-checkpoint", "Connection: close"))
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"secret" not in said
        assert "/secret/path is full" in caplog.text
        monkeypatch.setattr(served.witness, "checkpoint_by_hash", broken)
        assert talk(served, b"GET /w/x/checkpoint HTTP/1.1\r\n\r\n") == b""
        assert "a request failed" in caplog.text


def test_requests_over_http_at_once_cannot_roll_it_back(served: WitnessServer, tmp_path: Path) -> None:
    with new_log(tmp_path / "log.db", 12) as log:
        path = {size: tuple(log.consistency_path(4, size)) for size in (9, 12)}
    with httpx.Client(base_url=served.url) as client:
        assert client.post("/add-checkpoint", content=Request(0, (), note(4)).to_bytes()).status_code == 200
    with ThreadPoolExecutor(4) as pool:
        sizes = [9, 12, 9, 12]
        done = list(pool.map(lambda size: httpx.post(f"{served.url}/add-checkpoint", content=Request(4, path[size], note(size)).to_bytes()).status_code, sizes))
    assert sorted(done) == [200, 409, 409, 409]
    assert WITNESSED.open(served.witness.checkpoint(ORIGIN) or b"").checkpoint == head(sizes[done.index(200)])


def test_a_log_has_its_checkpoints_cosigned(served: WitnessServer, tmp_path: Path) -> None:
    with new_log(tmp_path / "log.db") as log, WitnessClient(served.url, KEYS.signing) as client, WitnessClient(served.url + "/", KEYS.signing) as new:
        for size in (0, 1, 2, 2, 7, 12):
            log.append_many(DATA[log.size:size])
            assert WITNESSED.open(client.cosign(log)).checkpoint == head(size)
            assert log.cosigned() is not None
        assert log.receipt(3, log.cosigned()).verify(DATA[3], WITNESSED).cosigned[0].time == NOW
        assert WITNESSED.open(new.cosign(log)).checkpoint == head(12), "one that knows nothing yet is told"


def answering(*replies: tuple[int, bytes] | Exception) -> WitnessClient:
    left = list(replies)

    def reply(_: httpx.Request) -> httpx.Response:
        given = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(given, Exception):
            raise given
        return httpx.Response(given[0], content=iter([given[1]]))

    return WitnessClient("http://w.example", KEYS.signing, transport=httpx.MockTransport(reply))


def lines(*signers: object, size: int = 3) -> bytes:
    return "".join(f"{one.sign(head(size).text(), NOW).line}\n" for one in signers).encode()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("replies", "code"), [
    ([(404, b"no\n")], "refused"), ([(403, b"no\n")], "refused"), ([(400, b"no\n")], "refused"), ([(500, b"\xff")], "refused"), ([(422, b"no\n")], "refused"),
    ([(409, b"9\n")], "refused"), ([(409, b"2\n")], "refused"), ([(409, b"2")], "reply_malformed"), ([(409, b"-2\n")], "reply_malformed"), ([(409, b"\xff\n")], "reply_malformed"),
    ([(200, b"")], "note_malformed"), ([(200, lines(signer(9, "else.example", 4)))], "signature_missing"), ([(200, lines(witness(1, 4), size=2))], "cosignature_invalid"),
    ([(200, b"x" * 600_000)], "reply_malformed"), ([httpx.ConnectError("no")], "unreachable"), ([httpx.ReadTimeout("slow")], "unreachable"), ([(301, b"")], "refused"),
])
def test_what_an_answer_means(tmp_path: Path, replies: list[tuple[int, bytes] | Exception], code: str) -> None:
    with new_log(tmp_path / "log.db", 3) as log:
        assert refused(lambda: answering(*replies).cosign(log)) == code
        assert log.cosigned() is None


@pytest.mark.parametrize(("reply", "words"), [
    ((422, b"another\n"), "does not cosign size 3 of the log log.example/answers: it answers 422, that it does not continue what was cosigned last: 'another'"),
    ((404, b"\x1b[2J\xff"), "does not cosign size 3 of the log log.example/answers: it answers 404: '\\x1b[2J\ufffd'"),
    ((409, b"9\n"), "says that it has cosigned size 9 of the log log.example/answers, and here its size is 3: the log here is behind or was put back, or the witness does not tell the truth"),
])
def test_what_a_witness_says_unsigned_is_told_as_what_it_says(tmp_path: Path, reply: tuple[int, bytes], words: str) -> None:
    with new_log(tmp_path / "log.db", 3) as log, pytest.raises(LogError) as caught:
        answering(reply).cosign(log)
    assert caught.value.words == f"the witness http://w.example {words}"


def test_a_log_that_is_behind_what_was_cosigned_for_this_client_has_gone_back(tmp_path: Path) -> None:
    with new_log(tmp_path / "log.db", 3) as log, new_log(tmp_path / "old.db", 2) as old:
        client = answering((200, lines(witness(1, 4))), AssertionError("nobody has to be asked"))
        client.cosign(log)
        with pytest.raises(LogError) as caught:
            client.cosign(old)
        assert (caught.value.code, caught.value.words) == (
            "rolled_back", "the witness http://w.example has cosigned size 3 of the log log.example/answers for this client, and here its size is 2")


def test_an_answer_is_taken_after_the_size_was_told(tmp_path: Path) -> None:
    with new_log(tmp_path / "log.db", 3) as log:
        client = answering((409, b"2\n"), (200, lines(witness(9), witness(1, 4))))
        assert WITNESSED.open(client.cosign(log)).checkpoint == head(3)
        assert refused(lambda: WitnessClient("http://[bad", KEYS.signing).cosign(log)) == "unreachable"


@contextmanager
def witness_process(folder: Path) -> Iterator[str]:
    """Serve a witness in a process of its own, which is killed at the end; give its URL."""
    command = [sys.executable, str(CHILD), str(folder / "witness.keys"), str(folder / "witness.db"), ORIGIN, LOG.verifier.text()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().decode().strip()
        finally:
            os.kill(child.pid, signal.SIGKILL)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    write_keys(tmp_path / "witness.keys", KEYS)
    Witness.create(tmp_path / "witness.db", NAME)
    return tmp_path


def kept(state: Path) -> Checkpoint:
    with Witness(state / "witness.db", KEYS, [PINNED]) as again:
        return WITNESSED.open(again.checkpoint(ORIGIN) or b"").checkpoint


def test_a_witness_in_another_process_goes_on_after_it_is_killed(state: Path) -> None:
    with new_log(state / "log.db", 3) as log:
        for turn in range(2):
            with witness_process(state) as url, WitnessClient(url, KEYS.signing) as client:
                log.append(f"turn {turn}".encode())
                assert WITNESSED.open(client.cosign(log)).checkpoint.size == 4 + turn
    assert kept(state).size == 5


def test_two_processes_with_one_state_cannot_be_rolled_back_by_two_requests(state: Path) -> None:
    with new_log(state / "log.db", 12) as log:
        paths = {(old, new): tuple(log.consistency_path(old, new)) for old in range(1, 12) for new in range(old, 13)}
    with witness_process(state) as one, witness_process(state) as other, ThreadPoolExecutor(2) as pool:
        assert httpx.post(f"{one}/add-checkpoint", content=Request(0, (), note(1)).to_bytes()).status_code == 200
        size = 1
        while size < 11:
            wanted = [(one, size + 1), (other, size + 2)]
            done = list(pool.map(lambda ask, old=size: httpx.post(
                f"{ask[0]}/add-checkpoint", content=Request(old, paths[old, ask[1]], note(ask[1])).to_bytes()).status_code, wanted))
            assert sorted(done) == [200, 409]
            size = wanted[done.index(200)][1]
    assert kept(state) == head(size)


def test_a_witness_is_made_once_it_is_known_that_it_can_be_served(served: WitnessServer, tmp_path: Path) -> None:
    def made() -> Witness:
        Witness.create(tmp_path / "new.db", NAME)
        return Witness(tmp_path / "new.db", KEYS, [PINNED])

    with pytest.raises(OSError, match="in use"):
        WitnessServer(made, port=served.server_address[1])
    assert not (tmp_path / "new.db").exists()
    with WitnessServer(made) as server, server.witness as one:
        assert httpx.post(f"{server.start().url}/add-checkpoint", content=GOOD).status_code == 200
        assert one.checkpoint(ORIGIN) is not None
    port = server.server_address[1]
    assert refused(lambda: WitnessServer(made, port=port)) == "exists"
    with WitnessServer(served.witness, port=port) as again:
        assert again.server_address[1] == port, "where it could not be made, nothing listens"


def test_it_listens_where_it_is_told(served: WitnessServer) -> None:
    made: Callable[..., WitnessServer] = WitnessServer
    if socket.has_ipv6:
        try:
            six = made(served.witness, "::1")
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
        assert six.url.startswith("http://[::1]:")
        six.close()
    with pytest.raises(OSError, match="in use"):
        made(served.witness, port=served.server_address[1])
