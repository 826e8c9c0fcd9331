"""Which tests keep a trace, and what is done with a test that has none."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from traced_suite import ONE, SUMMARY, Suite

FAILING = {"fails": "assert rate('x') == 0", "exits": "rate('x'); raise SystemExit", "teardown": "rate('x'); broken.append(1)"}
STOPPING = ["rate('x'); raise KeyboardInterrupt", "rate('x'); pytest.exit('enough')"]


def never_kept(suite: Suite, bodies: dict[str, str]) -> None:
    """Run tests that do not pass, then make them pass, then fail again, recording each time."""
    suite.write("""
broken = []

@pytest.fixture
def things():
    yield
    assert not broken

""" + "".join(f"@pytest.mark.rag_trace\ndef test_{name}(things):\n    {body}\n" for name, body in bodies.items()))
    suite.run("--rag-replay=all")
    assert suite.ran == ["x"] * len(bodies)
    assert suite.traces == {}
    for body in bodies.values():
        suite.change(body, f"rate('y')  # {body}")
    suite.run().assert_outcomes(passed=len(bodies))
    before = suite.traces
    assert len(before) == len(bodies)
    suite.change("rate('y')  # ", "")
    suite.run("--rag-replay=all")
    assert suite.ran == ["x"] * len(bodies)
    assert suite.traces == before


def test_tests_that_end_otherwise_than_expected_leave_their_traces_as_they_were(suite: Suite) -> None:
    """Failed, left, or failed only when torn down."""
    never_kept(suite, FAILING)


@pytest.mark.parametrize("stopping", STOPPING)
def test_a_test_that_is_interrupted_leaves_its_trace_as_it_was(suite: Suite, stopping: str) -> None:
    never_kept(suite, {"stops": stopping})


def test_a_failed_setup_leaves_no_trace_and_what_was_not_kept_is_said(suite: Suite) -> None:
    suite.write("""
        @pytest.fixture
        def things():
            rate("setup")
            raise ValueError("broken")

        @pytest.mark.rag_trace
        def test_one(things):
            pass
        """)
    result = suite.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["  not written, since the test did not end as expected: traces/test_it/test_one.jsonl"])
    assert (suite.ran, suite.traces) == (["setup"], {})


@pytest.mark.parametrize(("strict", "outcome"), [("False", "xpassed"), ("True", "failed")])
def test_an_expected_failure_that_passes_is_kept_unless_that_fails_it(suite: Suite, strict: str, outcome: str) -> None:
    suite.write(f'@pytest.mark.xfail(strict={strict})\n@pytest.mark.rag_trace\ndef test_one():\n    rate("x")\n')
    suite.run().assert_outcomes(**{outcome: 1})
    assert len(suite.traces) == (outcome == "xpassed")


def test_a_test_that_is_run_again_is_recorded_by_the_run_that_passes(suite: Suite) -> None:
    """As plugins that repeat flaky tests do it."""
    suite.write('@pytest.mark.rag_trace\ndef test_one(tries=[]):\n    tries.append(rate("x"))\n    assert len(tries) == 2\n', conftest="""
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            runtestprotocol(item, nextitem=nextitem, log=False)
            for report in runtestprotocol(item, nextitem=nextitem, log=False):
                item.ihook.pytest_runtest_logreport(report=report)
            return True
        """)
    suite.run().assert_outcomes(passed=1)
    assert suite.ran == ["x", "x"]
    assert suite.calls("test_one") == ["x"]


# --- ended as expected ---

EXPECTED = {
    "fails": ("@pytest.mark.xfail(strict=True)", "rate('x')\n    assert False"),
    "says": ("", "rate('x')\n    pytest.xfail('not yet')"),
    "skips": ("", "rate('x')\n    pytest.skip('not now')"),
}
IN_FIXTURE = """
@pytest.fixture
def things():
    rate("x")
    pytest.skip("not now")

@pytest.fixture
def others():
    rate("x")
    assert False

@pytest.mark.rag_trace
def test_fixture(things):
    rate("never")

@pytest.mark.rag_trace
@pytest.mark.xfail
def test_setup(others):
    rate("never")

class TestDesk(unittest.TestCase):
    @pytest.mark.rag_trace
    @unittest.expectedFailure
    def test_unit(self):
        rate("x")
        assert False
