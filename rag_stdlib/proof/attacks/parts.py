"""JSON taken apart and put together by attackers: parts at paths, exchanged in copies, and digests computed again."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from rag_stdlib.proof import format as fmt

Json: TypeAlias = Any
Path: TypeAlias = "tuple[str | int, ...]"

GONE: Final[Any] = object()


def written(value: Json) -> bytes:
    """Write JSON as attackers do: lone surrogates and all."""
    return json.dumps(value, separators=(",", ":")).encode()


def part(value: Json, path: Sequence[str | int]) -> Json:
    """Return the part at a path."""
    for step in path:
        value = value[step]
    return value


def with_part(value: Json, path: Path, new: Json) -> Json:
    """Copy JSON with the part at a path exchanged, added, or (`GONE`) taken out; the copy shares nothing with the original."""
    made = copy.deepcopy(value)
    at = part(made, path[:-1])
    if new is GONE:
        del at[path[-1]]
    else:
        at[path[-1]] = copy.deepcopy(new)
    return made


def rehashed(body: Mapping[str, Json], query: str | None = None) -> dict[str, Json]:
    """Copy a body with every digest computed again from what it is of; those of the question only where it is known.

    What has lost its form keeps its digests: it is refused before anyone looks at them.
    """
    made = copy.deepcopy(dict(body))
    for again in (_retrieval, _answer, _claims, _policy):
        with suppress(AttributeError, IndexError, KeyError, TypeError, ValueError):
            again(made)
    if query is not None:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            _query(made, query)
    return made


def _retrieval(body: dict[str, Json]) -> None:
    retrieval = body["retrieval"]
    retrieval["state"] = fmt.index_state(retrieval)
    for item in retrieval["items"]:
        item["content_sha256"] = fmt.text_digest(item["text"])


def _answer(body: dict[str, Json]) -> None:
    body["answer"]["sha256"] = fmt.text_digest(body["answer"]["text"])


def _claims(body: dict[str, Json]) -> None:
    for claim in body["claims"]:
        claim["sha256"] = fmt.text_digest(claim["text"])
        for span in claim["spans"]:
            span["sha256"] = fmt.text_digest(span["text"])
        texts = [span["text"] for span in claim["spans"]]
        claim["judgement"]["inputs_sha256"] = fmt.judge_inputs(claim["text"], texts, body["judge"]["digest"])


def _policy(body: dict[str, Json]) -> None:
    policy = body["policy"]
    policy["sha256"] = fmt.policy_digest(policy["labels"], policy["minimum_confidence"])


def _query(body: dict[str, Json], query: str) -> None:
    said = body["query"]
    said["commitment"] = fmt.query_commitment(query, said["nonce"], said["salt"])
    said["key"] = fmt.query_key(query, body["retrieval"]["state"])
