"""What may cross the mesh, and what is refused before it does."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict, namedtuple
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_stdlib.contract.cbor import MAX_BYTES, MAX_ITEMS, CborError, encode
from rag_stdlib.contract.verdicts import HitVerdict
from rag_stdlib.mesh.errors import PayloadRefused
from rag_stdlib.mesh.wire import PAYLOAD_ITEMS, outgoing, pack, unpack
from rag_stdlib.records import FrozenDict
from rag_stdlib.result import RagError

SCALARS = (st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.binary())
PAYLOADS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text().filter(lambda key: key != "$bytes"), inner, max_size=5),
    max_leaves=40)
ANYTHING = st.recursive(
    SCALARS | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters(), max_size=5) | st.sets(st.integers(), max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner) | st.dictionaries(
        st.text(alphabet=st.characters(), max_size=3) | st.integers(0, 3) | st.just("$bytes"), inner, max_size=4), max_leaves=20)


def typed(value: Any) -> Any:
    """Write a value so that 1, 1.0, "1" and b"1", and 0.0 and -0.0, differ."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return type(value), value, math.copysign(1, value) if isinstance(value, float) else 0


@given(PAYLOADS)
@example([1, 1.0, "1", b"1", -0.0, 5e-324, None, 2**63 - 1, -(2**63), {}, [], "", b"", {"$bytes": "x", "more": 1}, {"": 0}])
def test_a_payload_arrives_as_it_was(payload: Any) -> None:
    assert typed(unpack(pack(payload))) == typed(payload)
    assert typed(outgoing(payload)) == typed(payload)


@given(ANYTHING)
def test_whatever_is_handed_over_is_carried_or_refused(value: Any) -> None:
    refusals: list[PayloadRefused] = []
    try:
        taken = outgoing(value)
    except PayloadRefused as refused:
        refusals.append(refused)
    if not refusals:
        assert unpack(encode(taken)) == taken
    for refusal in refusals:
        assert refusal.name == "payload_refused"
        assert refusal.reason.encode()


@pytest.mark.parametrize(("payload", "reason"), [
    ({"hits": [1, 2, 3, {"meta": {"flag": True}}]}, "hits[3].meta.flag is a boolean; the mesh carries 1 and 0"),
    (False, "the payload is a boolean; the mesh carries 1 and 0"),
    ([math.nan], "[0] is nan; the mesh carries finite numbers"),
    ({"score": -math.inf}, "score is -inf; the mesh carries finite numbers"),
    ({"n": 2**63}, "n is an integer beyond 64 bits"),
    ({"n": -(2**63) - 1}, "n is an integer beyond 64 bits"),
    ({"n": 10**5_000}, "n is an integer beyond 64 bits"),
    ({"text": "ab\ud83d"}, "text holds a lone surrogate at character 2; it is no Unicode text"),
    ({"\udc00": 1}, "['\\udc00'] holds a lone surrogate at character 0; it is no Unicode text"),
    ({"a b": {"é": True}}, "['a b'].é is a boolean; the mesh carries 1 and 0"),
    ({"k" * 100: True}, f"['{'k' * 60}'] is a boolean; the mesh carries 1 and 0"),
    ({"a": {1: 2}}, "a has a key of type int; keys are text"),
    ({b"a": 1}, "the payload has a key of type bytes; keys are text"),
    ({None: 1}, "the payload has a key of type NoneType; keys are text"),
    ([{np.str_("a"): 1}], "[0] has a key of type numpy.str_; keys are text"),
])
def test_a_refusal_names_the_place(payload: Any, reason: str) -> None:
    with pytest.raises(PayloadRefused) as caught:
        outgoing(payload)
    assert caught.value.reason == reason


@pytest.mark.parametrize("value", [
    np.float64(1.5), np.float32(1.5), np.int64(1), np.bool_(1), np.str_("a"), np.bytes_(b"a"), np.zeros(3),
    {1}, frozenset(), object(), 1j, bytearray(b"a"), memoryview(b"a"), MappingProxyType({}), iter([]), range(3), print, int,
    enum.IntEnum("Number", "ONE").ONE,
])
def test_other_types_are_refused_by_name(value: Any) -> None:
    with pytest.raises(PayloadRefused, match=r"^payload_refused: a\[0\] is of type ") as caught:
        outgoing({"a": [value]})
    assert type(value).__name__ in str(caught.value)


