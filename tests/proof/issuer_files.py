"""Files of issuers' keys, written by hand, and what is refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib.proof.issuerkeys import IssuerKey
from rag_stdlib.proof.log.errors import LogError

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=timezone.utc)
ROOT = Path(__file__).parents[2]
SEED = base64.b64encode(bytes(range(32))).decode()


def public(seed: int) -> str:
    return base64.b64encode(IssuerKey(seed.to_bytes(32, "big"), "").public).decode()


def superseded(seed: int = 1, begins: str = "2026-11-01T12:00:00Z", ends: str = "2026-12-01T12:00:00Z") -> dict[str, Any]:
    return {"public_key": public(seed), "not_before": begins, "not_after": ends}


def written(path: Path, *before: dict[str, Any], **changes: Any) -> Path:
    """Write a file by hand: a key that signs since NOW, and those before it."""
    text = {"schema": "rag-stdlib/issuer-keys/v1", "name": "acme", "signing": {"seed": SEED, "not_before": "2026-12-01T12:00:00Z"}, "superseded": list(before)}
    path.write_text(json.dumps({**text, **changes}))
    path.chmod(0o600)
    return path


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(LogError) as caught:
        call()
    return f"{caught.value.code}: {caught.value.words}"
