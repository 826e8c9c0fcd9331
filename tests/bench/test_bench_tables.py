"""Numbers as they are written, and the tables they stand in."""

from __future__ import annotations

import pytest
from harness.tables import NOTHING, cell, number, ratio, table
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(("value", "written"), [
    (None, NOTHING), (0, "0"), (1.0, "1.00"), (0.0585, "0.0585"), (0.1, "0.100"), (12.345, "12.3"), (123.45, "123"), (9.999, "10.0"), (99.96, "100"),
    (1234.6, "1,235"), (104_000.0, "104,000"), (4e6, "4,000,000"), (0.00001234, "0.0000123")])
def test_numbers_have_three_digits_and_no_exponent(value: float | None, written: str) -> None:
    assert number(value) == written


@given(st.floats(1e-6, 1e9))
def test_a_written_number_is_the_number_to_its_digits(value: float) -> None:
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.006)


def test_ratios_need_both_figures() -> None:
    assert ratio(3.0, 2.0) == "1.5 x"
    assert (ratio(None, 2.0), ratio(3.0, None), ratio(3.0, 0)) == (NOTHING,) * 3


def test_a_table_has_a_line_for_each_row_and_no_stray_bars() -> None:
    written = table(("name", "figure"), [("a|b\nc", "1"), ("d", "2")])
    assert written == "| name | figure |\n|---|---:|\n| a\\|b c | 1 |\n| d | 2 |\n"
    assert cell(" x \n y ") == "x y"


def test_a_row_of_other_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells under 1 headings"):
        table(("name",), [("a", "b")])
