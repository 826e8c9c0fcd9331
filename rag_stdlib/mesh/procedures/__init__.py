"""The procedures that a provider serves, a function each: RAG service contract §1, and the extras of §5.1."""
