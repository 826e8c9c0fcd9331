"""What `make demo` shows: the descriptions of all installed packages, ingested and asked five questions.

Every installed distribution carries a long description (the body of its METADATA file), mostly Markdown and reST. The demo
writes them to files under ./demo-data, lets `rag ingest` embed them on this machine, and lets `rag search` find the answers.
Nothing leaves the machine. Run it again: unchanged files cost a look.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from importlib.metadata import Distribution, distributions
from pathlib import Path

FOLDER = Path("demo-data")
QUESTIONS = (
    "which package draws progress bars?",
    "how do I validate data with Python type hints?",
    "turn PDF pages into text",
    "make random test inputs and shrink the failing ones",
    "encrypt a message and sign it with a private key",
)
CONFIGURATION = """\
[io]
root = "."

[rag]
embedder = "local"    # all-MiniLM-L6-v2, from a wheel, on this machine
"""


def description(distribution: Distribution) -> tuple[str, str] | None:
    """Return a file name and the long description of a distribution, or None if it has none."""
    metadata = distribution.metadata
    name, body = metadata["Name"], metadata.get_payload()
    if not name or not isinstance(body, str) or not body.strip():
        return None
    kind = metadata.get("Description-Content-Type", "text/x-rst")
    return f"{name.lower()}{'.md' if 'markdown' in kind else '.rst'}", body


def write_descriptions(folder: Path) -> int:
    """Write one file per installed package; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    found = dict(pair for pair in map(description, distributions()) if pair is not None)
    for name, body in found.items():
        (folder / name).write_text(body, encoding="utf-8", errors="replace", newline="")
    return len(found)


def rag(*arguments: str) -> None:
    """Run the `rag` command in the demo's folder, showing it as one would type it."""
    print(f"\n$ rag {shlex.join(arguments)}", flush=True)
    environment = {key: value for key, value in os.environ.items() if key != "CORVID_IO_ROOT"}
    subprocess.run([sys.executable, "-m", "rag_stdlib", *arguments], cwd=FOLDER, env=environment, check=True)


def main() -> None:
    """Write the files, ingest them, ask."""
    count = write_descriptions(FOLDER / "packages")
    (FOLDER / "corvid.toml").write_text(CONFIGURATION, encoding="utf-8")
    print(f"{count} package descriptions in {FOLDER / 'packages'}; embedding them takes a minute the first time")
    start = time.monotonic()
    rag("ingest", "packages.db", "packages", "--prune")
    print(f"({time.monotonic() - start:.0f} s)")
    for question in QUESTIONS:
        rag("search", "packages.db", question, "-n", "2", "--per-document", "1")
    rag("stats", "packages.db")
    print(f"\nAsk your own: cd {FOLDER} && {Path(sys.executable).parent / 'rag'} search packages.db 'your question'")


if __name__ == "__main__":
    main()
