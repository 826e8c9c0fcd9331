"""Retrieval as a service between nodes: what crosses the mesh, who answers, and how a caller judges the answer."""
