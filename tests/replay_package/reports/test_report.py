"""What a differential and a mutated run found: ranks, causes, sums, and the tables that tell them."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracing import call, create, record

import replay
from replay.recorder import Cancelled, Raised, Ranking, Returned
from replay.reports.display import columns
from replay.reports.ranks import Move, Place, Shift
from replay.reports.report import CallReport, DifferentialReport, MutationReport, compare_call
from replay.tracefile.trace import RecordedCall, load_trace

FACTS = {"index": {"generation": 3, "content": "aa", "embedder": {"model": "m1", "dim": 8}}}
SCORES = st.one_of(st.none(), st.sampled_from([0.5, 0.25, 1.0]))
LISTS = st.lists(st.tuples(st.sampled_from("abcde"), SCORES), max_size=7).map(tuple)


def recorded(tmp_path: Path, args: list[Any], result: Any = None, **further: Any) -> RecordedCall:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
    writer = create(path)
    call(writer, "rag_search", args, result, **further)
    writer.complete(ok=True)
    return load_trace(path).calls[0]


def found(*ranked: tuple[str, float | None]) -> dict[str, Any]:
    return {"tag": "ok", "value": [{"chunk_id": item, "score": score} for item, score in ranked]}


def ranking(value: Any) -> list[tuple[str, float | None]] | None:
    return [(hit["chunk_id"], hit["score"]) for hit in value["value"]] if value["tag"] == "ok" else None


def compared(tmp_path: Path, was: Any, now: Any, *, how: Ranking | None = ranking, **further: Any) -> CallReport:
    one = recorded(tmp_path, ["notes.db", "refund", 5], was, facts=FACTS)
    ending = one.ending()
    assert ending is not None
    return compare_call(one, ending, Returned(now), live_facts=further.pop("facts", FACTS), ranking=how, **further)


# --- ranks ---

@pytest.mark.parametrize(("was", "now", "kept", "gone", "new"), [
    ((), (), (), (), ()),
    ((("a", 1.0),), (), (), (("a", 1),), ()),
    ((), (("a", None),), (), (), (("a", 1),)),
    ((("a", None), ("b", None)), (("b", None), ("a", None)), (("b", 2, 1), ("a", 1, 2)), (), ()),
    ((("a", 1.0), ("a", 0.5)), (("a", 0.5),), (("a", 1, 1),), (("a", 2),), ()),
    ((("a", 1.0),), (("b", 1.0), ("a", 1.0), ("a", 1.0)), (("a", 1, 2),), (), (("b", 1), ("a", 3))),
    ((("x", 0.5), ("y", 0.5)), (("y", 0.5), ("z", 0.5)), (("y", 2, 1),), (("x", 1),), (("z", 2),)),
])
def test_ranks_by_hand(was: Any, now: Any, kept: Any, gone: Any, new: Any) -> None:
    shift = Shift.between(was, now)
    assert [(move.item, move.was, move.now) for move in shift.kept] == list(kept)
    assert [(place.item, place.rank) for place in shift.gone] == list(gone)
    assert [(place.item, place.rank) for place in shift.new] == list(new)


@given(LISTS, LISTS)
def test_every_place_of_both_lists_is_accounted_for_once(was: Any, now: Any) -> None:
    shift = Shift.between(was, now)
    left = [(move.item, move.was, move.was_score) for move in shift.kept] + [(place.item, place.rank, place.score) for place in shift.gone]
    right = [(move.item, move.now, move.now_score) for move in shift.kept] + [(place.item, place.rank, place.score) for place in shift.new]
    assert sorted(left, key=lambda place: place[1]) == [(item, rank, score) for rank, (item, score) in enumerate(was, 1)]
    assert sorted(right, key=lambda place: place[1]) == [(item, rank, score) for rank, (item, score) in enumerate(now, 1)]
    both = Counter(item for item, _ in was) & Counter(item for item, _ in now)
    assert Counter(move.item for move in shift.kept) == both, "no item is both gone and new"
    counts = shift.counts()
    assert counts["moved"] + counts["rescored"] == len(shift.changed)
    assert (was == now) == (not any(counts.values()))


def test_equal_items_keep_their_order() -> None:
    assert Shift.between((("a", 0.9), ("b", 0.8), ("a", 0.7)), (("a", 0.9), ("a", 0.7), ("b", 0.8))) == Shift(
        (Move("a", 1, 1, 0.9, 0.9), Move("a", 3, 2, 0.7, 0.7), Move("b", 2, 3, 0.8, 0.8)), (), ())
    assert Shift.between((("a", 0.9),), ()).gone == (Place("a", 1, 0.9),)


# --- one call ---

def test_an_equal_result_is_the_same_whatever_its_key_order(tmp_path: Path) -> None:
    report = compared(tmp_path, {"tag": "ok", "value": []}, {"value": [], "tag": "ok"})
    assert (report.same, report.cause, report.path, report.was, report.now, report.note) == (True, (), "", "", "", "")
    assert (report.number, report.step, report.kind, report.tool, report.args) == (1, 3, "tool", "rag_search", '["notes.db","refund",5]')


def test_numbers_of_other_types_are_a_change(tmp_path: Path) -> None:
    """§6.3: 1, 1.0 and true are three values."""
    for was, now in ((1, 1.0), (1, True), (0, False)):
        report = compared(tmp_path, {"n": was}, {"n": now}, how=None)
        assert (report.same, report.path, report.cause) == (False, "$.n", ("unexplained",))


@pytest.mark.parametrize(("facts", "cause"), [
    ({"index": {**FACTS["index"], "content": "bb"}}, ("index.content",)),
    ({"index": {**FACTS["index"], "content": "bb", "embedder": {"model": "m2", "dim": 8}, "generation": 9}}, ("index.content", "index.embedder.model")),
    ({"index": {**FACTS["index"], "generation": 4}}, ("unexplained",)),
    (FACTS, ("unexplained",)), ({}, ("index",)),
    ({"index": {**FACTS["index"], "content": None}}, ("unexplained",)),  # not known
    ({**FACTS, "extra": 1}, ("extra",)),
])
def test_the_cause_is_what_the_facts_say(tmp_path: Path, facts: Any, cause: tuple[str, ...]) -> None:
    report = compared(tmp_path, found(("a", 1.0)), found(("b", 1.0)), facts=facts)
    assert report.cause == cause


def test_without_recorded_facts_nothing_recorded_explains_a_change(tmp_path: Path) -> None:
    one = recorded(tmp_path, [], 1)
    assert compare_call(one, Returned(1), Returned(2), live_facts=FACTS).cause == ("unexplained",)


def test_other_arguments_come_before_the_facts(tmp_path: Path) -> None:
    report = compared(tmp_path, found(("a", 1.0)), found(("b", 1.0)), facts={}, live_args=["notes.db", "reimburse", 5])
    assert (report.same, report.cause) == (False, ("arguments",))
    assert report.note == 'asked otherwise at $[1]: "refund" -> "reimburse"'
    report = compared(tmp_path, found(), found(), live_args=["notes.db", "refund", 5.0])
    assert (report.same, report.cause, report.path) == (False, ("arguments",), "")
    assert report.note == "asked otherwise at $[2]: 5 -> 5.0; the result is the same"


def test_changed_facts_with_the_same_result_are_a_note(tmp_path: Path) -> None:
    report = compared(tmp_path, found(), found(), facts={"index": {**FACTS["index"], "content": "bb"}})
    assert (report.same, report.cause, report.note) == (True, (), "index.content changed; the result did not")


@pytest.mark.parametrize(("was", "now", "same", "shown"), [
    (Returned(1), Raised("builtins.ValueError", "bad", ["bad"]), False, ("1", "raised ValueError: bad")),
    (Raised("a.E", "x"), Raised("a.E", "x"), True, ("", "")), (Raised("a.E", "x"), Raised("a.E", "y"), False, ("raised a.E: x", "raised a.E: y")),
    (Raised("a.E", "x", [1]), Raised("a.E", "x", [2]), False, ("raised a.E: x", "raised a.E: x")),
    (Cancelled(), Cancelled(), True, ("", "")), (Cancelled(), Returned(None), False, ("cancelled", "null")),
])
def test_endings_are_compared(tmp_path: Path, was: Any, now: Any, same: bool, shown: tuple[str, str]) -> None:
    report = compare_call(recorded(tmp_path, []), was, now, ranking=ranking)
    assert (report.same, (report.was, report.now), report.shift) == (same, shown, None)


def test_a_result_that_became_an_error_is_told_whole(tmp_path: Path) -> None:
    report = compared(tmp_path, found(("a", 1.0)), {"tag": "err", "err": "no such index", "code": "not_found"})
    assert (report.path, report.was, report.now, report.shift) == ("$.tag", "ok, 1 item", "err not_found: no such index", None)


def test_long_texts_show_where_they_differ(tmp_path: Path) -> None:
    report = compared(tmp_path, ["x" * 5000 + "left"], ["x" * 5000 + "right"], how=None)
    assert report.path == "$[0]"
    assert report.was.endswith('left"')
    assert len(report.was) < 250


def test_a_ranking_that_fails_costs_the_ranks_only(tmp_path: Path) -> None:
    def broken(_value: Any) -> None:
        raise KeyError("chunk_id")

    report = compared(tmp_path, found(("a", 1.0)), found(("b", 1.0)), how=broken)
    assert (report.same, report.shift, report.moved, report.gone, report.new) == (False, None, (), (), ())
    assert report.note == "ranks not compared: ranking() raised KeyError: 'chunk_id'"


def test_moved_gone_and_new_items(tmp_path: Path) -> None:
    report = compared(tmp_path, found(("a", 0.9), ("b", 0.8), ("c", None), ("d", 0.1)), found(("b", 0.8), ("a", 0.9), ("c", 0.5), ("e", 0.1)))
    assert report.moved == (Move("b", 2, 1, 0.8, 0.8), Move("a", 1, 2, 0.9, 0.9), Move("c", 3, 3, None, 0.5))
    assert (report.gone, report.new) == (("d",), ("e",))


# --- reports ---

def sample(tmp_path: Path) -> DifferentialReport:
    other = {"index": {**FACTS["index"], "content": "bb"}}
    evil = "\x1b[2J\u202eevil\x07"
    return DifferentialReport(
        [compared(tmp_path, found(("a", 0.9)), found(("a", 0.9)), facts=other),
         compared(tmp_path, found(("a", 0.9), ("b", 0.8), ("c", None)), found(("b", 0.91), ("a", 0.9), ("n", 0.2)), facts=other),
         compared(tmp_path, found(("a", 0.9)), found(("a", 0.90001)), facts=other),
         compared(tmp_path, found((evil, 0.9)), found(), facts={}, live_args=[evil, "refund", 5]),
         compared(tmp_path, {"tag": "ok", "value": 3}, {"tag": "ok", "value": 4}),
         compare_call(recorded(tmp_path, [evil]), Returned(evil), Raised(evil, evil))],
        [{"code": "never_recorded", "kind": "tool", "tool": f"send{evil}", "args": [evil]}],
        [{"kind": "tool", "tool": "rag_search", "args": ["x"], "step": 19}, {"kind": "tool", "tool": "rag_search", "args": ["y"], "step": 21}],
        {"code": "ended_otherwise", "message": f"the run ended otherwise\n  recorded  ok\n  live      {evil}", "step": 23})


def test_the_sum_counts_calls_causes_and_items(tmp_path: Path) -> None:
    report = sample(tmp_path)
    assert report.totals() == {
        "compared": 6, "same": 1, "changed": 5, "causes": {"index.content": 2, "unexplained": 2, "arguments": 1},
        "moved": 2, "rescored": 1, "gone": 2, "new": 1, "unmatched": 1, "missing": 2, "ended_otherwise": True}
    assert not report.faithful
    assert DifferentialReport().faithful
    assert DifferentialReport(report.calls[:1]).faithful
    for broken in ({"calls": report.calls[1:2]}, {"unmatched": report.unmatched}, {"missing": report.missing}, {"completion": {}}):
        assert not DifferentialReport(**broken).faithful


def test_a_report_survives_json(tmp_path: Path) -> None:
    report = sample(tmp_path)
    text = json.dumps(report.to_dict())
    again = DifferentialReport.from_dict(json.loads(text))
    assert again == report
    assert json.dumps(again.to_dict()) == text
    mutated = MutationReport(2, "1", "2", [{"step": 5, "kind": "arguments", "recorded": "f(1)", "got": "f(2)"}], {"message": "m"}, 3)
    assert MutationReport.from_dict(json.loads(json.dumps(mutated.to_dict()))) == mutated


def test_the_table_tells_in_words_what_changed(tmp_path: Path) -> None:
    lines = sample(tmp_path).table(100).split("\n")
    assert lines[0].split() == ["call", "tool", "result", "arguments"]
    assert lines[1].split()[:3] == ["1", "rag_search", "same"]
    assert "1 moved" not in lines[2]
    assert "2 moved, 1 gone, 1 new" in lines[2]
    assert "1 rescored" in lines[3]
    assert "asked otherwise, 1 gone" in lines[4]
    assert " changed " in lines[5]
    assert "ended otherwise" in lines[6]
    text = "\n".join(lines)
    assert "  why: index.content changed\n" in text
    assert "  item  rank       score\n  b     2 -> 1     0.8 -> 0.91\n  a     1 -> 2     0.9\n  n     new -> 3   0.2\n  c     3 -> gone\n" in text
    assert "  a     1     0.9 -> 0.90001" in text, "as many digits as it takes"
    end = lines[lines.index("6 calls compared: 1 the same, 5 changed."):]
    assert end == [
        "6 calls compared: 1 the same, 5 changed.", "  index.content changed: 2 calls", "  nothing recorded explains it: 2 calls",
        "  the program asked otherwise: 1 call", "  index.content changed; the result did not: 1 call",
        "Ranked items: 2 moved, 1 rescored, 2 gone, 1 new.",
        "1 call was made that the trace does not hold:", '  send\ufffd[2J\ufffdevil\ufffd ["\\u001b[2J\\u202eevil\\u0007"]',
        "2 calls were recorded and not made:", '  step 19  rag_search ["x"]', '  step 21  rag_search ["y"]',
        "The run did not end as recorded:", "  the run ended otherwise", "    recorded  ok", "    live      \ufffd[2J\ufffdevil\ufffd"]


@pytest.mark.parametrize("width", [1, 40, 53, 60, 80, 133, 1 << 30])
def test_no_line_is_wider_than_the_terminal_or_acts_on_it(tmp_path: Path, width: int) -> None:
    mutated = MutationReport(2, "x" * 300, "\x1b[31m", [{"step": None, "kind": "never\nrecorded", "recorded": "", "got": "y" * 300}], None, 1)
    for text in (sample(tmp_path).table(width), mutated.table(width)):
        for line in text.split("\n"):
            assert columns(line) <= max(width, 40)
            assert line == line.rstrip()
            assert not {unicodedata.category(char) for char in line} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(("was", "now", "shown"), [
    (0.5, 0.5, "0.5"), (0.5, None, "0.5 -> none"), (None, 0.25, "none -> 0.25"), (0.123456, 0.123457, "0.123456 -> 0.123457"),
    (0.12345678, 0.12345679, "0.12345678 -> 0.12345679"), (0.1, 0.1 + 1e-16, "0.1 -> 0.1000000000000001"), (12345.0, 12346.0, "12345.0 -> 12346.0"),
])
def test_scores_that_differ_look_different(tmp_path: Path, was: float | None, now: float | None, shown: str) -> None:
    report = compared(tmp_path, found(("z", 1.0), ("a", was)), found(("a", now), ("z", 1.0)))
    assert [line.split("  ")[-1] for line in DifferentialReport([report]).table().split("\n") if line.startswith("  a ")] == [shown]


def test_much_is_cut_and_said_to_be(tmp_path: Path) -> None:
    many = compared(tmp_path, found(*((f"i{rank}", None) for rank in range(30))), found())
    text = DifferentialReport([many] * 60, [{"tool": "t", "args": []}] * 25).table(80)
    assert text.count("… and 10 further items") == 50
    assert "(10 further calls are not shown in detail; the JSON report holds all.)" in text
    assert "… and 5 further calls" in text
    assert "  item  rank\n" in text, "there are no scores"


def test_a_narrow_table_leaves_out_scores_rather_than_items(tmp_path: Path) -> None:
    report = compared(tmp_path, found(("some/long/name.md:12", 0.123456789)), found(("x", 1.0), ("some/long/name.md:12", 0.123456788)))
    text = DifferentialReport([report]).table(40)
    assert "  some/long/name.md:12  1 -> 2\n" in text


def test_a_call_that_asked_otherwise_and_got_the_same_is_a_change_of_the_program(tmp_path: Path) -> None:
    report = DifferentialReport([compared(tmp_path, found(), found(), live_args=["notes.db", "reimburse", 5])])
    assert not report.faithful
    assert report.table(80).split("\n") == [
        "call  tool        result           arguments", '   1  rag_search  asked otherwise  ["notes.db","refund",5]', "",
        'call 1 (step 3)  rag_search ["notes.db","refund",5]', "  why: the program asked otherwise",
        '  asked otherwise at $[1]: "refund" -> "reimburse"; the result is the same', "",
        "1 call compared: 0 the same, 1 changed.", "  the program asked otherwise: 1 call"]


def test_nothing_compared_is_said_too() -> None:
    assert DifferentialReport().table() == "0 calls compared: 0 the same, 0 changed."


def test_the_table_of_a_mutation() -> None:
    findings = [{"step": 5, "kind": "arguments", "recorded": "search(1)", "got": "search(2)"},
                {"step": 7, "kind": "not_asked", "recorded": "send(1)", "got": ""},
                {"step": None, "kind": "exhausted", "recorded": "", "got": "send(3)"}]
    assert MutationReport(2, '["a"]', "[]", findings, {"message": "the run ended otherwise"}, 1).table().split("\n") == [
        "The result of recorded call 2 was replaced:", '  recorded     ["a"]', "  replacement  []", "",
        "After it, over 1 call, 3 findings:",
        "  step 5: asked otherwise", "    recorded  search(1)", "    got       search(2)",
        "  step 7: no longer asked", "    recorded  send(1)",
        "  nothing is recorded for this call", "    got       send(3)",
        "The run did not end as recorded:", "  the run ended otherwise"]
    assert MutationReport(2, "1", "2", calls_after=4).table().split("\n")[-2:] == [
        "After it the program asked what was recorded: 4 calls.", "The run ended as recorded."]
    assert "After it the program asked nothing more." in MutationReport(2, "1", "2").table()
    assert MutationReport(2, "1", "2").faithful
    assert not MutationReport(2, "1", "2", findings).faithful
    assert not MutationReport(2, "1", "2", completion={}).faithful


def test_a_differential_session_reports_what_the_model_changed(tmp_path: Path) -> None:
    """Row 38: a new model; the recorded results are returned, the steps that differ are listed."""
    order = ["a", "b", "c"]

    @replay.tool(ranking=lambda hits: [(hit[0], hit[1]) for hit in hits])
    def search(query: str) -> list[list[Any]]:
        return [[item, 1.0 - rank / 10] for rank, item in enumerate(order)] if query == "ranked" else [[query, None]]

    with replay.record(tmp_path / "run.jsonl"):
        first = [search("ranked"), search("same")]
    order[:] = ["c", "a", "n"]
    with replay.differential(tmp_path / "run.jsonl") as session:
        assert [search("ranked"), search("same")] == first
    report = session.report
    assert isinstance(report, DifferentialReport)
    assert [compared.same for compared in report.calls] == [False, True]
    assert [(move.item, move.was, move.now) for move in report.calls[0].moved] == [("c", 3, 1), ("a", 1, 2)]
    assert (report.calls[0].gone, report.calls[0].new, report.calls[0].cause) == (("b",), ("n",), ("unexplained",))
    assert "2 calls compared: 1 the same, 1 changed.\n  nothing recorded explains it: 1 call" in report.table()


def test_a_mutation_session_reports_what_followed(tmp_path: Path) -> None:
    """Row 39: the replaced result, and the calls that differ behind it."""
    @replay.tool
    def step(value: str) -> str:
        return value.upper()

    with replay.record(tmp_path / "run.jsonl"):
        step(step("a"))
    with replay.mutation(tmp_path / "run.jsonl", 1, "Z") as session:
        assert step(step("a")) == "A"
    assert isinstance(session.report, MutationReport)
    assert (session.report.step, session.report.calls_after, session.report.recorded, session.report.replacement) == (1, 1, '"A"', '"Z"')
    assert "asked otherwise" in session.report.table()


def test_recording_the_samples_makes_real_traces(tmp_path: Path) -> None:
    calls = load_trace(record(tmp_path / "run.jsonl")).calls
    assert compare_call(calls[0], Returned(3), Returned(3), live_args=[1, 2]).same
