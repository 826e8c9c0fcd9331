"""The command line for tests: in this process with its output captured, or as a process of its own."""



from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import typer.main
from proven import lay_out, trusting

from rag_stdlib.cli import main
from rag_stdlib.embed import Embedder


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Rag(Protocol):
    """A command run in this process."""

    def __call__(self, *arguments: str) -> Outcome: ...


class Spawn(Protocol):
    """A command run as a process."""

    def __call__(self, *arguments: str | bytes, **options: Any) -> subprocess.CompletedProcess[bytes]: ...


@pytest.fixture(scope="session", autouse=True)
def _tree_is_made_once() -> Iterator[None]:
    """Keep the tree of commands, which the toolkit makes anew at each call: that takes longer than most commands here."""
    with pytest.raises(SystemExit):
        main(["--version"])  # every command is registered
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that is the root, without an embedder and without anything of this machine's environment."""
    for name in ("CORVID_IO_ROOT", "OPENAI_API_KEY", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corvid.toml").write_text('[io]\nroot = "."\n')
    return tmp_path


@pytest.fixture
def rag(folder: Path, capsys: pytest.CaptureFixture[str]) -> Rag:  # noqa: ARG001 - where it runs
    """Run a command in this process, in `folder`."""

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        written = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), written.out, written.err)

    return run


@pytest.fixture
def spawn(folder: Path) -> Spawn:  # noqa: ARG001 - where it runs
    """Run a command as a process, in `folder`; the outputs are bytes."""

    def run(*arguments: str | bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60, **options}
        settings["env"] = {**os.environ, **settings.pop("env", {})}
        return subprocess.run([sys.executable, "-m", "rag_stdlib", *arguments], check=False, **settings)

    return run


@pytest.fixture
def configure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Embedder], None]:
    """Make an embedder the configured one."""

    def put(embedder: Embedder) -> None:
        (folder / "corvid.toml").write_text('[io]\nroot = "."\n[rag]\nembedder = "local"\n')
        monkeypatch.setattr("rag_stdlib.embed.make_embedder", lambda _settings: embedder)

    return put


@pytest.fixture
def write(folder: Path) -> Callable[..., Path]:
    """Write files below the root: `write("docs/a.md", "text")`, or several by keyword-free pairs."""

    def put(name: str, content: str | bytes = "some words\n") -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put


@pytest.fixture
def proven(rag: Rag, folder: Path, write: Callable[..., Path]) -> Rag:
    """The command line in a folder with an index, keys, a log, a certificate in it, and who is trusted."""
    lay_out(folder, write)
    trusting(rag, folder)
    return rag
