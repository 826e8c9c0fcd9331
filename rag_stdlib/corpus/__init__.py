"""The corpus of a RAG service: repositories named by a list, mirrored by git, and what of them becomes documents."""
