"""Who may change a provider's index."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_stdlib.mesh.errors import Refusal
from rag_stdlib.mesh.operators import NotANodeId, Operators, parse

ONE, TWO = "a1" * 32, "0f" * 32
IDS = st.lists(st.binary(min_size=32, max_size=32).map(bytes.hex), max_size=4)
BETWEEN = st.text(alphabet=", \t\r\n", min_size=1, max_size=4)


@pytest.mark.parametrize("listed", ["", "  ", ",", " ,\n, ", [], [""], ()])
def test_a_blank_list_is_nobody(listed: str | list[str]) -> None:
    operators = parse(listed)
    assert operators == Operators() == Operators(frozenset())
    with pytest.raises(Refusal):
        operators.require(ONE)


@pytest.mark.parametrize("listed", [
    f"{ONE},{TWO}", f"{ONE} {TWO}", f" {ONE} ,\t{TWO}\n", f"{ONE.upper()}\n{TWO}", f",,{ONE},,{TWO},,", f"{ONE},{TWO},{ONE}",
    [ONE, TWO], [f"{ONE}, {TWO}"], (ONE.upper(), "", TWO),
])
def test_ids_in_any_case_are_separated_by_commas_and_white_space(listed: str | list[str]) -> None:
    assert parse(listed).ids == {ONE, TWO}


@given(ids=IDS, data=st.data())
def test_whatever_stands_between_ids_they_are_all_read(ids: list[str], data: st.DataObject) -> None:
    listed = "".join(data.draw(st.sampled_from([node, node.upper()])) + data.draw(BETWEEN) for node in ids)
    assert parse(listed).ids == set(ids)


@pytest.mark.parametrize("entry", [
    ONE[:-1], ONE + "a", "g" * 64, f"0x{ONE}", f"{ONE};{TWO}", "*", "nobody", f'"{ONE}"', "٣" * 64, f"{ONE}\u200b", "x" * 5_000,
])
def test_a_malformed_entry_is_refused_by_name(entry: str) -> None:
    with pytest.raises(NotANodeId, match="not_64_hex") as caught:
        parse(f"{TWO}, {entry}")
    assert caught.value.name == "not_64_hex"
    assert caught.value.entry == entry
    assert len(str(caught.value)) < 200


def test_an_operator_passes_and_nobody_else() -> None:
    operators = parse(ONE)
    operators.require(ONE)
    for caller in (TWO, None, "", ONE[:-1], f"{ONE}\n"):
        with pytest.raises(Refusal) as caught:
            operators.require(caller)
        assert caught.value.detail == "not_an_operator"
