"""Lists of VALUES, value by value."""

from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Insert, Query


def query(text: str, **parameters: object) -> Query:
    statement = read(f"INSERT INTO t {text}", parameters or None)
    assert isinstance(statement, Insert)
    return statement.query


@pytest.mark.parametrize(
    ("text", "cells", "types"),
    [
        (
            "VALUES (1, 'x'), (1.5, NULL)",
            [["1", "'x'"], ["1.5", "NULL"]],
            [["int", "string"], ["decimal(2,1)", "void"]],
        ),
        ("VALUES 1, -2L", [["1"], ["-2L"]], [["int"], ["bigint"]]),
        ("VALUES (1, f(2, 3)), (('x'), a[1, 2] + 1)", [["1", "f(2, 3)"], ["('x')", "a[1, 2] + 1"]], None),
        ("VALUES ((1, 'x')), ((2, upper('y')))", [["1", "'x'"], ["2", "upper('y')"]], None),
        ("(VALUES (1), (DATE'2020-01-01'))", [["1"], ["DATE'2020-01-01'"]], [["int"], ["date"]]),
        ("VALUES (1), (2D) AS v (a)", [["1"], ["2D"]], [["int"], ["double"]]),
        ("VALUES (1, 2F) v", [["1", "2F"]], [["int", None]]),
        ("VALUES 1 + (1), (2)", [["1 + (1)"], ["2"]], [[None], ["int"]]),
        ("VALUES (1, DEFAULT), (2, 'x')", [["1", "NULL"], ["2", "'x'"]], [["int", "void"], ["int", "string"]]),
    ],
)
def test_the_values_of_a_list_are_known_by_their_places(
    text: str, cells: list[list[str]], types: list[list[str | None]] | None
) -> None:
    found = query(text)
    assert [list(row) for row in found.render_values()] == cells
    assert found.values is not None
    if types is not None:
        assert [list(row) for row in found.values.types] == types


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "VALUES (1), ('x') LIMIT 1",
        "VALUES (1), ('x') ORDER BY 1",
        "VALUES (1) UNION ALL VALUES ('x')",
        "VALUES (struct(1, 2)), ((3, 4))",
        "VALUES (1), ((SELECT max(a) FROM u))",
        "SELECT * FROM VALUES (1), ('x')",
    ],
)
def test_a_query_that_is_more_than_a_list_has_no_values_of_its_own(text: str) -> None:
    assert query(text).values is None


@pytest.mark.parametrize("second", ["'x', 'y'", "'x', upper('y')"])
def test_rows_of_several_lengths_are_refused_with_the_row(second: str) -> None:
    with pytest.raises(StatementSyntaxError, match="row 2 has 2 values, the rows before have 1"):
        query(f"VALUES (1), ({second})")


def test_markers_are_constants_of_a_list() -> None:
    found = query("VALUES (:a, upper('x')), (:b, NULL)", a=1, b="x")
    assert found.values is not None
    assert [list(row) for row in found.values.types] == [["int", None], ["string", "void"]]


def test_an_alias_names_the_columns_of_a_list() -> None:
    found = query("BY NAME VALUES (1, 'x'), (2D, 'y') AS v(a, `b c`)")
    assert found.values is not None
    assert found.values.names == ("a", "b c")
