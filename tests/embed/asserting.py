"""What the tests of the OpenAI client share: a unit vector, a failure without the key in it, an error reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import KEY
from provider_server import (
    Answer,
    vector_of,
)

from rag_stdlib.errors import Failure
from rag_stdlib.result import RagError


def unit(text: str, dim: int = 4) -> Any:
    vector = np.array(vector_of(text, dim), dtype=np.float32).astype(np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def error_of(call: Callable[[], Any]) -> RagError:
    with pytest.raises(Failure) as caught:
        call()
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value.error


def said(status: int, message: str, **headers: str) -> Answer:
    return Answer(status, {"error": {"message": message, "type": "t", "code": None}},
                  {name.replace("_", "-"): value for name, value in headers.items()})
