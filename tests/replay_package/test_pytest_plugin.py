"""The pytest plugin, used as its users do: its modes, its options, and what it costs who uses none of it."""

from __future__ import annotations

import json
import sys

import pytest
from traced_suite import ONE, SUMMARY, WITHOUT, Suite

from replay.pytest_plugin import mode_of
from replay.testing import summary


def test_once_records_a_test_without_a_trace_and_replays_it_from_then_on(suite: Suite) -> None:
    suite.write(ONE)
    result = suite.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([SUMMARY.format("once"), "1 test, 0 calls answered from traces, 1 call recorded",
                                 "  wrote traces/test_it/test_one.jsonl"])
    assert suite.ran == ["EUR"]
    recorded = suite.traces
    assert list(recorded) == ["test_it/test_one.jsonl"]
    result = suite.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([SUMMARY.format("once"), "1 test, 1 call answered from traces"])
    result.stdout.no_fnmatch_line("*wrote*")
    assert suite.ran == []
    assert suite.traces == recorded


def test_the_fixture_is_the_open_session_of_the_test(suite: Suite) -> None:
    suite.write("""
        def test_one(rag_trace):
            assert replay.current() is rag_trace
            assert (rag_trace.answered, rag_trace.ran) == (0, 0)
            rate("EUR")
            assert rag_trace.answered + rag_trace.ran == 1
            rag_trace.complete({"rate": 1.25})

        def test_two():
            assert replay.current() is None
            rate("live")
        """)
    suite.run().assert_outcomes(passed=2)
    assert suite.ran == ["EUR", "live"]
    assert json.loads(suite.traces["test_it/test_one.jsonl"].splitlines()[-1])["result"] == {"rate": 1.25}
    suite.run("--rag-replay=none").assert_outcomes(passed=2)
    assert suite.ran == ["live"], "a test without a trace is none of the plugin's business"
    suite.change('{"rate": 1.25}', '{"rate": 1.5}')
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_one*", "*the run ended otherwise than recorded*"])


def test_under_none_a_test_without_a_trace_fails_at_its_first_call_which_says_how_to_record_it(suite: Suite) -> None:
    suite.write('@pytest.mark.rag_trace\n@pytest.mark.parametrize("to", ["EUR now"])\ndef test_one(to):\n    convert(2, to)\n')
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["test_it.py:*: in test_one", "    convert(2, to)", "tools.py:*: in convert",
                                 ("E*TraceError: trace 'traces/test_it/test_one-EUR_now~*.jsonl': this test has no trace; record it: "
                                  "pytest --rag-replay=once 'test_it.py::test_one[[]EUR now]'")])
    for file in ("session.py", "unrecorded.py", "decorator.py"):
        result.stdout.no_fnmatch_line(f"*{file}*")
    result.stdout.no_fnmatch_line("*if the change is meant*")
    assert (suite.ran, suite.traces) == ([], {})


@pytest.mark.parametrize(("ci", "ini", "option", "mode"), [
    ("true", "", "", "none"), ("1", "", "", "none"), ("0", "", "", "once"), ("False", "", "", "once"), ("", "", "", "once"),
    ("true", "all", "", "all"), ("", "none", "", "none"), ("true", "all", "new_episodes", "new_episodes"), ("1", "", "once", "once"),
])
def test_the_command_line_beats_the_ini_file_and_that_the_environment(
        suite: Suite, monkeypatch: pytest.MonkeyPatch, ci: str, ini: str, option: str, mode: str) -> None:
    monkeypatch.setenv("CI", ci)
    suite.pytester.makeini(f"[pytest]\nrag_replay = {ini}\n")
    config = suite.pytester.parseconfig(*WITHOUT, *([f"--rag-replay={option}"] if option else []))
    assert mode_of(config) == mode


@pytest.mark.parametrize(("options", "mode"), [([], "none, since CI is set"), (["--rag-replay=none"], "none")])
def test_the_summary_says_which_mode_and_when_it_is_that_of_ci(
        suite: Suite, monkeypatch: pytest.MonkeyPatch, options: list[str], mode: str) -> None:
    suite.write(ONE)
    monkeypatch.setenv("CI", "true")
    result = suite.run(*options)
    result.stdout.fnmatch_lines(["*this test has no trace*"])
    suite.run("--rag-replay=once")
    suite.run(*options).stdout.fnmatch_lines([SUMMARY.format(mode)])


def test_new_episodes_records_what_is_not_in_the_trace_and_loses_nothing(suite: Suite) -> None:
    suite.write('@pytest.mark.rag_trace\ndef test_one():\n    rate("EUR")\n    rate("USD")\n')
    suite.run()
    suite.change('rate("USD")', 'rate("CHF")')
    result = suite.run("--rag-replay=new_episodes")
    result.assert_outcomes(passed=1)
    assert suite.ran == ["CHF"]
    result.stdout.fnmatch_lines(["1 test, 1 call answered from traces, 1 call recorded", "  wrote traces/test_it/test_one.jsonl",
                                 "test_it.py::test_one did not ask for 1 recorded call of traces/test_it/test_one.jsonl",
                                 '    step 5  rate("USD", 1)'])
    assert suite.calls("test_one") == ["EUR", "CHF", "USD"]
    before = suite.traces
    suite.run("--rag-replay=new_episodes").assert_outcomes(passed=1)
    assert suite.traces == before, "nothing new, nothing written"


