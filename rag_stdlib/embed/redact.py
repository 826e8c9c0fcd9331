"""What a provider says, made fit for a message: no secret in it, one line, bounded (R108).

Providers echo the key they refuse, and the text they were sent. A message ends up on terminals, in traces and in logs.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

MESSAGE_CAP: Final = 300
_MARK: Final = "[redacted]"
# Only the beginning of a text can reach a message, so only that much is searched.
SEARCHED: Final = 20_000

_SHAPES: Final = (
    (re.compile(r"(?<![A-Za-z0-9])(?:sk|pk|rk)-[\w.*\u2026-]{3,}"), _MARK),
    (re.compile(r"(?<![A-Za-z0-9])(?:gh[opsu]_|hf_|AIza|AKIA|xox[abp]-|gsk_|nvapi-)[\w-]{8,}"), _MARK),
    (re.compile(r"(?i)\b(bearer|basic)(\s+)[^\s\"',;]+"), rf"\1\2{_MARK}"),
    (re.compile(r"(?i)\b((?:api|access|secret|auth)[ _-]?(?:key|token)(?: provided)?[\"']?\s{0,4}[:=]\s{0,4}[\"']?)[^\s\"',;&]+"),
     rf"\1{_MARK}"),
    (re.compile(r"(?<=://)[^/\s@]{1,500}@"), f"{_MARK}@"),
)


def redact(text: str, secrets: Iterable[str]) -> str:
    """Replace every configured secret, plain, JSON-escaped or percent-encoded, and whatever is shaped like a key."""
    forms = {form for secret in secrets if secret for form in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""))}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, _MARK)
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return text


def one_line(text: str, cap: int = MESSAGE_CAP) -> str:
    """Escape what moves a cursor, hides or reorders (controls, format characters, separators); keep `cap` characters."""
    shown: list[str] = []
    for char in text[:cap + 1]:
        category = unicodedata.category(char)
        if category[0] == "C" or category in ("Zl", "Zp"):
            shown.append(char.encode("unicode_escape").decode())
        else:
            shown.append(char)
    line = "".join(shown)
    return line if len(line) <= cap else line[:cap - 1] + "\u2026"


def provider_detail(body: bytes, secrets: Iterable[str]) -> str:
    """Take the provider's own sentence from its JSON error, or the beginning of the body, safe to show."""
    text = _sentence(body) if body.lstrip()[:1] == b"{" else None
    if text is None:
        text = body[:SEARCHED].decode("utf-8", "replace")
    return one_line(redact(text[:SEARCHED], secrets).strip()) or "(empty reply)"


def _sentence(body: bytes) -> str | None:
    # {"error": {"message": ...}} and {"error": "..."} are OpenAI's and Ollama's; the other two are common in proxies.
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return None
    for name in ("error", "message", "detail"):
        said = payload.get(name)
        if isinstance(said, dict):
            code, said = said.get("code"), said.get("message")
            if isinstance(said, str) and isinstance(code, str) and code not in said:
                return f"{said} ({code})"
        if isinstance(said, str) and said.strip():
            return said
    return None
