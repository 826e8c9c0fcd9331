"""The table of errors is closed: what is raised is in it, what is in it is raised, and the page shows it."""

from __future__ import annotations

import ast
import string
from pathlib import Path

import pytest

from rag_stdlib.errors import ERRORS, Failure, errors_markdown, fail, rag_error

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "rag_stdlib").rglob("*.py"))


def fields_of(code: str) -> set[str]:
    return {name.partition(".")[0] for _, name, _, _ in string.Formatter().parse(ERRORS[code].message) if name}


def made() -> list[tuple[str, str, set[str]]]:
    """List (place, code, fields) of every error made with a code written out."""
    return [
        (f"{file.relative_to(ROOT)}:{node.lineno}", str(node.args[0].value), {str(key.arg) for key in node.keywords})
        for file in SOURCES for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"fail", "rag_error"}
        and isinstance(node.args[0], ast.Constant)
    ]


def test_every_error_made_is_of_the_table_and_fills_its_template() -> None:
    places = made()
    assert len(places) > 60
    assert [(place, code) for place, code, _ in places if code not in ERRORS] == []
    assert [(place, code, fields ^ fields_of(code)) for place, code, fields in places if fields != fields_of(code)] == []


def test_every_code_of_the_table_is_used() -> None:
    written: set[str] = set()
    for file in SOURCES:
        if file.name != "errors.py":
            nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            written |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert [code for code in ERRORS if code not in written] == []


def test_the_rows_are_in_order() -> None:
    for code, row in ERRORS.items():
        assert row.code == code
        assert code.replace("_", "").isalnum()
        assert code == code.lower()
        assert row.fix in {"caller", "operator", "nobody"}
        assert row.message
        assert row.meaning.endswith((".", "?")), code
    assert [row.code for row in ERRORS.values() if row.fix == "nobody"] == ["internal"]


def test_a_failure_carries_its_error() -> None:
    failure = fail("invalid_doc_id", reason="must not be blank")
    assert isinstance(failure, Failure)
    assert failure.error == str(failure) == "doc_id must not be blank"
    assert (failure.error.code, failure.error.fix) == ("invalid_doc_id", "caller")


@pytest.mark.parametrize("code", ["no_such_code", "", "Invalid_limit"])
def test_an_unknown_code_is_a_defect(code: str) -> None:
    with pytest.raises(KeyError):
        rag_error(code)


def test_a_missing_field_is_a_defect() -> None:
    with pytest.raises(KeyError):
        fail("not_found", kind="document")


def test_the_page_is_the_table() -> None:
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == errors_markdown()


def test_the_page_has_a_row_for_each_code() -> None:
    rows = [line for line in errors_markdown().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(ERRORS)
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)
