"""How calls end, and how their recorded endings are delivered."""

from __future__ import annotations

import asyncio
import builtins
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replay
from replay import Call, Divergence, NotRecordable, RecordedError, endings
from replay.jsontext import checked, decode, encode
from replay.recorder import Cancelled, Raised, Returned
from replay.redaction.redactor import Redactor

BaseGroup: Any = getattr(builtins, "BaseExceptionGroup", None)
Group: Any = getattr(builtins, "ExceptionGroup", None)
has_groups = pytest.mark.skipif(Group is None, reason="Python 3.10 has no exception groups")


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


def there_and_back(error: BaseException, *classes: type[BaseException]) -> BaseException:
    """Write the ending of a call that raised as JSON, read it, and make the exception again."""
    ending = endings.of_error(error)
    assert isinstance(ending, Raised)
    assert checked(endings.to_fields(ending)) is not None
    return endings.rebuilt(Raised(**decode(encode(endings.to_fields(ending)))["raised"]), classes)


@pytest.mark.parametrize("error", [
    ValueError("no"), KeyError("k"), KeyError(("a", 1)), OSError(2, "gone"), OSError("just text"), ZeroDivisionError(), TimeoutError("late"), SystemExit(3),
    FileNotFoundError(2, "No such file", "a/b"), OSError(18, "Cross-device link", "a", None, "b"), PermissionError(13, "no", b"a\xff"),
    BlockingIOError(11, "later", 5), StopIteration(7), SyntaxError("bad", ("f.py", 1, 2, "x ==", 1, 3)), ValueError(1, [2.5, None, {"a": (1,)}]),
    UnicodeDecodeError("utf-8", b"ok \xc3\xa9 \xff\xfe", 5, 6, "bad"), UnicodeEncodeError("ascii", "a\udcff\xe9", 1, 2, "bad"),
    UnicodeTranslateError("a\ud800", 1, 2, "bad"), ValueError("name \udcff"), ValueError(b"\xed\xa0\x80\x00"), ValueError({"$bytes": ["x"]}, {"$set": {}}),
    RuntimeError(OSError(2, "No such file", "x")), ImportError("none", name="numpy", path="/x"), ModuleNotFoundError("none", name="numpy"),
    AttributeError("none", name="shape"), NameError("none", name="x"), UnboundLocalError("none", name="x"),
], ids=repr)
def test_a_builtin_exception_comes_back_as_itself(error: BaseException) -> None:
    """C14, C15: with the parts that its arguments do not hold."""
    again = there_and_back(error)
    assert (type(again), str(again)) == (type(error), str(error))
    assert repr(again.args) == repr(error.args)
    for name in ("errno", "strerror", "filename", "filename2", "name", "path", "object", "start", "end", "reason", "lineno", "text", "value", "code"):
        assert repr(getattr(again, name, None)) == repr(getattr(error, name, None)), name


def test_an_exception_of_the_system_comes_back_with_its_file(tmp_path: Path) -> None:
    @replay.tool
    def read(name: str) -> str:
        return (tmp_path / name).read_text()

    for session in (replay.record(tmp_path / "t.jsonl"), replay.substitute(tmp_path / "t.jsonl")):
        with session, pytest.raises(FileNotFoundError, match="No such file") as caught:
            read("nothing")
        assert (caught.value.errno, caught.value.filename) == (2, os.fspath(tmp_path / "nothing"))


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.binary(max_size=6)
                    | st.text(st.characters(), max_size=4) | st.just("\ud83d\ude00\udc80"),
                    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple)
                    | st.dictionaries(st.sampled_from(["a", "$tuple", "$object", "$set", "$"]), inner, max_size=2), max_leaves=6))
@settings(deadline=None)
def test_any_arguments_of_such_values_come_back_as_they_went(value: Any) -> None:
    again = there_and_back(ValueError(value, value))
    assert (type(again), repr(again.args)) == (ValueError, repr((value, value)))


@has_groups
def test_a_group_comes_back_with_all_that_is_in_it() -> None:
    inner = Group("inner", [OSError(2, "No such file", "x"), NoSuchCity("Atlantis")])
    for error in (Group("two", [ValueError("a"), inner]), BaseGroup("two", [SystemExit(1), inner])):
        again: Any = there_and_back(error, NoSuchCity)
        assert (type(again), str(again)) == (type(error), str(error))
        assert repr(again.exceptions) == repr(error.exceptions)
        assert again.split(NoSuchCity)[0] is not None
        assert again.exceptions[1].exceptions[0].filename == "x"
    unknown: Any = there_and_back(inner)
    assert [type(one) for one in unknown.exceptions] == [FileNotFoundError, RecordedError]


