"""Results as values."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from rag_stdlib.result import Err, Ok, RagError, UnwrapError, from_json, to_json

ERROR = RagError("limit must be at least 1", "invalid_limit", "caller")


def told(result: Any) -> str:
    match result:
        case Ok(value):
            return f"ok {value}"
        case Err(error):
            return f"err {error.code}"
    return "neither"


def test_pattern_matching_takes_them_apart() -> None:
    assert told(Ok(3, notes=("n",))) == "ok 3"
    assert told(Err(ERROR)) == "err invalid_limit"


def test_an_error_is_a_string_that_knows_its_kind() -> None:
    assert ERROR == "limit must be at least 1"
    assert isinstance(ERROR, str)
    assert (ERROR.code, ERROR.fix) == ("invalid_limit", "caller")
    assert repr(ERROR) == "RagError('invalid_limit', 'limit must be at least 1')"
    assert json.dumps(ERROR) == '"limit must be at least 1"'
    with pytest.raises(AttributeError):
        ERROR.other = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("result", [Ok(1, notes=("a",)), Ok([{"b": None}]), Err(ERROR)])
def test_results_pickle_and_copy_whole(result: Any) -> None:
    for twin in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):  # noqa: S301 - our own bytes
        assert twin == result
        assert to_json(twin) == to_json(result)


def test_unwrapping() -> None:
    assert Ok(3).unwrap() == 3
    assert Ok(None).unwrap_or(4) is None
    assert Err(ERROR).unwrap_or(4) == 4
    with pytest.raises(UnwrapError, match="invalid_limit: limit must be at least 1") as caught:
        Err(ERROR).unwrap()
    assert caught.value.error is ERROR
    assert (Ok(0).is_ok, Err(ERROR).is_ok) == (True, False)


def test_notes_take_no_part_in_equality() -> None:
    assert Ok(1, notes=("mode lexical",)) == Ok(1)
    assert hash(Ok(1, notes=("x",))) == hash(Ok(1))
    assert Ok(1) != Err(ERROR)


@pytest.mark.parametrize("result", [Ok(1), Err(ERROR)])
def test_results_are_frozen(result: Any) -> None:
    with pytest.raises((AttributeError, TypeError)):
        result.value = 2
    with pytest.raises((AttributeError, TypeError)):
        result.error = ERROR


@pytest.mark.parametrize(("result", "encoded"), [
    (Ok(7), {"tag": "ok", "value": 7}),
    (Ok([], notes=("a", "b")), {"tag": "ok", "value": [], "notes": ["a", "b"]}),
    (Err(ERROR), {"tag": "err", "err": "limit must be at least 1", "code": "invalid_limit", "fix": "caller"}),
])
def test_json_is_corvids_with_our_fields_behind(result: Any, encoded: dict[str, Any]) -> None:
    assert to_json(result) == encoded
    back = from_json(json.loads(json.dumps(encoded)))
    assert back == result
    assert to_json(back) == encoded
