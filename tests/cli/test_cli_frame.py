"""Exit codes, errors of one line, and standard streams in every state: mostly as real processes."""



from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_stdlib.cli import frame, main
from rag_stdlib.cli.frame import app, run
from rag_stdlib.cli.terminal import cells

Write = Callable[..., Path]
Rag = Any  # see conftest
Spawn = Any

COMMANDS = ("init", "ingest", "search", "answer", "get", "delete", "stats", "check", "compact", "reembed", "import", "corpus", "shard", "mesh", "verify", "keys",
            "log", "attack", "doctor", "record", "replay", "test", "trace")


@pytest.fixture
def indexed(rag: Rag, spawn: Spawn, write: Write) -> Spawn:
    write("docs/a.txt", "refund in ten days, naïve 返金\n" * 200)
    assert rag("ingest", "x.db", "docs").code == 0
    return spawn


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `rag` is the command."""
    script = f'rag() {{ "{sys.executable}" -m rag_stdlib "$@"; }}\n{line}'
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


class TestHelp:
    """`--help`."""

    @pytest.mark.parametrize("width", ["60", "80", "140"])
    @pytest.mark.parametrize("command", ["", *COMMANDS])
    def test_every_page_fits_and_is_free_of_the_toolkits_notation(
            self, rag: Rag, monkeypatch: pytest.MonkeyPatch, command: str, width: str) -> None:
        monkeypatch.setenv("COLUMNS", width)
        page = rag(*command.split(), "--help")
        assert (page.code, page.err) == (0, "")
        assert all(sum(map(cells, line)) <= min(int(width), 102) for line in page.out.splitlines())
        assert not re.search(r"[{}]|<str>|list\[|\[required\]|\.\.\.\.|\[\[", page.out)
        assert page.out == rag(*command.split(), "-h").out

    def test_commands_come_in_the_order_of_use_with_whole_sentences(self, rag: Rag) -> None:
        page = rag("--help").out
        listed = re.findall(r"^  ([a-z]+) {2,}(.+)$", page[page.index("Commands:"):], re.MULTILINE)
        assert tuple(name for name, _ in listed) == COMMANDS
        assert all(text.endswith(".") and not text.endswith("...") for _, text in listed)

    def test_without_a_command_the_page_is_shown_as_a_usage_error(self, rag: Rag) -> None:
        bare = rag()
        assert (bare.code, bare.out) == (2, "")
        assert bare.err.rstrip("\n") == rag("--help").out.rstrip("\n")

    def test_usage_lines_name_what_is_needed(self, rag: Rag) -> None:
        assert "Usage: rag ingest [OPTIONS] INDEX PATH...\n" in rag("ingest", "--help").out
        assert "Usage: rag doctor [OPTIONS] [INDEX]\n" in rag("doctor", "--help").out
        assert "Usage: rag init [OPTIONS]\n" in rag("init", "--help").out

    def test_the_version(self, rag: Rag) -> None:
        assert re.fullmatch(r"rag \d+\.\d+\.\d+\S*\n", rag("--version").out)


@pytest.mark.parametrize(("arguments", "said"), [
    (("serch",), "No such command 'serch'. Did you mean 'search'; see rag --help"),
    (("--bogus",), "No such option: --bogus; see rag --help"),
    (("search",), "Missing argument 'INDEX'; see rag search --help"),
    (("search", "x.db"), "Missing argument 'QUERY...'; see rag search --help"),
    (("ingest", "x.db"), "Missing argument 'PATH...'; see rag ingest --help"),
    (("stats", "x.db", "y.db"), "Got unexpected extra argument(s) (y.db); see rag stats --help"),
    (("--config",), "Option '--config' requires an argument"),
])
def test_usage_errors_are_one_line_and_exit_2(rag: Rag, arguments: tuple[str, ...], said: str) -> None:
    refused = rag(*arguments)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("rag: usage: ")
    assert said in refused.err
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize("argument", ["a\x1b[31mb\nc\r", "\u202ex", os.fsdecode(b"\xff\xfe"), "-\x07", "--\x1b]0;x\x07=1"])
def test_what_is_typed_is_not_echoed_raw(rag: Rag, argument: str) -> None:
    for arguments in ((argument,), ("stats", "x.db", argument), ("get", argument, argument)):
        refused = rag(*arguments)
        assert refused.code in (1, 2)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\udc80-\udcff]", refused.err)
        assert len(refused.err.split("\n")) == 2


class TestConfiguration:
    """What corvid.toml, or its absence, means for the command line."""

    @pytest.mark.parametrize("command", [
        ("ingest", "x.db", "docs"), ("ingest", "x.db", "docs", "--dry-run"), ("search", "x.db", "w"), ("get", "x.db", "a"),
        ("delete", "x.db", "a"), ("stats", "x.db"), ("check", "x.db"), ("compact", "x.db"), ("import", "x.db", "y.db")])
    def test_without_a_root_everything_is_refused_and_no_file_appears(
            self, rag: Rag, write: Write, folder: Path, command: tuple[str, ...]) -> None:
        write("docs/a.txt")
        (folder / "corvid.toml").unlink()
        before = sorted(str(path) for path in folder.rglob("*"))
        refused = rag(*command)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith("rag: error [root_unconfigured]: no [io] root is configured")
        assert len(refused.err.splitlines()) == 1
        assert sorted(str(path) for path in folder.rglob("*")) == before

    @pytest.mark.parametrize(("text", "said"), [
        ("[io\n", "rag: error [config_invalid]: corvid.toml line 1: not TOML"),
        ("[io]\nrot = '.'\n", "rag: error [config_invalid]: corvid.toml line 2: "),
        ("[rag]\nembedder = 'openai'\n", "rag: error [key_missing]: the openai embedder needs OPENAI_API_KEY"),
        (b"\xff\xfe", "rag: error [config_invalid]: corvid.toml: byte 0 is not UTF-8"),
    ])
    def test_a_wrong_one_stops_everything(self, rag: Rag, folder: Path, text: str | bytes, said: str) -> None:
        (folder / "corvid.toml").write_bytes(text.encode() if isinstance(text, str) else text)
        refused = rag("stats", "x.db")
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith(said)
        assert len(refused.err.splitlines()) == 1

    def test_a_named_one_is_used_and_must_be_there(self, rag: Rag, write: Write, folder: Path) -> None:
        write("other/mine.toml", '[io]\nroot = "."\n')
        write("other/a.txt")
        assert rag("--config", "other/mine.toml", "ingest", "x.db", "a.txt").code == 0
        assert (folder / "other/x.db").exists()
        for wrong, code in (("gone.toml", "config_missing"), ("other", "config_invalid"), ("", "config_invalid")):
            refused = rag("--config", wrong, "stats", "x.db")
            assert refused.err.startswith(f"rag: error [{code}]")
            assert len(refused.err.splitlines()) == 1

    def test_a_folder_of_that_name_is_one_line(self, rag: Rag, folder: Path) -> None:
        (folder / "corvid.toml").unlink()
        (folder / "corvid.toml").mkdir()
        refused = rag("stats", "x.db")
        assert refused.code == 1
        assert len(refused.err.splitlines()) == 1

    @pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can become somebody who may not read a file")
    def test_one_that_may_not_be_read_is_one_line(self) -> None:
        child = ("import os\nfrom rag_stdlib.cli import manage\nfrom rag_stdlib.cli.frame import run\nrun(['stats', 'x.db'])\n"  # so that all is imported
                 "os.setuid(65534)\nraise SystemExit(run(['stats', 'x.db']))")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "corvid.toml").write_text('[io]\nroot = "."\n')
            for file, open_to_all in ((folder / "corvid.toml", folder), (folder, None)):
                if open_to_all is not None:
                    open_to_all.chmod(0o755)
                file.chmod(0)
                refused = subprocess.run([sys.executable, "-c", child], cwd=folder, capture_output=True, text=True,
                                         timeout=60, check=False)
                assert refused.returncode == 1
                assert len(refused.stderr.splitlines()) == 2
                if open_to_all is not None:
                    assert refused.stderr.endswith("[config_invalid]: corvid.toml: cannot be read: Permission denied\n")
            folder.chmod(0o755)


class TestStreams:
    """Standard streams that are closed, full, broken or of another encoding."""

    def test_a_reader_that_goes_away_ends_it_quietly(self, indexed: Spawn, folder: Path) -> None:  # noqa: ARG002 - makes the index
        for command in ("search x.db refund --json", "--help"):
            done = shell(folder, f"rag {command} | head -1; exit ${{PIPESTATUS[0]}}")
            assert done.stderr in ("", "rag: note: lexical search: no [rag] embedder is configured\n")
            assert done.returncode in (0, 1)
            assert len(done.stdout.splitlines()) == 1

    @pytest.mark.parametrize("command", [("search", "x.db", "refund"), ("get", "x.db", "docs/a.txt"), ("--help",)])
    def test_a_full_disk_behind_standard_output_is_an_error(self, indexed: Spawn, command: tuple[str, ...]) -> None:
        with Path("/dev/full").open("wb") as full:
            done = indexed(*command, stdout=full)
        assert done.returncode == 1
        assert done.stderr.endswith(b"No space left on device\n")
        assert b"Traceback" not in done.stderr

    def test_a_full_disk_behind_standard_error_changes_no_result(self, indexed: Spawn) -> None:
        with Path("/dev/full").open("wb") as full:
            assert indexed("search", "x.db", "refund", "--json", stderr=full).returncode == 0
            assert indexed("get", "x.db", "docs/a.txt", stderr=full).returncode == 0
            assert indexed("stats", "gone.db", stderr=full).returncode == 1

    def test_closed_input_and_error_streams_change_no_result(self, indexed: Spawn, folder: Path) -> None:
        whole = indexed("search", "x.db", "refund", "--json").stdout.decode()
        done = shell(folder, "rag search x.db refund --json <&- 2>&-")
        assert (done.returncode, done.stdout) == (0, whole), "and the note is not among it"

    def test_a_closed_standard_output_is_an_error_at_the_end(self, indexed: Spawn, rag: Rag, write: Write, folder: Path) -> None:  # noqa: ARG002 - makes the index
        done = shell(folder, "rag search x.db refund --json >&-")
        assert done.returncode == 1
        assert done.stderr.splitlines()[1:] == ["rag: error: standard output cannot be written: Bad file descriptor"]
        write("docs/b.txt", "another " * 500)
        assert shell(folder, "rag ingest x.db docs <&- >&- 2>&-").returncode == 1
        assert rag("check", "x.db").out.startswith("clean: 2 documents"), "what it wrote, it wrote into the index"

    @pytest.mark.parametrize("locale", [
        {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii:strict"}])
    def test_a_terminal_without_utf8_gets_escapes_and_no_traceback(self, indexed: Spawn, locale: dict[str, str]) -> None:
        for command, codes in ((("search", "x.db", "refund", "返金"), (0, 1)), (("get", "x.db", "返金"), (1,))):
            done = indexed(*command, env=locale)
            assert done.returncode in codes
            assert b"Traceback" not in done.stderr
            assert len(done.stderr.splitlines()) == 1
        shown = indexed("get", "x.db", "docs/a.txt", env=locale)
        assert shown.returncode == 0
        assert shown.stdout.startswith(("refund in ten days, naïve 返金\n".encode(), b"refund in ten days, na\\xefve \\u8fd4\\u91d1\n"))

    def test_json_is_the_same_bytes_in_every_locale(self, indexed: Spawn) -> None:
        outputs = {indexed("search", "x.db", "refund", "--json", env=env).stdout
                   for env in ({"PYTHONHASHSEED": "7"}, {"LC_ALL": "C", "PYTHONHASHSEED": "8"}, {"PYTHONIOENCODING": "latin-1"})}
        assert len(outputs) == 1


def test_a_deleted_working_directory_is_one_line(folder: Path) -> None:
    unusable = "cannot be used: No such file or directory; change to another one\n"
    for command, said in (("stats x.db", f"rag: error [config_invalid]: the working directory: {unusable}"),
                          ("init", f"rag: error: the working directory {unusable}")):
        (folder / "gone").mkdir()
        done = shell(folder, f"cd gone && rmdir ../gone && rag {command}")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.endswith(said)
        assert "Traceback" not in done.stderr
    (folder / "gone").mkdir()
    done = shell(folder, "cd gone && rmdir ../gone && rag doctor")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "FAIL configuration  the working directory: cannot be used: No such file or directory; change to another one"


class Full(io.StringIO):
    """Standard output on a full disk, or behind a reader that went away."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, _text: str) -> int:
        raise self.error


