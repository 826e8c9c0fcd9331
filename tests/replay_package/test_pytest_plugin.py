"""The pytest plugin, used as its users do: suites that are run, in this process where nothing heavy is at stake."""

from __future__ import annotations

import json
import sys
import textwrap
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.pytest_plugin import mode_of

# What a run imports in this process it takes out of sys.modules again: what must stay the same for all is imported here.
from replay.testing import failures as pytest_failures
from replay.testing import session as pytest_session
from replay.testing import summary as pytest_summary
from replay.testing.marks import LONGEST, file_name
from replay.tracefile import writer

assert pytest_failures
assert pytest_session
assert writer

TOOLS = """
import asyncio
import pathlib
import replay

LOG = pathlib.Path(__file__).with_name("ran")

@replay.tool
def rate(currency: str, day: int = 1) -> float:
    with LOG.open("a") as log:
        log.write(currency + " ")
    return 1.25 * day

def convert(amount, currency):
    return amount * rate(currency)
"""

# What these suites do not need costs each run a tenth of a second.
WITHOUT = [word for name in ("cacheprovider", "xdist", "pytest_cov", "hypothesispytest", "timeout") for word in ("-p", f"no:{name}")]


class Suite:
    """A folder with a test module and what its tools did."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makepyfile(tools=TOOLS)
        pytester.syspathinsert()

    def write(self, body: str, name: str = "test_it", **others: str) -> None:
        head = "import asyncio, os, pytest, replay, threading, unittest\nfrom tools import convert, rate\n\n"
        self.pytester.makepyfile(**{name: head + textwrap.dedent(body)}, **others)

    def run(self, *options: str) -> pytest.RunResult:
        """Run the suite; `self.ran` then says which tools ran in earnest."""
        log = self.pytester.path / "ran"
        log.unlink(missing_ok=True)
        result = self.pytester.runpytest_inprocess(*WITHOUT, *options, no_reraise_ctrlc=True)
        self.ran = log.read_text().split() if log.exists() else []
        return result

    @property
    def traces(self) -> dict[str, bytes]:
        """Every file below the folder of traces, hidden ones too."""
        folder = self.pytester.path / "traces"
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    def calls(self, name: str) -> list[str]:
        """Return the first arguments of the calls in a trace."""
        events = map(json.loads, self.traces[f"test_it/{name}.jsonl"].splitlines())
        return [event["args"][0] for event in events if event["kind"] == "tool_call"]

    def change(self, old: str, new: str, name: str = "test_it") -> None:
        path = self.pytester.path / f"{name}.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # processes are faster when they need not compile
    return Suite(pytester)


ONE = """
@pytest.mark.rag_trace
def test_one():
    assert convert(2, "EUR") == 2.5
