"""A real HTTP server on 127.0.0.1 that speaks OpenAI's and Ollama's embedding protocols, scriptable per request."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIM = 4


def vector_of(text: str, dim: int = DIM) -> list[float]:
    """Give the fake model's vector: deterministic, far from unit length, different for different texts."""
    digest = hashlib.sha256(text.encode()).digest()
    return [byte / 16 + 0.25 for byte in digest[:dim]]


def in_base64(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """What was to be embedded."""
        return list(self.body["input"])


@dataclass(frozen=True)
class Answer:
    """A reply to send; `body` is encoded as JSON unless it is bytes."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        """Send a complete reply."""
        data = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        handler.send_response(self.status)
        handler.send_header("Content-Type", self.content_type)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)


@dataclass(frozen=True)
class Drip:
    """One byte every 50 ms for ever: in the body, or even before the headers are complete."""

    in_headers: bool = False

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        """Drip until the client or the server ends."""
        if self.in_headers:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        else:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000000")
            handler.end_headers()
        stopped: threading.Event = handler.server.stopped  # type: ignore[attr-defined]
        while not stopped.wait(0.05):
            handler.wfile.write(b" " if not self.in_headers else b"x")
            handler.wfile.flush()


@dataclass(frozen=True)
class Silence:
    """No byte until the server ends."""

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        """Wait."""
        stopped: threading.Event = handler.server.stopped  # type: ignore[attr-defined]
        stopped.wait(30)


@dataclass(frozen=True)
class HangUp:
    """Promise a body, send the beginning, close."""

    sent: bytes = b'{"data": ['

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        """Send the beginning and have the connection closed."""
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.end_headers()
        handler.wfile.write(self.sent)
        handler.close_connection = True


Script = Callable[[Asked], Any]


def openai_reply(texts: Sequence[str], *, dim: int = DIM, floats: bool = False) -> dict[str, Any]:
    """Build a sound OpenAI reply, base64 as asked for or as number lists."""
    vectors = [vector_of(text, dim) for text in texts]
    data = [{"object": "embedding", "index": index, "embedding": vector if floats else in_base64(vector)}
            for index, vector in enumerate(vectors)]
    return {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def ollama_reply(texts: Sequence[str], *, dim: int = DIM) -> dict[str, Any]:
    """Build a sound Ollama reply."""
    return {"model": "m", "embeddings": [vector_of(text, dim) for text in texts], "total_duration": 1}


def sound(asked: Asked) -> Answer:
    """Answer as the protocol of the path does."""
    dim = asked.body.get("dimensions", DIM)
    reply = ollama_reply if asked.path.endswith("/api/embed") else openai_reply
    return Answer(body=reply(asked.texts, dim=dim))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 30

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        provider: ProviderServer = self.server.provider  # type: ignore[attr-defined]
        try:
            provider.answer(asked).send(self)
        except OSError:  # the client has gone
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about peers that close early or distrust the certificate."""


class ProviderServer:
    """The server's face: `script` answers, `asked` keeps every request in order of arrival."""

    def __init__(self, port: int, scheme: str) -> None:
        """Answer soundly until told otherwise."""
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self.script: Script = sound
        self._lock = threading.Lock()

    def answer(self, asked: Asked) -> Any:
        """Note the request and let the script answer."""
        with self._lock:
            self.asked.append(asked)
        return self.script(asked)

    def then(self, *answers: Any) -> None:
        """Answer the next requests with these, one each (an answer, or a script), then soundly."""
        queue = list(answers)

        def script(asked: Asked) -> Any:
            with self._lock:
                answer = queue.pop(0) if queue else sound
            return answer(asked) if callable(answer) else answer

        self.script = script


@contextmanager
def provider_server(tls: ssl.SSLContext | None = None) -> Iterator[ProviderServer]:
    """Run a server for the block, over TLS if given; its threads have ended when the block has."""
    httpd = _Server(("127.0.0.1", 0), _Handler)
    if tls is not None:
        httpd.socket = tls.wrap_socket(httpd.socket, server_side=True)
    httpd.stopped = threading.Event()  # type: ignore[attr-defined]
    provider = ProviderServer(httpd.server_address[1], "http" if tls is None else "https")
    httpd.provider = provider  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        httpd.stopped.set()  # type: ignore[attr-defined]
        httpd.shutdown()
        thread.join()
        httpd.server_close()
