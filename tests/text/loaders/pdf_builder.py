"""Real PDF files for the tests, written by hand (PDF 1.7, sections 7.5 and 9.4)."""

from __future__ import annotations

from collections.abc import Sequence


def build_pdf(pages: Sequence[Sequence[str]], *, title: str | None = None, to_unicode: dict[int, str] | None = None) -> bytes:
    """Write a PDF whose pages show lines of Latin-1 text; `to_unicode` maps a code to the UTF-16BE hex it stands for."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding"
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b""]
    kids = []
    if to_unicode is not None:
        objects.append(_stream(_cmap(to_unicode)))
        font += b" /ToUnicode %d 0 R" % len(objects)
    objects[2] = font + b" >>"
    for lines in pages:
        objects.append(_stream(_page_content(lines)))
        objects.append(b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
                       b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    info = b""
    if title is not None:
        objects.append(b"<< /Title <FEFF%s> >>" % title.encode("utf-16-be", "surrogatepass").hex().encode())
        info = b" /Info %d 0 R" % len(objects)
    return _file(objects, info)


def _stream(content: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content)


def _page_content(lines: Sequence[str]) -> bytes:
    if not lines:
        return b"0 0 m 100 100 l S"
    shown = [b"<%s> Tj T*" % line.encode("latin-1").hex().encode() for line in lines]
    return b"BT /F1 12 Tf 14 TL 72 720 Td %s ET" % b" ".join(shown)


def _cmap(to_unicode: dict[int, str]) -> bytes:
    rows = b"\n".join(b"<%02x> <%s>" % (code, target.encode()) for code, target in to_unicode.items())
    return (b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n"
            b"1 begincodespacerange <00> <ff> endcodespacerange\n"
            b"%d beginbfchar\n%s\nendbfchar\nendcmap end end" % (len(to_unicode), rows))


def _file(objects: Sequence[bytes], info: bytes) -> bytes:
    out = b"%PDF-1.7\n"
    offsets = []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return out + (b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R%s >>\nstartxref\n%d\n%%%%EOF\n"
                  % (len(objects) + 1, table, len(objects) + 1, info, len(out)))
