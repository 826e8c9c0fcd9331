"""The `rag` command: a module per group of commands over one small frame."""

from rag_stdlib.cli.frame import main

__all__ = ["main"]