@has_groups
def test_a_group_of_which_only_the_text_is_known_is_a_group() -> None:
    again: Any = endings.rebuilt(Raised("builtins.ExceptionGroup", "two (2 sub-exceptions)"))
    assert (type(again), again.message, str(again.exceptions[0])) == (Group, "two", "two (2 sub-exceptions)")


@pytest.mark.parametrize("kind", [kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, BaseException)])
def test_of_every_builtin_class_the_text_is_enough(kind: type[BaseException]) -> None:
    """C15: `except ValueError` still catches."""
    again = endings.rebuilt(Raised(f"builtins.{kind.__name__}", "the text"))
    assert type(again) is kind
    assert "the text" in str(again)
    if not issubclass(kind, (UnicodeError, BaseGroup or ())):
        assert str(again) == "the text"


def test_a_key_that_is_no_json_leaves_the_text_of_its_error() -> None:
    again = there_and_back(KeyError(Path("a")))
    assert (type(again), str(again)) == (KeyError, str(KeyError(Path("a"))))
    assert str(pickle.loads(pickle.dumps(again))) == str(again)  # noqa: S301 - our own


class Silent(Exception):  # noqa: N818 - as above
    """Has no text to give."""

    def __str__(self) -> str:
        """Fail."""
        raise AttributeError("not yet")


class Empty(BaseException):
    """Loses its arguments."""

    @property
    def args(self) -> Any:  # type: ignore[override]
        raise LookupError("gone")


def test_reading_an_ending_never_raises() -> None:
    """C16."""
    holding_itself = ValueError("x")
    holding_itself.args = (holding_itself, holding_itself)
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    for error in (ValueError("\udcff"), Silent(1), Silent(object()), Empty(), ValueError(object()), ValueError(float("nan")), ValueError(2**70), holding_itself,
                  ValueError(deep), ValueError({1: 2}), ValueError("\ud800" * (1 << 20) + "x"), ValueError(*[ValueError()] * 2000)):
        ending = endings.of_error(error)
        assert isinstance(ending, Raised)
        encode(endings.to_fields(ending))
        assert isinstance(endings.rebuilt(ending), (ValueError, RecordedError))
    ending = endings.of_error(Silent(1))
    assert ending == Raised(f"{__name__}.Silent", "(no text: Silent.__str__ raised AttributeError)", [1])
    assert type(endings.rebuilt(ending, (Silent,))) is Silent
    assert endings.of_error(ValueError("\udcff")) == Raised("builtins.ValueError", "\\udcff", [{"$text": [0xDCFF]}])


def test_the_program_gets_its_own_exception_whatever_it_is(tmp_path: Path) -> None:
    @replay.tool
    def fail(error: int) -> None:
        raise errors[error]

    errors: list[Exception] = [ValueError("\udcff"), Silent(), ValueError(object())]
    with replay.record(tmp_path / "t.jsonl"):
        for number, error in enumerate(errors):
            with pytest.raises(type(error)) as caught:
                fail(number)
            assert caught.value is error
    assert [type(one.ending()) for one in replay.load_trace(tmp_path / "t.jsonl").calls] == [Raised] * 3


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit()])
def test_a_call_that_was_interrupted_did_not_answer(error: BaseException) -> None:
    """C17."""
    assert endings.of_error(error) == Cancelled()


def test_an_interrupted_call_says_so_on_replay(tmp_path: Path) -> None:
    @replay.tool
    def work() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), replay.record(tmp_path / "t.jsonl"):
        work()
    with pytest.raises(Divergence, match=r"step 3: the call to work was cancelled or interrupted .* can neither interrupt nor cancel") as caught, \
            replay.substitute(tmp_path / "t.jsonl"):
        work()
    assert (caught.value.code, caught.value.step) == ("not_cancelled", 3)


def test_a_tool_that_exits_exits_on_replay(tmp_path: Path) -> None:
    @replay.tool
    def leave() -> None:
        sys.exit(4)

    for session in (replay.record(tmp_path / "t.jsonl"), replay.substitute(tmp_path / "t.jsonl")):
        with pytest.raises(SystemExit) as caught, session:
            leave()
        assert caught.value.code == 4


def test_secrets_in_bytes_are_seen() -> None:
    error = UnicodeDecodeError("utf-8", b"\x00key=canary-4711-canary\xff", 23, 24, "bad")
    ending = endings.of_error(error)
    assert isinstance(ending, Raised)
    redacted = Redactor(environ={}, secrets=["canary-4711-canary"]).json(encode(endings.to_fields(ending)))
    assert b"key=<redacted>" in redacted
    again = endings.rebuilt(Raised(**decode(redacted)["raised"]))
    assert isinstance(again, UnicodeDecodeError)
    assert str(error) in str(again), "what was taken out has moved the place of the error"