@pytest.mark.parametrize(("value", "plain"), [
    ((1, (2,)), [1, [2]]),
    (namedtuple("Pair", "a b")(1, 2), [1, 2]),  # noqa: PYI024 - the plain kind is what is meant
    (HitVerdict.OK, "ok"),
    (RagError("words", "internal", "nobody"), "words"),
    (FrozenDict({"a": 1}), {"a": 1}),
    (OrderedDict(a=1), {"a": 1}),
    ({HitVerdict.OK: 1}, {"ok": 1}),
])
def test_what_is_text_list_or_map_by_nature_becomes_plain(value: Any, plain: Any) -> None:
    taken = outgoing({"value": value})
    assert taken == {"value": plain}
    assert type(taken["value"]) is type(plain)  # type: ignore[index, call-overload]


def test_a_text_that_calls_itself_otherwise_cannot_double_a_key() -> None:
    class Other(str):
        __slots__ = ()
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            return self is other

    with pytest.raises(PayloadRefused, match="a stands twice in its map"):
        outgoing({"a": 1, Other("a"): 2})


@pytest.mark.parametrize("payload", [{"$bytes": "YQ=="}, {"$bytes": 1}, {"a": [{"$bytes": None}]}])
def test_a_map_that_peers_read_as_bytes_is_refused(payload: Any) -> None:
    with pytest.raises(PayloadRefused, match="byte string"):
        outgoing(payload)


def test_nothing_is_shared_with_what_was_handed_over() -> None:
    payload = {"a": [1, {"b": [2]}]}
    taken = outgoing(payload)
    payload["a"].clear()
    assert taken == {"a": [1, {"b": [2]}]}


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_63_levels_cross_and_one_more_does_not() -> None:
    assert unpack(pack(nested(63))) == nested(63)
    with pytest.raises(PayloadRefused, match=r"\[0\]…\[0\].* lies deeper than 63 levels"):
        outgoing(nested(64))
    with pytest.raises(PayloadRefused, match="lies deeper than 63 levels"):
        outgoing(nested(5_000))


def test_a_payload_that_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    circle += [circle] * 1_000
    with pytest.raises(PayloadRefused, match="deeper"):
        outgoing({"a": circle})
    wide: dict[str, Any] = {"leaf": [0] * 10_000}
    wide["self"] = wide
    with pytest.raises(PayloadRefused):
        outgoing(wide)


@pytest.mark.parametrize("full", [[None] * (PAYLOAD_ITEMS - 1), {str(number): 1 for number in range(PAYLOAD_ITEMS // 2 - 2)} | {"list": [1]}],
                         ids=["list", "map"])
def test_values_and_keys_are_counted_as_the_codec_does(full: Any) -> None:
    """What is full with 131,008 of them fills the codec's 131,072 with 64 more."""
    more = [*full, None] if isinstance(full, list) else {**full, "list": [1, 2]}
    assert encode(outgoing(full))
    with pytest.raises(PayloadRefused, match="more than 131,008"):
        outgoing(more)
    around = [None] * (MAX_ITEMS - PAYLOAD_ITEMS - 1)
    assert encode([full, *around])
    with pytest.raises(CborError):
        encode([more, *around])


@pytest.mark.parametrize("kind", [bytes, str])
def test_a_frame_is_filled_to_the_last_byte_and_not_beyond(kind: type) -> None:
    room = MAX_BYTES - 5  # the head of a string this long
    full = b"a" * room if kind is bytes else "a" * room
    assert len(pack(full)) == MAX_BYTES
    for payload in (full + full[:1], {"k": full}, [full, full]):
        with pytest.raises(PayloadRefused) as caught:
            outgoing(payload)
        assert caught.value.name == "payload_too_large"
        assert "16,777,215" in str(caught.value)


@given(PAYLOADS)
@example(["x" * 23, "x" * 24, "x" * 255, "x" * 256, "é" * 40_000, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, -24, -25, -(2**32) - 1])
def test_the_size_is_that_of_the_encoding(payload: Any) -> None:
    from rag_stdlib.mesh.wire import _Load

    load = _Load()
    assert len(encode(load.take(payload, 0))) == load.size
