"""Which recorded call answers a call that comes: in order, or by what is asked.

*Ordered* is Corvid's rule and the default: the next call must be the next recorded one, same tool, JSON-equal arguments.
*Keyed* is for programs whose calls run at the same time: a call is answered by the first unused recording of the same tool and
arguments, so that equal calls keep their separate results. What was used is one byte per recorded call in a buffer that the processes of a
run can share. Whatever does not match is a `Divergence` that says what was expected, what came, and what is nearest.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nlargest
from typing import Any, Final, Literal, Protocol, TypeAlias

from replay.errors import Divergence
from replay.jsontext import canonical, decode, encode, first_difference, match_key, short
from replay.recorder import Call
from replay.redaction.redactor import Redactor
from replay.tracefile.trace import RecordedCall

Matching: TypeAlias = Literal["ordered", "keyed"]
MATCHINGS: Final[tuple[Matching, ...]] = ("ordered", "keyed")
Lock: TypeAlias = Callable[[], AbstractContextManager[Any]]

_NEAREST: Final = 3
_COMPARED: Final = 1000  # recorded calls looked at for the nearest ones,
_COMPARED_BYTES: Final = 2 << 20  # as long as their keys have no more bytes in sum
_ENDS: Final = 1000  # bytes of a key looked at from each side
_CANDIDATES: Final = 8  # of those, by what they have in common with the call at both ends; they are compared in full
_COMPARED_CHARS: Final = 200


class Buffer(Protocol):
    """One byte per recorded call: 0 free, 1 used. A bytearray, or memory shared with other processes."""

    def __getitem__(self, index: int, /) -> int:
        """Return a byte."""

    def __setitem__(self, index: int, value: int, /) -> None:
        """Set a byte."""

    def find(self, sub: bytes, start: int = ..., /) -> int:
        """Find bytes."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that came: its canonical, redacted arguments and their key."""

    kind: str
    tool: str
    args: list[Any]
    key: bytes

    @classmethod
    def of(cls, call: Call[Any], redactor: Redactor) -> Asked:
        """Read a live call; `NotRecordable` where an argument is no JSON."""
        tool, args = call.tool, canonical(call.arguments())
        plain = encode([tool, args])
        text = redactor.json(plain)
        if text is not plain:
            tool, args = decode(text)
        return cls(call.kind, tool, args, match_key([call.kind, tool, args]))

    def to_dict(self) -> dict[str, Any]:
        """Return the call as a divergence holds it."""
        return {"kind": self.kind, "tool": self.tool, "args": self.args}


def described(call: Asked | RecordedCall) -> str:
    """Write a call on one line."""
    name = call.tool if isinstance(call, Asked) else call.name
    return f"{name}({', '.join(short(arg, 60) for arg in call.args)})"


def _as_dict(call: RecordedCall) -> dict[str, Any]:
    return {"kind": call.kind, "tool": call.name, "args": call.args, "step": call.step}


