"""Records: std/rag's fields first, frozen to the bottom, and plain JSON."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from typing import Any

import pytest

from rag_stdlib import records
from rag_stdlib.options import QueryOptions
from rag_stdlib.records import (
    CheckReport,
    Compacted,
    EffectEnvelope,
    EmbedderEnvelope,
    FrozenDict,
    IndexStats,
    RagChunkEnvelope,
    RagDocumentEnvelope,
    Record,
    Reembedded,
    RetrievedRagChunkEnvelope,
    SourceDocument,
    approval_required,
    replay_safe,
)

META = EffectEnvelope("std.rag.search", "rag_ab", "", "", "std.rag.search")
CHUNK = RagChunkEnvelope(
    "d", "d:3", "s", "text", 5, 9, "rag_ab", META, 3, 1, 2, 5, 9, "ff", 0.5, "hybrid", None, 0.25, 7, {"a": 1, "b": None, "c": "x"})
ALL: list[Record] = [
    META, CHUNK, RagDocumentEnvelope("d", "s", "text/plain", "text", META, {"k": True}, "ff", 2),
    RetrievedRagChunkEnvelope(CHUNK, True, "std.rag.search"), EmbedderEnvelope("openai", "m", "e", META),
    SourceDocument("d", "s", "text", metadata={"k": 1.5}, lines=((0, 1), (9, 40)), pages=((0, 1),)),
    CheckReport(1, 2, 3, ("p",), ("n",)), IndexStats(1, 2, 3, 4, 5, 6, 1, 8, "e", "wal", "3.53", ("n",)), Compacted(2, 1), Reembedded(5, 4),
    QueryOptions(mode="vector", doc_id=("a", "b"), metadata={"k": ("x", 1, None), "l": "y"}, min_score=0.5, per_document=2),
]


def names(kind: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def test_a_chunk_has_std_rags_eight_fields_and_then_ours() -> None:
    assert names(RagChunkEnvelope) == [
        "doc_id", "chunk_id", "source", "text", "start_char", "end_char", "provenance_key", "effect_meta",
        "ordinal", "start_line", "end_line", "start_byte", "end_byte", "content_sha256", "score",
        "mode", "lexical_score", "vector_score", "page", "metadata"]
    assert list(CHUNK.to_dict()) == names(RagChunkEnvelope)


@pytest.mark.parametrize(("kind", "first"), [
    (EffectEnvelope, ["effect_name", "provenance_key", "approval_label", "cache_key", "replay_key"]),
    (RagDocumentEnvelope, ["id", "source", "media_type", "text", "effect_meta"]),
    (RetrievedRagChunkEnvelope, ["chunk", "grounded", "source_name"]),
    (EmbedderEnvelope, ["provider", "model_name", "endpoint", "effect_meta"]),
])
def test_the_other_records_begin_as_std_rags(kind: type[Any], first: list[str]) -> None:
    assert names(kind)[:len(first)] == first


def test_every_record_is_tried_here() -> None:
    made = {kind for kind in vars(records).values() if isinstance(kind, type) and issubclass(kind, Record)} - {Record}
    assert made | {QueryOptions} == {type(record) for record in ALL}


@pytest.mark.parametrize("record", ALL, ids=lambda record: type(record).__name__)
def test_r192_json_there_and_back(record: Record) -> None:
    encoded = json.dumps(record.to_dict(), allow_nan=False)
    assert type(record).from_dict(json.loads(encoded)) == record
    assert type(record).from_dict(record.to_dict()) == record


@pytest.mark.parametrize("record", ALL, ids=lambda record: type(record).__name__)
def test_a_record_is_made_from_its_fields_in_any_order(record: Record) -> None:
    whole = record.to_dict()
    shuffled = dict(reversed(whole.items()))
    for data in (whole, shuffled, FrozenDict(whole)):
        made = type(record).from_dict(data)
        assert made == record
        assert list(vars(made)) == list(made.to_dict()) == names(type(record))
        assert hash(made) == hash(record)
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.something_new = 1  # type: ignore[attr-defined]
    whole[names(type(record))[0]] = "changed"
    assert type(record).from_dict(record.to_dict()) == record, "what it was made from is not held"


@pytest.mark.parametrize("record", ALL, ids=lambda record: type(record).__name__)
def test_fields_that_are_unknown_or_missing_are_refused_by_name(record: Record) -> None:
    whole = record.to_dict()
    first = names(type(record))[0]
    renamed = {("other" if name == first else name): value for name, value in whole.items()}
    for data in ({**whole, "other": 1}, renamed):
        with pytest.raises(TypeError, match="'other'"):
            type(record).from_dict(data)
    if type(record) is not QueryOptions:  # all of its fields have defaults
        with pytest.raises(TypeError, match=first):
            type(record).from_dict({name: value for name, value in whole.items() if name != first})
    for data in (None, [], "text", 5):
        with pytest.raises(TypeError, match=f"{type(record).__name__} is made from a JSON object, not from"):
            type(record).from_dict(data)  # type: ignore[arg-type]


def test_what_is_wrong_inside_a_record_is_refused_too() -> None:
    whole = CHUNK.to_dict()
    with pytest.raises(TypeError, match="'other'"):
        RagChunkEnvelope.from_dict({**whole, "effect_meta": {**whole["effect_meta"], "other": ""}})
    with pytest.raises(TypeError, match="effect_name"):
        RagChunkEnvelope.from_dict({**whole, "effect_meta": {}})
    with pytest.raises(TypeError, match="EffectEnvelope is made from a JSON object, not from str"):
        RagChunkEnvelope.from_dict({**whole, "effect_meta": "std.rag.search"})


def test_fields_with_defaults_may_be_missing() -> None:
    meta = {"effect_name": "e"}
    assert EffectEnvelope.from_dict(meta) == EffectEnvelope("e")
    assert RagDocumentEnvelope.from_dict({"id": "d", "source": "s", "media_type": "m", "text": "t", "effect_meta": meta}) == RagDocumentEnvelope(
        "d", "s", "m", "t", EffectEnvelope("e"))


def test_a_record_has_no_slots_that_its_json_would_miss() -> None:
    assert [type(record).__name__ for record in ALL if list(vars(record)) != names(type(record))] == []


@pytest.mark.parametrize("record", ALL, ids=lambda record: type(record).__name__)
def test_pickles_and_copies_are_equal(record: Record) -> None:
    for twin in (pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record)):  # noqa: S301 - our own bytes
        assert twin == record
        assert type(twin) is type(record)
        assert hash(twin) == hash(record)


@pytest.mark.parametrize("record", ALL, ids=lambda record: type(record).__name__)
def test_r82_no_field_can_be_set(record: Record) -> None:
    for name in names(type(record)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, name, "other")
    with pytest.raises((AttributeError, TypeError)):
        record.something_new = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("record", [record for record in ALL if "metadata" in names(type(record))], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("change", [
    lambda m: m.update(a=2), lambda m: m.__setitem__("a", 2), lambda m: m.pop("a", None), lambda m: m.clear(), lambda m: m.popitem(),
    lambda m: m.setdefault("z", 1), lambda m: m.__delitem__("a"), lambda m: m.__ior__({"a": 2}),
])
def test_r82_metadata_cannot_be_changed(record: Any, change: Any) -> None:
    before = dict(record.metadata)
    with pytest.raises(TypeError, match="frozen record"):
        change(record.metadata)
    assert record.metadata == before


def test_r82_records_made_from_one_mapping_do_not_share_it() -> None:
    shared: dict[str, Any] = {"a": 1}
    first, second = SourceDocument("1", "s", "t", metadata=shared), dataclasses.replace(CHUNK, metadata=shared)
    shared["a"] = 2
    shared["b"] = 3
    assert first.metadata == second.metadata == {"a": 1}
    exported = first.to_dict()
    exported["metadata"]["a"] = 9
    assert first.metadata == {"a": 1}


def test_a_frozen_dict_is_a_dict_to_everybody_else() -> None:
    frozen = FrozenDict(a=1, b="x")
    assert frozen == {"a": 1, "b": "x"}
    assert json.dumps(frozen) == '{"a": 1, "b": "x"}'
    assert len({frozen, FrozenDict({"b": "x", "a": 1})}) == 1
    assert dict(frozen, a=2) == {"a": 2, "b": "x"}


@pytest.mark.parametrize(("meta", "safe", "approval"), [
    (EffectEnvelope("e"), False, False), (EffectEnvelope("e", replay_key="e"), True, False), (EffectEnvelope("e", approval_label="L"), False, True),
])
def test_an_empty_string_means_absent(meta: EffectEnvelope, safe: bool, approval: bool) -> None:
    assert (replay_safe(meta), approval_required(meta)) == (safe, approval)


def test_a_report_without_problems_is_clean() -> None:
    assert CheckReport(1, 1, 0, (), ("no vectors",)).clean
    assert not CheckReport(1, 1, 0, ("bad",)).clean
