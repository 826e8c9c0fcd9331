"""A witness over HTTP: ``POST PREFIX/add-checkpoint`` and ``GET PREFIX/HEX(SHA-256(origin))/checkpoint`` (C2SP tlog-witness).

It stands open to strangers, so everything is bounded before it is read: bodies, headers, connections at a time, and how long a request
may take in all, however slowly its bytes come. For TLS, put it behind a web server.
"""

from __future__ import annotations

import io
import logging
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.witness import MAX_REQUEST_BYTES, Answer, Witness

if TYPE_CHECKING:
    from typing_extensions import Self

REQUEST_SECONDS: Final = 10.0
MAX_CONNECTIONS: Final = 64

_MAX_DIGITS: Final = 9
_MAX_HEAD_BYTES: Final = 16_384  # of a request's first line and headers
_POLL_SECONDS: Final = 0.05  # how long closing may take
_LOGGER: Final = logging.getLogger("rag_stdlib.witness")


class _Bounded(io.RawIOBase):
    """Reads from a connection, for each request until a moment and up to a size."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._deadline = 0.0
        self._left = 0

    def begin(self) -> None:
        self._deadline = time.monotonic() + self._seconds
        self._left = MAX_REQUEST_BYTES + _MAX_HEAD_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        seconds = self._deadline - time.monotonic()
        if seconds <= 0 or self._left <= 0:
            raise TimeoutError("the request takes too long, or is")
        self._connection.settimeout(seconds)
        count = self._connection.recv_into(buffer, min(len(buffer), self._left))
        self._connection.settimeout(self._seconds)  # for the answer
        self._left -= count
        return count


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WitnessServer

    def setup(self) -> None:
        super().setup()
        self._bounded = _Bounded(self.connection, self.server.request_seconds)
        self.rfile.close()
        self.rfile = io.BufferedReader(self._bounded)

    def handle_one_request(self) -> None:
        self._bounded.begin()
        try:
            super().handle_one_request()
        except OSError:  # it is gone, or too slow
            self.close_connection = True

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            return
        if self.path != f"{self.server.prefix}/add-checkpoint":
            self._answer(Answer(404, b"there is nothing here\n"))
            return
        self._answer_by(lambda: self.server.witness.add_checkpoint(body))

    def do_GET(self) -> None:
        if self.headers.get("content-length") or self.headers.get("transfer-encoding"):
            self.close_connection = True  # what follows would be taken for another request
        start, end = f"{self.server.prefix}/", "/checkpoint"
        digest = self.path[len(start):-len(end)] if self.path.startswith(start) and self.path.endswith(end) else ""
        self._answer_by(lambda: self._checkpoint(digest))

    def _checkpoint(self, digest: str) -> Answer:
        note = self.server.witness.checkpoint_by_hash(digest)
        return Answer(404, b"there is nothing here\n") if note is None else Answer(200, note)

    def _body(self) -> bytes | None:
        """Read a body of a stated, bounded length; else answer, and end the connection, of which more could follow."""
        lengths = self.headers.get_all("content-length", [])
        length = lengths[0] if len(lengths) == 1 else ""  # two that differ would be read in two ways by a server in front
        if self.headers.get("transfer-encoding") or not (length.isascii() and length.isdigit() and len(length) <= _MAX_DIGITS):
            status = 411
        elif int(length) > MAX_REQUEST_BYTES:
            status = 413
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                return body
            status = 400
        self.close_connection = True
        self._answer(Answer(status, b"a body of a stated length is needed, and not a long one\n"))
        return None

    def _answer_by(self, work: Any) -> None:  # noqa: ANN401 - what makes an answer
        try:
            answer = work()
        except LogError as error:
            _LOGGER.error("the witness %s cannot answer: %s", self.server.witness.name, error)  # noqa: TRY400 - the words say all
            answer = Answer(503, b"try again later\n")
        self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002 - as the class above has it
        self.close_connection = True
        self.request_version = self.protocol_version  # else what could not be parsed is answered as in 1991, without a status
        status = HTTPStatus(code)
        self._answer(Answer(status, f"{status.phrase}\n".encode()))

    def version_string(self) -> str:
        return "rag-stdlib-witness"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - as the class above has it
        _LOGGER.debug(format, *args)


class WitnessServer(ThreadingTCPServer):
    """Serves a witness until `close`; a thread for each connection, and no more connections than are allowed."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, witness: Witness | Callable[[], Witness], host: str = "127.0.0.1", port: int = 0, *, prefix: str = "", request_seconds: float = REQUEST_SECONDS,
                 max_connections: int = MAX_CONNECTIONS) -> None:
        """Listen, on a free port if it is 0; nothing is answered before `start`.

        Args:
            witness: What to serve, or what makes it as soon as it is known that it can be served there.
            host: Where to listen.
            port: The same.
            prefix: Before the two paths; empty, or with a slash in front and none behind.
            request_seconds: How long a request may take to come, and an answer to be taken.
            max_connections: More are closed at once.

        Raises:
            OSError: It cannot listen there.
            LogError: What making the witness raises.
        """
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)
        try:
            self.witness = witness() if callable(witness) else witness
        except BaseException:
            self.server_close()
            raise
        self.prefix = prefix.rstrip("/")
        self.request_seconds = request_seconds
        self._free = threading.BoundedSemaphore(max_connections)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens, with the prefix."""
        host, port = self.socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}{self.prefix}"

    def start(self) -> Self:
        """Serve in a thread."""
        self._thread = threading.Thread(target=self.serve_forever, args=(_POLL_SECONDS,), name="witness", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening and serving; the witness stays open."""
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
        self.server_close()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.close()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the class above has it
        """Take a connection on, or close it where there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the same
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - the same
        """Log what nobody foresaw; a stranger is told nothing of it."""
        _LOGGER.exception("a request failed")  # noqa: LOG004 - it is called where the exception is handled
