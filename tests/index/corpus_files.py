"""Files of a corpus made without git, for tests of what stores them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from rag_stdlib import Runtime, SourceDocument
from rag_stdlib.index import corpora, corpuswrite
from rag_stdlib.index.corpora import Section, ServedRepo
from rag_stdlib.index.corpuswrite import NewFile, Switch
from rag_stdlib.index.prepare import document_row, prepare
from rag_stdlib.text.chunker import ChunkOptions, chunk_text

OPTIONS = ChunkOptions(markdown=True)
PATH = "kb.db"


def commit(digit: str) -> str:
    return digit * 40


def repo(repo_id: str, digit: str) -> ServedRepo:
    return ServedRepo(repo_id, f"https://example.org/{repo_id}.git", "main", commit(digit))


def new_file(served: ServedRepo, path: str, text: str, original: bytes | None = None) -> NewFile:
    source = f"{served.id}/{path}"
    document = SourceDocument(corpora.document_id(served.id, path), source, text, "text/markdown",
                              {"kind": "corpus", "repo_id": served.id, "commit": served.commit, "path": source})
    chunks = chunk_text(text, 80, options=OPTIONS)
    prepared = prepare(document, document_row(document, 80, OPTIONS.name()), chunks)
    sections = tuple(Section(f"Part {chunk.ordinal}", "prose") for chunk in chunks)
    return NewFile(prepared, hashlib.sha256(text.encode()).hexdigest(), sections, original)


def switch_to(runtime: Runtime, served: ServedRepo, files: Mapping[str, str], position: int = 0, *, staged: bool = True) -> bool:
    """Take the repository to a commit that holds these files, as a sync would."""
    with runtime.store.reading_if_any(PATH) as connection:
        before = corpora.state(connection, served.id) if connection is not None else corpora.State()
    wanted = {name: new_file(served, name, text) for name, text in files.items()}
    blobs = before.blobs
    due = [file for file in wanted.values() if blobs.get(file.prepared.doc_id) != file.blob]
    kept = {file.prepared.doc_id for file in wanted.values()} - {file.prepared.doc_id for file in due}
    went = sorted(blobs.keys() - kept)
    identity = None
    if runtime.embedder is not None:
        identity = runtime.embedder.identity()
        texts = {digest: text for file in due for digest, text in file.prepared.texts.items()}
        if texts and staged:
            corpuswrite.stage(runtime.store, PATH, identity, list(texts), runtime.embedder.embed(list(texts.values()), "passage"))
    plan = Switch(before, served, "", position, went, lambda: [[file] for file in due])
    return corpuswrite.switch(runtime.store, PATH, plan, identity)