"""
SUMMARY = "*= rag replay: {} =*"


# --- modes ---


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


def test_under_none_a_test_without_a_trace_is_an_error_that_says_how_to_record_it(suite: Suite) -> None:
    suite.write('@pytest.mark.rag_trace\n@pytest.mark.parametrize("to", ["EUR now"])\ndef test_one(to):\n    convert(2, to)\n')
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ERROR at setup of test_one*",
                                 ("trace 'traces/test_it/test_one-EUR_now~*.jsonl': this test has no trace; record it: "
                                  "pytest --rag-replay=once 'test_it.py::test_one[[]EUR now]'")])
    result.stdout.no_fnmatch_line("*replay?pytest_session.py*")
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


# --- a test that fails writes nothing ---


FAILING = {"fails": "assert rate('x') == 0", "skips": "rate('x'); pytest.skip('no')", "xfails": "rate('x'); pytest.xfail('no')",
           "exits": "rate('x'); raise SystemExit", "teardown": "rate('x'); broken.append(1)"}
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


def test_tests_that_do_not_pass_leave_their_traces_as_they_were(suite: Suite) -> None:
    """Failed, skipped, failed as expected, left, or failed only when torn down."""
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
    result.stdout.fnmatch_lines(["  not written, since the test did not pass: traces/test_it/test_one.jsonl"])
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


# --- a test that does otherwise fails, readably ---

CHANGED = 'rate("CHF", 2)'
RECORDED = 'rate("EUR", 1)'
MESSAGE = ["E*Divergence: replay divergence at step 3 (line 4): another call came than was recorded", f"E     expected  {RECORDED}",
           f"E     got       {CHANGED}", 'E     differs at $[[]0]: "EUR" -> "CHF"']
ADVICE = "if the change is meant, record the test anew: pytest --rag-replay=all test_it.py::test_one"


def diverging(suite: Suite, body: str, *options: str) -> pytest.RunResult:
    """Record a test, change its call, and run it as CI does."""
    suite.write(body)
    suite.run("--rag-replay=once")
    suite.change('rate("EUR", 1)', CHANGED)
    result = suite.run("--rag-replay=none", *options)
    assert suite.ran == []
    return result


def test_a_divergence_is_shown_once_at_the_programs_own_lines(suite: Suite) -> None:
    result = diverging(suite, """
        def work():
            return rate("EUR", 1)

        @pytest.mark.rag_trace
        def test_one():
            assert work()
        """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["test_it.py:*: in test_one", "    assert work()", "test_it.py:*: in work", f"    return {CHANGED}", *MESSAGE,
                                 "*- rag replay -*", ADVICE])
    printed = result.stdout.str()
    assert printed.count("  differs at $[0]: ") == 1
    for file in ("session.py", "decorator.py", "matching.py", "python.py"):
        assert file not in printed


@pytest.mark.parametrize(("option", "shows"), [("--full-trace", "*matching.py*"), ("--tb=native", "*matching.py*"),
                                               ("--tb=long", "*def test_one():*"), ("--tb=line", "*test_it.py:*")])
def test_who_asks_for_more_or_less_of_the_traceback_gets_it(suite: Suite, option: str, shows: str) -> None:
    result = diverging(suite, '@pytest.mark.rag_trace\ndef test_one():\n    rate("EUR", 1)\n', option)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([shows])


def test_a_divergence_that_the_program_swallows_fails_the_test_all_the_same(suite: Suite) -> None:
    result = diverging(suite, """
        @pytest.mark.rag_trace
        def test_one():
            try:
                rate("EUR", 1)
            except Exception:
                pass
        """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([*MESSAGE, ADVICE])
    result.stdout.no_fnmatch_line("*went on after it*")


@pytest.mark.parametrize(("then", "ended"), [("assert False, 'no rate'", "AssertionError: no rate*"), ("pytest.skip('no rate')", "Skipped: no rate")])
def test_what_follows_from_a_swallowed_divergence_is_a_note_to_it(suite: Suite, then: str, ended: str) -> None:
    result = diverging(suite, f"""
        @pytest.mark.rag_trace
        def test_one():
            try:
                rate("EUR", 1)
            except Exception:
                {then}
        """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([*MESSAGE, f"the test went on after it, and ended with {ended}"])


def test_classes_of_unittest_are_traced_and_judged_alike(suite: Suite) -> None:
    result = diverging(suite, """
        @pytest.mark.rag_trace
        class TestDesk(unittest.TestCase):
            def setUp(self):
                self.rate = None
            def test_one(self):
                try:
                    self.rate = rate("EUR", 1)
                except Exception:
                    pass
                self.assertTrue(self.rate)
            def test_two(self):
                rate("USD")
            def tearDown(self):
                rate("closed")
        """)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines([*MESSAGE, "the test went on after it, and ended with AssertionError: None is not true"])
    assert suite.calls("TestDesk.test_two") == ["USD", "closed"]


def test_a_divergence_in_a_subtest_is_not_told_twice(suite: Suite, pytestconfig: pytest.Config) -> None:
    if not pytestconfig.pluginmanager.has_plugin("subtests"):
        pytest.skip("this pytest has no subtests")
    result = diverging(suite, """
        @pytest.mark.rag_trace
        def test_one(subtests):
            with subtests.test("first"):
                rate("EUR", 1)
            with subtests.test("second"):
                pass
        """)
    assert result.ret == 1
    assert result.stdout.str().count("  differs at $[0]: ") == 1
    before = suite.traces
    suite.run("--rag-replay=all")
    assert suite.traces != before
    suite.change('with subtests.test("second"):\n        pass', 'with subtests.test("second"):\n        assert False')
    before = suite.traces
    suite.run("--rag-replay=all")
    assert suite.traces == before, "a failed subtest fails the test"


def test_a_fixture_that_does_otherwise_is_an_error_where_it_does(suite: Suite) -> None:
    result = diverging(suite, """
        @pytest.fixture
        def before():
            rate("EUR", 1)

        @pytest.mark.rag_trace
        def test_one(before):
            pass
        """)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ERROR at setup of test_one*", "test_it.py:*: in before", *MESSAGE, ADVICE])
    assert result.stdout.str().count("  differs at $[0]: ") == 1


@pytest.mark.parametrize("swallowed", [False, True])
def test_a_teardown_that_does_otherwise_is_an_error_even_where_it_hides_that(suite: Suite, *, swallowed: bool) -> None:
    handler = "except Exception: pass" if swallowed else "finally: pass"
    result = diverging(suite, f"""
        @pytest.fixture
        def after():
            yield
            try:
                rate("EUR", 1)
            {handler}

        @pytest.mark.rag_trace
        def test_one(after):
            pass
        """)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_one*", *MESSAGE])
    assert result.stdout.str().count("  differs at $[0]: ") == 1


def test_an_expected_failure_may_be_a_divergence(suite: Suite) -> None:
    result = diverging(suite, """
        @pytest.mark.xfail(raises=replay.Divergence, strict=True)
        @pytest.mark.rag_trace(name="recorded")
        def test_one():
            rate("EUR", 1)

        @pytest.mark.rag_trace
        def test_two():
            pass
        """)
    result.assert_outcomes(errors=1, passed=1)
    suite.write('@pytest.mark.rag_trace(name="recorded")\ndef test_one():\n    rate("EUR", 1)\n')
    suite.run()
    suite.write(f"""
        @pytest.mark.xfail(raises=replay.Divergence, strict=True)
        @pytest.mark.rag_trace(name="recorded")
        def test_one():
            {CHANGED}
        """)
    suite.run().assert_outcomes(xfailed=1)


def test_under_none_the_network_is_refused_unless_the_marker_lets_it_out(suite: Suite) -> None:
    suite.write("""
        import socket

        def connect():
            if os.environ.get("REACH"):
                with pytest.raises(OSError):
                    socket.create_connection(("127.0.0.1", 9), timeout=5)

        @pytest.mark.rag_trace
        def test_one():
            connect()

        @pytest.mark.rag_trace(allow_network=True)
        def test_two():
            connect()

        @pytest.fixture(scope="module")
        def server():
            connect()

        @pytest.mark.rag_trace
        def test_three(server):
            pass

        @pytest.fixture
        def farewell():
            yield
            connect()

        @pytest.mark.rag_trace
        def test_four(farewell):
            pass
        """)
    suite.run().assert_outcomes(passed=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REACH", "1")
        result = suite.run("--rag-replay=none")
    result.assert_outcomes(passed=3, failed=1, errors=1)
    refused = ["test_it.py:*: in connect", "E*QuarantineViolation: replay quarantine (network) blocked *"]
    result.stdout.fnmatch_lines(["*_ ERROR at teardown of test_four _*", *refused, "*_ test_one _*", *refused])
    result.stdout.no_fnmatch_line("*if the change is meant*")


def test_a_trace_that_was_edited_is_refused_by_name_and_line(suite: Suite) -> None:
    suite.write(ONE)
    suite.run()
    trace = suite.pytester.path / "traces" / "test_it" / "test_one.jsonl"
    trace.write_bytes(trace.read_bytes().replace(b"EUR", b"USD"))
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["trace '*traces/test_it/test_one.jsonl': line 4: *", ADVICE])
    assert suite.ran == []


# --- what nobody asked for ---

FEWER = '@pytest.mark.rag_trace{}\ndef test_one():\n    rate("EUR")\n    rate("USD")\n    rate("USD", 2)\n'


def test_unused_recordings_are_listed_by_test(suite: Suite) -> None:
    suite.write(FEWER.format(""))
    suite.run()
    suite.change('\n    rate("USD")\n    rate("USD", 2)', "")
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 test, 1 call answered from traces",
                                 "test_it.py::test_one did not ask for 2 recorded calls of traces/test_it/test_one.jsonl",
                                 '    step 5  rate("USD", 1)', '    step 7  rate("USD", 2)'])


@pytest.mark.parametrize("how", ["option", "ini", "marker"])
def test_strict_fails_a_test_with_unused_recordings(suite: Suite, how: str) -> None:
    suite.write(FEWER.format('(leftover="error")' if how == "marker" else ""))
    if how == "ini":
        suite.pytester.makeini("[pytest]\nrag_replay_strict = true\n")
    options = ["--rag-replay-strict"] if how == "option" else []
    suite.run(*options).assert_outcomes(passed=1)
    suite.run(*options).assert_outcomes(passed=1)
    suite.change('\n    rate("USD")\n    rate("USD", 2)', "")
    result = suite.run(*options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["replay divergence at step 5 (line 6): the program ended, and 2 recorded calls were not asked for (left over)",
                                 '    step 5  rate("USD", 1)', ADVICE])
    result.stdout.no_fnmatch_line("*did not ask for*")
    result.stdout.no_fnmatch_line("*hidden*")
    suite.change('rate("EUR")', 'rate("EUR")\n    assert False')
    result = suite.run(*options)
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*left over*")


# --- fixtures ---


def test_calls_of_the_tests_own_fixtures_stand_in_its_trace_wherever_they_are_named(suite: Suite) -> None:
    suite.write("""
        @pytest.fixture(autouse=True)
        def opened():
            rate("open")
            yield
            rate("close")

        @pytest.fixture
        def ready(rag_trace):
            return rate("ready")

        class TestDesk:
            def setup_method(self):
                rate("method")
            def teardown_method(self):
                rate("method done")
            def test_one(self, ready, rag_trace):
                rate("test")
        """)
    suite.run().assert_outcomes(passed=1)
    assert suite.calls("TestDesk.test_one") == ["open", "method", "ready", "test", "method done", "close"]
    suite.run("--rag-replay=none", "--rag-replay-strict").assert_outcomes(passed=1)
    assert suite.ran == []
    suite.change('rate("close")', "pass")
    result = suite.run("--rag-replay=none", "--rag-replay-strict")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of TestDesk.test_one*", "*one recorded call was not asked for (left over)",
                                 '    step 13  rate("close", 1)'])
    result = suite.run("--rag-replay=none")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*did not ask for 1 recorded call*"])


@pytest.mark.parametrize("mode", ["once", "none"])
def test_a_fixture_that_outlives_the_test_may_not_call_tools_whatever_the_mode(suite: Suite, mode: str) -> None:
    suite.write("""
        @pytest.fixture(scope="module")
        def corpus():
            yield
            if os.environ.get("LATE"):
                rate("corpus closed")

        @pytest.mark.rag_trace
        def test_one(corpus):
            rate("x")
        """)
    suite.run().assert_outcomes(passed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LATE", "1")
        result = suite.run(f"--rag-replay={mode}")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_one*",
                                 "E*what is torn down after the test called rate, and outlives the test*make the call in replay.live()"])
    suite.change("    yield\n", '    rate("corpus")\n    yield\n')
    result = suite.run(f"--rag-replay={mode}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["test_it.py:*: in corpus", "E*the module-scoped fixture 'corpus' called rate, and outlives the test*"])
    result.stdout.no_fnmatch_line("*if the change is meant*")
    assert suite.ran == []
    suite.change('    rate("corpus")\n', '    with replay.live():\n        rate("corpus")\n')
    suite.run(f"--rag-replay={mode}").assert_outcomes(passed=1)
    assert suite.ran == ["corpus"]


def test_what_outlives_the_test_may_not_await_tools_either(suite: Suite) -> None:
    suite.write("""
        @replay.tool
        async def later():
            return 1

        @pytest.fixture(scope="session")
        def corpus():
            asyncio.run(later())

        @pytest.mark.rag_trace
        def test_one(corpus):
            pass
        """)
    result = suite.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["E*the session-scoped fixture 'corpus' called later, and outlives the test*"])


def test_a_fixture_asked_for_in_the_test_opens_the_trace_there(suite: Suite) -> None:
    suite.write("""
        def test_one(request):
            rate("before")
            request.getfixturevalue("rag_trace")
            rate("after")
        """)
    suite.run().assert_outcomes(passed=1)
    assert suite.calls("test_one") == ["after"]
    suite.run("--rag-replay=none").assert_outcomes(passed=1)
    assert suite.ran == ["before"]


def test_the_fixture_can_be_extended(suite: Suite) -> None:
    suite.write('def test_one(rag_trace):\n    assert rag_trace.mode == "once"\n    rate("x")\n', conftest="""
        import pytest
        from tools import rate

        @pytest.fixture
        def rag_trace(rag_trace):
            rate("conftest")
            yield rag_trace
        """)
    suite.run().assert_outcomes(passed=1)
    assert suite.calls("test_one") == ["conftest", "x"]


# --- tasks, threads, loops ---


def test_calls_of_tasks_and_plain_threads_belong_to_the_test(suite: Suite) -> None:
    suite.write("""
        @pytest.mark.rag_trace(matching="keyed")
        def test_one():
            async def work():
                return await asyncio.gather(*(asyncio.to_thread(convert, 2, name) for name in ("a", "b", "c")))
            assert asyncio.run(work()) == [2.5, 2.5, 2.5]
            thread = threading.Thread(target=rate, args=("thread",))
            thread.start()
            thread.join()
        """)
    suite.run().assert_outcomes(passed=1)
    assert sorted(suite.ran) == ["a", "b", "c", "thread"]
    suite.run("--rag-replay=none", "--rag-replay-strict").assert_outcomes(passed=1)
    assert suite.ran == []


def test_an_event_loop_that_serves_several_tests_gives_each_its_own_trace(suite: Suite) -> None:
    """The loop's task keeps the context of the fixture that began it, which knows nothing of later tests."""
    suite.write("""
        pytestmark = [pytest.mark.anyio, pytest.mark.rag_trace]

        @replay.tool
        async def later(name):
            return rate(name)

        @pytest.fixture(scope="module")
        def anyio_backend():
            return "asyncio"

        @pytest.fixture(scope="module")
        async def loop(anyio_backend):
            yield

        @pytest.fixture
        async def things():
            await later("open")
            yield
            await later("close")

        async def test_one(loop, things):
            assert await later("one") == 1.25

        async def test_two(loop, things):
            await asyncio.gather(asyncio.to_thread(rate, "two"))
        """)
    suite.run().assert_outcomes(passed=2)
    assert (suite.calls("test_one"), suite.calls("test_two")) == (["open", "one", "close"], ["open", "two", "close"])
    suite.run("--rag-replay=none", "--rag-replay-strict").assert_outcomes(passed=2)
    assert suite.ran == []