class Matcher(ABC):
    """The calls of a trace, taken one by one. Safe between threads, and between processes that share buffer and lock."""

    def __init__(self, calls: Sequence[RecordedCall], used: Buffer | None = None, lock: Lock | None = None) -> None:
        """Take the recorded calls in their order; `used` and `lock` are private to this matcher unless given."""
        self.calls = calls
        self._used: Buffer = bytearray(len(calls)) if used is None else used
        own = threading.Lock()
        self._lock: Lock = (lambda: own) if lock is None else lock

    def take(self, asked: Asked) -> RecordedCall:
        """Return the recorded call that answers, and mark it used; raise `Divergence` where none does."""
        with self._lock():
            index = self._find(asked)
            if index is None:
                raise self._missed(asked)
            self._used[index] = 1
        return self.calls[index]

    def find(self, asked: Asked) -> RecordedCall | None:
        """Do what `take` does, at little cost also where no recorded call answers: then return None."""
        with self._lock():
            index = self._find(asked)
            if index is None:
                return None
            self._used[index] = 1
        return self.calls[index]

    def expected(self, asked: Asked) -> RecordedCall | None:
        """Return the recorded call that stands where this one comes, and mark it used; None where none does.

        Raises:
            Divergence: other_call: in order, the next recorded call is one of another tool.
        """
        return self.find(asked)

    @abstractmethod
    def code_of(self, asked: Asked) -> str:
        """Say, as the code of a divergence, what a call is that no recorded one stands for."""

    def unused(self) -> list[RecordedCall]:
        """Return the recorded calls that nobody asked for."""
        with self._lock():
            return [self.calls[index] for index in self._free()]

    def is_used(self, index: int) -> bool:
        """Tell whether the recorded call at `index` was asked for."""
        return bool(self._used[index])

    def _free(self) -> Iterator[int]:
        index = self._used.find(b"\0")
        while 0 <= index < len(self.calls):
            yield index
            index = self._used.find(b"\0", index + 1)

    @abstractmethod
    def _find(self, asked: Asked) -> int | None:
        """Return the index of the recorded call that answers, or None."""

    @abstractmethod
    def _missed(self, asked: Asked) -> Divergence:
        """Make the divergence of a call that none answers."""

    def _diverged(self, code: str, problem: str, asked: Asked, expected: RecordedCall | None, hint: str = "") -> Divergence:
        where = f"step {expected.step} (line {expected.line})" if expected is not None else "the end"
        lines = [f"replay divergence at {where}: {problem}"]
        if expected is not None:
            lines.append(f"  expected  {described(expected)}")
        lines.append(f"  got       {described(asked)}")
        path = ""
        difference = first_difference(expected.args, asked.args) if expected is not None and expected.name == asked.tool else None
        if difference is not None:
            path = difference.path
            lines.append(f"  differs at {path}: {_side(difference.left)} -> {_side(difference.right)}")
        nearest = self._nearest(asked)
        if nearest:
            lines.append("  nearest recorded calls:")
            lines += [f"    step {call.step}  {described(call)}{_away(call, asked)}" for call in nearest]
        if hint:
            lines.append(f"  {hint}")
        return Divergence(code, "\n".join(lines), step=expected.step if expected is not None else None,
                          expected=_as_dict(expected) if expected is not None else None, got=asked.to_dict(), path=path,
                          nearest=tuple(_as_dict(call) for call in nearest))

    def _nearest(self, asked: Asked) -> list[RecordedCall]:
        """Return the recorded calls most like one. A long trace is not compared in full: who diverges a second time waits, too."""
        near = nlargest(_CANDIDATES, self._comparable(asked), key=lambda call: _at_the_ends(call.key, asked.key))
        matcher = SequenceMatcher(None, b"", asked.key[:_COMPARED_CHARS], autojunk=False)

        def likeness(call: RecordedCall) -> tuple[int, float]:
            matcher.set_seq1(call.key[:_COMPARED_CHARS])
            return sum(first_difference(*pair) is None for pair in zip(call.args, asked.args, strict=False)), matcher.ratio()

        return nlargest(_NEAREST, near, key=likeness)

    def _comparable(self, asked: Asked) -> Iterator[RecordedCall]:
        """Give the calls of the same tool, equal ones once, as many as can be compared while somebody waits."""
        seen: set[bytes] = set()
        size = 0
        for call in self.calls[:_COMPARED]:
            if call.name == asked.tool and call.key not in seen and size <= _COMPARED_BYTES:
                seen.add(call.key)
                size += len(call.key)
                yield call

    def _times(self, asked: Asked) -> list[int]:
        # what differs mostly does so soon, and for a key all of a call is written
        return [index for index, call in enumerate(self.calls)
                if call.name == asked.tool and call.args == asked.args and call.key == asked.key]


