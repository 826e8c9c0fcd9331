"""Which part of an HTML file is SVG or MathML: there no element holds raw text, and CDATA sections are text.

WHATWG HTML, sections 13.2.6 (the tree construction dispatcher) and 13.2.6.5 (the rules for foreign content).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

_ROOTS: Final = frozenset({"svg", "math"})
# Inside these, HTML's own rules hold again.
_INTEGRATION_POINTS: Final = frozenset({"foreignobject", "desc", "title", "mi", "mo", "mn", "ms", "mtext"})
_HIDDEN: Final = frozenset({"script", "style"})
_BREAKOUT: Final = frozenset({
    "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed", "h1", "h2",
    "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol", "p", "pre",
    "ruby", "s", "small", "span", "strong", "strike", "sub", "sup", "table", "tt", "u", "ul", "var",
})


class ForeignContent:
    """The open elements from the outermost `<svg>` or `<math>` on; false where HTML's rules hold."""

    def __init__(self) -> None:
        """Start in HTML."""
        self._open: list[str] = []
        self._counts: Counter[str] = Counter()

    def __bool__(self) -> bool:
        """Tell whether the current element is a foreign one."""
        return bool(self._open) and self._open[-1] not in _INTEGRATION_POINTS

    @property
    def hidden(self) -> bool:
        """Whether the current element is, or is in, a foreign script or style sheet."""
        return any(self._counts[name] for name in _HIDDEN)

    def start(self, name: str, *, self_closing: bool) -> bool:
        """Note a start tag; true when it makes a foreign element."""
        if name in _BREAKOUT:
            self._leave()
        if not self and name not in _ROOTS:
            return False
        if not self_closing:
            self._open.append(name)
            self._counts[name] += 1
        return True

    def end(self, name: str) -> None:
        """Note an end tag; one of HTML's ends the foreign content that stands inside its element."""
        if self._counts[name]:
            while self._pop() != name:
                pass
        elif name in _BREAKOUT:
            self._leave()

    def _leave(self) -> None:
        while self:
            self._pop()

    def _pop(self) -> str:
        name = self._open.pop()
        self._counts[name] -= 1
        return name
