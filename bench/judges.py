"""How often judges are right: claims of VitaminC against their evidence, label by label.

A claim that its evidence refutes must not be shown as supported, whatever else a judge misses. The evidence is aligned as a pipeline does it; the title
of the page, which the data set puts before it, is no part of the text. As its claims are hardly ever quotations, sentences of the evidence are judged as well: as they
stand, which is to be found, and with a digit changed, with "not" put in, and cut out of the midst, which is not to be shown. The data (VitaminC, Schuster et al. 2021, CC BY-SA 3.0: JSON lines of evidence, claim and
label) is not part of the repository: name its file by --data or in the environment as VITAMINC. Nothing here is tuned on it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from measure import Report

from rag_stdlib.proof.alignment import align
from rag_stdlib.proof.judges.none import NoJudge
from rag_stdlib.proof.judges.protocol import Judge
from rag_stdlib.proof.judges.quotation import QuotationJudge
from rag_stdlib.proof.units import units

VARIABLE = "VITAMINC"
GOLD = ("supports", "refutes", "not_enough_info")
LABELS = ("quoted", "entailed", "contradicted", "not_supported")
SHOWN = ("quoted", "entailed")
AS_IT_STANDS = "as it stands"

Pair = dict[str, str]


def read(path: Path) -> list[Pair]:
    """Read gzipped or plain JSON lines."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def evidence_of(pair: Pair) -> str:
    """Return the evidence without the page's title."""
    return pair["evidence"].partition(": ")[2] or pair["evidence"]


def counted(judge: Judge, pairs: Sequence[Pair]) -> Counter[tuple[str, str]]:
    """Count (what is so, what the judge said)."""
    found: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        found[pair["label"], told(judge, pair["claim"], evidence_of(pair))] += 1
    return found


def told(judge: Judge, claim: str, evidence: str) -> str:
    """Align a claim and judge it."""
    return judge.judge(claim, [evidence[span.start:span.end] for span in align(claim, [evidence])]).label


def variants(sentence: str) -> Iterator[tuple[str, str]]:
    """Yield a sentence as it stands, and what is not it any more, each with what was done."""
    yield AS_IT_STANDS, sentence
    if found := re.search(r"[0-9]", sentence):
        yield "a digit changed", f"{sentence[:found.start()]}{(int(found[0]) + 1) % 10}{sentence[found.end():]}"
    if found := re.search(r"\b(?:is|are|was|were|has|have|had|will|can) ", sentence):
        yield "a not put in", f"{sentence[:found.end()]}not {sentence[found.end():]}"
    if found := re.search(r"(?:\bthat|,) ", sentence):
        yield "its end alone", sentence[found.end():]
        yield "its beginning alone", sentence[:found.start()].rstrip()


def sentences_shown(judge: Judge, pairs: Sequence[Pair]) -> dict[str, tuple[int, int]]:
    """Count for each variant of the sentences that can be read alone how many are shown, and how many there are."""
    shown: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for evidence in dict.fromkeys(map(evidence_of, pairs)):
        said = [evidence[unit.start:unit.end] for unit in units(evidence) if unit.alone]
        for kind, claim in (variant for sentence in said for variant in variants(sentence)):
            judged[kind] += 1
            shown[kind] += told(judge, claim, evidence) in SHOWN
    return {kind: (shown[kind], judged[kind]) for kind in judged}


def add_sentences(report: Report, found: dict[str, tuple[int, int]]) -> None:
    """Add how many sentences are found, and how many that are none are shown."""
    for kind, (shown, judged) in found.items():
        bound = {} if kind == AS_IT_STANDS else {"most": 2.0}
        report.add(f"quotation: sentences of the evidence shown, {kind}", 100 * shown / judged, "%", **bound, beside=f"{shown:,} of {judged:,}")


def table(found: Counter[tuple[str, str]]) -> str:
    """Write the confusion table."""
    rows = [f"| {gold} | {' | '.join(f'{found[gold, label]:,}' for label in LABELS)} |" for gold in GOLD]
    return "\n".join([f"| so it is, so it was judged | {' | '.join(LABELS)} |", f"|---|{'---|' * len(LABELS)}", *rows])


def add_figures(report: Report, name: str, found: Counter[tuple[str, str]], seconds: float) -> None:
    """Add what is aimed at: few refuted claims shown, and what is shown right; how much of what is supported is shown is as it is."""
    shown = {gold: sum(found[gold, label] for label in SHOWN) for gold in GOLD}
    of = {gold: sum(found[gold, label] for label in LABELS) for gold in GOLD}
    everything = sum(shown.values())
    report.add(f"{name}: refuted claims shown", 100 * shown["refutes"] / max(of["refutes"], 1), "%", most=2,
               beside=f"{shown['refutes']} of {of['refutes']:,}")
    if everything:
        report.add(f"{name}: precision of what is shown", shown["supports"] / everything, "", least=0.95, beside=f"{shown['supports']} of {everything}")
    report.add(f"{name}: recall", shown["supports"] / max(of["supports"], 1), "", beside=f"{shown['supports']} of {of['supports']:,}")
    contradicted = sum(found[gold, "contradicted"] for gold in GOLD)
    report.add(f"{name}: judged contradicted", contradicted, "", beside=f"{found['refutes', 'contradicted']} of them refuted, "
               f"{found['supports', 'contradicted']} supported; {1e3 * seconds / max(sum(found.values()), 1):.2f} ms a claim")


def main() -> int:
    """Judge all pairs by each judge; exit 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get(VARIABLE), help=f"the file of VitaminC; {VARIABLE} in the environment if not given")
    parser.add_argument("--nli", type=Path, help="a folder that holds a cross-encoder, to be measured as well")
    parser.add_argument("--first", type=int, help="of the pairs, for a quick look")
    given = parser.parse_args()
    if given.data is None or not Path(given.data).is_file():
        print(f"no VitaminC data: name its file by --data, or in the environment as {VARIABLE}; nothing was measured")
        return 0
    pairs = read(Path(given.data))[:given.first]
    judges: dict[str, Judge] = {"quotation": QuotationJudge(), "none": NoJudge()}
    if given.nli is not None:
        from rag_stdlib.proof.judges.nli import NliJudge

        judges["nli"] = NliJudge(given.nli)
    report = Report()
    for name, judge in judges.items():
        start = time.perf_counter()
        found = counted(judge, pairs)
        add_figures(report, name, found, time.perf_counter() - start)
        print(f"{name}, {len(pairs):,} claims\n\n{table(found)}\n")
    add_sentences(report, sentences_shown(judges["quotation"], pairs))
    report.show()
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
