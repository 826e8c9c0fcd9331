"""Make the vector files from the code, for review by eye and by diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import make_certificates
import make_contract

from rag_stdlib import content_sha256, provenance_key
from rag_stdlib.text.chunker import chunk_text
from rag_stdlib.text.normalize import index_terms

HERE = Path(__file__).parent
SENTENCES = "Corvid is an AI-native language. Effects are typed. Replay is deterministic. Budgets are compile-checked."
TEXTS: tuple[tuple[str, str, int, int], ...] = (
    ("doc1", "abcdefghij", 4, 1),
    ("doc1", "Alpha sentence.  Beta sentence.\nGamma sentence.", 20, 4),
    ("doc-1", SENTENCES, 60, 12),
    ("doc1", "alpha beta gamma", 8, 0),
    ("d", "aaaaa. bb. cc", 10, 2),
    ("d", "héllo wörld. ünïcode text", 12, 2),
    ("d", "a😀b😀c", 2, 0),
    ("d", "hello world\n", 50, 10),
    ("d", "a     b", 5, 1),
    ("d", "one\r\ntwo\rthree\n", 5, 1),
    ("d:with:colons", "步2 重跑。下一句。", 4, 0),
    ("d", " \n\t", 10, 2),
)
TERMS = (
    "Straße and STRASSE", "cafe\u0301 = café", "ﬁle", "zero\u200bwidth", "C++, C# and c", "don't", "foo_bar user@example.com",
    "步2 重跑gen-itgc后50条悬空引用清零", "가나다라", "ｶﾞ か\u3099", "สวัสดี", "हिन्दी", "👋🏻 €5 →", "\U0001f6dd", "…",
)


def chunks() -> list[dict[str, Any]]:
    """Cut each text."""
    return [{
        "doc_id": doc_id, "text": text, "max_chars": most, "overlap": overlap,
        "chunks": [{
            "start_char": chunk.start_char, "end_char": chunk.end_char, "start_byte": chunk.start_byte,
            "end_byte": chunk.end_byte, "text": chunk.text, "content_sha256": content_sha256(chunk.text),
            "provenance_key": provenance_key(doc_id, chunk.start_char, chunk.end_char, chunk.text),
        } for chunk in chunk_text(text, most, overlap)],
    } for doc_id, text, most, overlap in TEXTS]


def terms() -> list[dict[str, str]]:
    """Fold each text."""
    return [{"text": text, "terms": index_terms(text)} for text in TERMS]


def main() -> None:
    """Write all files, in ASCII so that every code point shows."""
    for name, cases in (("chunks.json", chunks()), ("terms.json", terms())):
        (HERE / name).write_text(json.dumps(cases, indent=1) + "\n", encoding="ascii")
    make_contract.write()
    make_certificates.write()


if __name__ == "__main__":
    main()