# --- markers and names ---


@pytest.mark.parametrize(("marker", "problem"), [
    ('rag_trace("keyed")', "takes named arguments only, not 'keyed'"),
    ('rag_trace(matchin="keyed")', "has no argument 'matchin', only matching, name, leftover, allow_network"),
    ('rag_trace(matching="loose")', "has matching='loose', not one of 'ordered', 'keyed'"),
    ('rag_trace(leftover="no")', "has leftover='no', not one of 'error', 'report'"),
    ('rag_trace(allow_network="yes")', "has allow_network='yes', not one of True, False"),
    ('rag_trace(name="../x")', "has name='../x'; a name is made of ASCII letters*"),
    ('rag_trace(name="")', "has name=''; a name is made of ASCII letters*"),
    ("rag_trace(name=3)", "has name=3; a name is made of ASCII letters*"),
])
def test_a_marker_that_means_nothing_stops_the_run(suite: Suite, marker: str, problem: str) -> None:
    suite.write(f"@pytest.mark.{marker}\ndef test_one():\n    rate('x')\n")
    result = suite.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: test_it.py::test_one: the marker rag_trace {problem}"])
    assert suite.ran == []


def test_markers_add_up_and_the_closest_one_wins(suite: Suite) -> None:
    suite.write("""
        pytestmark = pytest.mark.rag_trace(matching="keyed", leftover="error")

        class TestDesk:
            pytestmark = pytest.mark.rag_trace(leftover="report")

            @pytest.mark.rag_trace(name="short")
            @pytest.mark.parametrize("order", [1])
            def test_one(self, order):
                for name in ("a", "b", "c"):
                    rate(name)
        """)
    suite.run().assert_outcomes(passed=1)
    assert suite.calls("short-1") == ["a", "b", "c"]
    suite.change('("a", "b", "c")', '("b", "a")')
    suite.run("--rag-replay=none").assert_outcomes(passed=1)


