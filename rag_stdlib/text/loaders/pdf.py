"""PDF: the text of each page in order, and which page every part of it is on."""

from __future__ import annotations

import io
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rag_stdlib.errors import Failure, fail
from rag_stdlib.records import FrozenDict, Scalar
from rag_stdlib.text.loaders.decoding import scrub, scrub_note
from rag_stdlib.text.loaders.loaded import Loaded, unreadable

if TYPE_CHECKING:
    from pypdf import PdfReader

MEDIA_TYPE: Final = "application/pdf"
EXTENSIONS: Final = frozenset({".pdf"})
MAGIC: Final = b"%PDF-"

_KIND: Final = "PDF"
_HEADER_BYTES: Final = 1024  # readers accept the header anywhere in these (PDF 1.7, Annex H, note 13)
_BETWEEN_PAGES: Final = "\n\n"
_lock: Final = threading.Lock()


def load(name: str, data: bytes) -> Loaded:
    """Read the text layer of a PDF; pages are parted by a blank line, and pages without text are left out.

    Raises `Failure`: `file_unreadable` for what is damaged, encrypted with a password or no PDF, and
    `loader_not_installed`.
    """
    if MAGIC not in data[:_HEADER_BYTES]:
        raise unreadable(name, _KIND, "it has no %PDF- header")
    with _quiet():
        try:
            reader = _open(name, data)
            texts = [page.extract_text() for page in reader.pages]
            title = _title(reader)
        except Failure:
            raise
        except Exception as error:  # a damaged file breaks the parser in every way there is
            raise unreadable(name, _KIND, error) from error
    return _join(texts, title)


def _open(name: str, data: bytes) -> PdfReader:
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise fail("loader_not_installed", kind=_KIND, detail=error.name or "pypdf") from error
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise unreadable(name, _KIND, "it is encrypted and needs a password")
    return reader


def _title(reader: PdfReader) -> str:
    title = reader.metadata.title if reader.metadata else None
    return " ".join(scrub(title)[0].split()) if isinstance(title, str) else ""


def _join(texts: list[str], title: str) -> Loaded:
    parts: list[str] = []
    pages: list[tuple[int, int]] = []
    length = replaced = 0
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        clean, count = scrub(text.strip("\r\n"))
        pages.append((length, number))
        parts.append(clean)
        length += len(clean) + len(_BETWEEN_PAGES)
        replaced += count
    notes = scrub_note(replaced)
    if len(pages) < len(texts) or not texts:
        notes = (f"{len(texts) - len(pages):,} of {len(texts):,} pages hold no text; scanned pages need OCR", *notes)
    metadata: dict[str, Scalar] = {"title": title} if title else {}
    return Loaded(_BETWEEN_PAGES.join(parts), MEDIA_TYPE, FrozenDict(metadata), pages=tuple(pages), notes=notes)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what pypdf logs and warns about from the user's terminal, and from becoming exceptions.

    The lock is there because both switches belong to the process; extraction is pure Python and gains nothing from
    a second thread.
    """
    logger = logging.getLogger("pypdf")
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            logger.setLevel(before)