@pytest.mark.parametrize(("error", "said"), [
    (OSError(28, "No space left on device"), "rag: error: standard output cannot be written: No space left on device\n"),
    (BrokenPipeError(32, "Broken pipe"), ""),
])
def test_a_result_that_cannot_be_written(
        rag: Rag, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, said: str) -> None:
    write("a.txt")
    rag("ingest", "x.db", "a.txt")
    monkeypatch.setattr(sys, "stdout", Full(error))
    assert run(["stats", "x.db"]) == 1
    assert capsys.readouterr().err == said


def test_what_was_buffered_for_a_broken_output_goes_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        output.write("buffered")
        frame._abandon_output()
    assert (tmp_path / "out").read_text() == ""


def test_closed_streams_are_opened_before_anything_can_take_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, int]] = []
    with monkeypatch.context() as patch:
        def closed(_number: int) -> None:
            raise OSError(9, "Bad file descriptor")

        patch.setattr(os, "fstat", closed)
        patch.setattr(os, "open", lambda name, flags: opened.append((name, flags)))
        frame._open_closed_streams()
    assert opened == [("/dev/null", os.O_RDONLY), ("/dev/null", os.O_RDONLY), ("/dev/null", os.O_WRONLY)], (
        "writing to standard output must fail, or results would be lost in silence")


