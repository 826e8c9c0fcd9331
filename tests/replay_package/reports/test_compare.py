"""Two recordings held against each other: what does not count (§5.4), what does, and how the difference is shown."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracing import call, counting, create, plain_run, record, small_bodies, write_events

from replay.errors import TraceError
from replay.reports import compare as comparing
from replay.reports.align import align
from replay.reports.compare import normalised, same_run, side_by_side
from replay.reports.display import columns
from replay.reports.facts import without_counters
from replay.reports.normal import difference, fingerprint
from replay.tracefile.reader import Event, EventReader
from replay.tracefile.seal import load_private, make_key, seal_trace

KEYS = st.lists(st.sampled_from("abcd"), max_size=12)


def event(kind: str, **fields: Any) -> Event:
    return Event(5, 6, kind, {"kind": kind, "ts_ms": 1, "run_id": "r", **fields})


def same(tmp_path: Path, left: list[dict[str, Any]], right: list[dict[str, Any]]) -> bool:
    return same_run(write_events(tmp_path / "left.jsonl", left), write_events(tmp_path / "right.jsonl", right))


# --- what counts of an event ---

@pytest.mark.parametrize(("kind", "one", "other", "equal"), [
    ("tool_call", {"ts_ms": 1, "run_id": "a", "seq": 1, "prev": "x", "sha256": "y"}, {"ts_ms": 2, "run_id": "b"}, True),
    ("tool_result", {"result": 1, "call": 3}, {"result": 1, "call": 7}, True),
    ("tool_result", {"result": {"ts_ms": 1}}, {"result": {"ts_ms": 2}}, False),
    ("tool_call", {"args": [{"run_id": "a"}]}, {"args": [{"run_id": "b"}]}, False),
    ("tool_call", {"args": [1]}, {"args": [1.0]}, False), ("tool_call", {"args": [{"a": 1, "b": 2}]}, {"args": [{"b": 2, "a": 1}]}, True),
    ("seed_read", {"purpose": "rollout_default_seed", "value": 1}, {"purpose": "rollout_default_seed", "value": 2}, True),
    ("seed_read", {"purpose": "shuffle", "value": 1}, {"purpose": "shuffle", "value": 2}, False),
    ("approval_token_issued", {"token_id": "a", "issued_at_ms": 1, "expires_at_ms": 2}, {"token_id": "b", "issued_at_ms": 3, "expires_at_ms": 4}, True),
    ("approval_token_issued", {"scope": "a"}, {"scope": "b"}, False),
    ("run_completed", {"ok": True, "seal": {"key_id": "a"}}, {"ok": True}, True), ("run_completed", {"ok": True}, {"ok": False}, False),
    ("run_completed", {"ok": True, "result": None}, {"ok": True}, True), ("llm_call", {"model": None}, {"model": "m"}, False),
    ("tool_result", {"result": None}, {}, False),
    ("tool_result", {"facts": {"index": {"generation": 1, "content": "a"}}}, {"facts": {"index": {"generation": 2, "content": "a"}}}, True),
    ("tool_result", {"facts": {"index": {"content": "a"}}}, {"facts": {"index": {"content": "b"}}}, False),
    ("tool_result", {"result": {"generation": 1}}, {"result": {"generation": 2}}, False),
    ("llm_call", {"rendered": "a\r\nb"}, {"rendered": "a\nb"}, True), ("tool_call", {"args": ["a\r\nb"]}, {"args": ["a\nb"]}, False),
    ("llm_call", {"rendered": 'x {"kind":"retrieval","name":"s","timestamp_ms":17} y'}, {"rendered": 'x {"kind":"retrieval","name":"s","timestamp_ms":42} y'}, True),
    ("llm_call", {"rendered": '"{\\"kind\\": \\"Retrieval\\", \\"timestamp_ms\\": 17}"'}, {"rendered": '"{\\"kind\\": \\"Retrieval\\", \\"timestamp_ms\\": 9}"'}, True),
    ("llm_call", {"rendered": '{"kind":"retrieval","name":"a","timestamp_ms":17}'}, {"rendered": '{"kind":"retrieval","name":"b","timestamp_ms":17}'}, False),
    ("llm_call", {"rendered": '{"kind":"order","timestamp_ms":17}'}, {"rendered": '{"kind":"order","timestamp_ms":42}'}, False),
    ("host_event", {"payload": {"rendered": "a\r\n"}}, {"payload": {"rendered": "a\n"}}, False),
    ("from_the_future", {"x": None}, {}, False),
])
def test_what_counts_of_an_event(kind: str, one: Any, other: Any, equal: bool) -> None:
    """Row 43, by one field at a time; `fingerprint` says the same."""
    left, right = event(kind, **one), event(kind, **other)
    assert (difference(left, right) is None) == (difference(right, left) is None) == equal
    if '"b"' not in json.dumps(one.get("args", "")):
        assert (fingerprint(left) == fingerprint(right)) == equal
    assert normalised(left)["kind"] == kind


def test_normalising_leaves_the_event_as_it_is() -> None:
    fields = {"kind": "tool_result", "ts_ms": 1, "run_id": "r", "tool": "t", "result": None, "facts": {"generation": 1},
              "bodies": {"/result": {"sha256": "aa", "bytes": 9}}}
    before = copy.deepcopy(fields)
    assert normalised(Event(0, 1, "tool_result", fields)) == {"kind": "tool_result", "tool": "t", "result": {"sha256": "aa"}, "facts": {}}
    assert fields == before
    assert without_counters({"generation": 1, "a": {"generation": 2, "b": 3}}) == {"a": {"b": 3}}


def test_bodies_of_odd_traces_are_passed_over() -> None:
    odd = event("tool_call", args=["a"], bodies={"/args/9": {"sha256": "aa"}, "/args/x": {"sha256": "aa"}, "/args/0/y": {"sha256": "a"}, "/tool": "no"})
    assert normalised(odd) == {"kind": "tool_call", "args": ["a"]}
    assert difference(odd, event("tool_call", args=["a"])) is None
    assert normalised(event("tool_call", args=[], bodies=7)) == {"kind": "tool_call", "args": []}


def test_integers_beyond_64_bits_are_compared() -> None:
    one, other = event("tool_result", result=2**70), event("tool_result", result=2**70 + 1)
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) == fingerprint(event("tool_result", result=2**70))


# --- whole runs ---

def test_two_recordings_of_one_program_are_the_same_run(tmp_path: Path) -> None:
    """Row 43: other times, ids, seeds, chain and seal; the same run."""
    one = record(tmp_path / "one.jsonl")
    other = record(tmp_path / "other.jsonl", clock_ms=counting(1_800_000_000_000))
    make_key(tmp_path / "key")
    seal_trace(other, load_private(tmp_path / "key"))
    assert one.read_bytes() != other.read_bytes()
    assert same_run(one, other)
    text, equal = side_by_side(one, other)
    assert equal
    assert text.endswith("\n2 calls alike.\nThe runs are the same.")


@pytest.mark.parametrize("changed", [
    [("add", [1, 3], 3), ("search", ["q"], ["a", "b"])], [("add", [1, 2], 4), ("search", ["q"], ["a", "b"])],
    [("search", ["q"], ["a", "b"]), ("add", [1, 2], 3)], [("add", [1, 2], 3)], [("add", [1, 2], 3), ("search", ["q"], ["a", "b"]), ("add", [], 0)],
    [("plus", [1, 2], 3), ("search", ["q"], ["a", "b"])],
])
def test_a_real_change_is_found(tmp_path: Path, changed: Any) -> None:
    """Row 43."""
    one, other = record(tmp_path / "one.jsonl"), record(tmp_path / "other.jsonl", changed)
    assert not same_run(one, other)
    assert not same_run(other, one)
    assert not side_by_side(one, other)[1]


@pytest.mark.parametrize("options", [{"agent": "b"}, {"args": [1]}, {"command": ["x"]}])
def test_another_start_is_another_run(tmp_path: Path, options: Any) -> None:
    one, other = record(tmp_path / "one.jsonl"), record(tmp_path / "other.jsonl", **options)
    assert not same_run(one, other)
    text, equal = side_by_side(one, other)
    assert not equal
    assert f"They started otherwise at $.{next(iter(options))}" in text


def test_results_of_swapped_calls_are_found_though_each_line_is_alike(tmp_path: Path) -> None:
    def swapped(first: int, second: int) -> list[dict[str, Any]]:
        return plain_run({"kind": "tool_call", "tool": "t", "args": [1]}, {"kind": "tool_call", "tool": "t", "args": [2]},
                         {"kind": "tool_result", "tool": "t", "result": "x", "call": first},
                         {"kind": "tool_result", "tool": "t", "result": "y", "call": second})

    assert same(tmp_path, swapped(3, 4), swapped(3, 4))
    assert not same(tmp_path, swapped(3, 4), swapped(4, 3))
    assert not side_by_side(tmp_path / "left.jsonl", tmp_path / "right.jsonl")[1]


def test_calls_at_the_same_time_may_end_in_another_order_side_by_side(tmp_path: Path) -> None:
    calls = [{"kind": "tool_call", "tool": "t", "args": [number]} for number in (1, 2)]
    ends = [{"kind": "tool_result", "tool": "t", "result": number, "call": number + 2} for number in (1, 2)]
    assert not same(tmp_path, plain_run(*calls, *ends), plain_run(*calls, *ends[::-1]))
    assert side_by_side(tmp_path / "left.jsonl", tmp_path / "right.jsonl")[1]


def test_large_values_in_files_compare_by_digest_without_the_files(tmp_path: Path) -> None:
    calls = [("load", ["x" * 500, {"b": 1, "a": 2}], {"z": "y" * 500, "a": 1})]
    kept = record(tmp_path / "kept.jsonl", calls, options=small_bodies(100))
    again = record(tmp_path / "again.jsonl", calls, options=small_bodies(100))
    inline = record(tmp_path / "inline.jsonl", calls)
    other = record(tmp_path / "other.jsonl", [("load", ["x" * 500, {"b": 1, "a": 2}], {"z": "y" * 499, "a": 1})], options=small_bodies(100))
    for body in (tmp_path / "kept.jsonl.bodies").iterdir():
        body.unlink()
    for right, equal in ((again, True), (inline, True), (other, False)):
        assert same_run(kept, right) is same_run(right, kept) is equal
        assert side_by_side(kept, right)[1] is side_by_side(right, kept)[1] is equal
    assert "at $.result.sha256" in side_by_side(kept, other)[0]
    assert "a body of 514 bytes" in side_by_side(kept, other, 160)[0]


def test_traces_of_other_writers_and_unfinished_ones_are_compared(tmp_path: Path) -> None:
    corvid = [{"kind": "tool_call", "ts_ms": 1, "run_id": "a", "tool": "t", "args": []}, {"kind": "host_event", "ts_ms": 2, "run_id": "a", "name": "n", "payload": 1},
              {"kind": "tool_result", "ts_ms": 3, "run_id": "a", "tool": "t", "result": 1}, {"kind": "novel", "ts_ms": 4, "run_id": "a"}]
    assert same(tmp_path, corvid, [{**line, "run_id": "b"} for line in corvid])
    text, equal = side_by_side(tmp_path / "left.jsonl", tmp_path / "right.jsonl")
    assert equal
    assert "note: left: 1 event of the unknown kind 'novel' passed over" in text
    assert not same(tmp_path, corvid, [corvid[0], {**corvid[1], "payload": 2}, *corvid[2:]])
    text, equal = side_by_side(tmp_path / "left.jsonl", tmp_path / "right.jsonl")
    assert not equal
    assert "The other events differ, first at left step 1, right step 1." in text
    assert not same(tmp_path, plain_run(), plain_run(complete=False))
    assert "Only the left trace has a run_completed." in side_by_side(tmp_path / "left.jsonl", tmp_path / "right.jsonl")[0]
    (tmp_path / "torn.jsonl").write_bytes((tmp_path / "left.jsonl").read_bytes() + b'{"kind":"tool_c')
    assert "note: right: line 5 was cut off" in side_by_side(tmp_path / "left.jsonl", tmp_path / "torn.jsonl")[0]


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_bytes(b"no json\n")
    good = record(tmp_path / "good.jsonl")
    for compare in (same_run, side_by_side):
        with pytest.raises(TraceError) as caught:
            compare(good, tmp_path / "missing.jsonl")
        assert caught.value.code == "trace_missing"
        with pytest.raises(TraceError) as caught:
            compare(tmp_path / "bad.jsonl", good)
        assert (caught.value.code, caught.value.line) == ("trace_line", 1)


# --- side by side ---

def changed_run(tmp_path: Path) -> tuple[Path, Path]:
    calls: list[tuple[str, list[Any], Any]] = [("search", ["db", f"q{number}"], {"tag": "ok", "value": [number, number]}) for number in range(20)]
    left = record(tmp_path / "left.jsonl", calls)
    other = list(calls)
    other[5] = ("search", ["db", "q5"], {"tag": "ok", "value": [5, 6]})
    other[10] = ("search", ["db", "Q\x1b[31mten"], calls[10][2])
    other[15:16] = [("send", ["a\u202eb"], None), ("fetch", [], 1)]
    return left, record(tmp_path / "right.jsonl", other)


def test_two_columns_with_markers_places_and_a_sum(tmp_path: Path) -> None:
    text, equal = side_by_side(*changed_run(tmp_path), 120)
    lines = text.split("\n")
    assert not equal
    assert lines[0].startswith(f"left   {tmp_path}/left.jsonl  run-")
    assert lines[3] == "  … 3 calls alike"
    marked = [line for line in lines if line[:1] in {"!", "~", "<", ">"}]
    assert [line[0] for line in marked] == ["!", "~", "<", ">", ">"]
    assert marked[0].split("│")[0].split() == ["!", "13", "search", '["db","q5"]', "->", "ok,", "2", "items"]
    assert lines[lines.index(marked[0]) + 1:][:2] == ["    at $.result.value[1]", f"    {'5':55} │ 6"]
    assert lines[lines.index(marked[1]) + 1] == "    at $.args[1]"
    assert '"Q\\u001b[31mten"' in lines[lines.index(marked[1]) + 2]
    assert marked[2].rstrip().endswith("│")
    assert marked[3].split("│")[0].strip() == ">"
    assert lines[-3:] == ["", "17 calls alike, 1 with another result (!), 1 with other arguments (~), 1 only left (<), 2 only right (>).", "The runs differ."]


@pytest.mark.parametrize("width", [1, 40, 61, 79, 80, 81, 133, 1 << 30])
def test_no_line_is_wider_than_the_terminal_or_acts_on_it(tmp_path: Path, width: int) -> None:
    text, _ = side_by_side(*changed_run(tmp_path), width)
    for line in text.split("\n"):
        assert columns(line) <= max(width, 40)
        assert line.isprintable()
        assert line == line.rstrip()


def test_a_narrow_terminal_gets_one_column(tmp_path: Path) -> None:
    lines = side_by_side(*changed_run(tmp_path), 60)[0].split("\n")
    at = next(index for index, line in enumerate(lines) if line.startswith("!"))
    assert lines[at:at + 5] == ['!   13 search ["db","q5"] -> ok, 2 items', '    13 search ["db","q5"] -> ok, 2 items', "    at $.result.value[1]", "    5", "    6"]
    assert "│" not in "\n".join(lines)


def test_what_answered_is_told_apart_from_what_it_answered(tmp_path: Path) -> None:
    def run(name: str, *calls: tuple[Any, str]) -> Path:
        writer = create(tmp_path / name)
        for result, content in calls:
            call(writer, "search", ["q"], result, facts={"index": {"generation": 1, "content": content}})
        writer.complete(ok=True)
        return tmp_path / name

    left, right = run("left.jsonl", (1, "a"), (2, "a"), (3, "a")), run("right.jsonl", (1, "a"), (2, "b"), (4, "b"))
    text, equal = side_by_side(left, right)
    assert not equal
    assert "index.content differs in 1 call with the same result." in text
    assert "    at $.result  (index.content changed)" in text
    assert "2 calls alike, 1 with another result (!)." in text


def test_an_ending_on_one_side_only_is_a_difference(tmp_path: Path) -> None:
    tool = {"kind": "tool_call", "tool": "t", "args": []}
    end = {"kind": "tool_result", "tool": "t", "result": 1}
    assert not same(tmp_path, plain_run(tool, end), plain_run(tool))
    text, equal = side_by_side(tmp_path / "left.jsonl", tmp_path / "right.jsonl", 80)
    assert not equal
    assert "t [] -> 1" in text
    assert "t [] -> not ended" in text
    assert same(tmp_path, plain_run(tool), plain_run(tool))
    assert side_by_side(tmp_path / "left.jsonl", tmp_path / "right.jsonl")[1]
    assert same(tmp_path, plain_run(end), plain_run(end)), "a result of no call is compared as it stands"
    assert side_by_side(tmp_path / "left.jsonl", tmp_path / "right.jsonl")[1]


def test_results_that_differ_in_key_order_only_are_alike(tmp_path: Path) -> None:
    one = record(tmp_path / "one.jsonl", [("t", [{"a": 1, "b": 2}], {"a": 1, "b": 2})])
    other = record(tmp_path / "other.jsonl", [("t", [{"b": 2, "a": 1}], {"b": 2, "a": 1})])
    assert same_run(one, other)
    assert side_by_side(one, other)[1]


def test_streams_of_many_calls_are_aligned_by_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "LIMIT", 1_000)
    monkeypatch.setattr(align, "__defaults__", (1_000,))

    def run(name: str, numbers: Iterable[int]) -> Path:
        calls = ({"kind": "tool_call", "tool": "t", "args": [number]} for number in numbers)
        return write_events(tmp_path / name, plain_run(*(event for one in calls for event in (one, {"kind": "tool_result", "tool": "t", "result": 0}))))

    left = run("left.jsonl", range(1200))
    right = run("right.jsonl", [-1, *range(700), *range(703, 1199), -2])
    text, equal = side_by_side(left, right, 200)
    assert not equal
    assert "1,196 calls alike, 1 with other arguments (~), 3 only left (<), 1 only right (>)." in text
    assert "Where more than 1,000 calls lie" in text
    assert "calls are aligned by position." in text
    assert len(text.split("\n")) < 40


def test_calls_of_other_tools_stand_alone_around_those_of_the_same(tmp_path: Path) -> None:
    one = record(tmp_path / "one.jsonl", [("a", [], 1), ("b", [1], 1), ("c", [], 1), ("d", [1], 1)])
    other = record(tmp_path / "other.jsonl", [("b", [2], 1), ("e", [], 1), ("d", [2], 1), ("f", [], 1)])
    marks = [(line[0], line.split("│")) for line in side_by_side(one, other)[0].split("\n") if line[:1] in {"<", ">", "~"}]
    assert [(mark, [" ".join(side.split()[-4:-2]) for side in (sides[0], sides[1])]) for mark, sides in marks] == [
        ("<", ["a []", ""]), ("~", ["b [1]", "b [2]"]), ("<", ["c []", ""]), (">", ["", "e []"]), ("~", ["d [1]", "d [2]"]), (">", ["", "f []"])]


# --- alignment ---

@settings(max_examples=80)
@given(KEYS, KEYS, st.integers(0, 12))
def test_blocks_cover_both_sides_in_order_and_equal_ones_are_equal(left: list[str], right: list[str], limit: int) -> None:
    blocks = list(align(left, right, limit))
    i = j = 0
    for equal, i1, i2, j1, j2 in blocks:
        assert (i1, j1) == (i, j)
        assert i2 > i1 or j2 > j1
        assert not equal or left[i1:i2] == right[j1:j2]
        i, j = i2, j2
    assert (i, j) == (len(left), len(right))
    assert (left == right) == all(block[0] for block in blocks)
    if limit == 12:
        kept = sum(i2 - i1 for equal, i1, i2, _, _ in blocks if equal)
        assert kept >= difflib.SequenceMatcher(None, left, right, autojunk=False).find_longest_match().size


def test_by_position_both_sides_go_on_from_the_nearest_equal_pair() -> None:
    left = [*range(50), *range(100, 200)]
    right = [*range(10), -1, *range(10, 40), *range(100, 150), -2, -3, *range(153, 200)]
    kept = sum(i2 - i1 for equal, i1, i2, _, _ in align(left, right, 5) if equal)
    assert kept == 40 + 50 + 47


def test_sides_that_share_nothing_are_one_difference_after_the_other() -> None:
    left, right = list(range(7000)), list(range(10_000, 16_500))
    blocks = list(align(left, right))
    assert not any(block[0] for block in blocks)
    assert (blocks[-1][2], blocks[-1][4]) == (7000, 6500)


def test_the_reader_given_is_not_used_up(tmp_path: Path) -> None:
    path = record(tmp_path / "one.jsonl")
    assert same_run(path, path)
    assert len(list(EventReader(path))) == 8
