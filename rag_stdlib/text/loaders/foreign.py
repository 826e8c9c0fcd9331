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
_BREAKOUT_ENDS: Final = frozenset({"p", "br"})


class ForeignContent:
    """The open elements from the outermost `<svg>` or `<math>` on; false where HTML's rules hold."""

    def __init__(self) -> None:
        """Start in HTML."""
        self._open: list[str] = []
        self._counts: Counter[str] = Counter()
        self._html_open: Counter[str] = Counter()
        self._html_inside = False  # an HTML element was opened in the integration point that is current

    def __bool__(self) -> bool:
        """Tell whether the current element is a foreign one."""
        return bool(self._open) and self._open[-1] not in _INTEGRATION_POINTS

    @property
    def has_cdata(self) -> bool:
        """Whether a CDATA section may stand here: in a foreign element, an integration point included."""
        return bool(self._open) and not self._html_inside

    @property
    def hidden(self) -> bool:
        """Whether the current element is, or is in, a foreign script or style sheet."""
        return any(self._counts[name] for name in _HIDDEN)

    def start(self, name: str, *, self_closing: bool) -> bool:
        """Note a start tag; true when it makes a foreign element."""
        if name in _BREAKOUT:
            self._leave()
        if not self and name not in _ROOTS:
            self._html_inside = bool(self._open)
            self._html_open[name] += 1
            return False
        if not self_closing:
            self._open.append(name)
            self._counts[name] += 1
            self._html_inside = False
        return True

    def end(self, name: str) -> None:
        """Note an end tag; that of an open HTML element ends the foreign content inside it."""
        if self._counts[name]:
            while self._pop() != name:
                pass
        elif self._html_open[name] or name in _BREAKOUT_ENDS:
            self._html_open[name] = max(0, self._html_open[name] - 1)
            self._leave()

    def _leave(self) -> None:
        while self:
            self._pop()

    def _pop(self) -> str:
        name = self._open.pop()
        self._counts[name] -= 1
        self._html_inside = False
        return name
