"""How calls end, and how their recorded endings are delivered."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from replay import Call, Divergence, NotRecordable, RecordedError, endings
from replay.recorder import Cancelled, Raised, Returned


class NoSuchCity(Exception):  # noqa: N818 - an error of some program
    """Made from its text."""


class Picky(Exception):  # noqa: N818 - as above
    """Cannot be made from its text alone."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"{code}: {detail}")


def call(**options: Any) -> Call[Any]:
    return Call("tool", list, lambda value: value, lambda value: value, **options)


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "text", [1, [2]], {"a": {"b": None}}])
def test_what_returned_is_returned(value: Any) -> None:
    assert endings.deliver(call(), endings.of_result(call(), value)) == value


def test_an_approval_is_given_or_not() -> None:
    assert endings.of_result(call(kind="approval"), False) == Returned(False)
    for value in (1, "yes", None):
        with pytest.raises(NotRecordable, match="tool must give True or False"):
            endings.of_result(call(kind="approval"), value)


def test_a_result_that_is_no_json_is_refused_unless_the_call_vouches_for_it() -> None:
    with pytest.raises(NotRecordable, match="tuple"):
        endings.of_result(call(), (1, 2))
    assert endings.of_result(call(plain=True), (1, 2)) == Returned((1, 2))


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("k"), OSError(2, "gone"), ZeroDivisionError(), TimeoutError("late"),
                                   KeyboardInterrupt(), SystemExit(3), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")])
def test_a_builtin_exception_comes_back_as_itself(error: BaseException) -> None:
    ending = endings.of_error(error)
    again = endings.rebuilt(ending)
    assert (type(again), str(again)) == (type(error), str(error)) or isinstance(error, UnicodeDecodeError)
    if isinstance(error, UnicodeDecodeError):  # its arguments hold bytes, which are no JSON
        assert isinstance(again, RecordedError)
        assert str(error) in str(again)


def test_a_class_of_the_program_comes_back_where_the_call_names_it() -> None:
    ending = endings.of_error(NoSuchCity("Atlantis"))
    assert ending == Raised(f"{__name__}.NoSuchCity", "Atlantis", ["Atlantis"])
    with pytest.raises(NoSuchCity, match=r"^Atlantis$"):
        endings.deliver(call(raises=(NoSuchCity,)), ending)
    with pytest.raises(RecordedError, match="NoSuchCity: Atlantis") as caught:
        endings.deliver(call(), ending)
    assert (caught.value.type, caught.value.message) == (f"{__name__}.NoSuchCity", "Atlantis")


def test_a_class_that_its_arguments_do_not_make_is_made_without_its_constructor() -> None:
    again = endings.rebuilt(endings.of_error(Picky(7, detail="odd")), (Picky,))
    assert (type(again), str(again)) == (Picky, "7: odd")


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "builtins.print", "builtins.object", "nowhere.Error", "subprocess.CalledProcessError"])
def test_a_trace_cannot_name_what_to_load_or_call(name: str) -> None:
    assert isinstance(endings.rebuilt(Raised(name, "text", ["true"])), RecordedError)


def test_the_refusal_of_a_result_comes_back_as_itself() -> None:
    assert isinstance(endings.rebuilt(endings.of_error(NotRecordable("x"))), NotRecordable)


def test_an_ending_is_kept_without_stack_and_addresses() -> None:
    """R169: class, text and arguments, nothing that differs between machines."""
    try:
        raise ValueError("bad")
    except ValueError as error:
        fields = endings.to_fields(endings.of_error(error))
    assert json.dumps(fields) == '{"raised": {"type": "builtins.ValueError", "message": "bad", "args": ["bad"]}}'
    assert endings.to_fields(Cancelled()) == {"cancelled": True}


def test_a_cancelled_call_waits_to_be_cancelled_again() -> None:
    async def program() -> str:
        task = asyncio.ensure_future(endings.adeliver(call(), Cancelled()))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "went on"

    assert asyncio.run(program()) == "cancelled"


def test_a_cancelled_call_that_nobody_cancels_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "CANCEL_SECONDS", 0.01)
    with pytest.raises(Divergence, match="nobody cancelled it") as caught:
        asyncio.run(endings.adeliver(call(), Cancelled(), 7))
    assert (caught.value.code, caught.value.step) == ("not_cancelled", 7)
    with pytest.raises(Divergence, match="not awaited"):
        endings.deliver(call(), Cancelled(), 7)
