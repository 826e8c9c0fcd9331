"""The smallest program: put a text in, get it back with its evidence.

Run it in a folder with a corvid.toml that says ``[io] root = "."``.
"""

from rag_stdlib import Err, Ok, rag_ingest, rag_search

rag_ingest("notes.db", "refunds", "handbook", "Refunds are paid within ten days of the return.", 200)
match rag_search("notes.db", "when are refunds paid?", 3):
    case Ok(chunks):
        print([(chunk.chunk_id, chunk.text, chunk.provenance_key) for chunk in chunks])
    case Err(error):
        print(error.code, error)
