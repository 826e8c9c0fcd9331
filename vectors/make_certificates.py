"""Make the vectors of answer certificates: golden ones, how relying parties see them, attacks on them, and the matrix of small changes.

What has to come of each is written down by hand, beside the attacks, in `certificate_views` and in `matrix_codes`; no verifier was asked.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import certificate_keys as keys
import certificate_scenes as scenes
from certificate_golden import golden
from certificate_views import views
from matrix_codes import expected

from rag_stdlib.proof import format as fmt
from rag_stdlib.proof.attacks.attack import ANOTHER_QUESTION
from rag_stdlib.proof.attacks.matrix import changes
from rag_stdlib.proof.attacks.scene import Scene
from rag_stdlib.proof.attacks.table import suited
from rag_stdlib.proof.forms import pointer

HERE: Final = Path(__file__).parent
FOLDER: Final = HERE / "certificates"
ATTACKERS: Final = {
    "no_key": "makes the change, and leaves signature and receipt",
    "own_key": "makes the change, computes every digest of the body again but the one that he changed, and signs with the key `attacker`",
    "own_named_key": "the same, with `issuer.key_id` that of the key `attacker`, where there is an `issuer` to say so",
    "issuer": "the same as `own_key` with the key `issuer`, and with the node's where a node is named",
    "issuer_logged": "the same, with a receipt for it: entry `place` of a tree, among `other_entries_hex`, signed by `log`, `w1` and `w2` at `cosigned_at`"}
CHANGES: Final = {
    "edit": "`value` in its place", "wrong_type": "`value` in its place", "delete": "the member or element is taken out", "null": "null in its place",
    "duplicate": "the member twice, first with `value`, then as it is", "reorder": "the list backwards",
    "add": "an object gets the member `unknown` with 1, a list its first element at the end", "swap": "what stands at the same place of `other`"}


def asking(base: str) -> dict[str, Any]:
    """Say how a base is asked for."""
    trust = keys.trust() if base == "plain" else scenes.node_trust(keys.node("provider"))
    return {"trust": trust, "policy": scenes.POLICY, "query": scenes.QUESTION, "nonce": scenes.NONCE, "now": scenes.NOW.strftime(fmt.TIME)}


def attacks(bases: Mapping[str, Scene]) -> Iterator[dict[str, Any]]:
    """Make the attacks by name; of the base with a node, those that are about nodes or that name another issuer."""
    queries = {"asked": scenes.QUESTION, "another": ANOTHER_QUESTION}
    for base, scene in bases.items():
        for attack, data in suited(scene):
            if base == "plain" or attack.id[0] == "N" or attack.id in ("0", "1a", "1b", "1c"):
                yield {"id": attack.id, "title": attack.title, "attacker": attack.attacker, "base": base, "query": queries[attack.asked],
                       "outcome": attack.outcome, "code": attack.code, **_file(data)}


def _file(data: bytes) -> dict[str, Any]:
    """Write a file as text, or in base64 where it is none; spaces at its end are counted."""
    bare = data.rstrip(b" ")
    try:
        text: dict[str, Any] = {"text": bare.decode()}
    except UnicodeDecodeError:
        text = {"base64": base64.b64encode(bare).decode()}
    return {**text, **({"spaces": len(data) - len(bare)} if bare != data else {})}


def matrix(bases: Mapping[str, Scene]) -> Iterator[dict[str, Any]]:
    """List the changes, with what has to come of each by every attacker."""
    for base, scene in bases.items():
        for change in changes(scene):
            outcomes = {attacker: expected(base, change, attacker) for attacker in scene.attackers}
            same = set(outcomes.values())
            value = {"value": change.new} if change.kind in ("edit", "wrong_type", "duplicate") else {}
            yield {"base": base, "at": pointer(change.path), "change": change.kind, **value, **({"all": same.pop()} if len(same) == 1 else outcomes)}


def made(kept: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Make the contents of all files, by name; of signatures that are randomised, those that hold in `kept` are kept."""
    bases = {"plain": scenes.plain_scene(), "node": scenes.node_scene(kept.get("matrix", {}).get("bases", {}).get("node"))}
    certificates = golden(kept.get("golden", {}).get("certificates", ()))
    described = {base: {**asking(base), "envelope": dict(scene.envelope), "other": dict(scene.other or {})} for base, scene in bases.items()}
    return {
        "golden": {"certificates": certificates}, "views": views(certificates),
        "attacks": {"bases": {base: asking(base) for base in bases}, "attacks": list(attacks(bases))},
        "matrix": {"keys": keys.published(), "attackers": ATTACKERS, "changes": CHANGES, "bases": described, "cases": list(matrix(bases))}}


def read() -> dict[str, Any]:
    """Read the files that are there."""
    return {name: json.loads(path.read_bytes()) for name in ("golden", "views", "attacks", "matrix") if (path := FOLDER / f"{name}.json").exists()}


def written(content: Mapping[str, Any]) -> str:
    """Write a file in ASCII, so that every code point shows, with each case on a line of its own."""
    parts = []
    for name, part in content.items():
        lines = part.items() if isinstance(part, dict) else enumerate(part)
        inner = ",\n".join(f" {json.dumps(key) + ': ' if isinstance(part, dict) else ''}{json.dumps(value)}" for key, value in lines)
        parts.append(f"{json.dumps(name)}: " + ("{{\n{}\n}}" if isinstance(part, dict) else "[\n{}\n]").format(inner))
    return "{" + ",\n".join(parts) + "}\n"


def write() -> None:
    """Write every file, and the JSON Schema."""
    FOLDER.mkdir(exist_ok=True)
    for name, content in made(read()).items():
        (FOLDER / f"{name}.json").write_text(written(content), encoding="ascii")
    (HERE / "answer-certificate-v1.schema.json").write_text(json.dumps(fmt.json_schema(), indent=2) + "\n", encoding="ascii")


if __name__ == "__main__":
    write()