def test_two_tests_cannot_share_a_trace(suite: Suite) -> None:
    suite.write('@pytest.mark.rag_trace(name="x")\ndef test_one(): pass\n\n@pytest.mark.rag_trace(name="x")\ndef test_two(): pass\n')
    result = suite.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: test_it.py::test_two: the marker rag_trace gives it the trace x.jsonl that test_it.py::test_one has; *"])
    suite.run("test_it.py::test_one").assert_outcomes(passed=1)


def test_the_marker_on_what_is_no_function_stops_the_run(suite: Suite) -> None:
    """Silence would mean that the item touches what it likes."""
    suite.write("", conftest="""
        import pytest

        class Item(pytest.Item):
            def runtest(self): pass

        class File(pytest.File):
            def collect(self):
                item = Item.from_parent(self, name="case")
                item.add_marker("rag_trace")
                yield item

        def pytest_collect_file(file_path, parent):
            return File.from_parent(parent, path=file_path) if file_path.suffix == ".case" else None
        """)
    (suite.pytester.path / "some.case").write_text("")
    result = suite.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: some.case::case: the marker rag_trace is for test functions, which this is not"])


def test_a_mode_that_does_not_exist_stops_the_run(suite: Suite) -> None:
    suite.write(ONE)
    assert suite.run("--rag-replay=twice").ret == pytest.ExitCode.USAGE_ERROR
    suite.pytester.makeini("[pytest]\nrag_replay = twice\n")
    result = suite.run("--rag-replay=none")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: rag_replay in the ini file is 'twice', not one of once, new_episodes, none, all"])


