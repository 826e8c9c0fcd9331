"""The exceptions of the package: what they say, and that they come through pickles and copies whole."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from typing import Any

import pytest

from replay import errors

FULL: list[Exception] = [
    errors.ReplayError("text"), errors.TraceError("trace_line", "bad", path="/a/run.jsonl", line=3), errors.TraceError("trace_io", "gone"),
    errors.TraceWriteError("full"), errors.TraceWarning("full"), errors.NotRecordable("$ is a set"), errors.InvalidMutation("no step"),
    errors.QuarantineViolation("network"), errors.RecordedError("shop.NoSuchCity", "Atlantis"),
    errors.Divergence("other_call", "text", step=3, expected={"tool": "a", "args": [1]}, got={"tool": "b", "args": []}, path="$[0]", nearest=({"tool": "a"},)),
]


def same(one: BaseException, other: BaseException) -> bool:
    return (type(one), str(one), one.args, vars(one)) == (type(other), str(other), other.args, vars(other))


@pytest.mark.parametrize("error", FULL, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_comes_out_of_a_pickle_as_it_went_in(error: Exception, protocol: int) -> None:
    """C21: between processes."""
    error.note = "further attributes, too"  # type: ignore[attr-defined]
    assert same(pickle.loads(pickle.dumps(error, protocol)), error)  # noqa: S301 - our own
    assert same(copy.copy(error), error)
    assert same(copy.deepcopy(error), error)


def test_every_error_is_among_them() -> None:
    public = {kind for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception) and not name.startswith("_")}
    assert public == {type(error) for error in FULL}


class Further(errors.Divergence):
    """A subclass with a field of its own and another constructor."""

    def __init__(self, run: str) -> None:
        super().__init__("left_over", f"{run} ended")
        self.run = run


def test_the_fields_of_a_subclass_come_along() -> None:
    again = pickle.loads(pickle.dumps(Further("r1")))  # noqa: S301 - our own
    assert same(again, Further("r1"))
    assert again.to_dict()["code"] == "left_over"


def diverge(number: int) -> Any:
    raise errors.Divergence("never_recorded", f"call {number}", step=number)


def test_an_error_of_a_worker_comes_to_its_parent() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool, pytest.raises(errors.Divergence, match="call 4") as caught:
        pool.map(diverge, [4])
    assert (caught.value.code, caught.value.step) == ("never_recorded", 4)


def test_the_text_of_a_trace_error_names_file_and_line() -> None:
    assert str(FULL[1]) == "trace '/a/run.jsonl': line 3: bad"
    assert str(errors.TraceError("trace_io", "gone")) == "gone"


def test_a_recorded_error_says_what_was_said() -> None:
    """C15."""
    error = errors.RecordedError("shop.NoSuchCity", "Atlantis")
    assert (str(error), error.type, error.message) == ("Atlantis", "shop.NoSuchCity", "Atlantis")