"""


def test_a_test_that_skips_itself_after_a_call_or_fails_as_expected_keeps_its_trace_and_is_replayed(suite: Suite) -> None:
    suite.write(IN_FIXTURE + "".join(f"\n{mark}\n@pytest.mark.rag_trace\ndef test_{name}():\n    {body}\n"
                                     for name, (mark, body) in EXPECTED.items()))
    outcomes = {"skipped": 2, "xfailed": 4}
    suite.run().assert_outcomes(**outcomes)
    assert suite.ran == ["x"] * 6
    names = ["TestDesk.test_unit", *(f"test_{name}" for name in ("fails", "fixture", "says", "setup", "skips"))]
    assert sorted(suite.traces) == [f"test_it/{name}.jsonl" for name in names]
    result = suite.run("--rag-replay=none", "--rag-replay-strict")
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(["6 tests, 6 calls answered from traces"])
    assert suite.ran == []


def test_no_trace_and_no_divergence_passes_for_an_expected_failure(suite: Suite) -> None:
    """The first fails at its first call, with or without a word on what may fail it; the others, once recorded, for their change."""
    suite.write("".join(f"@pytest.mark.xfail({how})\n@pytest.mark.rag_trace\ndef test_{number}():\n    rate('x')\n    assert False\n\n"
                        for number, how in enumerate(["", "strict=True", "raises=(AssertionError, Exception)", "raises=(AssertionError, replay.ReplayError)"])))
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(failed=4)
    assert result.stdout.str().count("this test has no trace; record it: ") == 4
    assert suite.ran == []
    suite.run().assert_outcomes(xfailed=4)
    suite.change("'x'", "'y'")
    suite.run("--rag-replay=none").assert_outcomes(failed=3, xfailed=1)  # the last one named what came
    suite.change("@pytest.mark.xfail", "@pytest.fixture\ndef late():\n    yield\n    rate('late')\n\n@pytest.mark.xfail", count=1)
    suite.change("test_0():\n    rate('y')", "test_0(late):\n    rate('x')")
    result = suite.run("--rag-replay=none", "-k", "test_0")
    result.assert_outcomes(xfailed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_0*"])


def test_an_expected_failure_may_be_one_of_a_session_that_the_test_opens_itself(suite: Suite) -> None:
    suite.write("""
        @pytest.mark.rag_trace
        @pytest.mark.xfail
        def test_one():
            with replay.substitute("nowhere.jsonl"):
                pass
        """)
    suite.run("--rag-replay=none").assert_outcomes(xfailed=1)


def test_a_broken_trace_passes_for_no_expected_failure(suite: Suite) -> None:
    suite.write('@pytest.mark.rag_trace\n@pytest.mark.xfail\ndef test_one():\n    rate("x")\n    assert False\n')
    suite.run().assert_outcomes(xfailed=1)
    (suite.pytester.path / "traces" / "test_it" / "test_one.jsonl").write_text("broken\n")
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ERROR at setup of test_one*", "trace '*test_one.jsonl': line 1: *",
                                 "restore the trace, or record the test anew: pytest --rag-replay=all test_it.py::test_one"])


def test_calls_that_an_expected_failure_no_longer_makes_are_told_and_those_after_a_skip_are_not(suite: Suite) -> None:
    suite.write("""
        @pytest.mark.rag_trace
        @pytest.mark.xfail
        def test_fails():
            rate("x")
            rate("y")
            assert False

        @pytest.mark.rag_trace
        def test_skips():
            rate("x")
            rate("y")
        """)
    suite.run()
    suite.change('    rate("y")\n    assert', "    assert")
    suite.change('rate("y")', 'pytest.skip("not here")')
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(xfailed=1, skipped=1)
    result.stdout.fnmatch_lines(["test_it.py::test_fails did not ask for 1 recorded call *"])
    result.stdout.no_fnmatch_line("*test_skips did not*")
    suite.run("--rag-replay=none", "--rag-replay-strict").assert_outcomes(xfailed=1, skipped=1, errors=1)
    suite.change("assert False", "pass")
    suite.run("--rag-replay=none", "--rag-replay-strict").assert_outcomes(failed=1, skipped=1)


# --- nothing to replay ---

QUIET = """
@pytest.mark.rag_trace
def test_skips():
    if os.environ.get("ELSEWHERE"):
        pytest.skip("not here")
    rate("x")

