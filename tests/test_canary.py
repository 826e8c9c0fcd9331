"""A secret planted wherever a program can put one is in no byte that recording, replaying or reporting writes (R165, R204)."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from rag_stdlib.cli import main

CANARY = "canary/4711+secret value\u00fc"
FORMS = [CANARY, CANARY.replace("\u00fc", "\\u00fc"), quote(CANARY, safe=""), base64.b64encode(CANARY.encode()).decode()]
PROGRAM = """
import os, sys
import replay
from rag_stdlib import Runtime, rag_ingest, rag_search, rag_get, SourceDocument, rag_ingest_document, QueryOptions, rag_query

secret = os.environ["DESK_TOKEN"]
drift = sys.argv[2] if len(sys.argv) > 2 else ""

@replay.tool(name=f"look {secret}")
def look(where, **more):
    if where == "raise":
        raise ValueError(f"bad key {secret}", {"key": secret})
    return {secret: [f"Bearer {secret}", {"deep": {"authorization": secret}}], "n": len(drift)}

@replay.tool(kind="llm")
def ask(prompt):
    return f"it is {secret}{drift}" * 400

with Runtime(root="."):
    rag_ingest("desk.db", secret, f"source {secret}", f"The key is {secret}. Keep {secret} safe.", 30)
    rag_ingest_document("desk.db", SourceDocument("d", "s", "text", metadata={secret: secret}), 30)
    rag_search("desk.db", f"what is {secret}?", 5)
    rag_query("desk.db", "key", 5, QueryOptions(source=(secret,)))
    rag_get("desk.db", secret + ":99")
    rag_search(f"../{secret}.db", "x", 5)
look("here", **{secret: secret})
ask([secret, {"password": "short"}])
try:
    look("raise")
except ValueError:
    pass
"""


@pytest.fixture
def rag(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command in the test's folder; what it and the programs that it starts print comes back."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("DESK_TOKEN", CANARY), ("COLUMNS", "200"), ("PYTHONIOENCODING", "utf-8")):
        monkeypatch.setenv(name, value)

    def run(*words: str) -> str:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        printed = "".join(capfd.readouterr())
        assert ended.value.code in (None, 0, 1), printed
        return printed

    return run


def test_a_planted_secret_is_written_nowhere(rag: Callable[..., str], tmp_path: Path) -> None:
    program = tmp_path / "prog.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = ("--", sys.executable, "prog.py", CANARY)
    said = [rag("record", "a.jsonl", "--body-bytes", "300", *command),
            rag("record", "b.jsonl", *command[:-1], f"other {CANARY}", "drift"),
            rag("replay", "a.jsonl", *command),
            rag("replay", "a.jsonl", *command, "drift"),
            rag("replay", "a.jsonl", "--differential", "--json", "d.json", "--svg", "d.svg", *command, "drift"),
            rag("replay", "a.jsonl", "--mutate", "7", f'{{"x": "{CANARY}"}}', *command),
            rag("trace", "list", "."), rag("trace", "show", "a.jsonl"), rag("trace", "show", "a.jsonl", "--step", "3"),
            rag("trace", "verify", "a.jsonl"), rag("trace", "diff", "a.jsonl", "b.jsonl"),
            rag("trace", "export-otel", "a.jsonl", "--bodies", "--output", "spans.json"),
            rag("test", "--from-traces", ".", *command, "drift")]
    assert "recorded 9 calls" in said[0]
    assert "9 of 9 recorded calls" in said[2]
    assert "was replaced" in said[5]
    written = [file for file in tmp_path.rglob("*") if file.is_file() and file != program and not file.name.startswith("desk.db")]
    assert {"a.jsonl", "b.jsonl", "d.json", "d.svg", "spans.json"} <= {file.name for file in written}
    assert any(file.parent.name == "a.jsonl.bodies" for file in written)
    for form in FORMS:
        for file in written:
            assert form.encode() not in file.read_bytes(), f"{form!r} in {file.name}"
            assert form not in str(file)
        for text in said:
            assert form not in text, text
