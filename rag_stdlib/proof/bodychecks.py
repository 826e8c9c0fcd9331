"""Checks of a body by itself: every digest, place and decision in it is computed again (docs/certificate.md, checks 6 and 12 to 20).

Each check takes a body that has the format's form, and returns the path of the first thing that is wrong, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.decisions import is_loose, is_quotation, reason
from rag_stdlib.proof.forms import Path
from rag_stdlib.proof.provenance import are_lines

Body: TypeAlias = Mapping[str, Any]
BodyCheck: TypeAlias = Callable[[Body], "Path | None"]


_BY_SCORE: Final = (None, "score", "statistics")  # strategies that leave the best score first
_BY_RANK: Final = ("rank", "statistics and rank")  # and those that do so within each index
_NO_JUDGE: Final = "none"


def times(body: Body) -> Path | None:
    """6: it expires after it is issued, and not long after."""
    issued, expires = (fmt.read_time(body[name]) for name in ("issued_at", "expires_at"))
    assert issued is not None and expires is not None  # noqa: S101, PT018 - the form was checked
    return None if timedelta(0) < expires - issued <= timedelta(seconds=fmt.LONGEST_S) else ("expires_at",)


def hashes(body: Body) -> Path | None:
    """12: every digest is that of what it stands beside."""
    return next((path for path, given, computed in _digests(body) if given != computed), None)


def _digests(body: Body) -> Iterator[tuple[Path, str, str]]:
    retrieval, answer, judge = body["retrieval"], body["answer"], body["judge"]["digest"]
    yield ("retrieval", "state"), retrieval["state"], fmt.index_state(retrieval, body["query"]["salt"])
    for place, item in enumerate(retrieval["items"]):
        yield ("retrieval", "items", place, "content_sha256"), item["content_sha256"], fmt.text_digest(item["text"])
    yield ("answer", "sha256"), answer["sha256"], fmt.text_digest(answer["text"])
    for place, claim in enumerate(body["claims"]):
        yield ("claims", place, "sha256"), claim["sha256"], fmt.text_digest(claim["text"])
        for number, span in enumerate(claim["spans"]):
            yield ("claims", place, "spans", number, "sha256"), span["sha256"], fmt.text_digest(span["text"])
        inputs = fmt.judge_inputs(claim["text"], _texts(claim["spans"]), judge)
        yield ("claims", place, "judgement", "inputs_sha256"), claim["judgement"]["inputs_sha256"], inputs
    policy = body["policy"]
    yield ("policy", "sha256"), policy["sha256"], fmt.policy_digest(policy["labels"], policy["minimum_confidence"])


def retrieval(body: Body) -> Path | None:
    """13: what was retrieved fits together."""
    found = body["retrieval"]
    if (found["embedder"] is None) != (found["mode"] == "lexical"):
        return "retrieval", "embedder"
    wrong = _of_indexes(found)
    if wrong is not None:
        return "retrieval", *wrong
    if len(found["items"]) > found["limit"]:
        return "retrieval", "items"
    return _of_items(found["items"], len(found["indexes"]), found["merged_by"])


def _of_indexes(found: Body) -> Path | None:
    """Hold one index to be alone, and shards to be nodes of which each stands at one place."""
    indexes, others = found["indexes"], [*found["failed"], *found["not_asked"]]
    if found["merged_by"] is None and (len(indexes) > 1 or others):
        return ("merged_by",)
    if found["merged_by"] is not None:
        for place, index in enumerate(indexes):
            if index["node_id"] is None:
                return "indexes", place, "node_id"
    nodes = [part["node_id"] for part in (*indexes, *others) if part["node_id"] is not None]
    return None if len(set(nodes)) == len(nodes) else ("indexes",)


def _of_items(items: Sequence[Body], indexes: int, merged_by: str | None) -> Path | None:
    seen: set[tuple[int, str]] = set()
    least: dict[int | None, int] = {}  # the score before, of the same index or (None) of any
    for place, item in enumerate(items):
        of = None if merged_by in _BY_SCORE else item["index"]
        score = _thousand_millionths(item["score"])
        wrong = ""
        if item["index"] >= indexes:
            wrong = "index"
        elif item["end"] - item["start"] != len(item["text"]):
            wrong = "end"
        elif (item["index"], item["chunk_id"]) in seen:
            wrong = "chunk_id"
        elif item["provenance"] is not None and not are_lines(item["provenance"]["start_line"], item["provenance"]["end_line"]):
            wrong = "provenance"
        elif merged_by in (*_BY_SCORE, *_BY_RANK) and score > least.get(of, score):
            wrong = "score"
        if wrong:
            return "retrieval", "items", place, wrong
        seen.add((item["index"], item["chunk_id"]))
        least[of] = score
    return None


def _thousand_millionths(score: str) -> int:
    return int(score.replace(".", ""))


def claims(body: Body) -> Path | None:
    """14: claims stand in the answer, one after the other."""
    text, behind = body["answer"]["text"], 0
    for place, claim in enumerate(body["claims"]):
        start, end = claim["start"], claim["end"]
        if not behind <= start < end <= len(text):
            return "claims", place, "start"
        if text[start:end] != claim["text"]:
            return "claims", place, "text"
        behind = end
    return ("claims",) if body["methods"]["decomposition"] == "whole" and len(body["claims"]) > 1 else None


def presence(body: Body) -> Path | None:
    """15: an answer has claims, and none at all is said to be none."""
    answer = body["answer"]
    if answer["abstained"] != (not answer["text"]):
        return "answer", "abstained"
    return ("claims",) if answer["text"] and not body["claims"] else None


def coverage(body: Body) -> Path | None:
    """16: what is said is said by claims."""
    text, behind = body["answer"]["text"], 0
    for claim in (*body["claims"], {"start": len(text), "end": len(text)}):
        if is_loose(text[behind:claim["start"]]):
            return "answer", "text"
        behind = claim["end"]
    return None


def spans(body: Body) -> Path | None:
    """17: spans stand in items."""
    items = body["retrieval"]["items"]
    for place, claim in enumerate(body["claims"]):
        for number, span in enumerate(claim["spans"]):
            at = ("claims", place, "spans", number)
            if body["methods"]["alignment"] == "none":
                return at
            if span["item"] >= len(items):
                return *at, "item"
            text = items[span["item"]]["text"]
            if not span["start"] < span["end"] <= len(text):
                return *at, "start"
            if text[span["start"]:span["end"]] != span["text"]:
                return *at, "text"
    return None


def quotations(body: Body) -> Path | None:
    """18: what is said to be quoted is."""
    for place, claim in enumerate(body["claims"]):
        if claim["judgement"]["label"] == "quoted" and not is_quotation(claim["text"], _texts(claim["spans"])):
            return "claims", place, "judgement", "label"
    return None


def decisions(body: Body) -> Path | None:
    """19: decisions follow from labels, confidences and spans."""
    policy = body["policy"]
    for place, claim in enumerate(body["claims"]):
        judgement, decided = claim["judgement"], claim["decision"]
        if body["judge"]["name"] == _NO_JUDGE and judgement["label"] != "not_supported":
            return "claims", place, "judgement", "label"
        why = reason(judgement["label"], judgement["confidence"], len(claim["spans"]), policy["labels"], policy["minimum_confidence"])
        if decided != {"shown": why is None, "reason": why}:
            return "claims", place, "decision"
    return None


def not_proven(body: Body) -> Path | None:
    """20: what a certificate does not show stands in it."""
    return None if tuple(body["not_proven"]) == fmt.NOT_PROVEN else ("not_proven",)


def _texts(spans_: Sequence[Mapping[str, Any]]) -> list[str]:
    return [span["text"] for span in spans_]


CHECKS: Final[tuple[tuple[str, BodyCheck], ...]] = (
    ("hash", hashes), ("retrieval", retrieval), ("claim", claims), ("no_claims", presence), ("uncovered", coverage), ("span", spans),
    ("quotation", quotations), ("decision", decisions), ("not_proven", not_proven))
