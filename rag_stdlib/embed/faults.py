"""What went wrong with one request: the Failure it may become, whether to repeat it, whether smaller batches help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from rag_stdlib.errors import Failure, fail

Split: TypeAlias = Literal["no", "content", "length"]


class Fault:
    """One request failed; a value, as most faults are followed by another request and only the last becomes a Failure.

    `code` is of the error table and `fields` fill its message. `retries` is how often a repeat may help (None: until the
    deadline), `pause_s` what the provider asked to wait, `split` whether one of the batch's texts, or its length, may
    be the cause.
    """

    __slots__ = ("code", "fields", "pause_s", "retries", "split")

    def __init__(self, code: str, fields: Mapping[str, object], *, retries: int | None = 0, pause_s: float | None = None,
                 split: Split = "no") -> None:
        """Keep all of it."""
        self.code = code
        self.fields = fields
        self.retries = retries
        self.pause_s = pause_s
        self.split = split

    def failure(self, name: str = "") -> Failure:
        """Make the Failure; `name` names the one text concerned, as in `text 3 of 12 ("…")`."""
        where = name if self.code == "embedder_input_too_long" or not name else f" for {name}"
        return fail(self.code, **{**self.fields, "where": where})
