from __future__ import annotations

import pytest

from airflow_hivex.core.errors import InvalidParametersError, StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import CreateView, Insert, Query, Select, TableName


def query(text: str, **parameters: object) -> Query:
    statement = read(text, parameters or None, database="here")
    assert isinstance(statement, Select | Insert | CreateView)
    assert statement.query is not None
    return statement.query


def tables(found: Query) -> list[str]:
    return [str(each.table) for each in found.references]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("FROM a |> JOIN d.b ON a.x = b.x |> LEFT JOIN (FROM c |> WHERE y = 1) AS c USING (z)", ["a", "d.b", "c"]),
        ("TABLE a |> UNION ALL (TABLE b |> LIMIT 1) |> EXCEPT TABLE c", ["a", "b", "c"]),
        ("WITH a AS (FROM b |> LIMIT 1) FROM a |> WHERE x IN (FROM a |> SELECT y) |> CROSS JOIN c", ["b", "c"]),
        (
            "SELECT * FROM a |> AGGREGATE count(*), max((SELECT 1 FROM b)) GROUP BY x AS y, (FROM c |> SELECT max(z))",
            "abc",
        ),
        (
            "FROM a |> SET x = (FROM b |> AGGREGATE max(y)), z = 1 |> DROP y |> EXTEND x AS w |> AS v |> SELECT v.w",
            "ab",
        ),
        ("FROM a |> PIVOT (sum(x) FOR y IN (1, 2)) |> TABLESAMPLE (5 ROWS) |> ORDER BY 1 |> OFFSET 1", "a"),
        ("FROM a |> AGGREGATE sum(x) GROUP BY GROUPING SETS ((y), ()) |> WHERE EXISTS (FROM b)", "ab"),
        ("FROM a |> SELECT x, sum(y) AS s GROUP BY x, (FROM b |> SELECT max(z)) |> WHERE s > 1", "ab"),
        ("FROM t@y |> WHERE t@y.x = 1 |> SELECT x", ["t@y"]),
        ("INSERT INTO t FROM a |> SELECT x, y", "a"),
        ("CREATE VIEW v AS FROM a |> SELECT x", "a"),
    ],
)
def test_tables_of_a_query_with_pipes_are_found(text: str, names: list[str] | str) -> None:
    assert tables(query(text)) == [*names]


def test_conditions_prune_where_every_row_must_satisfy_them() -> None:
    def pruned(text: str) -> list[int]:
        return [len(each.filters) for each in query(text).references]

    assert pruned("FROM a |> WHERE p = 1 |> SELECT x") == [1]
    assert pruned("FROM a |> JOIN b USING (x) |> WHERE a.p = 1 AND b.p = 2") == [1, 1]
    assert pruned("FROM a |> LEFT JOIN b USING (x) |> WHERE a.p = 1 |> SELECT x") == [1, 0]
    # A condition behind these is not one of each row of the table.
    assert pruned("FROM a |> LIMIT 1 |> WHERE p = 1") == [0]
    assert pruned("FROM a |> EXTEND row_number() OVER (ORDER BY x) AS p2 |> WHERE p = 1") == [0]
    assert pruned("FROM a |> SET p = 2 |> WHERE p = 2") == [0]
    assert pruned("FROM a |> WHERE p = 1 |> JOIN b ON a.x = b.x") == [1, 0]


def test_the_text_of_a_query_with_pipes_is_kept() -> None:
    found = query("FROM d.a |> WHERE d.a.p = :p  |> SELECT a.x", p=1)
    assert found.render(["view"]) == "FROM view AS `a` |> WHERE `a`.p = :p  |> SELECT a.x"
    assert found.parameters == {"p"}


def test_table_qualifies_the_columns_behind_a_pipe() -> None:
    assert query("TABLE d.a |> WHERE a.x = d.a.y").render(["view"]) == "FROM view AS `a` |> WHERE a.x = `a`.y"
    assert (
        query("FROM a |> UNION ALL TABLE b |> LIMIT 1").render("vw") == "FROM v AS `a` |> UNION ALL TABLE w |> LIMIT 1"
    )


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("FROM a |> FOO x", 11, "FOO is not an operator of the pipe syntax"),
        ("FROM a |> |> LIMIT 1", 8, "an operator of the pipe syntax stands between"),
        ("FROM a |> SET x", 15, "takes column = expression"),
    ],
)
def test_pipes_that_cannot_be_read_are_refused_at_their_place(text: str, column: int, reason: str) -> None:
    with pytest.raises(StatementSyntaxError, match=reason) as error:
        read(text)
    assert error.value.column == column


def test_row_ids_and_pipes_do_not_go_together() -> None:
    with pytest.raises(UnsupportedStatementError, match="ROW__ID and the pipe syntax"):
        read("FROM a |> SELECT ROW__ID")


def test_a_name_may_be_a_constant_or_a_marker() -> None:
    found = query(
        "SELECT IDENTIFIER('x') FROM IDENTIFIER('d' || '.a') JOIN IDENTIFIER(:b) WHERE y = :y", b="`B c`", y=1
    )
    assert [each.table for each in found.references] == [TableName("a", "d"), TableName("b c")]
    assert found.parameters == {"y"}
    start = found.text.index("JOIN")
    assert start == "SELECT IDENTIFIER('x') FROM IDENTIFIER('d' || '.a') JOIN".index("JOIN")
    assert read("DROP TABLE IDENTIFIER(:t)", {"t": "d.t@y"}) == read("DROP TABLE d.t@y")


@pytest.mark.parametrize(
    ("name", "reason"), [("'a b'", "'a b' in IDENTIFIER is not a valid name"), ("''", "not a valid name")]
)
def test_a_constant_that_is_no_name_is_refused(name: str, reason: str) -> None:
    with pytest.raises(StatementSyntaxError, match=reason):
        read(f"SELECT * FROM IDENTIFIER({name})")


def test_a_name_that_is_not_known_in_the_text_is_refused() -> None:
    with pytest.raises(UnsupportedStatementError, match="takes strings and :name markers"):
        read("SELECT * FROM IDENTIFIER(lower('T'))")
    with pytest.raises(UnsupportedStatementError, match="only with a value for the marker"):
        read("SELECT * FROM IDENTIFIER(:t)")
    with pytest.raises(InvalidParametersError, match="IDENTIFIER takes a text"):
        read("SELECT * FROM IDENTIFIER(:t)", {"t": 1})
