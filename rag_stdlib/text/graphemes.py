"""Grapheme cluster boundaries near a position (UAX #29), found without scanning the text from its start."""

from __future__ import annotations

from typing import Any, Final

MAX_CLUSTER: Final = 64  # a longer cluster (a letter under hundreds of marks) may be cut
_MAX_WALK: Final = 1_024

_patterns: dict[str, Any] = {}


def _pattern(name: str) -> Any:  # noqa: ANN401 - the regex package has no types of its own
    """Compile on first use: the regex package is only needed where graphemes matter."""
    if not _patterns:
        import regex

        base = r"\p{GCB=Other}\p{GCB=LV}\p{GCB=LVT}"
        _patterns["safe"] = regex.compile(rf"[{base}\p{{GCB=Control}}\n](?=[{base}])")
        _patterns["cluster"] = regex.compile(r"\X")
    return _patterns[name]


def _is_plain_boundary(text: str, position: int) -> bool:
    """Tell, from the two characters around it alone, that a boundary stands at `position`; False is *not sure*."""
    if position <= 0 or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if before < "\x80" and after < "\x80":
        return not (before == "\r" and after == "\n")
    return _pattern("safe").match(text, position - 1) is not None


def _cluster_around(text: str, position: int) -> tuple[int, int]:
    """Return the cluster that holds `position` strictly inside, or ``(position, position)`` at a boundary."""
    if _is_plain_boundary(text, position):
        return position, position
    begin = position - 1
    floor = max(0, position - _MAX_WALK)
    while begin > floor and not _is_plain_boundary(text, begin):
        begin -= 1
    for match in _pattern("cluster").finditer(text, begin):
        if match.end() == position:
            return position, position
        if match.end() > position:
            inside = match.end() - match.start() <= MAX_CLUSTER
            return (match.start(), match.end()) if inside else (position, position)
    return position, position


def cluster_start(text: str, position: int) -> int:
    """Return `position` if it is a boundary, otherwise the start of the cluster around it."""
    return _cluster_around(text, position)[0]


def cluster_end(text: str, position: int) -> int:
    """Return `position` if it is a boundary, otherwise the end of the cluster around it."""
    return _cluster_around(text, position)[1]