@pytest.mark.parametrize(("name", "parameters", "file"), [
    ("test_late", "", "test_late"), ("TestRefunds.test_late", "", "TestRefunds.test_late"), ("test_x", "[de-3]", "test_x-de-3"),
    ("test_x", "[1.5]", "test_x-1.5"), ("test_x", "[]", "test_x-"), ("test_x", "[DE]", "test_x-DE~"),
    ("test_x", "[a/b]", "test_x-a_b~"), ("test_größe", "", "test_gr__e~"), ("test_x", "[../..]", "test_x-.._..~"),
])
def test_names_of_traces_are_those_of_tests_made_safe(name: str, parameters: str, file: str) -> None:
    found = file_name(name, parameters)
    assert found.partition("~")[0] == file.partition("~")[0]
    assert ("~" in found) == ("~" in file)


SAFE = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~")
IDS = st.one_of(st.just(""), st.text(max_size=200).map(lambda text: f"[{text}]"),
                st.text(alphabet="aA-~_/ .", max_size=8).map(lambda text: f"[{text}]"))
NAMES = st.one_of(st.sampled_from(["test_a", "test_A", "TestA.test_a", "test_aé", "test_" + "a" * 130]),
                  st.from_regex(r"test_\w{0,140}", fullmatch=True))


@given(st.lists(st.tuples(NAMES, IDS), min_size=2, max_size=6, unique=True))
def test_distinct_tests_have_distinct_traces_with_names_that_every_file_system_takes(tests: list[tuple[str, str]]) -> None:
    files = [file_name(name, parameters) for name, parameters in tests]
    assert len(set(files)) == len(files)
    for file in files:
        assert set(file) <= SAFE
        assert 0 < len(file) <= LONGEST
        assert not file.startswith((".", "-", "~"))
        assert unicodedata.is_normalized("NFC", file)
    ids = [parameters for _name, parameters in tests]
    same_function = {file_name("test_x", parameters).lower() for parameters in ids}
    assert len(same_function) == len(set(ids)), "ids that differ by case alone are kept apart where the file system does not"


