"""What goes wrong between two nodes: a handler's refusal on the one side, a call's failure on the other.

A refusal travels as a provider error with the code ``handler_error`` and a detail of at most 256 UTF-8 bytes, of which only the
leading name is meant for programs (RAG service contract §1.6). So the name stands first in what is sent, and is read back from either
form in use: ``dimension_mismatch: …`` and ``{dimension_mismatch,384,768}``.
"""

from __future__ import annotations

import re
from typing import Final

DETAIL_BYTES: Final = 256
HANDLER_ERROR: Final = "handler_error"

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_LEADING: Final = re.compile(r"\s*(?:\{\s*([a-z]\w*)\s*(?:[,}]|\Z)|([a-z]\w*)\s*(?::|\Z))", re.ASCII)


def words_of(error: BaseException) -> str:
    """Return what an exception says, or else its type: also where it cannot be written."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - whatever writing it raises
        return type(error).__name__


def cut(text: str, most: int = DETAIL_BYTES) -> str:
    """Shorten `text` to at most `most` UTF-8 bytes, at a character; lone surrogates in it are written as escapes."""
    return text.encode(errors="backslashreplace")[:most].decode(errors="ignore")


class Refusal(Exception):  # noqa: N818 - an answer of a handler, and no error of the program
    """A handler's answer that it will not serve a request."""

    def __init__(self, name: str, words: str = "", *parts: object) -> None:
        """Refuse by `name`, with `words` for people and `parts` for programs on this side of the mesh.

        Raises:
            ValueError: a name that a caller could not tell from words: it is lower-case letters, digits and underscores.
        """
        super().__init__(name, words, *parts)
        if not _NAME.fullmatch(name):
            raise ValueError(f"a refusal's name is lower-case letters, digits and underscores, not {name!r}")
        self.name = name
        self.words = words
        self.parts = parts

    @property
    def detail(self) -> str:
        """What the caller gets: the name, then ``": "`` and the words; at most 256 UTF-8 bytes, cut at a character."""
        return cut(f"{self.name}: {self.words}" if self.words else self.name)

    def __str__(self) -> str:
        """Give the detail."""
        return self.detail


class CallError(Exception):
    """A call, or another act on the mesh, that came to nothing; `name` is the reason in one word, for programs."""

    name: str = "failed"


class ProviderError(CallError):
    """The provider answered with an error: a handler's refusal (`code` ``handler_error``) or the node's own (``unauthorized``, …).

    `name` is the leading name of a handler's detail, else the code.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        """Keep code and detail as they came."""
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        leading = _LEADING.match(detail) if code == HANDLER_ERROR else None
        self.name = leading[1] or leading[2] if leading else code

    def __str__(self) -> str:
        """Say what the provider answered."""
        return f"the provider answered {self.code}" + (f": {self.detail}" if self.detail else "")


class RelayError(CallError):
    """The mesh could not bring the call to its provider: ``unknown_next_peer`` where that has withdrawn. `name` is the code."""

    def __init__(self, code: str) -> None:
        """Keep the code."""
        super().__init__(code)
        self.code = self.name = code

    def __str__(self) -> str:
        """Say what the mesh answered."""
        return f"the mesh could not relay the call: {self.code}"


class NoProvider(CallError):  # noqa: N818 - the mesh's own word
    """Nobody serves the procedure, or the node that was named does not."""

    name = "no_provider"

    def __init__(self, procedure: str, provider: str | None = None) -> None:
        """Keep the procedure, and the node where one was named."""
        super().__init__(procedure, provider)
        self.procedure = procedure
        self.provider = provider

    def __str__(self) -> str:
        """Say what is not served, and by whom."""
        return f"no node serves {self.procedure}" if self.provider is None else f"the node {self.provider} does not serve {self.procedure}"


class CallTimeout(CallError, TimeoutError):  # noqa: N818 - the mesh's own word
    """No reply within the time of the call; one that comes later is dropped."""

    name = "timeout"

    def __init__(self, procedure: str, seconds: float) -> None:
        """Keep the procedure, and the time it was given in seconds."""
        super().__init__(procedure, seconds)
        self.procedure = procedure
        self.seconds = seconds

    def __str__(self) -> str:
        """Say what kept silent, and for how long."""
        return f"no reply from {self.procedure} within {self.seconds:g} s"


class PayloadRefused(CallError, ValueError):  # noqa: N818 - a verdict on a payload
    """A payload that the mesh cannot carry, refused before anything is sent.

    `reason` names the place in it; `name` is ``payload_too_large`` or, for everything else, ``payload_refused``.
    """

    def __init__(self, reason: str, name: str = "payload_refused") -> None:
        """Keep both."""
        super().__init__(reason, name)
        self.reason = reason
        self.name = name

    def __str__(self) -> str:
        """Give the name, then the reason."""
        return f"{self.name}: {self.reason}"


class ReplyRefused(CallError):  # noqa: N818 - a verdict on a reply
    """A reply that cannot be what was asked for.

    `name` is ``malformed_reply``, ``unbound_reply`` (not by the node that was pinned), ``content_mismatch``,
    ``malformed_provenance`` or ``endless_listing``.
    """

    def __init__(self, name: str, words: str) -> None:
        """Keep the name, and the words for people."""
        super().__init__(name, words)
        self.name = name
        self.words = words

    def __str__(self) -> str:
        """Give the name, then the words."""
        return f"{self.name}: {self.words}"


class ServeRefused(CallError):  # noqa: N818 - a verdict of the mesh
    """The mesh does not let this node serve the procedure."""

    name = "serve_refused"

    def __init__(self, procedure: str, reason: str) -> None:
        """Keep the procedure, and the mesh's reason."""
        super().__init__(procedure, reason)
        self.procedure = procedure
        self.reason = reason

    def __str__(self) -> str:
        """Say what may not be served, and why."""
        return f"{self.procedure} cannot be served here: {self.reason}"


class NotConfidential(CallError):  # noqa: N818 - a verdict on what was to be sealed
    """A call that could not be kept between caller and provider, or a procedure that cannot be served under seal.

    `name` is the mesh's reason: ``no_kem_key`` (the provider names no key to seal to, or one that this node cannot use), ``key_mismatch``,
    ``reply_not_opened``, ``clear_answer_to_sealed``, or ``kem_advertise_disabled`` (this node names no key, and is to serve under seal alone).
    """

    def __init__(self, name: str, words: str) -> None:
        """Keep the reason, and the words for people."""
        super().__init__(name, words)
        self.name = name
        self.words = words

    def __str__(self) -> str:
        """Give the name, then the words."""
        return f"{self.name}: {self.words}"


class InvalidCall(CallError, ValueError):  # noqa: N818 - a verdict on a call
    """A call that no mesh can make: a malformed node id, name, time or option."""

    name = "invalid_call"


class TransportClosed(CallError):  # noqa: N818 - a state
    """The node has left the mesh."""

    name = "closed"
