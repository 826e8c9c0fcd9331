"""One index over many nodes: every shard of an organisation is asked, and its answers are merged (RAG service contract §4).

A shard is a node that holds part of an index; its verified node id is what it is known by, and `shard_id` only a label. Which nodes are
asked is what the mesh lists as providers of ``<org>/rag.query_shard_v1``, each by name. What a node publishes about itself adds no trust:
it says which embedding its vectors are of, and scores of different embeddings are never merged.

`rag_stdlib.mesh.federation.shard.Federation` is the face of it; everything runs over the `Transport` protocol.
"""
