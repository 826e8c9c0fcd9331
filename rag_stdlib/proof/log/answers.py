"""A monitor's table of answers, as the entries of a log tell of them, and the conflicts between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import apsw

from rag_stdlib.proof.log.sightings import Sighting

ANSWERS: Final = (
    """CREATE TABLE monitor_answers(issuer TEXT NOT NULL, state TEXT NOT NULL, query TEXT NOT NULL, setup TEXT NOT NULL, answer TEXT NOT NULL, position INTEGER NOT NULL,
        PRIMARY KEY(issuer, state, query, setup, answer)) WITHOUT ROWID""",
    "CREATE TABLE monitor_conflicts(first INTEGER NOT NULL, second INTEGER NOT NULL, same_setup INTEGER NOT NULL, PRIMARY KEY(first, second)) WITHOUT ROWID",
)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two entries that name one issuer, one question and one state of the index, and two answers: a question to the issuer, and no verdict.

    Whoever can append to a log can make an entry that names another's key, and no entry holds the body that its signature is over. So it takes the two signed
    certificates, whose bodies the entries name (`Sighting.body_sha256`), to tell whether both answers are the issuer's.

    Attributes:
        first: Position of the earlier entry.
        second: Position of the later one.
        same_setup: Whether both name one way in which they were made: one generator, judge, limit, mode, policy and so on.
    """

    first: int
    second: int
    same_setup: bool


class Issuers:
    """Which keys are of one issuer."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """Take the keys of one name for those of one issuer.

        Args:
            names: The name by key id; a key that is not there is an issuer of its own.
        """
        of_name: dict[str, list[str]] = {}
        for key_id, name in names.items():
            of_name.setdefault(name, []).append(key_id)
        self._keys = {key_id: tuple(of_name[name]) for key_id, name in names.items()}

    def keys_of(self, key_id: str) -> Sequence[str]:
        """Return all keys of the issuer who has this one."""
        return self._keys.get(key_id, (key_id,))


def note_answer(connection: apsw.Connection, seen: Sighting, position: int, issuers: Issuers) -> Conflict | None:
    """Note an answer, and return the conflict that is new with it: with the first one to the same question, made in the same way if there is one.

    What stands behind it in the log does not count, so an entry may be noted again.
    """
    keys = issuers.keys_of(seen.issuer_key_id)
    rows: Any = connection.execute(
        f"SELECT setup, answer, position FROM monitor_answers WHERE issuer IN ({', '.join('?' * len(keys))}) AND state = ? AND query = ? AND position < ? ORDER BY position",
        (*keys, seen.index_state, seen.query_key, position)).fetchall()
    connection.execute("INSERT OR IGNORE INTO monitor_answers VALUES (?, ?, ?, ?, ?, ?)",
                       (seen.issuer_key_id, seen.index_state, seen.query_key, seen.setup, seen.answer_sha256, position))
    if any((setup, answer) == (seen.setup, seen.answer_sha256) for setup, answer, _ in rows):
        return None
    others = [(setup, place) for setup, answer, place in rows if answer != seen.answer_sha256]
    alike = [place for setup, place in others if setup == seen.setup]
    if not others or not (alike or len(others) == len(rows)):  # that an answer is there in many ways is told once
        return None
    found = Conflict(alike[0] if alike else others[0][1], position, bool(alike))
    connection.execute("INSERT OR IGNORE INTO monitor_conflicts VALUES (?, ?, ?)", (found.first, found.second, found.same_setup))
    return found if connection.changes() else None
