"""Whether the text of a query lists the columns of its result."""

from __future__ import annotations

import pytest

from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT t.id, u.id FROM t, u", True),
        ("(SELECT id, count(*) FROM (SELECT * FROM t) GROUP BY id) UNION ALL SELECT 1, 2", True),
        ("WITH q AS (SELECT * FROM t) SELECT id, id FROM q", True),
        ("SELECT * FROM t, u", False),
        ("SELECT t.*, 1 FROM t", False),
        ("SELECT 1, 2 UNION SELECT * FROM t", False),
        ("SELECT posexplode(l) FROM t", False),
        ("SELECT inline(l) AS (a, b) FROM t", False),
        ("FROM t JOIN u", False),
        ("TABLE t", False),
        ("FROM t |> SELECT id, id", False),
    ],
)
def test_results_with_listed_columns_are_known(text: str, expected: bool) -> None:
    statement = read(text)
    assert isinstance(statement, Select)
    assert statement.query.lists_columns is expected
