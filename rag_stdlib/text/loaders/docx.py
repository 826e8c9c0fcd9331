"""Word documents (.docx): paragraphs and tables in document order."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rag_stdlib.errors import fail
from rag_stdlib.records import FrozenDict, Scalar
from rag_stdlib.text.loaders.decoding import scrub, scrub_note
from rag_stdlib.text.loaders.loaded import Loaded, unreadable

if TYPE_CHECKING:
    from docx.document import Document

MEDIA_TYPE: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EXTENSIONS: Final = frozenset({".docx"})
MAGIC: Final = b"PK\x03\x04"
MAX_UNPACKED_BYTES: Final = 512 * 2**20

_KIND: Final = "DOCX"
_OLE_MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_COMPATIBILITY: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_PARAGRAPH, _TABLE, _ROW, _CELL = (_WORD + name for name in ("p", "tbl", "tr", "tc"))
_CHARACTERS: Final = {
    _WORD + "tab": "\t", _WORD + "ptab": "\t", _WORD + "br": "\n", _WORD + "cr": "\n", _WORD + "noBreakHyphen": "-",
}
# Properties hold tab stops, not tabs; deleted and moved-away text and the fallback of a drawing are not shown.
_NOT_SHOWN: Final = frozenset(
    {_WORD + name for name in ("pPr", "rPr", "tblPr", "trPr", "tcPr", "sdtPr", "sectPr", "del", "moveFrom")}
    | {_COMPATIBILITY + "Fallback"},
)


def load(name: str, data: bytes) -> Loaded:
    """Read the body of a Word document: a line a paragraph, and a line a table row with tabs between its cells.

    Left out: headers, footers, notes, comments, and text deleted in a tracked change. Raises `Failure`:
    `file_unreadable` for what is damaged, encrypted, no Word document or unpacks to more than 512 MiB, and
    `loader_not_installed`.
    """
    _check_archive(name, data)
    try:
        import docx
    except ImportError as error:
        raise fail("loader_not_installed", kind=_KIND, detail=error.name or "python-docx") from error
    try:
        document = docx.Document(io.BytesIO(data))
        found = "\n".join(_blocks(document.element.body))
        title = _title(document)
    except Exception as error:  # a damaged file breaks the parser in every way there is
        raise unreadable(name, _KIND, error) from error
    text, replaced = scrub(found.strip("\n"))
    metadata: dict[str, Scalar] = {"title": title} if title else {}
    return Loaded(text, MEDIA_TYPE, FrozenDict(metadata), notes=scrub_note(replaced))


def is_word_archive(data: bytes) -> bool:
    """Tell whether a ZIP archive holds a Word document."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return "word/document.xml" in archive.namelist()
    except Exception:  # noqa: BLE001 - zipfile documents no closed list of what a damaged archive raises
        return False


def _check_archive(name: str, data: bytes) -> None:
    """Refuse what is no ZIP archive, and one that would unpack to too much."""
    if data.startswith(_OLE_MAGIC):
        raise unreadable(name, _KIND, "it is encrypted with a password, or an old .doc file; save it as a plain .docx")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except Exception as error:  # zipfile documents no closed list of what a damaged archive raises
        raise unreadable(name, _KIND, error) from error
    if any(entry.flag_bits & 1 for entry in entries):
        raise unreadable(name, _KIND, "its parts are encrypted with a password")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > MAX_UNPACKED_BYTES:
        raise unreadable(name, _KIND, f"it unpacks to {unpacked:,} bytes; the most is {MAX_UNPACKED_BYTES:,}")


def _title(document: Document) -> str:
    """Return the title of the core properties; a file without them has none, where python-docx would make one up."""
    from docx.opc.constants import RELATIONSHIP_TYPE

    package = document.part.package
    if package is None or not any(rel.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES for rel in package.rels.values()):
        return ""
    return " ".join(scrub(document.core_properties.title)[0].split())


def _blocks(element: Any) -> Iterator[str]:  # noqa: ANN401 - an lxml element, which has no types here
    """Yield the lines of a body, cell or text box; content controls and tracked insertions are looked into."""
    for child in element:
        if child.tag in _NOT_SHOWN:
            continue
        if child.tag == _PARAGRAPH:
            yield "".join(_characters(child))
        elif child.tag == _ROW:
            yield "\t".join(_cells(child))
        else:
            yield from _blocks(child)


def _cells(row: Any) -> Iterator[str]:  # noqa: ANN401 - an lxml element
    for child in row:
        if child.tag == _CELL:
            yield " ".join("\n".join(_blocks(child)).split())
        elif child.tag not in _NOT_SHOWN:
            yield from _cells(child)


def _characters(element: Any) -> Iterator[str]:  # noqa: ANN401 - an lxml element
    """Yield the shown text below a paragraph; a text box inside it starts lines of its own."""
    for child in element:
        if child.tag == _WORD + "t":
            yield child.text or ""
        elif child.tag in _CHARACTERS:
            yield _CHARACTERS[child.tag]
        elif child.tag in (_PARAGRAPH, _TABLE):
            yield "\n" + "\n".join(_blocks([child]))
        elif child.tag not in _NOT_SHOWN:
            yield from _characters(child)
