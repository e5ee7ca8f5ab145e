"""The columns of a query that are constant texts."""

from __future__ import annotations

import pytest

from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Insert


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT 'a', b, ('c') AS c, NULL FROM u", (0, 2, 3)),
        ("SELECT 'a', u.*, 'b', c, 'd' FROM u", (-3, -1, 0)),
        ("SELECT 'a', explode(array(1)), 'b'", (-1, 0)),
        ("SELECT 'a', stack(1, 2, 3) AS (x, y), 'b'", (-1, 0)),
        ("SELECT 'a', 'b' UNION ALL SELECT 'c', d FROM u", (0,)),
        ("(SELECT 'a' UNION ALL SELECT NULL)", (0,)),
        ("WITH w AS (SELECT 1) SELECT 'a' FROM w", (0,)),
        ("SELECT * FROM (SELECT 'a')", ()),
        ("SELECT concat('a', 'b'), 'a' || 'b', CAST('1' AS INT), DATE'2020-01-01'", ()),
        ("VALUES ('a', upper('b')), ('c', 'd')", (0,)),
        ("VALUES ('1'), (2) LIMIT 1", ()),
        ("SELECT :text, :number, :nothing", (0, 2)),
        ("VALUES (:text, :number, upper('b'), 'b')", (0, 3)),
    ],
)
def test_constant_texts_are_known_by_their_places(query: str, columns: tuple[int, ...]) -> None:
    parameters = {"text": "x", "number": 1, "nothing": None}
    used = {name: value for name, value in parameters.items() if f":{name}" in query}
    statement = read(f"INSERT INTO t {query}", used)
    assert isinstance(statement, Insert)
    assert statement.query.texts == columns
