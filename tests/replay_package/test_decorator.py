"""`@replay.tool` on functions of all kinds."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

import replay


def recorded(path: Path) -> list[tuple[Any, ...]]:
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(event["kind"], *(event[name] for name in ("tool", "prompt", "label") if name in event), event.get("args"))
            for event in events if event["kind"] in ("tool_call", "llm_call", "approval_request")]


@replay.tool
def add(a: int, b: int = 2, *more: int, scale: int = 1, **named: int) -> int:
    """Add numbers."""
    return (a + b + sum(more) + sum(named.values())) * scale


def test_outside_of_a_session_the_function_just_runs() -> None:
    assert add(1) == 3
    assert (add.__name__, add.__doc__) == ("add", "Add numbers.")
    assert list(inspect.signature(add).parameters) == ["a", "b", "more", "scale", "named"]
    assert add(a=object and 1, b=2) == 3


def test_arguments_count_in_the_order_of_the_parameters_with_defaults_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with replay.record(path):
        assert [add(1), add(b=2, a=1), add(1, 2, 3, 4, scale=5, x=6)] == [3, 3, 80]
    assert recorded(path) == [("tool_call", "add", [1, 2, [], 1, {}]), ("tool_call", "add", [1, 2, [], 1, {}]),
                              ("tool_call", "add", [1, 2, [3, 4], 5, {"x": 6}])]
    with replay.substitute(path):
        assert [add(a=1, b=2), add(1), add(1, 2, 3, 4, x=6, scale=5)] == [3, 3, 80]


def test_a_call_that_does_not_fit_the_function_is_pythons_own_error_and_leaves_no_event(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with replay.record(path), pytest.raises(TypeError, match="missing a required argument: 'a'"):
        add()  # type: ignore[call-arg]
    assert recorded(path) == []


class Desk:
    """An object with tools."""

    def __init__(self, client: object) -> None:
        self.client = client

    @replay.tool(name="desk.ask", ignore=["client"])
    def ask(self, client: object, question: str) -> str:
        return f"{question}? {client is self.client}"

    @classmethod
    @replay.tool
    def size(cls, of: str) -> int:
        return len(of)


def test_self_and_ignored_parameters_do_not_count(tmp_path: Path) -> None:
    path, client = tmp_path / "t.jsonl", object()
    with replay.record(path):
        assert Desk(client).ask(client, "why") == "why? True"
        assert Desk.size("four") == 4
    assert recorded(path) == [("tool_call", "desk.ask", ["why"]), ("tool_call", "size", ["four"])]
    with replay.substitute(path):
        assert Desk(None).ask(object(), "why") == "why? True"
        assert Desk.size(of="four") == 4


def test_results_of_other_types_go_through_encode_and_decode(tmp_path: Path) -> None:
    @replay.tool(encode=str, decode=Path, encode_args=lambda args: [str(arg) for arg in args])
    def parent(path: Path) -> Path:
        return path.parent

    with replay.record(tmp_path / "t.jsonl"):
        assert parent(Path("a/b")) == Path("a")
    with replay.substitute(tmp_path / "t.jsonl"):
        assert parent(Path("a/b")) == Path("a")


@pytest.mark.parametrize(("kind", "result"), [("llm", "Paris"), ("approval", True)])
def test_prompts_and_approvals_have_events_of_their_own(tmp_path: Path, kind: Any, result: Any) -> None:
    runs: list[str] = []

    @replay.tool(kind=kind, name="ask")
    def ask(question: str) -> Any:
        runs.append(question)
        return result

    path = tmp_path / "t.jsonl"
    with replay.record(path):
        assert ask("capital?") == result
    events = {"llm": ("llm_call", "llm_result"), "approval": ("approval_request", "approval_response")}
    kinds = [json.loads(line)["kind"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert kinds[3:5] == list(events[kind])
    with replay.substitute(path):
        assert ask("capital?") == result
    assert runs == ["capital?"]


@pytest.mark.parametrize("kind", ["tool", "llm", "approval"])
def test_a_call_of_any_kind_can_raise_and_be_cancelled(tmp_path: Path, kind: Any) -> None:
    @replay.tool(kind=kind, name="ask")
    async def ask(question: str) -> bool:
        if question == "why":
            raise ValueError("do not ask")
        await asyncio.sleep(60)
        return True

    async def program() -> list[str]:
        with pytest.raises(ValueError, match="do not ask"):
            await ask("why")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ask("how long"), 0.05)
        return ["done"]

    for session in (replay.record(tmp_path / "t.jsonl"), replay.substitute(tmp_path / "t.jsonl")):
        with session:
            assert asyncio.run(program()) == ["done"]


def test_an_async_function_stays_one(tmp_path: Path) -> None:
    @replay.tool
    async def slow(x: int) -> int:
        await asyncio.sleep(0)
        return x * 2

    assert inspect.iscoroutinefunction(slow)
    assert asyncio.run(slow(2)) == 4

    async def program() -> list[int]:
        return [await slow(1), await slow(x=2)]

    with replay.record(tmp_path / "t.jsonl"):
        assert asyncio.run(program()) == [2, 4]
    with replay.substitute(tmp_path / "t.jsonl"):
        assert asyncio.run(program()) == [2, 4]


def test_what_cannot_be_a_tool_is_refused_when_it_is_made_one() -> None:
    def numbers() -> Any:
        yield 1

    async def anumbers() -> Any:
        yield 1

    for function in (numbers, anumbers):
        with pytest.raises(TypeError, match="is a generator"):
            replay.tool(function)
    with pytest.raises(TypeError, match="belong together"):
        replay.tool(encode=str)
    with pytest.raises(ValueError, match="kind is 'db'"):
        replay.tool(kind="db")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="no parameter client to ignore"):
        replay.tool(ignore=["client"])(add)


def test_an_argument_that_is_no_json_is_refused_before_the_function_runs(tmp_path: Path) -> None:
    runs: list[object] = []

    @replay.tool
    def keep(x: object) -> None:
        runs.append(x)

    with replay.record(tmp_path / "t.jsonl"), pytest.raises(replay.NotRecordable, match=r"\$\[0\].*Path"):
        keep(Path("a"))
    assert runs == []


@replay.tool
def login(user: str, password: str | None = None, *tokens: str, api_key: Any = "", **more: str) -> str:
    assert "<redacted>" not in (user, password, *tokens, api_key, *more.values()), "the function itself gets what it is given"
    return f"welcome {user}"


def test_a_string_under_the_name_of_a_secret_is_not_recorded(tmp_path: Path) -> None:
    """B10: however it is given; another one is the same call on replay."""
    path, secret, other = tmp_path / "t.jsonl", "hunter2-hunter2", "another-password"
    with replay.record(path):
        login("bob", password=secret, api_key="plain-key-abc", cookie="c-is-for-cookie")
        login("bob", secret)
        login("bob", api_key=["plain-key-abc", 7])
    text = path.read_text(encoding="utf-8")
    assert not any(secret in text for secret in ("hunter2", "plain-key", "c-is-for"))
    assert [args for _, _, args in recorded(path)] == [
        ["bob", "<redacted>", [], "<redacted>", {"cookie": "<redacted>"}], ["bob", "<redacted>", [], "", {}], ["bob", None, [], ["<redacted>", 7], {}]]
    with pytest.raises(replay.Divergence, match=r'differs at \$\[1\]: null -> "<redacted>"'), replay.substitute(path):
        login("bob", password=other, api_key="<redacted>", cookie="other")
        login("bob", password=other)
        login("bob", password=other)


def test_a_secret_by_name_does_not_come_to_encode_args(tmp_path: Path) -> None:
    given: list[Any] = []

    @replay.tool(encode_args=lambda args: given.extend(args) or [args[0]])
    def ask(question: str, *, token: str) -> str:
        return question + token[:0]

    with replay.record(tmp_path / "t.jsonl"):
        assert ask("why", token="abcdef".upper()) == "why"
    assert given == ["why", "<redacted>"]


class Doubler:
    """An object that can be called."""

    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, x: int) -> int:
        """Multiply."""
        return x * self.by


class Waiter:
    """An object whose call is awaited."""

    async def __call__(self, x: int) -> int:
        """Wait."""
        await asyncio.sleep(0)
        return x


def scaled(x: int, by: int = 1) -> int:
    """Scale."""
    return x * by


@pytest.mark.parametrize(("function", "name", "given", "args"), [
    (functools.partial(scaled, by=3), "scaled", 2, [2, 3]), (functools.partial(functools.partial(scaled, 5), by=2), "scaled", None, [2]),
    (Doubler(2), "Doubler", 4, [4]), (len, "len", [1, 2], [[1, 2]]), (Doubler(3).__call__, "__call__", 1, [1]), (lambda x: -x, "<lambda>", 1, [1])])
def test_whatever_can_be_called_and_says_its_parameters_can_be_a_tool(tmp_path: Path, function: Any, name: str, given: Any, args: list[Any]) -> None:
    """D28: functools.partial, objects, builtins."""
    made = replay.tool(function)
    values = () if given is None else (given,)
    assert (made.__name__, hasattr(made, "by")) == (name, False)
    with replay.record(tmp_path / "t.jsonl"):
        result = made(*values)
    assert result == function(*values)
    assert recorded(tmp_path / "t.jsonl") == [("tool_call", name, args)]
    with replay.substitute(tmp_path / "t.jsonl"):
        assert made(*values) == result


@pytest.mark.parametrize("function", [Waiter(), functools.partial(Waiter()), functools.partial(Waiter().__call__)])
def test_what_is_awaited_stays_so(tmp_path: Path, function: Any) -> None:
    made = replay.tool(name="wait")(function)
    assert inspect.iscoroutinefunction(made)

    async def program() -> int:
        return await made(3)  # type: ignore[no-any-return]

    for session in (replay.record(tmp_path / "t.jsonl"), replay.substitute(tmp_path / "t.jsonl")):
        with session:
            assert asyncio.run(program()) == 3


class Generating:
    """An object whose values come one by one."""

    def __call__(self) -> Any:
        """Give them."""
        yield 1


def test_what_can_be_no_tool_is_told_why() -> None:
    def never() -> NoReturn:
        raise AssertionError

    for function in (3, classmethod(never)):
        with pytest.raises(TypeError, match="cannot be called, so it cannot be a tool"):
            replay.tool(function)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="dict does not say what its parameters are"):
        replay.tool(dict)
    for generating in (Generating(), functools.partial(Generating())):
        with pytest.raises(TypeError, match="Generating is a generator"):
            replay.tool(generating)