def _at_the_ends(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts have in common at their beginnings and at their ends."""
    size = min(len(one), len(other), _ENDS)
    heads = int.from_bytes(one[:size], "big") ^ int.from_bytes(other[:size], "big")
    tails = int.from_bytes(one[-size:], "little") ^ int.from_bytes(other[-size:], "little")
    return 2 * size - (heads.bit_length() + 7) // 8 - (tails.bit_length() + 7) // 8


def _side(value: Any) -> str:  # noqa: ANN401 - JSON, or the mark of an absent side
    return short(value, 60)


def _away(call: RecordedCall, asked: Asked) -> str:
    difference = first_difference(call.args, asked.args)
    return f"  (differs at {difference.path})" if difference is not None else "  (the same)"


class Ordered(Matcher):
    """The next call must be the next recorded one."""

    _first = 0  # no free call stands before this one

    def _next(self) -> int:
        index = self._used.find(b"\0", self._first)
        self._first = index if 0 <= index < len(self.calls) else len(self.calls)
        return self._first

    def _find(self, asked: Asked) -> int | None:
        index = self._next()
        return index if index < len(self.calls) and self.calls[index].key == asked.key else None

    def expected(self, asked: Asked) -> RecordedCall | None:
        """Return the next recorded call, whatever its arguments."""
        with self._lock():
            index = self._next()
            if index == len(self.calls):
                return None
            if (self.calls[index].kind, self.calls[index].name) != (asked.kind, asked.tool):
                raise self._missed(asked)
            self._used[index] = 1
        return self.calls[index]

    def code_of(self, asked: Asked) -> str:  # noqa: ARG002 - in order it does not matter which it is
        """Say that the trace has ended."""
        return "exhausted"

    def _missed(self, asked: Asked) -> Divergence:
        index = self._next()
        if index < len(self.calls):
            return self._other(asked, self.calls[index])
        times = len(self._times(asked))
        said = f"; this call was recorded {_count(times)}" if times else ""
        all_asked = "its one recorded call was" if len(self.calls) == 1 else f"all {len(self.calls)} recorded calls were"
        return self._diverged("exhausted", f"the trace ends here, {all_asked} asked{said}", asked, None)

    def _other(self, asked: Asked, expected: RecordedCall) -> Divergence:
        times = self._times(asked)
        later = [index for index in times if not self._used[index]]
        hint = ""
        if later:
            hint = (f"this very call stands at step {self.calls[later[0]].step}: the order changed; "
                    'use matching="keyed" where calls run at the same time')
        elif times:
            hint = f"this very call was recorded {_count(len(times))}, and asked for already"
        return self._diverged("other_call", "another call came than was recorded", asked, expected, hint)


class Keyed(Matcher):
    """Any call is answered by the first unused recording of the same tool and arguments."""

    def __init__(self, calls: Sequence[RecordedCall], used: Buffer | None = None, lock: Lock | None = None) -> None:
        """Index the recorded calls by tool and arguments."""
        super().__init__(calls, used, lock)
        self._free_of: dict[bytes, deque[int]] = {}
        for index, call in enumerate(calls):
            self._free_of.setdefault(call.key, deque()).append(index)

    def _find(self, asked: Asked) -> int | None:
        free = self._free_of.get(asked.key)
        while free and self._used[free[0]]:  # by this matcher, or by another process
            free.popleft()
        return free[0] if free else None

    def code_of(self, asked: Asked) -> str:
        """Tell a call that was recorded from one that was not."""
        return "consumed" if asked.key in self._free_of else "never_recorded"

    def _missed(self, asked: Asked) -> Divergence:
        code = self.code_of(asked)
        if code == "never_recorded":
            return self._diverged(code, "this call was never recorded", asked, None)
        times = len(self._times(asked))
        return self._diverged(code, f"this call was recorded {_count(times)} and is asked for the {_ordinal(times + 1)} time", asked, None)


def make_matcher(matching: Matching, calls: Sequence[RecordedCall], used: Buffer | None = None, lock: Lock | None = None) -> Matcher:
    """Make the matcher of a name."""
    return (Keyed if matching == "keyed" else Ordered)(calls, used, lock)


def _count(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"

