"""A request ends at its deadline whatever the server does, and leaves neither thread nor connection behind."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from provider_server import Answer, Drip, HangUp, ProviderServer, Silence, provider_server

from rag_stdlib.embed.wire import Line, Reply, WireError


@contextmanager
def line_to(endpoint: str, **options: Any) -> Iterator[Callable[..., Reply]]:
    """Yield post(seconds, data): one POST over a Line to the endpoint."""
    line = Line(endpoint, **options)
    with httpx.Client(transport=line.transport, timeout=60) as client:
        def post(seconds: float = 5.0, data: Any = None, url: str = endpoint) -> Reply:
            return line.exchange(lambda: client.post(url, json={"input": ["x"]} if data is None else data), seconds)
        yield post


def trouble(post: Callable[..., Reply], seconds: float = 5.0, **options: Any) -> tuple[str, str, float]:
    began = time.monotonic()
    with pytest.raises(WireError) as caught:
        post(seconds, **options)
    return caught.value.trouble, caught.value.detail, time.monotonic() - began


def unused_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_reply_is_kept_with_status_headers_and_body(server: ProviderServer) -> None:
    server.script = lambda _asked: Answer(418, {"tea": True}, {"Retry-After": "9"})
    with line_to(server.url) as post:
        reply = post()
    assert (reply.status, reply.headers["RETRY-after"], reply.body) == (418, "9", b'{"tea": true}')


def test_what_a_client_makes_of_the_reply_does_not_matter(server: ProviderServer) -> None:
    line = Line(server.url)
    with httpx.Client(transport=line.transport) as client:
        def call() -> None:
            client.post(server.url, json={"input": []})
            raise KeyError("the client's own model refuses the body")
        assert line.exchange(call, 5.0).status == 200


def test_a_defect_before_the_request_is_not_hidden(server: ProviderServer) -> None:
    def call() -> None:
        raise KeyError("a defect")
    with pytest.raises(KeyError):
        Line(server.url).exchange(call, 5.0)
    with pytest.raises(WireError, match="the client sent no request"):
        Line(server.url).exchange(lambda: None, 5.0)


@pytest.mark.parametrize("slow", [Drip(), Drip(in_headers=True), Silence()], ids=["body", "headers", "silence"])
def test_r106_a_slow_server_is_left_at_the_deadline(server: ProviderServer, slow: Any) -> None:
    threads = threading.active_count()
    server.script = lambda _asked: slow
    with line_to(server.url) as post:
        kind, _, took = trouble(post, 0.3)
        assert kind == "timeout"
        assert 0.25 < took < 1.5
        assert threading.active_count() == threads + 1  # the server's own, for the connection
    deadline = time.monotonic() + 3
    if isinstance(slow, Drip):  # its next byte meets a closed connection, so that the server's thread ends
        while threading.active_count() > threads and time.monotonic() < deadline:
            time.sleep(0.02)
        assert threading.active_count() == threads


def test_r106_a_server_that_never_reads_is_left_at_the_deadline() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener, \
            line_to(f"http://127.0.0.1:{listener.getsockname()[1]}") as post:
        kind, _, took = trouble(post, 0.3, data={"input": ["x" * 12_000_000]})
    assert kind == "timeout"
    assert took < 3


def test_r106_no_time_left_means_no_request(server: ProviderServer) -> None:
    with line_to(server.url) as post:
        assert trouble(post, 0.0)[0] == "unreachable"
        post()
        assert trouble(post, 0.0)[0] == "timeout"
    assert len(server.asked) == 1


def test_a_refused_connection_is_unreachable() -> None:
    with line_to(f"http://127.0.0.1:{unused_port()}") as post:
        kind, detail, took = trouble(post)
    assert kind == "unreachable"
    assert "refused" in detail
    assert took < 3


def test_a_name_that_does_not_exist_is_unreachable() -> None:
    with line_to("http://no-such-host.invalid") as post:
        assert trouble(post)[0] == "unreachable"


def test_a_name_with_a_dead_address_is_reached_at_its_next_one(server: ProviderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(server.url.rpartition(":")[2])
    entries = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.2", "127.0.0.1")]
    real = socket.getaddrinfo

    def lookup(host: str, *args: Any, **kwargs: Any) -> Any:
        return entries if host == "embedder.test" else real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with line_to(f"http://embedder.test:{port}") as post:
        assert post().status == 200


@pytest.mark.parametrize("sent", [b"", b'{"data": ['])
def test_a_hang_up_in_mid_body_is_a_broken_connection(server: ProviderServer, sent: bytes) -> None:
    server.then(HangUp(sent))
    with line_to(server.url) as post:
        kind, detail, _ = trouble(post)
        assert kind == "broken"
        assert detail.startswith("the connection broke: ")
        assert post().status == 200  # a new connection is opened for the next request


def test_what_is_no_http_is_a_broken_connection() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        def speak() -> None:
            with closing(listener.accept()[0]) as peer:
                peer.recv(65536)
                peer.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")
        thread = threading.Thread(target=speak)
        thread.start()
        with line_to(f"http://127.0.0.1:{listener.getsockname()[1]}") as post:
            assert trouble(post)[0] == "broken"
        thread.join()


def test_a_reply_without_end_is_cut_at_its_bound(server: ProviderServer) -> None:
    server.script = lambda _asked: Answer(body=b"x" * 100_001)
    with line_to(server.url, body_cap=100_000) as post:
        assert trouble(post)[:2] == ("oversize", "the reply is larger than 100,000 bytes")
    with line_to(server.url, body_cap=100_001) as post:
        assert len(post().body) == 100_001


def test_connections_are_kept_and_shared_by_requests(server: ProviderServer) -> None:
    with line_to(server.url) as post:
        threads = threading.active_count()
        for _ in range(5):
            post()
        assert threading.active_count() == threads + 1  # one connection, one server thread


def test_threads_have_their_own_deadlines_and_replies(server: ProviderServer) -> None:
    server.script = lambda asked: Silence() if asked.body["input"] == ["slow"] else Answer(body={"said": asked.body["input"]})
    seen: dict[str, Any] = {}
    with line_to(server.url) as post:
        def work(text: str) -> None:
            try:
                seen[text] = post(0.5 if text == "slow" else 5.0, data={"input": [text]}).body
            except WireError as error:
                seen[text] = error.trouble
        threads = [threading.Thread(target=work, args=(text,)) for text in ("slow", "a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == {"slow": "timeout", "a": b'{"said": ["a"]}', "b": b'{"said": ["b"]}', "c": b'{"said": ["c"]}'}


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxy_of_the_environment_is_used(server: ProviderServer, monkeypatch: pytest.MonkeyPatch, variable: str,
                                            scheme: str) -> None:
    monkeypatch.setenv(variable, server.url.replace("http://", f"{scheme}user:word@" if scheme else ""))
    with line_to("http://embedder.test:8080/v1") as post:
        assert post().status == 200
    assert server.asked[0].path == "http://embedder.test:8080/v1"
    assert ("proxy-authorization" in server.asked[0].headers) is bool(scheme)


def test_a_host_exempt_from_the_proxy_is_reached_directly(server: ProviderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port()}")
    with line_to(server.url) as post:
        assert post().status == 200
    with line_to(server.url.replace("127.0.0.1", "localhost")) as post:
        assert post().status == 200
    monkeypatch.setenv("NO_PROXY", "no-such-host.invalid")
    with line_to("http://no-such-host.invalid") as post:
        assert trouble(post)[0] == "unreachable"


def test_a_proxy_of_another_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(WireError, match="a socks5 proxy is set in the environment"):
        Line("http://embedder.test")


def certificate(folder: Path) -> Path:
    """Write a key and a certificate for 127.0.0.1 that trusts itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.timezone.utc)
    day = dt.timedelta(days=1)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256()))
    path = folder / "both.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return path


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[tuple[ProviderServer, Path]]:
    path = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with provider_server(context) as server:
        yield server, path


def test_https_trusts_what_the_environment_trusts(tls_server: tuple[ProviderServer, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    server, path = tls_server
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with line_to(server.url) as post:
        assert post().status == 200
        server.script = lambda _asked: Drip()
        kind, _, took = trouble(post, 0.3)
    assert kind == "timeout"
    assert took < 1.5


def test_an_unknown_certificate_is_refused(tls_server: tuple[ProviderServer, Path]) -> None:
    server, _ = tls_server
    with line_to(server.url) as post:
        kind, detail, _ = trouble(post)
    assert kind == "unreachable"
    assert "certificate" in detail
    assert server.asked == []
