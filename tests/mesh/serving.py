"""A small index with a corpus and deposits, and a provider over it. The corpus is written as a sync writes it, without git."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from embedder_double import EmbedderDouble

from rag_stdlib import Config, Runtime, SourceDocument
from rag_stdlib.corpus.files import new_file, watermark
from rag_stdlib.corpus.staging import Stager
from rag_stdlib.index import corpora, corpuswrite, writer
from rag_stdlib.index.corpora import ServedRepo
from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.provider import Provider

INDEX = "served.db"
LIST = "corpus.json"
DIM = 32
OPERATOR = "0a" * 32
CALLER = "c1" * 32

V1, V2 = "1" * 40, "2" * 40
ALPHA = ServedRepo("alpha", "https://example.org/alpha.git", "main", V1)
BETA = ServedRepo("beta", "https://example.org/beta.git", "trunk", V1)

GUIDE = """# Guide

How ravens store food for the winter, and where they look for it.

## Caching

A raven hides each nut under leaves and remembers hundreds of such places.

```python
hide(nut, under="leaves")
```
"""
LICENSED = "Owls hunt at night, and hear a mouse below the snow from far away.\n"
ALPHA_FILES = {"guide.md": GUIDE, "docs/owls.md": LICENSED}
BETA_FILES = {"guide.md": "# Beta\n\nStorks return in spring and build upon the nest of the year before.\n"}


@contextmanager
def runtime(folder: Path, embedder: EmbedderDouble | None = None, **options: Any) -> Iterator[Runtime]:
    """A runtime over a folder, ambient for the block."""
    with Runtime(options.pop("config", Config()), root=folder, embedder=embedder or EmbedderDouble(DIM), **options) as made:
        yield made


def switch(held: Runtime, repo: ServedRepo, files: Mapping[str, str | bytes], position: int = 0) -> None:
    """Take the index to a commit of a repository, in one transaction."""
    data = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    marks = {path: watermark(hashlib.sha1(some, usedforsecurity=False).hexdigest()) for path, some in data.items()}
    with held.store.reading_if_any(INDEX) as connection:
        before = corpora.state(connection, repo.id) if connection is not None else corpora.State()
    blobs = before.blobs
    due = {path for path in data if blobs.get(corpora.document_id(repo.id, path)) != marks[path]}
    kept = {corpora.document_id(repo.id, path) for path in data.keys() - due}
    went = sorted(blobs.keys() - kept)
    stager = Stager(held, INDEX, went, lambda *_: None)
    group = stager.staged([new_file(repo, path, marks[path], data[path]) for path in sorted(due)])
    plan = corpuswrite.Switch(before, repo, "", position, went, lambda: [group])
    assert corpuswrite.switch(held.store, INDEX, plan, stager.identity)


def served(held: Runtime, **options: Any) -> Provider:
    """A provider over the index of a runtime."""
    return Provider(held, INDEX, org=options.pop("org", "acme"), **options)


def with_corpus(held: Runtime, **options: Any) -> Provider:
    """A provider over an index that is made with two repositories."""
    switch(held, ALPHA, ALPHA_FILES)
    switch(held, BETA, BETA_FILES, position=1)
    return served(held, **options)


def put(held: Runtime, doc_id: str, text: str, source: str | None = None, **metadata: Any) -> None:
    """Store an ordinary document."""
    document = SourceDocument(doc_id, source if source is not None else doc_id, text, metadata=metadata)
    writer.ingest(held.store, INDEX, document, 1_000, embedder=held.embedder)


def write_list(folder: Path, *repos: ServedRepo, **more: Any) -> None:
    """Write a list of the pinned regime."""
    entries = [{"id": repo.id, "url": repo.url, "branch": repo.branch, "commit": repo.commit, **more} for repo in repos]
    (folder / LIST).write_text(json.dumps({"repos": entries}), encoding="utf-8")


def outcome(provider: Provider, name: str, payload: object = None, caller: str | None = None) -> Any:
    """Return a reply, or the refusal."""
    try:
        return provider.handle(name, payload, caller)
    except Refusal as refusal:
        return refusal


def refusal_of(provider: Provider, name: str, payload: object = None, caller: str | None = None) -> Refusal:
    """Call what has to be refused."""
    found = outcome(provider, name, payload, caller)
    assert isinstance(found, Refusal), f"{name} answered {found!r:.500}"
    return found


def sha256(data: bytes | str) -> str:
    """The digest that provenance names."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def is_wire(value: object) -> bool:
    """Whether a value holds nothing but what the mesh carries: no boolean, no tuple, no other class."""
    if type(value) is dict:
        return all(type(name) is str and is_wire(inner) for name, inner in value.items())
    if type(value) is list:
        return all(map(is_wire, value))
    return value is None or type(value) in (str, int, float, bytes)
