"""What a differential or a mutated run found, as data, as JSON and as a table for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replay.reports import report_text
from replay.reports.call_report import CallReport, compare_call
from replay.reports.ranks import Move

__all__ = ["CallReport", "DifferentialReport", "Move", "MutationReport", "compare_call"]


@dataclass(slots=True)
class DifferentialReport:
    """What a live run gave against what was recorded.

    `calls` are the compared calls; `unmatched` live calls that the trace does not hold; `missing` recorded calls that were not
    made; `completion` is set where the run ended otherwise, and says how in `message`.
    """

    calls: list[CallReport] = field(default_factory=list)
    unmatched: list[dict[str, Any]] = field(default_factory=list)
    missing: list[dict[str, Any]] = field(default_factory=list)
    completion: dict[str, Any] | None = None

    @property
    def faithful(self) -> bool:
        """Whether nothing changed at all."""
        return not (self.unmatched or self.missing or self.completion is not None) and all(call.same for call in self.calls)

    def totals(self) -> dict[str, Any]:
        """Count calls and items.

        `causes` counts the changed calls by what explains them; a call whose index and embedder both changed counts under each.
        """
        items: Counter[str] = Counter()
        causes: Counter[str] = Counter()
        for call in self.calls:
            causes.update(call.cause)
            shift = call.shift
            items.update(shift.counts() if shift else {})
        same = sum(call.same for call in self.calls)
        return {
            "compared": len(self.calls), "same": same, "changed": len(self.calls) - same,
            "causes": dict(sorted(causes.items(), key=lambda cause: (-cause[1], cause[0]))),
            **{name: items[name] for name in ("moved", "rescored", "gone", "new")},
            "unmatched": len(self.unmatched), "missing": len(self.missing), "ended_otherwise": self.completion is not None,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "faithful": self.faithful, "totals": self.totals(), "calls": [call.to_dict() for call in self.calls],
            "unmatched": self.unmatched, "missing": self.missing, "completion": self.completion,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DifferentialReport:
        """Read what `to_dict` wrote."""
        return cls([CallReport.from_dict(call) for call in data["calls"]], list(data["unmatched"]), list(data["missing"]),
                   data["completion"])

    def table(self, width: int = 100) -> str:
        """Write the report for a terminal of `width` columns (at least 40): a line per call, each change, and the sum."""
        return "\n".join(report_text.differential(self.calls, self.totals(), self.unmatched, self.missing, self.completion, width))


@dataclass(slots=True)
class MutationReport:
    """What a program did after one recorded result was replaced.

    `step` counts the results that can be replaced from 1; `recorded` and `replacement` are the two in short. Each finding is
    ``{"step": …, "kind": …, "recorded": …, "got": …}``, about one of the `calls_after` calls or one that was not made.
    """

    step: int
    recorded: str
    replacement: str
    findings: list[dict[str, Any]] = field(default_factory=list)
    completion: dict[str, Any] | None = None
    calls_after: int = 0

    @property
    def faithful(self) -> bool:
        """Whether the program went on as recorded."""
        return not self.findings and self.completion is None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "faithful": self.faithful, "step": self.step, "recorded": self.recorded, "replacement": self.replacement,
            "calls_after": self.calls_after, "findings": self.findings, "completion": self.completion,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MutationReport:
        """Read what `to_dict` wrote."""
        return cls(data["step"], data["recorded"], data["replacement"], list(data["findings"]), data["completion"], data["calls_after"])

    def table(self, width: int = 100) -> str:
        """Write the report for a terminal of `width` columns (at least 40)."""
        return "\n".join(report_text.mutation(self.step, self.recorded, self.replacement, self.findings, self.completion,
                                              self.calls_after, width))
