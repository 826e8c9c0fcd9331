"""Changes of what is said that an issuer would make with care: what depends on a text changes with it."""

from __future__ import annotations

from collections.abc import Callable

from rag_stdlib.proof.attacks.parts import Json
from rag_stdlib.proof.decisions import reason


def reworded(body: dict[str, Json], claim: dict[str, Json], change: Callable[[str], str]) -> None:
    """Change a claim, the answer with it, and the places of the claims behind it."""
    answer, start, end = body["answer"], claim["start"], claim["end"]
    new = change(claim["text"])
    grown = len(new) - len(claim["text"])
    answer["text"] = answer["text"][:start] + new + answer["text"][end:]
    claim.update(text=new, end=end + grown)
    for other in body["claims"]:
        if other["start"] >= end:
            other.update(start=other["start"] + grown, end=other["end"] + grown)


def retold(body: dict[str, Json], place: int, change: Callable[[str], str]) -> None:
    """Change the text of an item as a whole; spans of it stay as they are."""
    item = body["retrieval"]["items"][place]
    item["text"] = change(item["text"])
    item["end"] = item["start"] + len(item["text"])


def requoted(body: dict[str, Json], span: dict[str, Json], change: Callable[[str], str]) -> None:
    """Change the text of a span, of the item at its place, and of every other span that this moves or changes."""
    item, start, end = span["item"], span["start"], span["end"]
    new = change(span["text"])
    retold(body, item, lambda text: text[:start] + new + text[end:])
    text, grown = body["retrieval"]["items"][item]["text"], len(new) - (end - start)
    for other in [other for claim in body["claims"] for other in claim["spans"] if other["item"] == item]:
        begin, finish = (place + grown if place >= end else place for place in (other["start"], other["end"]))
        other.update(start=begin, end=finish, text=text[begin:finish])


def redecided(body: dict[str, Json]) -> None:
    """Decide about every claim as label, confidence, spans and policy ask for."""
    labels, least = body["policy"]["labels"], body["policy"]["minimum_confidence"]
    for claim in body["claims"]:
        why = reason(claim["judgement"]["label"], claim["judgement"]["confidence"], len(claim["spans"]), labels, least)
        claim["decision"] = {"shown": why is None, "reason": why}
