"""Grapheme cluster boundaries near a position (UAX #29), in time that is linear over a whole text."""

from __future__ import annotations

from typing import Any, Final

MAX_CLUSTER: Final = 64  # a longer cluster (a letter under hundreds of marks) may be cut anywhere

_patterns: dict[str, Any] = {}


def _pattern(name: str) -> Any:  # noqa: ANN401 - the regex package has no types of its own
    """Compile on first use: the regex package is only needed where graphemes matter."""
    if not _patterns:
        import regex

        base = r"\p{GCB=Other}\p{GCB=LV}\p{GCB=LVT}"
        _patterns["safe"] = regex.compile(rf"[{base}\p{{GCB=Control}}\n](?=[{base}])")
        # \X counts back to the start of a run of regional indicators each time; a flag is taken by itself
        _patterns["cluster"] = regex.compile(r"\p{RI}{2}[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*+|\X")
    return _patterns[name]


class Clusters:
    """The cluster boundaries of one text, looked for where they are asked and remembered."""

    def __init__(self, text: str) -> None:
        """Look at nothing yet."""
        self._text = text
        self._known = bytearray()  # 1 where a boundary stands; filled in stretches, as they are asked for

    def start(self, position: int) -> int:
        """Return `position` if it is a boundary, otherwise the start of the cluster around it."""
        return self._around(position)[0]

    def end(self, position: int) -> int:
        """Return `position` if it is a boundary, otherwise the end of the cluster around it."""
        return self._around(position)[1]

    def _is_plain_boundary(self, position: int) -> bool:
        """Tell, from the two characters around it alone, that a boundary stands here; False is *not sure*."""
        text = self._text
        if position <= 0 or position >= len(text):
            return True
        before, after = text[position - 1], text[position]
        if before < "\x80" and after < "\x80":
            return not (before == "\r" and after == "\n")
        return _pattern("safe").match(text, position - 1) is not None

    def _around(self, position: int) -> tuple[int, int]:
        """Return the cluster that holds `position` strictly inside, or ``(position, position)`` at a boundary."""
        if self._is_plain_boundary(position):
            return position, position
        if not self._known:
            self._known = bytearray(len(self._text) + 1)
        begin = position
        while not (self._known[begin] or self._is_plain_boundary(begin)):
            begin -= 1
        left, right = begin, begin
        clusters = _pattern("cluster").finditer(self._text, begin)
        while right < position:
            left, right = next(clusters).span()
            if right - left > MAX_CLUSTER:
                self._known[left:right] = b"\1" * (right - left)
            self._known[left] = self._known[right] = 1
        return (position, position) if self._known[position] else (left, right)
