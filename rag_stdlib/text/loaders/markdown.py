"""Markdown: front matter becomes metadata, the rest stays verbatim, and lines are the file's."""

from __future__ import annotations

from rag_stdlib.records import FrozenDict
from rag_stdlib.text.loaders import front_matter
from rag_stdlib.text.loaders.decoding import decode
from rag_stdlib.text.loaders.loaded import Loaded

MEDIA_TYPE = "text/markdown"
EXTENSIONS = frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd"})


def load(name: str, data: bytes) -> Loaded:
    """Decode `data` and set its front matter aside; see `front_matter.split` for what counts as one."""
    text, notes = decode(name, data)
    found = front_matter.split(text)
    if found is None:
        return Loaded(text, MEDIA_TYPE, notes=notes)
    return Loaded(
        text[found.body_start:], MEDIA_TYPE, FrozenDict(found.metadata), lines=((0, found.body_line),), notes=notes,
    )
