"""The words of a command as a trace holds them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.runs.words import withheld


@pytest.mark.parametrize(("words", "written"), [
    (["prog", "--password", "x", "y"], ["prog", "--password", "<redacted>", "y"]),
    (["prog", "--api-key=x", "--api_key=", "-token", "x"], ["prog", "--api-key=<redacted>", "--api_key=", "-token", "<redacted>"]),
    (["env", "API_KEY=x", "prog"], ["env", "API_KEY=<redacted>", "prog"]),
    (["prog", "--password", "--verbose", "x"], ["prog", "--password", "--verbose", "x"]),
    (["prog", "--password", "-x", "--token", "a=b"], ["prog", "--password", "<redacted>", "--token", "<redacted>"]),
    (["prog", "--password", ""], ["prog", "--password", ""]),
    (["prog", "-p", "x", "token", "y", "--tokens", "5", "--name=x"], ["prog", "-p", "x", "token", "y", "--tokens", "5", "--name=x"]),
    (["prog", "--password"], ["prog", "--password"]), ([], []),
])
def test_what_a_telling_name_carries_is_the_mark(words: list[str], written: list[str]) -> None:
    """Finding B10."""
    assert withheld(words) == written


@given(st.lists(st.sampled_from(["--password", "--token=x", "--token", "a", "-b", "--c", "<redacted>", "KEY=1", "\udcff"])))
def test_it_is_the_same_done_twice_and_keeps_the_number_of_words(words: list[str]) -> None:
    once = withheld(words)
    assert withheld(once) == once
    assert len(once) == len(words)
