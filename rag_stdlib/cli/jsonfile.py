"""What a provider said, in a file: JSON with byte strings as ``{"$bytes": BASE64}``, from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rag_stdlib.cli.frame import CommandError

if TYPE_CHECKING:
    from rag_stdlib.contract.cbor import Value


def json_bytes(path: str) -> bytes:
    """Read a file of at most as many bytes as the JSON form can have."""
    from rag_stdlib.contract.jsonform import MAX_CHARS

    most = 4 * MAX_CHARS  # no character takes more bytes in UTF-8
    try:
        with Path(path).open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise CommandError(f"{path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > most:
        raise CommandError(f"{path!r} is larger than {most:,} bytes")
    return data


def json_value(path: str) -> Value:
    """Read the value in a file."""
    from rag_stdlib.contract.jsonform import JsonFormError, from_json

    try:
        return from_json(json_bytes(path))
    except JsonFormError as error:
        raise CommandError(f"{path!r} cannot be used: {error}") from None
