from __future__ import annotations

import pytest

from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import RoutedStatement


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("SELECT F(id), upper(name), d.Lower(1) FROM s", ["f", "d.lower"]),
        ("SELECT `f`(1), `d`.`g` (2), spark_catalog.d.h(3), a.b.c(4)", ["f", "d.g", "d.h"]),
        ("SELECT 1 FROM s WHERE NOT f(id) AND id IN (1) AND EXISTS (SELECT 1) ORDER BY g(id)", ["f", "g"]),
        ("SELECT CASE WHEN f(1) THEN g(2) ELSE h(3) END, -i(4), (k(5))", ["f", "g", "h", "i", "k"]),
        ("WITH f (a) AS (SELECT 1), g (b) AS (SELECT f(2)) SELECT * FROM f, g", ["f"]),
        ("SELECT TRY_CAST(a AS DECIMAL(9, 2)), CAST(b AS ARRAY<VARCHAR(3)>) FROM s GROUP BY CUBE(a), ROLLUP (b)", []),
        (
            "SELECT sum(a) OVER (ORDER BY b), count(*) FILTER (WHERE f(a)) FROM s GROUP BY GROUPING SETS ((a), (b))",
            ["f"],
        ),
        ("SELECT * FROM s PIVOT (sum(a) FOR b IN (1, 2))", []),
        ("SELECT * FROM s AS f(a, b) JOIN t g(c, d) ON f.a = g.c", []),
        ("SELECT * FROM (SELECT 1) f(a)", []),
        ("SELECT * FROM s LATERAL VIEW f(id) v AS x", ["f"]),
        ("SELECT x FROM s WHERE a LIKE f('x') AND b BETWEEN g(1) AND h(2)", ["f", "g", "h"]),
        ("FROM s |> WHERE f(id) |> SELECT g(id)", ["f", "g"]),
        ("UPDATE t SET a = f(a) WHERE d.g(b)", ["f", "d.g"]),
        ("MERGE INTO t USING s ON f(t.a) = s.a WHEN MATCHED THEN UPDATE SET a = g(1)", ["f", "g"]),
        ("INSERT INTO t SELECT f(1)", ["f"]),
        ("SELECT 'f(1)', `a(b)` /* g(2) */ FROM s -- h(3)", []),
    ],
)
def test_calls_of_functions_that_are_not_of_spark_are_found(text: str, calls: list[str]) -> None:
    statement = read(text)
    assert isinstance(statement, RoutedStatement)
    found = []
    for query in statement.queries:
        for call in query.functions:
            name = query.text[call.start : call.end].replace("`", "").replace(" ", "").lower()
            assert name.endswith(call.name)
            found.append(call.name if call.database is None else f"{call.database}.{call.name}")
    assert sorted(set(found)) == sorted(calls)
