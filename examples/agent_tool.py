"""An agent's tools: read only, one index, errors as the model can use them.

`look_up` may read and nothing else: a call inside it that tried to write would be refused, whoever asked for it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from rag_stdlib import RAG_READ, Err, Runtime, SourceDocument, arag_search, rag_ingest_document, uses

HANDBOOK = {
    "refunds": "Refunds are paid within ten days of the return, to the card that was charged.",
    "shipping": "Parcels leave our warehouse the same day if you order before noon.",
    "warranty": "Every lamp has a warranty of three years; keep the receipt.",
}


@uses(RAG_READ)
async def look_up(question: str, limit: int = 3) -> dict[str, Any]:
    """Answer a tool call of the model: chunks with their places, or an error and whether another call can mend it."""
    result = await arag_search("handbook.db", question, limit)
    if isinstance(result, Err):
        return {"error": str(result.error), "code": result.error.code, "retry": result.error.fix == "caller"}
    return {"chunks": [{"text": chunk.text, "place": f"{chunk.source}:{chunk.start_line}", "key": chunk.provenance_key}
                       for chunk in result.value]}


async def main() -> None:
    """Fill the handbook and let the tool answer three questions at once."""
    with Runtime(root="."):
        for name, text in HANDBOOK.items():
            rag_ingest_document("handbook.db", SourceDocument(name, f"handbook/{name}", text), 400).unwrap()
        questions = ("when does my parcel leave the warehouse?", "how long is the warranty?", "refunds to which card?")
        for question, answer in zip(questions, await asyncio.gather(*map(look_up, questions)), strict=True):
            best = answer["chunks"][0]
            print(f"{question}\n  {best['place']}: {best['text']}")
        print(await look_up("anything", 0))


if __name__ == "__main__":
    asyncio.run(main())
