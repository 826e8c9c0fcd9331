"""`python -m rag_stdlib` is the `rag` command."""

from rag_stdlib.cli import main

main()
