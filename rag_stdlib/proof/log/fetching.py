"""Reading the files of a published log: out of a folder, or below a URL."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.privatefile import os_refusal

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS: Final = 10.0

_FOUND: Final = 200
_GZIP: Final = 31  # the number by which zlib knows it
_STEPS: Final = 6
_MISSING: Final = (404, 410)


class Folder:
    """Reads below a folder, following no link at the file's own name; a `Fetch`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Name the folder."""
        self._base = Path(path)

    def __call__(self, name: str, most: int) -> bytes | None:
        """Read a file.

        Raises:
            LogError: ``file_unsafe``, ``file_io``; ``reply_malformed`` where it is larger than `most` bytes.
        """
        path = self._base / name
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise os_refusal(str(path), error) from None
        try:
            with os.fdopen(handle, "rb", closefd=False) as file:
                data = file.read(most + 1)
        except OSError as error:
            raise os_refusal(str(path), error) from None
        finally:
            os.close(handle)
        return _bounded(data, str(path), most)

    def close(self) -> None:
        """Do nothing: nothing is kept open."""


class Site:
    """Reads below a URL, over connections that are kept, following no redirect; a `Fetch`.

    A file must be there whole within six times the timeout, which is also the most that any one step may take.
    """

    def __init__(self, url: str, *, timeout: float = TIMEOUT_SECONDS, transport: httpx.BaseTransport | None = None) -> None:
        """Name the URL; `transport` is httpx's, where it is another than the network."""
        import httpx

        self._prefix = url.rstrip("/")
        self._seconds = _STEPS * timeout
        self._client = httpx.Client(timeout=timeout, follow_redirects=False, transport=transport, headers={"Accept-Encoding": "gzip, identity"})

    def __call__(self, name: str, most: int) -> bytes | None:
        """Read a file.

        Raises:
            LogError: ``unreachable``; ``reply_malformed`` where it is larger than `most` bytes, or in a coding that nobody asked for.
        """
        import httpx

        url, deadline, data = f"{self._prefix}/{name}", time.monotonic() + self._seconds, bytearray()
        try:
            with self._client.stream("GET", url) as response:
                if response.status_code in _MISSING:
                    return None
                if response.status_code != _FOUND:
                    raise LogError("unreachable", f"{url} answered {response.status_code}")
                for part in response.iter_raw():
                    data += part
                    if len(data) > most:
                        break
                    if time.monotonic() > deadline:
                        raise LogError("unreachable", f"{url} was not there whole within {self._seconds:g} s")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise LogError("unreachable", f"{url}: {error or type(error).__name__}") from None
        return _bounded(_plain(bytes(data), response.headers.get("content-encoding", "identity"), url, most), url, most)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _plain(data: bytes, coding: str, url: str, most: int) -> bytes:
    """Undo the one compression that a log may use unasked, no further than is needed to see that it is too much."""
    if coding == "gzip":
        reader = zlib.decompressobj(_GZIP)
        try:
            data = reader.decompress(data, most + 1)
        except zlib.error as error:
            raise LogError("reply_malformed", f"{url}: {error}") from None
        if not reader.eof and len(data) <= most:
            raise LogError("reply_malformed", f"{url} ends early")
    elif coding != "identity":
        raise LogError("reply_malformed", f"{url} is in the coding {coding!r}, which nobody asked for")
    return data


def _bounded(data: bytes, where: str, most: int) -> bytes:
    if len(data) > most:
        raise LogError("reply_malformed", f"{where} is larger than {most:,} bytes, which no such file is")
    return data