@pytest.mark.rag_trace
def test_quiet():
    assert 1 + 1 == 2
"""


@pytest.mark.parametrize("mode", ["none", "once", "new_episodes", "all"])
def test_a_test_that_makes_no_call_needs_no_trace_and_gets_none(
        suite: Suite, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    suite.write(QUIET)
    monkeypatch.setenv("ELSEWHERE", "1")
    suite.run(f"--rag-replay={mode}").assert_outcomes(passed=1, skipped=1)
    assert suite.traces == {}


@pytest.mark.parametrize("mode", ["none", "once", "new_episodes", "all"])
def test_a_test_that_skips_itself_before_any_call_leaves_its_trace_as_it_was(
        suite: Suite, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    suite.write(QUIET)
    suite.run()
    before = suite.traces
    assert list(before) == ["test_it/test_skips.jsonl"]
    monkeypatch.setenv("ELSEWHERE", "1")
    result = suite.run(f"--rag-replay={mode}", "--rag-replay-strict")
    result.assert_outcomes(passed=1, skipped=1)
    assert suite.traces == before
    result.stdout.fnmatch_lines(["2 tests, 0 calls answered from traces"])


def test_a_test_that_no_longer_makes_any_call_is_recorded_anew_like_others(suite: Suite) -> None:
    suite.write(ONE)
    suite.run()
    suite.change('convert(2, "EUR") == 2.5', "True")
    suite.run("--rag-replay=none", "--rag-replay-strict").assert_outcomes(failed=1)
    suite.run("--rag-replay=all").assert_outcomes(passed=1)
    assert suite.calls("test_one") == []
    suite.run("--rag-replay=none", "--rag-replay-strict").assert_outcomes(passed=1)


def test_a_result_that_is_to_be_compared_needs_a_trace_without_any_call(suite: Suite) -> None:
    suite.write("def test_one(rag_trace):\n    rag_trace.complete(3)\n")
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_one*", "trace *: this test has no trace; record it: *"])
    suite.run().assert_outcomes(passed=1)
    assert json.loads(suite.traces["test_it/test_one.jsonl"].splitlines()[-1])["result"] == 3
    suite.run("--rag-replay=none").assert_outcomes(passed=1)


def test_without_a_trace_nothing_is_touched_either_even_where_the_program_hides_it(suite: Suite) -> None:
    suite.write("""
        import socket

        @pytest.mark.rag_trace
        def test_reaches():
            with pytest.raises(OSError):
                socket.create_connection(("127.0.0.1", 9), timeout=5)

        @pytest.mark.rag_trace(allow_network=True)
        def test_may():
            with pytest.raises(OSError):
                socket.create_connection(("127.0.0.1", 9), timeout=5)

        @pytest.mark.rag_trace
        def test_hides():
            try:
                rate("x")
            except Exception:
                pytest.skip("no rate")
        """)
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["E*QuarantineViolation: *", "E*this test has no trace; *", "the test went on after it, and ended with Skipped: no rate"])
    assert suite.ran == []


# --- the same again ---


def test_recording_anew_what_has_not_changed_leaves_the_traces_byte_for_byte(suite: Suite) -> None:
    """So that version control shows what the program changed, and that alone."""
    suite.write(ONE + ONE.replace("one", "two"))
    git = [shutil.which("git") or "git", "-C", str(suite.pytester.path)]
    suite.run("--rag-replay=all")
    for words in (["init", "-q"], ["add", "traces"]):
        subprocess.run([*git, *words], check=True)
    result = suite.run("--rag-replay=all")
    assert suite.ran == ["EUR", "EUR"]
    result.stdout.fnmatch_lines([SUMMARY.format("all"), "2 tests, 0 calls answered from traces, 2 calls recorded",
                                 "  2 traces left as recorded before: the calls were the same"])
    result.stdout.no_fnmatch_line("*wrote*")
    assert subprocess.run([*git, "diff", "--name-only"], check=True, capture_output=True).stdout == b""
    suite.change('convert(2, "EUR") == 2.5', 'convert(4, "CHF") == 5', count=1)
    suite.run("--rag-replay=all").stdout.fnmatch_lines(["  1 trace left as recorded before: *", "  wrote traces/test_it/test_one.jsonl"])
    assert subprocess.run([*git, "diff", "--name-only"], check=True, capture_output=True).stdout == b"traces/test_it/test_one.jsonl\n"
