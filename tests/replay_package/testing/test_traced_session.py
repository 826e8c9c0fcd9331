"""What belongs to the session of a test: its fixtures, tasks and threads; and what it did not ask for."""

from __future__ import annotations

import pytest
from traced_suite import ADVICE, Suite

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


@pytest.mark.parametrize("mode", ["once", "none"])
def test_calls_of_child_processes_are_refused_whatever_the_mode(suite: Suite, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """R2-1: a child cannot take part in the session of a test, and is told so in place of running live; afterwards it may."""
    suite.write("""
        import subprocess, sys

        def child():
            return subprocess.run([sys.executable, "-c", "from tools import rate; rate('child')"], capture_output=True, text=True)

        @pytest.mark.rag_trace
        def test_one():
            rate("here")
            if os.environ.get("CHILD"):
                done = child()
                assert done.returncode == 0, done.stderr

        def test_two():
            assert child().returncode == 0
        """)
    suite.run("-k", "one").assert_outcomes(passed=1)
    monkeypatch.setenv("CHILD", "1")
    result = suite.run(f"--rag-replay={mode}")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["E*ReplayError: *"])
    assert suite.ran == ["child"], "of the test without a trace"


def test_calls_of_child_processes_are_refused_where_there_is_no_trace(suite: Suite) -> None:
    suite.write("""
        import subprocess, sys

        @pytest.mark.rag_trace
        def test_one():
            child = subprocess.run([sys.executable, "-c", "from tools import rate; rate('child')"], stderr=subprocess.PIPE, text=True)
            assert "traces/test_it/test_one.jsonl" in child.stderr.replace(os.sep, "/")
            assert child.returncode == 1
        """)
    suite.run("--rag-replay=none").assert_outcomes(passed=1)
    assert suite.ran == []
