"""JSON taken apart and put together by attackers: parts at paths, exchanged in copies, and digests computed again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from rag_stdlib.proof import format as fmt

Json: TypeAlias = Any
Path: TypeAlias = "tuple[str | int, ...]"

GONE: Final[Any] = object()

_DIGESTS: Final = frozenset(("commitment", "content_sha256", "inputs_sha256", "key", "sha256", "state"))


def written(value: Json) -> bytes:
    """Write JSON as attackers do: lone surrogates and all."""
    return json.dumps(value, separators=(",", ":")).encode()


def part(value: Json, path: Sequence[str | int]) -> Json:
    """Return the part at a path."""
    for step in path:
        value = value[step]
    return value


def copied(value: Json) -> Json:
    """Copy JSON as a whole."""
    if isinstance(value, Mapping):
        return {name: copied(each) for name, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


def with_part(value: Json, path: Path, new: Json) -> Json:
    """Return JSON with the part at a path exchanged, added, or (`GONE`) taken out; the other parts are those of the original."""
    step, *inner = path
    made: Json = dict(value) if isinstance(value, dict) else list(value)
    if inner:
        made[step] = with_part(value[step], tuple(inner), new)
    elif new is GONE:
        del made[step]
    else:
        made[step] = new
    return made


def rehashed(body: Mapping[str, Json], query: str | None = None, *, but: Iterable[Path] = ()) -> dict[str, Json]:
    """Copy a body with every digest computed again from what it is of; those of the question only where it is known.

    A digest whose path is among `but` stays as it is, or away. What has lost its form keeps its digests: it is refused before anyone looks
    at them.
    """
    made: dict[str, Json] = copied(body)
    for again in (_items, _state, _answer, _claims, _policy):
        with suppress(AttributeError, IndexError, KeyError, TypeError, ValueError):
            again(made)
    if query is not None:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            _query(made, query)
    for path in but:
        if path and path[-1] in _DIGESTS:
            kept, at = part(body, path[:-1]), part(made, path[:-1])
            at.pop(path[-1], None)
            at.update({name: kept[name] for name in path[-1:] if name in kept})
    return made


def _items(body: dict[str, Json]) -> None:
    for item in body["retrieval"]["items"]:
        item["content_sha256"] = fmt.text_digest(item["text"])


def _state(body: dict[str, Json]) -> None:
    retrieval = body["retrieval"]
    retrieval["state"] = fmt.index_state(retrieval, body["query"]["salt"])


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