def test_a_class_of_the_program_comes_back_where_the_call_names_it() -> None:
    ending = endings.of_error(NoSuchCity("Atlantis"))
    assert ending == Raised(f"{__name__}.NoSuchCity", "Atlantis", ["Atlantis"])
    with pytest.raises(NoSuchCity, match=r"^Atlantis$"):
        endings.deliver(call(raises=(NoSuchCity,)), ending)
    with pytest.raises(RecordedError, match=r"^Atlantis$") as caught:
        endings.deliver(call(), ending)
    assert (caught.value.type, caught.value.message) == (f"{__name__}.NoSuchCity", "Atlantis")


def test_a_class_that_its_arguments_do_not_make_is_made_without_its_constructor() -> None:
    again = endings.rebuilt(endings.of_error(Picky(7, detail="odd")), (Picky,))
    assert (type(again), str(again)) == (Picky, "7: odd")


class Loud(Exception):  # noqa: N818 - as above
    """Does something when it is made."""

    made: list[Any] = []  # noqa: RUF012 - shared by intent

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.made.append(args)


def test_a_trace_makes_no_class_that_nobody_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "Loud", Loud, raising=False)
    for name in (f"{__name__}.Loud", "builtins.Loud", "Loud"):
        inner = {"type": name, "message": "x", "args": ["x"]}
        assert isinstance(endings.rebuilt(Raised(name, "x", ["x"])), RecordedError)
        again = endings.rebuilt(Raised("builtins.ValueError", "x", [{"$error": inner}]))
        assert isinstance(again.args[0], RecordedError)
    assert Loud.made == []
    assert isinstance(endings.rebuilt(Raised(f"{__name__}.Loud", "x", ["x"]), (Loud,)), Loud)


@pytest.mark.parametrize("args", [[{"$bytes": "abc"}], [{"$bytes": [-1]}], [{"$text": [1 << 40]}], [{"$error": 1}], [{"$error": {}}], [{"$object": 3}],
                                  [{"$tuple": 3}], [{"$set": 1}], [{"$set": {"name": [1]}}], [{"$text": [{}]}]])
def test_arguments_that_nobody_could_have_written_leave_the_text(args: list[Any]) -> None:
    for kind in (ValueError, NameError):
        again = endings.rebuilt(Raised(f"builtins.{kind.__name__}", "the text", args))
        assert (type(again), str(again)) == (kind, "the text")


class Both(ValueError, OSError):  # noqa: N818 - as above
    """Is laid out as its second base is."""

    def __init__(self, *, path: str) -> None:
        OSError.__init__(self, 2, "both", path)


class Unmakable(ValueError):  # noqa: N818 - as above
    """Says that it is builtin, and cannot be made."""

    __module__ = "builtins"

    def __init__(self, *_args: object) -> None:
        raise LookupError("never")


def test_a_class_of_two_bases_is_made_by_the_one_that_it_is_laid_out_as() -> None:
    again = there_and_back(Both(path="a"), Both)
    assert isinstance(again, Both)
    assert (again.errno, again.filename, str(again)) == (2, "a", "[Errno 2] both: 'a'")


def test_a_class_that_cannot_be_made_at_all_is_told_by_name() -> None:
    again = endings.rebuilt(Raised("builtins.Unmakable", "text", ["text"]), (Unmakable,))
    assert isinstance(again, RecordedError)
    assert (again.type, str(again)) == ("builtins.Unmakable", "text")


class Odd(OSError):  # noqa: N818 - as above
    """Is made of one thing, and is an OSError by more."""

    def __init__(self, path: object) -> None:
        super().__init__(2, "odd", os.fspath(path))  # type: ignore[call-overload]


def test_an_error_of_the_system_of_the_programs_own_class_keeps_its_parts() -> None:
    again = there_and_back(Odd(Path("a")), Odd)
    assert isinstance(again, Odd)
    assert (again.errno, again.filename, str(again)) == (2, "a", "[Errno 2] odd: 'a'")


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
    with pytest.raises(Divergence, match=r"at step 7: the call to tool was cancelled or interrupted .* nobody cancelled it within 0\.01 s") as caught:
        asyncio.run(endings.adeliver(call(), Cancelled(), 7))
    assert (caught.value.code, caught.value.step) == ("not_cancelled", 7)
    with pytest.raises(Divergence, match="not awaited"):
        endings.deliver(call(), Cancelled(), 7)