def test_all_records_anew(suite: Suite) -> None:
    suite.write(ONE)
    suite.run()
    suite.change('"EUR"', '"CHF"')
    result = suite.run("--rag-replay=all")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([SUMMARY.format("all"), "*1 call recorded"])
    assert suite.calls("test_one") == ["CHF"]


def test_the_summary_is_cut_unless_pytest_is_verbose(suite: Suite) -> None:
    count = summary.LISTED + 2
    suite.write(f'@pytest.mark.rag_trace\n@pytest.mark.parametrize("n", range({count}))\ndef test_one(n):\n    rate("x", n)\n')
    result = suite.run()
    result.stdout.fnmatch_lines([f"{count} tests, 0 calls answered from traces, {count} calls recorded", "  wrote traces/test_it/test_one-0.jsonl",
                                 "  wrote traces/test_it/test_one-9.jsonl", "  and 2 more (-v lists them)"])
    result.stdout.no_fnmatch_line("*test_one-10*")
    suite.change('"x"', '"y"')
    result = suite.run("-v", "--rag-replay=all")
    result.stdout.fnmatch_lines(["  wrote traces/test_it/test_one-11.jsonl"])
    result.stdout.no_fnmatch_line("*-v lists*")


def test_the_summary_shows_nothing_that_acts_on_a_terminal() -> None:
    test = {"trace": "traces/t.jsonl", "answered": 1, "ran": 0, "kept": "", "unused": ["step 3  rate(\x1b[31m)"]}
    shown = summary.lines({"t.py::test[\x1b]2;x\x07]": test})
    assert len(shown) == 3
    assert not any(char in line for line in shown for char in "\x1b\x07")


def test_options_marker_and_fixture_are_explained_by_pytest_itself(suite: Suite) -> None:
    suite.run("--markers").stdout.fnmatch_lines(["@pytest.mark.rag_trace(matching=*"])
    suite.run("--fixtures").stdout.fnmatch_lines(["rag_trace*", "*Record the tool calls of the test*"])
    suite.run("--help").stdout.fnmatch_lines(["*--rag-replay=once|new_episodes|none|all*", "*--rag-replay-strict*", "*rag_replay_strict (bool):*"])


def test_a_run_without_traced_tests_says_nothing_and_loads_nothing(suite: Suite) -> None:
    """In a process of its own: the plugin is found by itself there, and this one has loaded all of it."""
    suite.pytester.makepyfile(test_it="""
        import sys

        def test_one():
            assert sorted(name for name in sys.modules if name.startswith("replay")) == [
                "replay", "replay.pytest_plugin", "replay.testing", "replay.testing.keys"]
        """)
    result = suite.pytester.runpytest_subprocess("-p", "no:cacheprovider", "-Werror")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*rag replay:*")
    assert result.stderr.str() == ""


def test_workers_of_xdist_write_traces_and_one_summary_tells_of_all(suite: Suite) -> None:
    suite.write("""
        @pytest.mark.rag_trace
        @pytest.mark.parametrize("n", range(4))
        def test_one(n):
            rate("x", n)
            if n != 3 or not os.environ.get("LESS"):
                rate("y")
        """)
    suite.run().assert_outcomes(passed=4)
    (suite.pytester.path / "traces" / "test_it" / "test_one-0.jsonl").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LESS", "1")
        result = suite.pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n2", "--rag-replay-strict")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["replay divergence at step 5 (line 6): the program ended, and one recorded call was not asked for (left over)",
                                 "if the change is meant, record the test anew: pytest --rag-replay=all 'test_it.py::test_one[[]3]'",
                                 SUMMARY.format("once"), "4 tests, 5 calls answered from traces, 2 calls recorded",
                                 "  wrote traces/test_it/test_one-0.jsonl"])
    assert len(suite.traces) == 4


def test_under_rag_record_the_tests_own_traces_take_their_calls_and_the_run_the_others(suite: Suite) -> None:
    suite.write(ONE + """
def test_two():
    rate("live")
""")
    rag = [sys.executable, "-m", "rag_stdlib", "record", "run.jsonl", "--", sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = suite.pytester.run(*rag)
    assert done.ret == 0
    done.assert_outcomes(passed=2)
    assert suite.calls("test_one") == ["EUR"]
    events = map(json.loads, (suite.pytester.path / "run.jsonl").read_text().splitlines())
    assert [event["args"] for event in events if event["kind"] == "tool_call"] == [["live", 1]]
