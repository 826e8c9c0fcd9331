"""What the commands about certificates and logs share: the files they are given, and what goes wrong with them in one line."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rag_stdlib.cli.frame import CommandError, Stopped, note
from rag_stdlib.cli.terminal import clean
from rag_stdlib.errors import Failure

if TYPE_CHECKING:
    from rag_stdlib.proof.log.pinned import PinnedLog
    from rag_stdlib.proof.policy import Policy
    from rag_stdlib.proof.trust import Trust

TrustFile = Annotated[str, typer.Option("--trust", metavar="FILE", help="The keys that you trust; rag keys show --trust writes such files.")]
STREAM: Final = "-"

_MOST_BYTES: Final = 4_194_304  # of a file about trust
_ADVICE: Final[Mapping[str, str]] = {
    "exists": "name another file", "key_unknown": "give the keys that the log was made with", "busy": "try again later",
    "file_foreign": "name another file", "damaged": "put a good copy in its place", "readonly": "see who may write there", "disk_full": "make room there, and try again",
}


@contextmanager
def proof_errors(exit_code: int = 1) -> Iterator[None]:
    """End the command with one line for what a log, a file of keys or a part of the pipeline refuses."""
    from rag_stdlib.proof.log.errors import LogError

    try:
        yield
    except LogError as error:
        advice = f"; {_ADVICE[error.code]}" if error.code in _ADVICE and "; " not in error.words else ""
        raise CommandError(f"{error.words}{advice}", code=error.code, exit_code=exit_code) from None
    except Failure as failure:
        raise CommandError(failure.error, exit_code=exit_code) from None
    except CommandError as error:
        error.exit_code = max(error.exit_code, exit_code)
        raise


@contextmanager
def telling(standing: Callable[[], str]) -> Iterator[None]:
    """Add where things stand to what goes wrong; with an empty text there is nothing to add."""
    from rag_stdlib.proof.log.errors import LogError

    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        said = standing()
        if not said:
            raise
        match error:
            case KeyboardInterrupt():
                raise Stopped(said) from None
            case LogError():
                words, code = error.words, error.code
            case CommandError():
                words, code = error.error, error.code
            case Failure():
                words, code = str(error.error), error.error.code
            case _:
                note(said)
                raise
        raise CommandError(f"{words}; {said}", code=code) from None


def number(value: float | None, option: str) -> float | None:
    """Return the number that an option was given; its bounds let through what is none."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("it is no number", param_hint=option)
    return value


def read_bytes(path: str, most: int) -> bytes:
    """Read a file of at most `most` bytes, standard input for ``-``; of a longer one, a byte more."""
    try:
        if path == STREAM and sys.stdin is not None:
            return sys.stdin.buffer.read(most + 1)
        with Path(path).open("rb") as file:
            return file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise CommandError(f"{path!r} cannot be read: {getattr(error, 'strerror', None) or error}; name another file") from None


def read_trust(path: str) -> Trust:
    """Read whom to trust; a key by which no certificate can be good is noted."""
    from rag_stdlib.proof.trust import Trust, TrustError

    given = _json_of(path, "trust")
    try:
        trust = Trust.from_json(given)
    except TrustError as error:
        raise _unfit(path, "trust", error) from None
    for issuer in trust.issuers.values():
        if issuer.not_before is not None and issuer.not_after is not None and issuer.not_after <= issuer.not_before:
            note(f"{path!r} trusts a key of {clean(issuer.name)!r} for no time: its not_after is not after its not_before, so nothing that it issued verifies")
    return trust


def read_pinned(path: str) -> Mapping[str, PinnedLog]:
    """Read the logs of a trust file, by origin; no issuer has to be in it."""
    from rag_stdlib.proof.trust import TrustError, logs_from_json

    given = _json_of(path, "trust")
    try:
        return logs_from_json(given)
    except TrustError as error:
        raise _unfit(path, "trust", error) from None


def read_policy(path: str | None) -> Policy:
    """Read what to ask of a certificate; without a file, what the format says."""
    from rag_stdlib.proof.policy import Policy

    if path is None:
        return Policy()
    given = _json_of(path, "policy")
    try:
        return Policy.of(given)
    except ValueError as error:
        raise _unfit(path, "policy", error) from None


def read_envelope(path: str) -> dict[str, Any]:
    """Read a certificate that has the form of one; nothing of it is verified."""
    from rag_stdlib.proof.strict import MAX_BYTES

    return envelope_in(path, read_bytes(path, MAX_BYTES))


def envelope_in(path: str, data: bytes) -> dict[str, Any]:
    """Do as `read_envelope`, of what was read of the file already, by `read_bytes` with the most that a certificate has."""
    from rag_stdlib.proof import format as fmt
    from rag_stdlib.proof.forms import pointer
    from rag_stdlib.proof.strict import MAX_BYTES, MalformedJson, parse

    if len(data) > MAX_BYTES:
        raise CommandError(f"{path!r} is no certificate: it is larger than {MAX_BYTES:,} bytes")
    try:
        given = parse(data)
    except MalformedJson as error:
        raise CommandError(f"{path!r} is no certificate: {error}") from None
    departs = fmt.ENVELOPE.departs(given)
    if departs is not None:
        raise CommandError(f"{path!r} is no certificate: {pointer(departs) or 'it'} is missing, unknown or not of its form")
    assert isinstance(given, dict)  # noqa: S101 - it has the form
    return given


def _json_of(path: str, what: str) -> Any:  # noqa: ANN401 - any JSON
    from rag_stdlib.proof.strict import MalformedJson, parse

    data = read_bytes(path, _MOST_BYTES)
    if len(data) > _MOST_BYTES:
        raise CommandError(f"{path!r} is larger than {_MOST_BYTES:,} bytes, which no {what} file is")
    try:
        return parse(data)
    except MalformedJson as error:
        raise CommandError(f"{path!r} is no {what} file: {error}{_place(data)}") from None


def _place(data: bytes) -> str:
    """Say where JSON ends to be any, where that is known."""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return f" at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError):
        pass
    return ""


def _unfit(path: str, what: str, error: ValueError) -> CommandError:
    return CommandError(f"{path!r} is no {what} file: {error}")
