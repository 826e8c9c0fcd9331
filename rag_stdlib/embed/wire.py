"""One provider's HTTP line, on which a request ends at its deadline whatever the server does (R106).

A client's read timeout starts anew with every byte, so a server that drips keeps it waiting for ever. Here each connect,
handshake, read and write gets what is left until one moment, through httpcore's network backend. No helper thread is
needed, and a connection that was cut short is closed. One thing stays outside: the system's name lookup.

The official clients build and send the requests; what came back is kept here, as each of them hides something that is
needed to judge a reply: the headers with Retry-After, or a body that its own reply model refuses.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, Literal, NoReturn, TypeAlias
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

Trouble: TypeAlias = Literal["timeout", "unreachable", "broken", "oversize"]

CONNECT_S: Final = 10.0
BODY_CAP: Final = 256 * 1024 * 1024
_WRITE_PIECE: Final = 16 * 1024


class WireError(Exception):
    """No usable HTTP reply: out of time, no connection, a connection that broke, or a body beyond all bounds."""

    def __init__(self, trouble: Trouble, detail: str) -> None:
        """Keep what kind of trouble it is, and the system's words."""
        super().__init__(detail)
        self.trouble = trouble
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete HTTP reply; header names are looked up in any case, the body is decompressed."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Line:
    """The connections to one endpoint. `transport` goes into the httpx.Client that a provider's client uses."""

    def __init__(self, endpoint: str, *, body_cap: int = BODY_CAP) -> None:
        """Prepare for `endpoint` (a base URL); nothing is opened yet. A proxy set in the environment is used."""
        self._current = _Current()
        self.transport: httpx.BaseTransport = _Transport(_pool(httpx.URL(endpoint), self._current), self._current, body_cap)

    def exchange(self, call: Callable[[], object], seconds: float) -> Reply:
        """Run `call`, which sends one request through the transport, and return the reply; raises WireError.

        What `call` returns or raises after the reply came in is ignored: the reply is judged by its bytes.
        """
        self._current.begin(time.monotonic() + seconds)
        try:
            call()
        except Exception:
            if self._current.reply is None and self._current.error is None:
                raise
        if self._current.reply is None:
            raise self._current.error or WireError("broken", "the client sent no request")
        return self._current.reply


class _Current(threading.local):
    """What this thread's exchange is at: its deadline on time.monotonic, and its outcome."""

    deadline: float = 0.0
    reply: Reply | None = None
    error: WireError | None = None

    def begin(self, deadline: float) -> None:
        self.deadline, self.reply, self.error = deadline, None, None

    def left(self, late: type[httpcore.TimeoutException]) -> float:
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise late("the deadline has passed")
        return seconds


class _Stream(httpcore.NetworkStream):
    """A connection whose every operation gets the time that is left; timeouts asked for by callers are moot."""

    def __init__(self, inner: httpcore.NetworkStream, current: _Current) -> None:
        self._inner = inner
        self._current = current

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        return self._inner.read(max_bytes, self._current.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        # In pieces, so that a server which hardly reads cannot hold one long write beyond the deadline.
        for start in range(0, len(buffer), _WRITE_PIECE):
            self._inner.write(buffer[start:start + _WRITE_PIECE], self._current.left(httpcore.WriteTimeout))

    def start_tls(self, ssl_context: ssl.SSLContext, server_hostname: str | None = None,
                  timeout: float | None = None) -> httpcore.NetworkStream:  # noqa: ARG002
        left = self._current.left(httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._current)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's signature
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    """Opens connections within the time that is left, over all addresses of a name together."""

    def __init__(self, current: _Current) -> None:
        self._inner = httpcore.SyncBackend()
        self._current = current

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, local_address: str | None = None,  # noqa: ARG002
                    socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None) -> httpcore.NetworkStream:
        began = time.monotonic()
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            seconds = min(self._current.left(httpcore.ConnectTimeout), began + CONNECT_S - time.monotonic())
            try:
                stream = self._inner.connect_tcp(address, port, max(seconds, 0.001), local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _Stream(stream, self._current)
        raise failure


class _Transport(httpx.BaseTransport):
    """Sends one request and reads its reply to the end, noting the outcome before any client sees it."""

    def __init__(self, pool: httpcore.ConnectionPool, current: _Current, body_cap: int) -> None:
        self._pool = pool
        self._current = current
        self._body_cap = body_cap

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        # Uncompressed, the cap below is a cap on memory.
        request.headers["accept-encoding"] = "identity"
        url = httpcore.URL(scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port,
                           target=request.url.raw_path)
        try:
            response = self._pool.handle_request(httpcore.Request(
                method=request.method, url=url, headers=request.headers.raw, content=request.read()))
            try:
                body = self._read(response)
            finally:
                response.close()
        except WireError as error:
            self._fail(error)
        except httpcore.ConnectTimeout:
            self._fail(WireError("unreachable", "no connection in time"))
        except httpcore.TimeoutException:
            self._fail(WireError("timeout", "out of time"))
        except (httpcore.ConnectError, httpcore.ProxyError) as error:
            self._fail(WireError("unreachable", str(error) or type(error).__name__))
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
            self._fail(WireError("broken", f"the connection broke: {str(error) or type(error).__name__}"))
        whole = httpx.Response(response.status, headers=response.headers, content=body, request=request)
        self._current.reply = Reply(whole.status_code, whole.headers, whole.content)
        return whole

    def close(self) -> None:
        self._pool.close()

    def _read(self, response: httpcore.Response) -> bytes:
        pieces: list[bytes] = []
        size = 0
        for piece in response.iter_stream():
            size += len(piece)
            if size > self._body_cap:
                raise WireError("oversize", f"the reply is larger than {self._body_cap:,} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def _fail(self, error: WireError) -> NoReturn:
        self._current.error = error
        raise httpx.ReadError(error.detail) from None


def _pool(endpoint: httpx.URL, current: _Current) -> httpcore.ConnectionPool:
    tls = httpx.create_ssl_context() if endpoint.scheme == "https" else None
    proxy = _proxy_of(endpoint)
    # Connections are as many as threads ask for at once; some are kept, so that a query pays no new handshake.
    kept, expiry = 8, 30.0
    if proxy is None:
        return httpcore.ConnectionPool(ssl_context=tls, max_connections=None, max_keepalive_connections=kept,
                                       keepalive_expiry=expiry, network_backend=_Backend(current))
    if proxy.scheme not in ("http", "https"):
        raise WireError("unreachable", f"a {proxy.scheme} proxy is set in the environment; only http and https ones work")
    login = (proxy.username.encode(), proxy.password.encode()) if proxy.username else None
    where = httpcore.URL(scheme=proxy.raw_scheme, host=proxy.raw_host, port=proxy.port, target=proxy.raw_path)
    return httpcore.HTTPProxy(where, proxy_auth=login, ssl_context=tls, max_connections=None,
                              max_keepalive_connections=kept, keepalive_expiry=expiry, network_backend=_Backend(current))


def _proxy_of(endpoint: httpx.URL) -> httpx.URL | None:
    """Find the proxy that the environment sets for this endpoint; this machine itself is always reached directly."""
    if _is_loopback(endpoint.host) or proxy_bypass(endpoint.host):
        return None
    proxies = getproxies()
    proxy = proxies.get(endpoint.scheme) or proxies.get("all")
    if not proxy:
        return None
    return httpx.URL(proxy if "://" in proxy else f"http://{proxy}")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
