"""Random attacks on certificates: nothing raises, nothing verifies that is not the certificate under attack, and the two verifiers agree.

    python bench/fuzz_certificates.py --count 200000 --seed 1 --every 10

Outsiders make `--count` files, which the library's verifier sees; the standalone one sees each of `--every`. The issuer, who signs and logs what he changed, makes
as many as the standalone one sees, and there the two have to agree. Exit 1 where anything of this does not hold; the file is then kept.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from measure import Report

sys.path.insert(0, str(Path(__file__).parents[1] / "vectors"))

import certificate_scenes as scenes
import make_certificates as maker
import verify_standalone

from rag_stdlib.proof.attacks.mutations import is_the_same, mutated
from rag_stdlib.proof.attacks.scene import ATTACKERS, OUTSIDERS, Attacker, Scene
from rag_stdlib.proof.verify import verify

INSIDERS: tuple[Attacker, ...] = tuple(attacker for attacker in ATTACKERS if attacker not in OUTSIDERS)


class Fuzz:
    """A run, its outcomes, and what went wrong."""

    def __init__(self, seed: int) -> None:
        """Begin with a seed."""
        self.random = random.Random(seed)
        self.bases = {"plain": scenes.plain_scene(), "node": scenes.node_scene(maker.read()["matrix"]["bases"]["node"])}
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.faults: collections.Counter[str] = collections.Counter()

    def outsiders(self, count: int, every: int) -> None:
        """Let outsiders make files."""
        for number in range(count):
            base, scene, data = self._made(OUTSIDERS)
            said = self._ours(base, data)
            self.outcomes[said] += 1
            if said == "verified" and not is_the_same(scene, data):
                self._fault("verified", data)
            if number % every == 0:
                self._compare(base, data, said)

    def insiders(self, count: int) -> None:
        """Let the issuer make files."""
        for _ in range(count):
            base, _scene, data = self._made(INSIDERS)
            self._compare(base, data, self._ours(base, data))

    def _made(self, attackers: Sequence[Attacker]) -> tuple[str, Scene, bytes]:
        base = self.random.choice(list(self.bases))
        return base, self.bases[base], mutated(self.bases[base], self.random, attackers)

    def _ours(self, base: str, data: bytes) -> str:
        scene = self.bases[base]
        try:
            verdict = verify(data, scene.trust, scene.policy, scenes.QUESTION, now=scenes.NOW, nonce=scenes.NONCE)
        except Exception as error:  # noqa: BLE001 - that nothing is raised is what is looked at
            self._fault("raised", data)
            return f"raised {type(error).__name__}"
        return f"{verdict.outcome} {getattr(verdict, 'code', '')}".rstrip()

    def _compare(self, base: str, data: bytes, ours: str) -> None:
        asked = maker.asking(base)
        try:
            theirs = " ".join(verify_standalone.verify(data, asked["trust"], asked["policy"], asked["query"], asked["nonce"], asked["now"])).rstrip()
        except Exception as error:  # noqa: BLE001 - as above
            theirs = f"raised {type(error).__name__}"
        self.outcomes["compared"] += 1
        if ours != theirs:
            print(f"ours {ours}; standalone {theirs}")
            self._fault("disagreement", data)

    def _fault(self, kind: str, data: bytes) -> None:
        self.faults[kind] += 1
        with tempfile.NamedTemporaryFile(prefix=f"{kind}-", suffix=".json", delete=False) as file:
            file.write(data)
        print(f"{kind}: {file.name}")


def main() -> int:
    """Run it as asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("--count", 200_000), ("--seed", 1), ("--every", 10)):
        parser.add_argument(name, type=int, default=default)
    given = parser.parse_args()
    fuzz, start = Fuzz(given.seed), time.monotonic()
    fuzz.outsiders(given.count, given.every)
    fuzz.insiders(given.count // given.every)
    report = Report()
    report.add("files by outsiders", given.count, "", beside=f"{time.monotonic() - start:.0f} s with all else")
    report.add("files that both verifiers saw", fuzz.outcomes.pop("compared"), "")
    for kind in ("raised", "verified", "disagreement"):
        report.add(kind, fuzz.faults[kind], "", most=0)
    for outcome, number in fuzz.outcomes.most_common():
        report.add(outcome, number, "", beside="the certificate itself in other words" if outcome == "verified" else "")
    report.show()
    return min(report.missed, 1)


if __name__ == "__main__":
    sys.exit(main())
