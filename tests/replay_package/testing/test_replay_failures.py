"""What a test shows that does otherwise than its trace."""

from __future__ import annotations

import pytest
from traced_suite import ADVICE, CHANGED, MESSAGE, ONE, Suite, diverging


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
    result.assert_outcomes(failed=1, passed=1)  # it was not recorded, since it passed
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
    result.stdout.fnmatch_lines(["trace '*traces/test_it/test_one.jsonl': line 4: *",
                                 "restore the trace, or record the test anew: pytest --rag-replay=all test_it.py::test_one"])
    assert suite.ran == []
