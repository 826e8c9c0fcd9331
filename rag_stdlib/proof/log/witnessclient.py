"""Asking witnesses to cosign a log's checkpoint, and keeping what they answer with the log."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rag_stdlib.proof.log.checkpoints import Checkpoint, read_number
from rag_stdlib.proof.log.errors import LogError
from rag_stdlib.proof.log.notes import MAX_NOTE_BYTES, Note, VerifierKey
from rag_stdlib.proof.log.store import Log
from rag_stdlib.proof.log.witness import Answer, Request

if TYPE_CHECKING:
    import httpx
    from typing_extensions import Self

TIMEOUT_SECONDS: Final = 10.0

_TURNS: Final = 4
_STEPS: Final = 6  # times the timeout, for an answer that comes slowly
_SECRET: Final = re.compile(r"//[^/?#]*@")  # a name and a password before a host


class NotContinued(LogError):  # noqa: N818 - it says what the witness says
    """A witness says that the log, as it is here, does not continue what it cosigned; that is signed by nobody, and to be cleared before anything is appended."""


def without_secret(url: str) -> str:
    """Write a URL as it can be shown, without a name and a password."""
    return _SECRET.sub("//***@", url)


class WitnessClient:
    """One witness elsewhere. Safe to use from many threads."""

    def __init__(self, url: str, keys: Sequence[VerifierKey], *, timeout: float = TIMEOUT_SECONDS, transport: httpx.BaseTransport | None = None) -> None:
        """Name the witness; nothing is asked yet.

        Args:
            url: Its submission prefix.
            keys: By which its cosignatures are known, of any kind.
            timeout: Seconds for each step of a request.
            transport: Of httpx, where it is another than the network.
        """
        import httpx

        self.url = url.rstrip("/")
        self._shown = without_secret(self.url)
        self._keys = tuple(keys)
        self._timeout = timeout
        self._client = httpx.Client(timeout=timeout, follow_redirects=False, transport=transport)
        self._seen: dict[str, int] = {}  # the size last cosigned, by origin; the witness tells where it is another

    def cosign(self, log: Log) -> bytes:
        """Have the witness cosign the last checkpoint of a log, and keep the cosignatures with it.

        Returns:
            The note of the checkpoint with all cosignatures that the log has of it.

        Raises:
            LogError: ``rolled_back`` where this client had more of the log cosigned than there is; ``refused`` where the witness does not cosign, for whatever
                reason: what it says of that is signed by nobody, and no proof (a `NotContinued` where that is another past of the log); ``unreachable``, ``reply_malformed``; what the log raises.
            ProofError: ``cosignature_invalid``, ``signature_missing``: the answer does not hold.
        """
        old = self._seen.get(log.origin, 0)
        for _ in range(_TURNS):
            note = log.checkpoint()
            head = Checkpoint.parse(Note.parse(note).text)
            if old > head.size:
                raise self._behind(log.origin, old, head.size)
            answer = self.submit(Request(old, tuple(log.consistency_path(old, head.size)), note))
            if answer.status == 200:  # noqa: PLR2004 - cosigned
                cosigned = log.add_cosignatures(note, answer.body, self._keys)
                self._seen[log.origin] = head.size
                return cosigned
            if answer.status != 409:  # noqa: PLR2004 - it has cosigned another size
                break
            old = _size(answer.body)
        is_another = answer.status == 422  # noqa: PLR2004 - our proof does not fit its tree
        kind, meaning = (NotContinued, ", that it does not continue what was cosigned last") if is_another else (LogError, "")
        raise kind("refused", f"the witness {self._shown} does not cosign size {head.size} of the log {log.origin}: it answers {answer.status}{meaning}: "
                   f"{answer.body[:200].decode(errors='replace').strip()!r}")

    def _behind(self, origin: str, old: int, size: int) -> LogError:
        """Say that the witness has more of the log than there is here: it had it from here, under its signature, or it says so."""
        if old == self._seen.get(origin):
            return LogError("rolled_back", f"the witness {self._shown} has cosigned size {old} of the log {origin} for this client, and here its size is {size}")
        return NotContinued("refused", f"the witness {self._shown} says that it has cosigned size {old} of the log {origin}, and here its size is {size}: the log here is "
                            "behind or was put back, or the witness does not tell the truth")

    def submit(self, request: Request) -> Answer:
        """Send one request, and return the answer, whatever it is.

        Raises:
            LogError: ``unreachable``, ``reply_malformed``.
        """
        import httpx

        deadline, body = time.monotonic() + _STEPS * self._timeout, bytearray()
        try:
            with self._client.stream("POST", f"{self.url}/add-checkpoint", content=request.to_bytes(), headers={"Accept-Encoding": "identity"}) as response:
                for part in response.iter_raw():
                    body += part
                    if len(body) > MAX_NOTE_BYTES or time.monotonic() > deadline:
                        raise LogError("reply_malformed", f"the witness {self._shown} gives no end of an answer")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise LogError("unreachable", f"the witness {self._shown}: {error or type(error).__name__}") from None
        return Answer(response.status_code, bytes(body), response.headers.get("content-type", ""))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        """Return the client, which the block closes."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()


def _size(body: bytes) -> int:
    digits = body.decode("ascii", "replace")
    if not digits.endswith("\n"):
        raise LogError("reply_malformed", "a witness that has cosigned another size tells it on a line")
    try:
        return read_number(digits[:-1], "reply_malformed")
    except LogError as error:
        raise LogError("reply_malformed", f"a witness tells no size: {error.words}") from None
