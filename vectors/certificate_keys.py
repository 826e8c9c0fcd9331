"""Keys for the vectors of certificates: published on purpose, good for nothing else. And a log of seven entries that is signed by some of them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rag_stdlib.contract import NodeKey
from rag_stdlib.proof.certificate import entry_of
from rag_stdlib.proof.log import merkle
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.cosignatures import COSIGNATURE_ED25519, COSIGNATURE_ML_DSA_44
from rag_stdlib.proof.log.notes import NoteSigner, sign_note
from rag_stdlib.proof.log.receipts import Receipt

NODES: Final = Path(__file__).parent / "contract" / "keys.json"
ORIGIN: Final = "log.example/answers"
SEEN: Final = 1_796_126_420  # POSIX seconds, when the witnesses cosigned: 2026-12-01T12:00:20Z
PLACE: Final = 5  # of a certificate among the entries
ENTRIES: Final = tuple(f"entry {place}".encode() for place in (0, 1, 2, 3, 4, 6))  # the others


def seed(name: str) -> bytes:
    """Give the secret of a key: 32 bytes."""
    return hashlib.sha256(f"rag-stdlib vectors: {name}".encode()).digest()


def ed25519(name: str) -> Ed25519PrivateKey:
    """Give a key of Ed25519."""
    return Ed25519PrivateKey.from_private_bytes(seed(name))


def node(name: str) -> NodeKey:
    """Give a key of a node out of those of the contract's vectors: ``provider`` (pq_pure) or ``hybrid`` (pq_hybrid)."""
    forms = {entry["name"]: entry["seed_form_base64"] for entry in json.loads(NODES.read_bytes())}
    return NodeKey.from_seed_form(base64.b64decode(forms[name]))


ISSUER: Final = ed25519("issuer")
ATTACKER: Final = ed25519("attacker")
PUBLIC: Final = ISSUER.public_key().public_bytes_raw()
LOG: Final = NoteSigner(ORIGIN, seed("log"))
WITNESSES: Final = tuple(NoteSigner(f"witness.example/{name}", seed(name), COSIGNATURE_ED25519) for name in ("w1", "w2"))
PQ_WITNESS: Final = NoteSigner("witness.example/w3", seed("w3"), COSIGNATURE_ML_DSA_44)


class Leaves:
    """A tree in memory: the hashes of complete subtrees over a few entries."""

    def __init__(self, entries: Sequence[bytes]) -> None:
        """Hash the entries."""
        self._leaves = [merkle.leaf_hash(entry) for entry in entries]

    def hash_at(self, level: int, index: int) -> bytes:
        """Return the hash of the 2^`level` entries from `index` · 2^`level` on."""
        if not level:
            return self._leaves[index]
        return merkle.node_hash(self.hash_at(level - 1, 2 * index), self.hash_at(level - 1, 2 * index + 1))


def receipt_of(envelope: Mapping[str, Any], signers: Sequence[NoteSigner] = (LOG, *WITNESSES)) -> str:
    """Log a certificate as the sixth of seven entries."""
    entries = [*ENTRIES[:PLACE], entry_of(envelope), *ENTRIES[PLACE:]]
    tree = Leaves(entries)
    checkpoint = Checkpoint(ORIGIN, len(entries), merkle.root(len(entries), tree))
    note = sign_note(checkpoint.text(), signers, SEEN)
    return Receipt(PLACE, tuple(merkle.inclusion_path(PLACE, len(entries), tree)), note).to_bytes().decode()


def trust(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of trust
    """Write trust in the issuer, the log and two witnesses, both of whom have to have cosigned."""
    issuer = {"name": "acme", "public_key": base64.b64encode(PUBLIC).decode()}
    return {"issuers": [issuer], "logs": [{"origin": ORIGIN, "keys": [LOG.verifier.text()]}],
            "witnesses": [witness.verifier.text() for witness in WITNESSES], "quorum": len(WITNESSES), **changes}


def published() -> dict[str, Any]:
    """Write the secret keys, for whoever makes the same attacks in another language."""
    return {
        "ed25519_seeds_hex": {name: seed(name).hex() for name in ("issuer", "attacker")},
        "note_keys": {name: signer.private_text() for name, signer in (("log", LOG), *zip(("w1", "w2", "w3"), (*WITNESSES, PQ_WITNESS), strict=True))},
        "nodes": "../contract/keys.json",
        "other_entries_hex": [entry.hex() for entry in ENTRIES], "place": PLACE, "origin": ORIGIN, "cosigned_at": SEEN}
