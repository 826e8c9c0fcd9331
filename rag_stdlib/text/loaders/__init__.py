"""Files to text: `load` takes the bytes of a file and gives its text with a map back to the original.

Nothing here opens a file. The caller reads the bytes, through the confined root, and hands them over::

    loaded = load("guide.html", data)

Which loader reads a file follows from its extension; a first look at the bytes catches a PDF or Word document under a
text name, and other binary data. Names without an extension (README, LICENSE, Makefile) are plain text if they decode.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from rag_stdlib.errors import fail
from rag_stdlib.text.loaders import docx, html, markdown, pdf, plain
from rag_stdlib.text.loaders.loaded import Loaded

__all__ = ["SUPPORTED", "Loaded", "is_supported", "load"]

SUPPORTED: Final[frozenset[str]] = (
    frozenset(plain.MEDIA_TYPES) | markdown.EXTENSIONS | frozenset(html.MEDIA_TYPES) | pdf.EXTENSIONS | docx.EXTENSIONS
)


def is_supported(name: str) -> bool:
    """Tell, by the name alone, whether `load` would try the file: for walks over folders."""
    extension = _extension(name)
    return not extension or extension in SUPPORTED


def load(name: str, data: bytes) -> Loaded:
    """Turn the bytes of the file `name` into text, metadata and anchors.

    Raises `Failure` and nothing else: `file_unsupported` (an extension that no loader reads, or binary data), `not_utf8`
    (with the offset and value of the byte), `file_unreadable` (damaged, encrypted, or not what its name says),
    `loader_not_installed`.
    """
    extension = _extension(name)
    if extension and extension not in SUPPORTED:
        raise fail("file_unsupported", name=name, detail=f"no loader reads {extension} files")
    if extension in pdf.EXTENSIONS or (extension not in docx.EXTENSIONS and data.startswith(pdf.MAGIC)):
        return pdf.load(name, data)
    if extension in docx.EXTENSIONS:
        return docx.load(name, data)
    if data.startswith(docx.MAGIC):
        if docx.is_word_archive(data):
            return docx.load(name, data)
        raise fail("file_unsupported", name=name, detail="a ZIP archive, not text")
    if extension in markdown.EXTENSIONS:
        return markdown.load(name, data)
    if extension in html.MEDIA_TYPES:
        return html.load(name, data, extension)
    return plain.load(name, data, extension)


def _extension(name: str) -> str:
    return PurePosixPath(name).suffix.lower()