# --- what is said of a run ---


def test_the_summary_is_cut_unless_pytest_is_verbose(suite: Suite) -> None:
    count = pytest_summary.LISTED + 2
    suite.write(f'@pytest.mark.rag_trace\n@pytest.mark.parametrize("n", range({count}))\ndef test_one(n):\n    rate("x", n)\n')
    result = suite.run()
    result.stdout.fnmatch_lines([f"{count} tests, 0 calls answered from traces, {count} calls recorded", "  wrote traces/test_it/test_one-0.jsonl",
                                 "  wrote traces/test_it/test_one-9.jsonl", "  and 2 more (-v lists them)"])
    result.stdout.no_fnmatch_line("*test_one-10*")
    result = suite.run("-v", "--rag-replay=all")
    result.stdout.fnmatch_lines(["  wrote traces/test_it/test_one-11.jsonl"])
    result.stdout.no_fnmatch_line("*-v lists*")


def test_the_summary_shows_nothing_that_acts_on_a_terminal() -> None:
    test = {"trace": "traces/t.jsonl", "answered": 1, "ran": 0, "kept": False, "unused": ["step 3  rate(\x1b[31m)"]}
    shown = pytest_summary.lines({"t.py::test[\x1b]2;x\x07]": test})
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
            assert "replay.pytest_plugin" in sys.modules
            for name in ("pytest_session", "pytest_marks", "pytest_failures", "pytest_summary", "modes", "writer"):
                assert f"replay.{name}" not in sys.modules
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
