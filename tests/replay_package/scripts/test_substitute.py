"""How the start of a run is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

import replay

SECRET = "canary-4711-canary"  # noqa: S105 - no real one


def test_a_secret_in_agent_or_arguments_is_the_same_with_another_key(tmp_path: Path) -> None:
    """B11."""
    with replay.record(tmp_path / "t.jsonl", agent=f"bot {SECRET}", args=[{"key": SECRET}], secrets=[SECRET]):
        pass
    assert SECRET not in (tmp_path / "t.jsonl").read_text(encoding="utf-8")
    for secret in (SECRET, "another-secret"):
        with replay.substitute(tmp_path / "t.jsonl", agent=f"bot {secret}", args=[{"key": secret}], secrets=[secret]):
            pass


@pytest.mark.parametrize(("agent", "args", "path"), [(f"boss {SECRET}", [], "$.agent"), ("bot", [SECRET, 1], "$.args")])
def test_what_starts_otherwise_is_told_without_secrets(tmp_path: Path, agent: str, args: list[object], path: str) -> None:
    with replay.record(tmp_path / "t.jsonl", agent="bot", args=[]):
        pass
    with pytest.raises(replay.Divergence, match="<redacted>") as caught, \
            replay.substitute(tmp_path / "t.jsonl", agent=agent, args=args, secrets=[SECRET]):
        pass
    assert (caught.value.code, caught.value.path) == ("started_otherwise", path)
    assert SECRET not in str(caught.value)
