"""The `rag` command."""
