"""Large values stand beside the trace: in files named by the SHA-256 of their content, referred to by the event.

    {"kind":"tool_result",…,"result":null,"bodies":{"/result":{"sha256":"…","bytes":1500000}},…}

The keys are JSON pointers to where the value belongs; null stands there. Files of ``run.jsonl`` are in ``run.jsonl.bodies/`` and go
where the trace goes. What they hold is redacted as the trace is, and equal values share a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from replay.errors import TraceError
from replay.jsontext import decode, encode
from replay.tracefile.events import KINDS
from replay.tracefile.files import open_regular, reason_of

BODY_NAME: Final = re.compile("[0-9a-f]{64}[.]json")
_BLOCK_BYTES: Final = 1 << 20
_DIGEST_CHARS: Final = 64


def folder_of(trace_path: str) -> str:
    """Return the folder with the bodies of a trace: no two traces share one."""
    return f"{trace_path}.bodies"


# --- writing ---

def move_out(kind: str, text: bytes, limit: int, put: Callable[[bytes], None]) -> bytes:
    """Hand each argument and result that is longer than `limit` bytes to `put`; return the fields with references instead.

    What was raised is a result too: its text and its arguments.
    """
    fields = decode(text)
    found: dict[str, Any] = {}

    def moved(pointer: str, value: Any) -> Any:  # noqa: ANN401 - JSON
        body = encode(value)
        if len(body) <= limit:
            return value
        put(body)
        found[pointer] = {"sha256": sha256(body).hexdigest(), "bytes": len(body)}
        return None

    for field in KINDS[kind].fields:
        if field.name == "args":
            fields["args"] = [moved(f"/args/{index}", value) for index, value in enumerate(fields["args"])]
        elif field.name in fields and (field.type == "any" or not field.required):  # null is a value of no other
            fields[field.name] = moved(f"/{field.name}", fields[field.name])
    if "raised" in fields:
        fields["raised"] = {name: value if name == "type" else moved(f"/raised/{name}", value) for name, value in fields["raised"].items()}
    return encode({**fields, "bodies": found}) if found else text


def write_body(trace_path: str, body: bytes, *, entropy: Callable[[int], bytes], fsync: bool) -> None:
    """Keep a body in its file, whole or not at all; one that is there already and is whole stays."""
    path = _body_path(trace_path, sha256(body).hexdigest())
    try:
        if b"".join(_blocks(path, len(body))) == body:
            return
    except OSError:
        pass  # missing, or what cannot be read: it is written, or cannot be replaced, which is told then
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{entropy(8).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            rest = memoryview(body)
            while rest:
                rest = rest[file.write(rest):]
            if fsync:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# --- reading ---

def restore(trace_path: str, event: dict[str, Any], line: int) -> None:
    """Put the bodies of an event in their places.

    Raises:
        TraceError: trace_body, where a file is missing, altered, or belongs nowhere.
    """
    for pointer, digest, size in _references(trace_path, event, line):
        parent, key = _place(trace_path, event, pointer, line)
        parts: list[bytes] = []
        _check_body(trace_path, pointer, digest, size, line, parts.append)
        try:
            parent[key] = decode(b"".join(parts))
        except ValueError:
            raise _error(trace_path, f"the body {str(_body_path(trace_path, digest))!r} of {pointer} is no JSON", line) from None


def check_bodies(trace_path: str, event: dict[str, Any], line: int) -> None:
    """Raise what `restore` would where files are missing or altered, without holding a whole body in memory."""
    for pointer, digest, size in _references(trace_path, event, line):
        _place(trace_path, event, pointer, line)
        _check_body(trace_path, pointer, digest, size, line)


def digests(event: dict[str, Any]) -> Iterator[str]:
    """Give the names, without ``.json``, of the files that an event refers to; what is misshapen refers to nothing."""
    references = event.get("bodies")
    for reference in references.values() if type(references) is dict else ():
        digest = reference.get("sha256") if type(reference) is dict else None
        if type(digest) is str and BODY_NAME.fullmatch(f"{digest}.json"):
            yield digest


def _check_body(trace_path: str, pointer: str, digest: str, size: int, line: int, take: Callable[[bytes], None] | None = None) -> None:
    """Read a body, block by block; each is given to `take`."""
    path = _body_path(trace_path, digest)
    hashed = sha256()
    try:
        for block in _blocks(path, size):
            hashed.update(block)
            if take is not None:
                take(block)
    except OSError as error:
        raise _error(trace_path, f"the body {str(path)!r} of {pointer} cannot be read: {reason_of(error)}", line) from None
    if hashed.hexdigest() != digest:
        raise _error(trace_path, f"the body {str(path)!r} of {pointer} was altered", line)


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    """Read a regular file of this size; nothing of one that has another size."""
    with open_regular(path, os.O_NOFOLLOW) as file:
        rest = size if os.fstat(file.fileno()).st_size == size else 0
        while rest and (block := file.read(min(rest, _BLOCK_BYTES))):
            rest -= len(block)
            yield block


def _body_path(trace_path: str, digest: str) -> Path:
    return Path(folder_of(trace_path), f"{digest}.json")


def _references(trace_path: str, event: dict[str, Any], line: int) -> Iterator[tuple[str, str, int]]:
    """Give (pointer, digest, length in bytes) of each reference of an event."""
    references = event["bodies"]
    if type(references) is not dict:
        raise _error(trace_path, "bodies must be an object", line)
    for pointer, reference in references.items():
        digest, size = (reference.get("sha256"), reference.get("bytes")) if type(reference) is dict else (None, None)
        # the digest becomes a file name: nothing else may
        if type(digest) is not str or len(digest) != _DIGEST_CHARS or set(digest) - set("0123456789abcdef"):
            raise _error(trace_path, f"the body of {pointer} has no SHA-256", line)
        if type(size) is not int or size < 0:
            raise _error(trace_path, f"the body of {pointer} has no length", line)
        yield pointer, digest, size


def _place(trace_path: str, event: dict[str, Any], pointer: str, line: int) -> tuple[Any, Any]:
    """Follow a JSON pointer (RFC 6901) to a null; return what holds it, and its key there."""
    parent: Any = None
    key: Any = None
    place: Any = event
    for part in pointer.split("/")[1:]:
        parent, key = place, part.replace("~1", "/").replace("~0", "~")
        if type(parent) is list and key.isdecimal() and int(key) < len(parent):
            key = int(key)
            place = parent[key]
        elif type(parent) is dict and key in parent:
            place = parent[key]
        else:
            raise _error(trace_path, f"the event has no place {pointer!r} for a body", line)
    if parent is None or place is not None:
        raise _error(trace_path, f"a value stands at {pointer!r}, where a body belongs", line)
    return parent, key


def _error(path: str, message: str, line: int) -> TraceError:
    return TraceError("trace_body", message, path=path, line=line)
