"""Git over https on this machine: the real ``git http-backend`` behind a small server, and servers that misbehave."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificate(folder: Path) -> Path:
    """Write a key and a certificate for 127.0.0.1 that signs itself, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
            .not_valid_before(begin).not_valid_after(begin + dt.timedelta(days=36_500))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256()))
    file = folder / "127.0.0.1.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return file


class GitHandler(BaseHTTPRequestHandler):
    """Serves the repositories below `root`; `seen` gets the headers of every request."""

    root: Path
    seen: ClassVar[list[tuple[str, dict[str, str]]]]

    def do_GET(self) -> None:
        self.seen.append((self.path, dict(self.headers)))
        if self.path.startswith("/locked/"):
            self.answer(401, {"WWW-Authenticate": 'Basic realm="git"'})
        elif self.path.startswith("/to/"):
            self.answer(302, {"Location": self.path.removeprefix("/to/").replace("_", "/")})
        else:
            self.serve()

    do_POST = do_GET  # noqa: N815 - the base class's names

    def answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def serve(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1", "GIT_CONFIG_NOSYSTEM": "1",
            "HOME": "/dev/null", "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=environment, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in (*headers.items(), ("Content-Length", str(len(content)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:  # type: ignore[override]
        pass


@contextmanager
def git_server(root: Path, certificate: Path) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """Serve the repositories in a folder; give the url, and the requests as they come."""
    seen: list[tuple[str, dict[str, str]]] = []
    handler = type("Handler", (GitHandler,), {"root": root, "seen": seen})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def silent_server() -> Iterator[str]:
    """Listen, and never say a word; give the url."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"https://127.0.0.1:{server.getsockname()[1]}"