def test_a_working_directory_that_goes_while_it_runs(rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_arguments: Any, **_options: Any) -> Any:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(frame, "Runtime", gone)
    monkeypatch.setattr(os, "getcwd", gone)
    assert rag("stats", "x.db").err == (
        "rag: error: the working directory cannot be used: No such file or directory; change to another one\n")


def test_file_names_of_every_kind(spawn: Spawn, folder: Path) -> None:
    (folder / "docs").mkdir()
    for name in (b"new\nline.txt", b"esc\x1b[2Jape.txt", b"bad\xff.txt", "bidi\u202etxt.exe.txt".encode(), b"-dash.txt", b"sp ace.txt"):
        (folder / os.fsdecode(b"docs/" + name)).write_text("refund")
    (folder / os.fsdecode(b"docs/folder\xfe")).mkdir()
    done = spawn("ingest", "x.db", "docs")
    assert done.returncode == 1
    assert done.stdout == b"5 documents ingested (5 chunks), 0 unchanged, 2 failed\n"
    found = spawn("search", "x.db", "refund")
    outputs = done.stdout + done.stderr + found.stdout + found.stderr
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", outputs)
    assert "\u202e" not in outputs.decode()
    assert spawn("get", "x.db", b"docs/esc\x1b[2Jape.txt").stdout == b"refund\n"


