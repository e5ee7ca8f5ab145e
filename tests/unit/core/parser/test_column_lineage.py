from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_hivex.core.parser.inspection import column_lineage
from airflow_hivex.core.parser.statements import TableName

COLUMNS = {
    "sales": ("id", "amount", "day"),
    "names": ("id", "name"),
    "totals": ("name", "total"),
    "parts": ("id", "ds"),
}


def columns_of(table: TableName) -> Sequence[str] | None:
    return COLUMNS.get(table.name)


def lineage_of(text: str) -> list[dict[str, set[str]]]:
    return [
        {column: {f"{table.name}.{name}" for table, name in sources} for column, sources in each.columns.items()}
        for each in column_lineage(text, columns_of, "shop")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "INSERT INTO totals SELECT n.name, SUM(s.amount) FROM sales s JOIN shop.names n ON n.id = s.id GROUP BY 1",
            {"name": {"names.name"}, "total": {"sales.amount"}},
        ),
        (
            "WITH x AS (SELECT id, amount * 2 AS a FROM sales) INSERT INTO totals SELECT CAST(id AS STRING), a FROM x",
            {"name": {"sales.id"}, "total": {"sales.amount"}},
        ),
        (
            "CREATE TABLE u AS SELECT id + amount AS b, 7 AS c FROM sales UNION ALL SELECT id, 8 FROM names",
            {"b": {"sales.id", "sales.amount", "names.id"}, "c": set()},
        ),
        ("CREATE TABLE u AS SELECT * FROM names", {"id": {"names.id"}, "name": {"names.name"}}),
        ("INSERT INTO parts PARTITION (ds = 'x') SELECT id FROM sales WHERE day = :day", {"id": {"sales.id"}}),
        ("INSERT INTO totals (total, name) SELECT amount, 'x' FROM sales", {"total": {"sales.amount"}, "name": set()}),
        ("INSERT INTO totals SELECT name, id FROM names@other", {"name": {"names.name"}, "total": {"names.id"}}),
    ],
)
def test_written_columns_have_the_columns_that_they_are_computed_from(text: str, expected: dict[str, set[str]]) -> None:
    assert lineage_of(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM sales",
        "INSERT INTO totals VALUES ('a', 1)",
        "INSERT INTO totals SELECT * FROM unknown_table",
        "INSERT INTO totals SELECT id FROM sales",
        "DELETE FROM sales WHERE id = 1",
    ],
)
def test_statements_whose_columns_are_not_known_are_skipped(text: str) -> None:
    assert lineage_of(text) == []
