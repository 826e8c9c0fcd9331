"""The whole matrix of small changes, against both verifiers: every change of `vectors/certificates/matrix.json` by every attacker.

It takes some minutes; the suite runs a part. Exit 1 where an outcome is not the one that is written there, or where the verifiers disagree.
"""

from __future__ import annotations

import collections
import sys
import time
from pathlib import Path

from measure import Report

sys.path.insert(0, str(Path(__file__).parents[1] / "vectors"))

import certificate_scenes as scenes
import make_certificates as maker
import verify_standalone
from matrix_codes import expected

from rag_stdlib.proof.attacks.matrix import attempt, changes
from rag_stdlib.proof.attacks.scene import Scene
from rag_stdlib.proof.forms import pointer
from rag_stdlib.proof.verify import verify


def run(base: str, scene: Scene, outcomes: collections.Counter[str]) -> int:
    """Make every attempt on a base; return how many went wrong."""
    asked, wrong = maker.asking(base), 0
    for change in changes(scene):
        for attacker in scene.attackers:
            data, wanted = attempt(scene, change, attacker), expected(base, change, attacker)
            verdict = verify(data, scene.trust, scene.policy, asked["query"], now=scenes.NOW, nonce=asked["nonce"])
            ours = f"{verdict.outcome} {getattr(verdict, 'code', '')}".rstrip()
            theirs = " ".join(verify_standalone.verify(data, asked["trust"], asked["policy"], asked["query"], asked["nonce"], asked["now"])).rstrip()
            outcomes[ours] += 1
            if not ours == theirs == wanted:
                wrong += 1
                print(f"{base} {change.kind} {pointer(change.path)} {attacker}: {wanted}; ours {ours}; standalone {theirs}")
    return wrong


def main() -> int:
    """Run both bases."""
    outcomes: collections.Counter[str] = collections.Counter()
    start = time.monotonic()
    wrong = run("plain", scenes.plain_scene(), outcomes) + run("node", scenes.node_scene(maker.read()["matrix"]["bases"]["node"]), outcomes)
    report = Report()
    report.add("attempts of the matrix", outcomes.total(), "", beside=f"{time.monotonic() - start:.0f} s")
    report.add("outcomes that are not as written, or disagreements", wrong, "", most=0)
    for outcome, number in outcomes.most_common():
        report.add(outcome, number, "")
    report.show()
    return min(report.missed, 1)


if __name__ == "__main__":
    sys.exit(main())
