"""Nothing is touched: sockets, lookups and what libraries announce, by new clients and old ones, in any thread."""

from __future__ import annotations

import asyncio
import http.client
import multiprocessing.connection
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import replay


class Counting(BaseHTTPRequestHandler):
    """Counts its requests."""

    def do_GET(self) -> None:
        self.server.hits += 1  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Counting) as made:
        made.hits = 0  # type: ignore[attr-defined]
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    with replay.record(tmp_path / "t.jsonl"):
        pass
    return tmp_path / "t.jsonl"


@replay.tool
def fetch(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as reply:
        return str(reply.read().decode())


def get(kind: str, port: int, client: httpx.Client) -> None:
    if kind == "socket":
        socket.create_connection(("127.0.0.1", port), 5).close()
    elif kind == "http.client":
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).request("GET", "/")
    elif kind == "old client":
        client.get(f"http://127.0.0.1:{port}/")
    elif kind == "asyncio":
        asyncio.run(open_stream(port))
    elif kind == "lookup":
        socket.getaddrinfo("localhost", port)
    elif kind == "name":
        socket.getnameinfo(("127.0.0.1", port), 0)
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
            datagram.sendto(b"x", ("127.0.0.1", port))


async def open_stream(port: int) -> None:
    await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize("kind", ["socket", "http.client", "old client", "asyncio", "lookup", "name", "datagram"])
def test_no_socket_is_connected_in_substitute(trace: Path, server: HTTPServer, kind: str) -> None:
    """Row 42, and the trap of a client made before the session."""
    with httpx.Client() as client:
        with pytest.raises(replay.QuarantineViolation, match=r"replay quarantine \(network\) blocked"), replay.substitute(trace):
            get(kind, server.server_port, client)
        assert server.hits == 0  # type: ignore[attr-defined]
        get("old client", server.server_port, client)
        assert server.hits == 1, "after the session it works again"  # type: ignore[attr-defined]


def test_a_violation_that_the_program_swallows_still_fails_the_replay(trace: Path, server: HTTPServer) -> None:
    with pytest.raises(replay.QuarantineViolation), replay.substitute(trace), suppress(Exception):  # as programs do
        fetch.__wrapped__(server.server_port)  # type: ignore[attr-defined]
    assert server.hits == 0  # type: ignore[attr-defined]


def test_a_worker_thread_is_quarantined_too(trace: Path, server: HTTPServer) -> None:
    def work() -> None:
        with pytest.raises(replay.QuarantineViolation):
            socket.create_connection(("127.0.0.1", server.server_port), 5)

    with pytest.raises(replay.QuarantineViolation), replay.substitute(trace):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


def test_the_network_can_be_let_out_and_live_blocks_are(trace: Path, server: HTTPServer) -> None:
    with replay.substitute(trace, allow_network=True):
        assert fetch.__wrapped__(server.server_port) == "hello"  # type: ignore[attr-defined]
    with replay.substitute(trace), replay.live():
        assert fetch(server.server_port) == "hello"
    assert server.hits == 2  # type: ignore[attr-defined]


def test_a_connection_that_stands_goes_on(trace: Path, server: HTTPServer) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), 5) as stream, replay.substitute(trace):
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert stream.recv(100).startswith(b"HTTP/1.0 200")


def test_recorded_calls_run_in_record_and_differential(tmp_path: Path, server: HTTPServer) -> None:
    path = tmp_path / "f.jsonl"
    with replay.record(path):
        assert fetch(server.server_port) == "hello"
    with replay.differential(path) as session:
        assert fetch(server.server_port) == "hello"
    assert session.report.faithful
    with replay.substitute(path):
        assert fetch(server.server_port) == "hello"
    assert server.hits == 2  # type: ignore[attr-defined]


def test_mutation_is_quarantined(tmp_path: Path, server: HTTPServer) -> None:
    path = tmp_path / "f.jsonl"
    with replay.record(path):
        fetch(server.server_port)
    with pytest.raises(replay.QuarantineViolation), replay.mutation(path, 1, "bye"):
        assert fetch(server.server_port) == "bye"
        fetch.__wrapped__(server.server_port)  # type: ignore[attr-defined]


