"""The other calls of a caller: descriptions, chunks, documents and listings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from caller_doubles import Run, asked, description, hit, says

from rag_stdlib.contract.nodekeys import NodeKey
from rag_stdlib.contract.verdicts import Refused, Signed, Unsigned
from rag_stdlib.mesh.caller import Caller, Chunk, Document, Source
from rag_stdlib.mesh.errors import (
    CallError,
    InvalidCall,
    RelayError,
    ReplyRefused,
)
from rag_stdlib.mesh.memory import MemoryMesh
from rag_stdlib.mesh.transport import Request

# --- the other calls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "verdict"), [
    (lambda _signed: None, None),
    (lambda signed: [signed.pop("signature")], Unsigned()),
    (lambda signed: signed.update(dim=768), Refused("corpus_hash_mismatch")),
])
def test_a_description_comes_with_its_verdict(change: Callable[[Any], object], verdict: object, run: Run, a: NodeKey) -> None:
    described = description(key=a)
    change(described)
    got = run(asked({"describe_corpus": says(described)}, a, lambda caller: caller.describe_corpus(a.node_id)))
    assert got.description == described
    assert got.verdict == (Signed(a.node_id) if verdict is None else verdict)


def as_bytes(value: Any) -> Any:
    """Write every value that is text as a byte string, as some peers do."""
    if isinstance(value, dict):
        return {key: as_bytes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_bytes(item) for item in value]
    return value.encode() if isinstance(value, str) else value


META = {"header_path": "A > B", "topics": ["one", "two"], "start_line": 3}


@pytest.mark.parametrize("form", [lambda value: value, as_bytes])
def test_a_chunk_is_what_its_provenance_names(form: Callable[[Any], Any], run: Run, a: NodeKey) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> object:
        seen.append(request)
        return form({**hit("naïve text"), "meta": META})

    got = run(asked({"get_chunk_by_id": handler}, a, lambda caller: caller.get_chunk(a.node_id, "c1")))
    assert got == Chunk("c1", "naïve text", hit("naïve text")["provenance"], META)  # type: ignore[arg-type]
    assert seen[0].payload == {"chunk_id": "c1"}


def test_a_chunk_without_meta_is_a_chunk(run: Run, a: NodeKey) -> None:
    got = run(asked({"get_chunk_by_id": says(hit())}, a, lambda caller: caller.get_chunk(a.node_id, "c1")))
    assert got.meta == {}


@pytest.mark.parametrize(("reply", "name"), [
    (None, "malformed_reply"),
    ([hit()], "malformed_reply"),
    ({**hit(), "chunk_id": "c2"}, "malformed_reply"),
    ({**hit(), "chunk_id": None}, "malformed_reply"),
    ({**hit(), "content": None}, "malformed_reply"),
    ({**hit(), "content": b"\xff"}, "malformed_reply"),
    ({**hit(), "content": "another text"}, "content_mismatch"),
    ({**hit(), "provenance": None}, "malformed_provenance"),
    ({**hit(), "provenance": {"kind": "corpus"}}, "malformed_provenance"),
])
def test_a_chunk_that_is_not_is_refused(reply: object, name: str, run: Run, a: NodeKey) -> None:
    with pytest.raises(ReplyRefused) as caught:
        run(asked({"get_chunk_by_id": says(reply)}, a, lambda caller: caller.get_chunk(a.node_id, "c1")))
    assert caught.value.name == name


def document(raw: bytes, path: str = "alpha/a.md") -> dict[str, object]:
    provenance = {"kind": "deposit", "path": path, "content_sha256": hashlib.sha256(raw).hexdigest()}
    return {"source_path": path, "raw_bytes": raw, "provenance": provenance}


@pytest.mark.parametrize("raw", [b"", b"text\r\n", b"\xff\x00\xfe", "é".encode() * 500_000], ids=["empty", "text", "bytes", "large"])
def test_a_document_arrives_byte_for_byte(raw: bytes, run: Run, a: NodeKey) -> None:
    got = run(asked({"get_document_verbatim": says(document(raw))}, a, lambda caller: caller.get_document(a.node_id, "alpha/a.md")))
    assert got == Document("alpha/a.md", raw, document(raw)["provenance"])  # type: ignore[arg-type]


@pytest.mark.parametrize(("reply", "name"), [
    (None, "malformed_reply"),
    (document(b"text", "alpha/b.md"), "malformed_reply"),
    ({**document(b"text"), "raw_bytes": None}, "malformed_reply"),
    ({**document(b"text"), "raw_bytes": [1]}, "malformed_reply"),
    ({**document(b"text"), "raw_bytes": "text"}, "malformed_reply"),
    ({**document(b"text"), "raw_bytes": b"other"}, "content_mismatch"),
    ({**document(b"text"), "provenance": {}}, "malformed_provenance"),
])
def test_a_document_that_is_another_is_refused(reply: object, name: str, run: Run, a: NodeKey) -> None:
    with pytest.raises(ReplyRefused) as caught:
        run(asked({"get_document_verbatim": says(reply)}, a, lambda caller: caller.get_document(a.node_id, "alpha/a.md")))
    assert caught.value.name == name


def rows(count: int) -> list[dict[str, object]]:
    return [{"document_id": str(number), "source_path": f"alpha/{number}.md", "provenance": document(b"", f"alpha/{number}.md")["provenance"]}
            for number in range(count)]


def paging(listed: list[Any], at_most: int) -> Callable[[Request], object]:
    """Make a provider's handler that gives no more than `at_most` rows a page."""
    def handler(request: Request) -> object:
        assert isinstance(request.payload, dict)
        offset, limit = request.payload["offset"], request.payload["limit"]
        assert isinstance(offset, int)
        assert isinstance(limit, int)
        return listed[offset:offset + min(limit, at_most)]

    return handler


