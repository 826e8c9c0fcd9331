"""What macula-py reports, in the words of `rag_stdlib.mesh.errors`, and the time that its acts are given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, TypeVar

from rag_stdlib.mesh.errors import (
    CallError,
    CallTimeout,
    InvalidCall,
    NoProvider,
    NotConfidential,
    PayloadRefused,
    ProviderError,
    RelayError,
    ReplyRefused,
    ServeRefused,
    TransportClosed,
)

if TYPE_CHECKING:
    import macula_py

T = TypeVar("T")

GONE: Final = "unknown_next_peer"  # the provider has withdrawn, or serves from elsewhere

_PREFIX: Final = "macula-py: "
_FRAMES: Final = ("frame: ", "frame longer ")  # how the library begins what it says of a payload
_NOT_AUTHORIZED: Final = "not_authorized"
_SEALING: Final = {
    "no_kem_key": "the provider names no key that this node could seal the call to",
    "key_mismatch": "the provider's advertisement names another key than the provider does",
    "reply_not_opened": "the sealed reply cannot be opened",
    "clear_answer_to_sealed": "a sealed call was answered in the clear",
    "kem_advertise_disabled": "this node names no key that a call could be sealed to; connect with kem_advertise",
}


class MeshFailure(CallError):  # noqa: N818 - what the mesh did
    """What else the mesh or its library reports, such as that no station can be reached; `name` is its own reason, or ``failed``."""

    def __init__(self, words: str, name: str = "failed") -> None:
        """Keep the words, and the name."""
        super().__init__(words, name)
        self.words = words
        self.name = name

    def __str__(self) -> str:
        """Give the words."""
        return self.words


class NotGranted(ServeRefused):
    """The organisation has not granted its procedures to this node, or no longer does."""


async def within(seconds: float, act: Awaitable[T], what: str, provider: str | None = None, *, given_s: float | None = None) -> T:
    """Wait for an act of the library, for this long at most.

    The library's own times are not relied upon: an act on a link that has died without a word can outlast them by a minute.

    Args:
        seconds: How long to wait.
        act: The act, which is cancelled then.
        what: The procedure or the topic, or in words what does not answer.
        provider: The node that was named, if one was.
        given_s: The time that a `CallTimeout` names, where `seconds` is the rest of it.

    Raises:
        CallError: What became of it otherwise.
    """
    import macula_py

    try:
        return await asyncio.wait_for(act, seconds)
    except (asyncio.TimeoutError, macula_py.MaculaError, ValueError) as error:
        raise translated(error, what, provider, seconds if given_s is None else given_s) from None


def translated(error: Exception, what: str, provider: str | None, seconds: float) -> CallError:  # noqa: PLR0911 - a table of kinds
    """Put an error of the library into the family of `CallError`."""
    import macula_py

    match error:
        case TimeoutError() | asyncio.TimeoutError():
            return CallTimeout(what, seconds)
        case macula_py.ProviderError():
            return RelayError(GONE) if error.code == GONE else ProviderError(error.code, error.detail)
        case macula_py.RelayError():
            return RelayError(error.code)
        case macula_py.NoProviderError():
            return NoProvider(what, provider)
        case macula_py.ConfidentialityError():
            return not_confidential(error)
        case macula_py.ClosedError():
            return TransportClosed("this node has left the mesh")
        case macula_py.InvalidArgumentError():
            return InvalidCall(_words(error))
        case macula_py.MaculaError():
            return _failure(_words(error), getattr(error, "reason", None))
    return ReplyRefused("malformed_reply", f"what came from {what} cannot be read: {error}")


def not_confidential(error: macula_py.ConfidentialityError) -> NotConfidential:
    """Put a failure to seal, or to open what was sealed, into our words."""
    return NotConfidential(error.reason, _SEALING.get(error.reason) or _words(error))


def serve_refused(error: Exception, procedure: str, node: str) -> ServeRefused:
    """Tell a grant to this node that is not there, for which it can wait, from every other reason not to be let serve."""
    import macula_py

    words = _words(error)
    if isinstance(error, macula_py.NotFoundError) or getattr(error, "reason", None) == _NOT_AUTHORIZED:
        return NotGranted(procedure, f"{words}; the organisation has to grant its procedures to the node {node}")
    return ServeRefused(procedure, words)


def _failure(words: str, reason: str | None) -> CallError:
    if any(mark in words for mark in _FRAMES):
        return PayloadRefused(words, "payload_too_large" if " cap " in words else "payload_refused")
    return MeshFailure(words, reason or MeshFailure.name)


def _words(error: Exception) -> str:
    return str(error).removeprefix(_PREFIX)