def test_libraries_announce_what_they_reach_for(trace: Path) -> None:
    replay.quarantine.watch("tests.disk", "disk")
    sys.audit("tests.disk", "outside")
    with pytest.raises(replay.QuarantineViolation, match=r"\(disk\).*tests.disk\(.a.db., 3\)"), replay.substitute(trace):
        sys.audit("tests.other", "not watched")
        sys.audit("tests.disk", "a.db", 3, object())
    with pytest.raises(replay.QuarantineViolation, match="…"), replay.substitute(trace, allow_network=True):
        sys.audit("tests.disk", "x" * 500)


def test_two_sessions_one_of_them_quarantined_refuse_a_plain_thread(trace: Path, tmp_path: Path) -> None:
    found: list[BaseException] = []

    def work() -> None:
        try:
            socket.getaddrinfo("localhost", 1)
        except replay.QuarantineViolation as error:
            found.append(error)

    with replay.record(tmp_path / "o.jsonl"), pytest.raises(replay.QuarantineViolation), replay.substitute(trace):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(found) == 1


def test_a_task_that_is_older_than_the_block_is_quarantined(trace: Path, server: HTTPServer) -> None:
    async def program() -> None:
        go = asyncio.Event()

        async def work() -> None:
            await go.wait()
            socket.create_connection(("127.0.0.1", server.server_port), 5)

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        with replay.substitute(trace):
            go.set()
            await task

    with pytest.raises(replay.QuarantineViolation):
        asyncio.run(program())
    assert server.hits == 0  # type: ignore[attr-defined]


def test_what_outlives_a_replay_is_judged_by_the_sessions_that_are_open(trace: Path, tmp_path: Path) -> None:
    def look() -> None:
        socket.getaddrinfo("127.0.0.1", 1)

    with replay.substitute(trace):
        late = replay.carry(look)
    late()
    with replay.record(tmp_path / "o.jsonl"):
        late()
    with pytest.raises(replay.QuarantineViolation), replay.substitute(trace):
        late()


def test_a_message_holds_no_secret_not_even_one_that_is_cut(trace: Path) -> None:
    for host in ("canary-4711-canary.example.com", f"{60 * 'x'}.{33 * 'x'}.canary-4711-canary"):
        with pytest.raises(replay.QuarantineViolation) as caught, replay.substitute(trace, secrets=["canary-4711-canary"]):
            socket.getaddrinfo(host, 80)
        assert "<redacted>" in str(caught.value)
        assert "canary" not in str(caught.value)


def test_processes_of_multiprocessing_talk_to_each_other_and_to_nobody_else(trace: Path, tmp_path: Path) -> None:
    with (multiprocessing.connection.Listener(family="AF_UNIX") as listener, replay.substitute(trace),
          multiprocessing.connection.Client(listener.address) as client, listener.accept() as served):
        client.send("hello")
        assert served.recv() == "hello"
    address = f"{os.path.relpath(tmp_path)}/s"
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as client_socket:
        other.bind(address)
        other.listen()
        with pytest.raises(replay.QuarantineViolation), replay.substitute(trace):
            client_socket.connect(address)


def test_a_process_that_would_not_know_of_the_session_is_refused(trace: Path) -> None:
    command = [sys.executable, "-c", ""]
    with replay.substitute(trace):
        subprocess.run(command, check=True)
        subprocess.run(command, check=True, env=dict(os.environ))
        subprocess.run(command, check=True, env=dict(os.environb))
        with replay.live():
            subprocess.run(command, check=True, env={})
    with pytest.raises(replay.QuarantineViolation, match=r"\(process\).*pass the environment on"), replay.substitute(trace, allow_network=True):
        subprocess.run(command, check=True, env={"PATH": os.defpath})
    subprocess.run(command, check=True, env={})


WATCHING = """
import subprocess, sys
import replay
with replay.record(sys.argv[1]):
    pass
replay.quarantine.watch("subprocess.Popen", "process")
with replay.substitute(sys.argv[1]):
    subprocess.run(["true"])
"""


def test_processes_can_be_refused_altogether(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WATCHING, str(tmp_path / "t.jsonl")], capture_output=True, text=True, check=False)
    assert "QuarantineViolation: replay quarantine (process) blocked" in done.stderr
    assert "make it a recorded tool call" in done.stderr