async def listing(caller: Caller, provider: str, **options: Any) -> list[Source]:
    return [source async for source in caller.list_sources(provider, **options)]


@pytest.mark.parametrize(("count", "at_most"), [(0, 200), (1, 200), (200, 200), (401, 200), (7, 1), (450, 50)])
def test_b2_a_listing_is_walked_to_its_end(count: int, at_most: int, run: Run, a: NodeKey) -> None:
    got = run(asked({"list_sources_page": paging(rows(count), at_most)}, a, lambda caller: listing(caller, a.node_id)))
    assert [source.source_path for source in got] == [f"alpha/{number}.md" for number in range(count)]
    assert [source.row for source in got] == rows(count)


def test_a_listing_of_as_many_rows_as_allowed_ends_well(run: Run, a: NodeKey) -> None:
    got = run(asked({"list_sources_page": paging(rows(400), 200)}, a, lambda caller: listing(caller, a.node_id, most=400)))
    assert len(got) == 400


def test_a_listing_without_end_is_given_up(run: Run, a: NodeKey) -> None:
    taken: list[Source] = []

    async def body(caller: Caller) -> None:
        async for source in caller.list_sources(a.node_id, most=1_000):
            taken.append(source)  # noqa: PERF401 - what came before the end is to be seen

    with pytest.raises(ReplyRefused) as caught:
        run(asked({"list_sources_page": says(rows(200))}, a, body))
    assert caught.value.name == "endless_listing"
    assert len(taken) == 1_000


@pytest.mark.parametrize("page", [
    None, {}, {"rows": []}, rows(201), [1], [{}], [{**rows(1)[0], "source_path": None}], [{**rows(1)[0], "provenance": {"kind": "corpus"}}],
], ids=["null", "map", "wrapped", "long", "number", "empty", "pathless", "unproven"])
def test_a_page_that_is_none_is_refused(page: object, run: Run, a: NodeKey) -> None:
    with pytest.raises(ReplyRefused) as caught:
        run(asked({"list_sources_page": says(page)}, a, lambda caller: listing(caller, a.node_id)))
    assert caught.value.name == "malformed_reply"


def test_every_call_names_its_provider_or_fails(run: Run, a: NodeKey) -> None:
    async def body(caller: Caller) -> None:
        for act in (caller.describe_corpus("zz"), caller.get_chunk("zz", "c"), caller.get_document("zz", "p"), listing(caller, "zz")):
            with pytest.raises(InvalidCall):
                await act
        for act in (caller.describe_corpus(a.node_id), caller.get_chunk(a.node_id, "c"), caller.get_document(a.node_id, "p"),
                    listing(caller, a.node_id)):
            with pytest.raises(CallError):
                await act

    run(asked({}, a, body))


def test_a_withdrawn_provider_is_a_relay_error(run: Run, a: NodeKey) -> None:
    async def body() -> None:
        mesh = MemoryMesh()
        provider, mine = mesh.node(key=a), mesh.node()
        await provider.serve("acme/answer_query", says(1))
        await provider.close()
        with pytest.raises(RelayError, match="unknown_next_peer"):
            await Caller(mine, "acme").ask("what?", provider=a.node_id)

    run(body())
