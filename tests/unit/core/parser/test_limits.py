from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t ORDER BY a LIMIT 5, 10", "SELECT a FROM v AS `t` ORDER BY a LIMIT 10 OFFSET 5"),
        (
            "SELECT * FROM (SELECT a FROM t limit 1,2) x LIMIT 3 , 4 -- rows",
            "SELECT * FROM (SELECT a FROM v AS `t` limit 2 OFFSET 1) x LIMIT 4 OFFSET 3",
        ),
        ("SELECT a FROM t LIMIT :skipped, :count", "SELECT a FROM v AS `t` LIMIT :count OFFSET :skipped"),
        ("SELECT a FROM t |> LIMIT 5, 10", "SELECT a FROM v AS `t` |> LIMIT 10 OFFSET 5"),
        ("SELECT array((SELECT a FROM t LIMIT 1), 2)", "SELECT array((SELECT a FROM v AS `t` LIMIT 1), 2)"),
        ("SELECT a FROM t ORDER BY limit, 3", "SELECT a FROM v AS `t` ORDER BY limit, 3"),
    ],
)
def test_offset_before_a_count_goes_behind_it(text: str, expected: str) -> None:
    statement = read(text, {"skipped": 1, "count": 2} if ":skipped" in text else None)
    assert isinstance(statement, Select)
    assert statement.query.render(["v"]) == expected


@pytest.mark.parametrize("text", ["SELECT a FROM t LIMIT 5, 10 OFFSET 3", "SELECT a FROM t LIMIT 5,"])
def test_second_offset_and_missing_count_are_errors(text: str) -> None:
    with pytest.raises(StatementSyntaxError):
        read(text)
