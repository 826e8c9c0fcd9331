"""Answers as the entries of a log tell of them: what an entry says, two answers to one question, and the keys of one issuer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_trees import tree_hash
from logs import entry, new_log
from signed import LOG, NOW, ORIGIN, PINNED

from rag_stdlib.proof.format import answer_setup, index_state, log_entry, query_key
from rag_stdlib.proof.log.answers import Conflict
from rag_stdlib.proof.log.checkpoints import Checkpoint
from rag_stdlib.proof.log.monitor import Monitor, Report
from rag_stdlib.proof.log.notes import sign_note
from rag_stdlib.proof.log.sightings import Sighting, read_sighting
from rag_stdlib.proof.log.store import Log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with new_log(tmp_path / "log.db") as made:
        yield made


def test_an_entry_of_a_certificate_is_read_in_its_one_form() -> None:
    assert read_sighting(entry("q", "a", issuer="i", state="s", setup="w")) == Sighting("i", "s", "q", "w", "a", "qa")


def test_the_entry_that_a_certificate_makes_is_read() -> None:
    body = {"answer": {"sha256": "a"}, "retrieval": {"state": "s", "limit": 3, "mode": "lexical", "merged_by": None, "topics": []}, "issued_at": "t", "issuer": {"key_id": "i"}, "query": {"key": "q"},
            **{name: {"name": name} for name in ("generator", "judge", "methods", "policy")}}
    assert read_sighting(log_entry(body, b"{}", "c2ln")) == Sighting("i", "s", "q", answer_setup(body), "a", hashlib.sha256(b"{}").hexdigest())


@pytest.mark.parametrize("data", [
    b"", b"x", b"{}", b"null", b"[]", b"\xff", entry()[:-1], entry() + b" ", b" " + entry(), entry(schema="rag-stdlib/log-entry/v2"), entry(extra="x"), entry(query_key=None),
    entry(query_key=1), entry().replace(b'"query_key":"q"', b'"query_key":"q","query_key":"q"'), entry().replace(b'"query_key":"q",', b""),
    entry().replace(b'"setup":"w",', b""), entry(setup=None),
    entry().replace(b'"q"', b'"\\u0071"'), entry().replace(b'"q"', b'"\\ud800"'), b"[" * 10_000, json.dumps(json.loads(entry())).encode(), entry().replace(b"signature", b"Signature"),
])
def test_what_is_none_is_none(data: bytes) -> None:
    assert read_sighting(data) is None


def test_two_answers_to_one_question_over_one_state_are_a_conflict(monitor: Monitor, log: Log) -> None:
    log.append_many([entry("q1", "a"), entry("q1", "a"), entry("q2", "b"), entry("q1", "b"), entry("q1", "c", state="t"), entry("q1", "c", issuer="j")])
    assert monitor.scan(log) == Report(6, 6, (Conflict(0, 3, True),))
    log.append_many([entry("q1", "b"), entry("q1", "c"), entry("q2", "x")])
    assert monitor.scan(log) == Report(9, 3, (Conflict(0, 7, True), Conflict(2, 8, True)))
    assert monitor.conflicts() == [Conflict(0, 3, True), Conflict(0, 7, True), Conflict(2, 8, True)]
    assert monitor.scan(log) == Report(9, 0)


@pytest.mark.parametrize(("answers", "found"), [
    (["a1", "a2", "a1"], []), (["a1", "b2"], [(0, 1, False)]), (["a1", "b1"], [(0, 1, True)]),
    (["a1", "b2", "c2"], [(0, 1, False), (1, 2, True)]), (["a1", "b2", "a2"], [(0, 1, False), (1, 2, True)]), (["a1", "b2", "a3", "b4"], [(0, 1, False)]),
    (["a1", "b2", "c3"], [(0, 1, False), (0, 2, False)]), (["a1", "b2", "b1", "a1", "b2"], [(0, 1, False), (0, 2, True)]), (["a1", "b1", "c1", "b1"], [(0, 1, True), (0, 2, True)]),
])
def test_a_conflict_says_whether_both_were_made_in_one_way(monitor: Monitor, log: Log, answers: list[str], found: list[tuple[int, int, bool]]) -> None:
    """Answers by letters, ways by digits; all at once, and one at a time."""
    log.append_many(entry("q", answer, setup=way) for answer, way in answers)
    assert monitor.scan(log).conflicts == tuple(Conflict(*each) for each in found)
    for answer, way in answers:
        log.append(entry("p", answer, setup=way))
        monitor.scan(log)
    assert monitor.conflicts() == [Conflict(*each) for each in [*found, *((first + len(answers), second + len(answers), same) for first, second, same in found)]]


def test_a_state_that_is_not_known_is_nobody_elses(monitor: Monitor, log: Log) -> None:
    for content, found in ((None, ()), ("c" * 64, (Conflict(2, 3, True),))):
        retrieval = {"corpus_hash": None, "embedder": None, "indexes": [{"node_id": None, "shard_id": None, "content": content}]}
        states = [index_state(retrieval, salt) for salt in ("0" * 64, "1" * 64)]
        log.append_many(entry(query_key("?", state), answer, state=state) for state, answer in zip(states, "ab", strict=True))
        assert monitor.scan(log).conflicts == found


NAMES = {"i": "Acme", "j": "Acme", "k": "Another"}


def test_what_an_issuer_says_by_one_key_is_held_against_what_he_says_by_another(tmp_path: Path, log: Log) -> None:
    log.append_many([entry("q", "a", issuer="i"), entry("q", "b", issuer="k"), entry("q", "a", issuer="j"), entry("q", "b", issuer="j"), entry("q", "c", issuer="i", setup="v"),
                     entry("q", "d", issuer="l"), entry("q", "e", issuer="m")])
    for number, (names, found) in enumerate([(None, [(0, 4, False), (2, 3, True)]), (NAMES, [(0, 3, True), (0, 4, False)]), ({"i": "Acme", "j": "acme"}, [(0, 4, False), (2, 3, True)])]):
        Monitor.create(tmp_path / f"{number}.db", ORIGIN)
        with Monitor(tmp_path / f"{number}.db", PINNED, issuers=names) as made:
            assert sorted(made.scan(log).conflicts, key=str) == [Conflict(*each) for each in found]
            assert made.scan(log, whole=True).conflicts == ()


def test_a_key_that_is_known_later_counts_for_what_was_read_before_once_that_is_read_again(tmp_path: Path, log: Log) -> None:
    log.append_many([entry("q", "a", issuer="i"), entry("q", "b", issuer="j"), entry("p", "a", issuer="i")])
    Monitor.create(tmp_path / "m.db", ORIGIN)
    with Monitor(tmp_path / "m.db", PINNED, issuers={"i": "Acme"}) as made:
        assert made.scan(log).conflicts == ()
    log.append(entry("p", "b", issuer="j"))
    with Monitor(tmp_path / "m.db", PINNED, issuers=NAMES) as made:
        assert made.scan(log).conflicts == (Conflict(2, 3, True),), "what is new is held against all that was read"
        assert made.scan(log, whole=True) == Report(4, 0, (Conflict(0, 1, True),))
        assert made.scan(log, whole=True) == Report(4, 0)
        assert made.conflicts() == [Conflict(0, 1, True), Conflict(2, 3, True)]


class Told:
    """A log whose entries are a list."""

    def __init__(self, data: list[bytes]) -> None:
        self._data = data

    def checkpoint(self) -> bytes:
        return sign_note(Checkpoint(ORIGIN, len(self._data), tree_hash(self._data)).text(), [LOG], NOW)

    def comparison_path(self, old_size: int, new_size: int) -> list[bytes]:
        raise AssertionError((old_size, new_size))

    def entries(self, start: int, stop: int) -> Iterator[bytes]:
        return iter(self._data[start:stop])


@settings(max_examples=25)  # each makes two files
@given(st.lists(st.tuples(st.sampled_from("ijk"), st.sampled_from("ab"), st.sampled_from("vw")), max_size=10), st.integers(0, 10))
def test_read_again_a_log_has_the_conflicts_that_are_found_by_who_knows_all_keys_at_once(
        tmp_path_factory: pytest.TempPathFactory, answers: list[tuple[str, str, str]], known: int) -> None:
    folder = tmp_path_factory.mktemp("any")
    data = [entry("q", answer, issuer=issuer, setup=setup) for issuer, answer, setup in answers]
    found: dict[str, set[Conflict]] = {}
    for name in ("knowing", "learning"):
        Monitor.create(folder / name, ORIGIN)
        with Monitor(folder / name, PINNED, issuers=NAMES if name == "knowing" else None, synchronous="normal") as made:
            made.scan(Told(data[:known]))
        with Monitor(folder / name, PINNED, issuers=NAMES, synchronous="normal") as made:
            made.scan(Told(data), whole=True)
            assert made.scan(Told(data), whole=True).conflicts == ()
            found[name] = set(made.conflicts())
    assert found["knowing"] <= found["learning"]
    for each in found["learning"]:
        (one, first, way), (other, second, again) = answers[each.first], answers[each.second]
        assert (NAMES[one], first != second, way == again) == (NAMES[other], True, each.same_setup)
