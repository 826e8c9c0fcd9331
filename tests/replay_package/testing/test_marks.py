"""Markers, and the names of traces."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traced_suite import ONE, Suite

from replay.testing.marks import LONGEST, file_name

WRONG = {
    'rag_trace("keyed")': "takes named arguments only, not 'keyed'",
    'rag_trace(matchin="keyed")': "has no argument 'matchin', only matching, name, leftover, allow_network",
    'rag_trace(matching="loose")': "has matching='loose', not one of 'ordered', 'keyed'",
    'rag_trace(leftover="no")': "has leftover='no', not one of 'error', 'report'",
    'rag_trace(allow_network="yes")': "has allow_network='yes', not one of True, False",
    'rag_trace(name="../x")': "has name='../x'; a name is made of ASCII letters",
    'rag_trace(name="")': "has name=''; a name is made of ASCII letters",
    "rag_trace(name=3)": "has name=3; a name is made of ASCII letters",
}


def test_a_marker_that_means_nothing_is_an_error_of_its_test_alone(suite: Suite) -> None:
    """Not one that an expected failure covers, and all of them are told in one run."""
    suite.write(ONE + "".join(f"\n@pytest.mark.{marker}\n@pytest.mark.xfail\ndef test_wrong{number}():\n    rate('x')\n"
                              for number, marker in enumerate(WRONG)))
    result = suite.run()
    result.assert_outcomes(passed=1, errors=len(WRONG))
    printed = result.stdout.str()
    for number, problem in enumerate(WRONG.values()):
        assert f"ERROR at setup of test_wrong{number} " in printed
        assert f"\nthe marker rag_trace {problem}" in printed
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    assert (suite.ran, list(suite.traces)) == (["EUR"], ["test_it/test_one.jsonl"])


def test_a_marker_that_comes_late_is_read_all_the_same(suite: Suite) -> None:
    suite.write("""
        @pytest.fixture(autouse=True)
        def late(request):
            request.node.add_marker(pytest.mark.rag_trace(bogus=1))

        def test_one(late, request):
            request.getfixturevalue("rag_trace")
        """)
    result = suite.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*the marker rag_trace has no argument 'bogus'*"])


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
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at setup of test_two*",
                                 "the marker rag_trace gives this test the trace x.jsonl that test_it.py::test_one has; give one of them another name"])


def test_the_marker_on_what_is_no_function_is_an_error(suite: Suite) -> None:
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
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ERROR at setup of *", "the marker rag_trace is for test functions, which this is not"])


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