def test_the_script_and_the_module_are_one_command(folder: Path) -> None:
    script = Path(sys.executable).with_name("rag")
    if not script.exists():
        pytest.skip("the package is not installed as a script")
    done = subprocess.run([script, "--version"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("rag ")


def test_completion_is_offered_in_the_order_of_help(spawn: Spawn) -> None:
    done = spawn(env={"_RAG_COMPLETE": "complete_bash", "COMP_WORDS": "rag ", "COMP_CWORD": "1"})
    assert tuple(done.stdout.decode().split()) == COMMANDS


def test_what_nobody_foresaw_is_one_line_too(rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any, **_options: Any) -> Any:
        raise ZeroDivisionError("one\ntwo\x1b[2J")

    monkeypatch.setattr(frame, "Runtime", broken)
    refused = rag("stats", "x.db")
    assert (refused.code, refused.err) == (1, "rag: error: unexpected ZeroDivisionError: one two\ufffd[2J; please report it\n")


@pytest.mark.parametrize(("error", "said"), [
    (PermissionError(13, "Permission denied", b"a\x1b.toml"), r"'a\x1b.toml': Permission denied"),
    (OSError(5, "Input/output error"), "Input/output error"), (OSError("odd"), "odd"),
])
def test_errors_of_the_system_are_told_with_the_file(rag: Rag, monkeypatch: pytest.MonkeyPatch, error: OSError, said: str) -> None:
    def refuse(*_arguments: Any, **_options: Any) -> Any:
        raise error

    monkeypatch.setattr(frame, "Runtime", refuse)
    assert rag("stats", "x.db").err == f"rag: error: {said}\n"


def test_an_internal_error_of_a_tool_shows_no_traceback(rag: Rag, write: Write) -> None:
    write("a.txt")
    child = ("import rag_stdlib.index.reader as reader; from rag_stdlib.cli import main\n"
             "def broken(*_): raise ZeroDivisionError('no')\n"
             "reader.get = broken\nmain(['get', 'x.db', 'a.txt'])")
    rag("ingest", "x.db", "a.txt")
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "rag: error [internal]: rag_get failed unexpectedly: ZeroDivisionError: no; please report it\n"


def test_libraries_that_log_get_no_line(monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001 - where it runs
    logger = logging.getLogger()
    monkeypatch.setattr(logger, "handlers", [])
    assert run(["--version"]) == 0
    logging.getLogger("somebody").warning("a warning of the document's own \x1b[2J")
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]
    assert capsys.readouterr().err == ""


def test_ctrl_c_before_the_command_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(_arguments: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(frame, "run", stop)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert (ended.value.code, capsys.readouterr().err) == (130, "rag: stopped\n")


def test_main_takes_the_arguments_of_the_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["rag", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("rag ")


def test_every_registered_command_is_one_of_the_page() -> None:
    assert {one.name for one in [*app.registered_commands, *app.registered_groups]} == set(COMMANDS)
