"""A file of a repository as a document: its text, its chunks, and its very bytes where the text does not give them back.

Lines and offsets are those of the file. What is no UTF-8 becomes U+FFFD, one for each byte that cannot be read, and so does
U+0000, which CommonMark replaces as well; the bytes as they are stay with the document.
"""

from __future__ import annotations

import re
from typing import Final

from rag_stdlib.corpus.boilerplate import has_substance, licence_spans
from rag_stdlib.index import corpora
from rag_stdlib.index.corpora import Section, ServedRepo
from rag_stdlib.index.corpuswrite import NewFile
from rag_stdlib.index.prepare import document_row, prepare
from rag_stdlib.records import FrozenDict, SourceDocument
from rag_stdlib.text import sections
from rag_stdlib.values import check_document

MEDIA_TYPE: Final = "text/markdown"
MAX_BYTES: Final = 2_000  # of a chunk, UTF-8
RULES: Final = f"{sections.NAME}+substance/1"  # another name has every file cut anew
_BINARY_PROBE: Final = 8_000  # bytes; git's own test
_ESCAPED: Final = re.compile("[\udc80-\udcff\0]")


def is_binary(data: bytes) -> bool:
    """Tell whether bytes are no text, by git's rule: a NUL among the first 8,000."""
    return b"\0" in data[:_BINARY_PROBE]


def lossy_text(data: bytes) -> str:
    """Decode UTF-8; each byte that is none, and each NUL, becomes one U+FFFD."""
    return _ESCAPED.sub("\N{REPLACEMENT CHARACTER}", data.decode("utf-8", "surrogateescape"))


def new_file(repo: ServedRepo, path: str, blob: str, data: bytes) -> NewFile:
    """Make a file of `repo` ready to be stored; `path` is its path in the repository, `blob` its watermark.

    Raises:
        Failure: what `check_document` refuses.
    """
    text = lossy_text(data)
    source = f"{repo.id}/{path}"
    metadata = FrozenDict(kind="corpus", repo_id=repo.id, commit=repo.commit, path=source)
    document = SourceDocument(corpora.document_id(repo.id, path), source, text, MEDIA_TYPE, metadata)
    check_document(document)
    kept = [section for section in sections.cut(text, licence_spans(text), max_bytes=MAX_BYTES) if _is_worth_finding(section)]
    chunks = [section.chunk._replace(ordinal=ordinal) for ordinal, section in enumerate(kept)]
    prepared = prepare(document, document_row(document, MAX_BYTES, RULES), chunks)
    return NewFile(prepared, blob, tuple(Section(section.header_path, section.kind) for section in kept),
                   data if text.encode() != data else None)


def _is_worth_finding(section: sections.Section) -> bool:
    text = section.chunk.text
    return any(map(str.isalnum, text)) if section.kind == "code" else has_substance(text)


def watermark(blob: str) -> str:
    """Name the state of a file: by which rules it was cut, and the id of its blob."""
    return f"{RULES}:{blob}"
