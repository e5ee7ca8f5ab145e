"""UPDATE, DELETE and MERGE as the queries that find their rows."""

from __future__ import annotations

import pytest

from airflow_hivex.core.errors import InvalidParametersError, StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.predicates import ColumnReference, Comparison
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import ChangeAction, ChangeClause, ChangeQuery, ChangeRows, TableName


def change(text: str, parameters: dict[str, object] | None = None) -> ChangeRows:
    statement = read(text, parameters, database="default")
    assert isinstance(statement, ChangeRows)
    return statement


def rendered(part: ChangeQuery | None) -> str:
    """The query's text in one line, its tables called v0, v1, ..."""
    assert part is not None
    views = [f"v{index}" for index in range(len(part.query.references))]
    return " ".join(part.query.render(views).split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DELETE FROM t", "SELECT `t`.*, 0 AS `__clause` FROM v0 AS `t`"),
        ("delete from d.t where a = 1 or b", "SELECT `t`.*, 0 AS `__clause` FROM v0 AS `t` WHERE (a = 1 or b )"),
        (
            "DELETE FROM d.t WHERE d.t.a IN (SELECT x FROM u WHERE u.x = d.t.b)",
            "SELECT `t`.*, 0 AS `__clause` FROM v0 AS `t` "
            "WHERE (`t`.a IN (SELECT x FROM v1 AS `u` WHERE u.x = `t`.b) )",
        ),
        ("DELETE FROM t AS `x y` -- all of it", "SELECT `x y`.*, 0 AS `__clause` FROM v0 AS `x y`"),
        (
            "UPDATE t x SET a = a + 1, x.b = CASE WHEN c THEN 'w, WHERE' END WHERE c",
            "SELECT `x`.*, 0 AS `__clause`, CASE WHEN TRUE THEN (a + 1 ) END AS `__assigned_0_0`, "
            "CASE WHEN TRUE THEN (CASE WHEN c THEN 'w, WHERE' END ) END AS `__assigned_0_1` FROM v0 x WHERE (c )",
        ),
        (
            "UPDATE d.t SET d.t.a = (SELECT max(b) FROM u WHERE b > 1)",
            "SELECT `t`.*, 0 AS `__clause`, CASE WHEN TRUE THEN ((SELECT max(b) FROM v0 AS `u` WHERE b > 1) ) END "
            "AS `__assigned_0_0` FROM v1 AS `t`",
        ),
    ],
)
def test_the_query_of_an_update_or_delete(text: str, expected: str) -> None:
    statement = change(text)
    # A comment at the end of the target stays where it is.
    assert rendered(statement.matched).replace("`x y` -- all of it", "`x y`") == expected
    assert statement.target.name == "t"


def test_an_update_names_its_columns_and_what_restricts_its_rows() -> None:
    statement = change("UPDATE d.t SET a = :v, B = b WHERE ds = '1'", {"v": 3})
    assert (statement.operation, statement.target) == ("UPDATE", TableName("t", "d"))
    assert statement.matched.clauses == (ChangeClause(ChangeAction.UPDATE, ("a", "b")),)
    assert statement.target_reference.filters == (Comparison(ColumnReference("ds"), "=", "1"),)
    assert statement.matched.query.parameters == {"v"}
    with pytest.raises(InvalidParametersError, match=":v"):
        change("UPDATE t SET a = :v")


MERGE = """
MERGE INTO d.t AS a USING (SELECT * FROM s WHERE x > 1) b ON a.k = b.k AND a.ds = 1
WHEN MATCHED AND b.gone THEN DELETE
WHEN MATCHED THEN UPDATE SET v = b.v, w = (SELECT max(w) FROM u)
WHEN NOT MATCHED AND b.k > 0 THEN INSERT (k, v) VALUES (b.k, concat(b.v, '!'))
WHEN NOT MATCHED BY TARGET THEN INSERT *
"""


def test_the_queries_of_a_merge() -> None:
    statement = change(MERGE)
    assert statement.source is not None
    source = "SELECT *, monotonically_increasing_id() AS `__source_row` FROM (SELECT * FROM v AS `s` WHERE x > 1) b"
    assert statement.source.render(["v"]) == source
    assert rendered(statement.matched) == (
        "SELECT `a`.*, `b`.`__source_row`, CASE WHEN (b.gone ) THEN 0 WHEN TRUE THEN 1 END AS `__clause`, "
        "CASE WHEN `__clause` = 1 THEN (b.v ) END AS `__assigned_1_0`, "
        "CASE WHEN `__clause` = 1 THEN ((SELECT max(w) FROM v0 AS `u`) ) END AS `__assigned_1_1` "
        "FROM v1 AS a JOIN v2 AS `b` ON (a.k = b.k AND a.ds = 1 )"
    )
    assert rendered(statement.unmatched) == (
        "SELECT `b`.`__source_row`, CASE WHEN (b.k > 0 ) THEN 0 WHEN TRUE THEN 1 END AS `__clause`, "
        "CASE WHEN `__clause` = 0 THEN (b.k ) END AS `__assigned_0_0`, "
        "CASE WHEN `__clause` = 0 THEN (concat(b.v, '!') ) END AS `__assigned_0_1`, struct(`b`.*) AS `__source` "
        "FROM v0 AS `b`"
    )
    assert statement.matched.clauses[0] == ChangeClause(ChangeAction.DELETE)
    assert statement.unmatched is not None
    assert statement.unmatched.clauses == (
        ChangeClause(ChangeAction.INSERT, ("k", "v"), copied=("k",)),
        ChangeClause(ChangeAction.INSERT, by_name=True),
    )
    assert [str(each.table) for each in statement.others] == ["s", "u"]
    assert statement.target_reference.filters == (Comparison(ColumnReference("ds", "a"), "=", 1),)


def test_a_merge_that_asks_for_unmatched_target_rows_reads_all_of_the_target() -> None:
    statement = change(f"{MERGE} WHEN NOT MATCHED BY SOURCE AND a.v = 'x' THEN UPDATE SET v = NULL")
    assert statement.target_reference.filters == ()
    assert rendered(statement.unmatched_by_source) == (
        "SELECT `a`.*, CASE WHEN (a.v = 'x' ) THEN 0 END AS `__clause`, "
        "CASE WHEN `__clause` = 0 THEN (NULL ) END AS `__assigned_0_0` FROM v0 AS a"
    )


def test_a_source_can_have_names_for_its_columns() -> None:
    for source in ("u AS b (k, v)", "(SELECT 1, 2) b (k, v)", "range(3) b (k)"):
        statement = change(f"MERGE INTO t USING {source} ON t.k = b.k WHEN NOT MATCHED THEN INSERT (k) VALUES (b.k)")
        assert statement.source is not None
        assert statement.source.render(["v"] if source.startswith("u") else []).endswith(source.replace("u AS", "v AS"))
        assert rendered(statement.unmatched).endswith("AS `__assigned_0_0` FROM v0 AS `b`")


def test_a_source_that_is_a_table_keeps_its_name() -> None:
    statement = change("MERGE INTO t USING d.s ON t.k = d.s.k WHEN NOT MATCHED THEN INSERT VALUES (d.s.k, 1)")
    assert rendered(statement.matched) == (
        "SELECT `t`.*, `s`.`__source_row`, CAST(NULL AS INT) AS `__clause` "
        "FROM v0 AS `t` JOIN v1 AS `s` ON (t.k = `s`.k )"
    )
    assert statement.unmatched is not None
    assert statement.unmatched.clauses == (ChangeClause(ChangeAction.INSERT, None, 2),)
    assert [str(each.table) for each in statement.others] == ["d.s"]


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("DELETE t", 1, 8, "expected FROM"),
        ("DELETE FROM t WHERE", 1, 20, "expected a condition"),
        ("DELETE FROM t WHERE a > (1", 1, 21, "not closed"),
        ("DELETE FROM t WHERE a = 1) OR (b", 1, 26, "not opened"),
        ("DELETE FROM t WHERE a = 1 ORDER BY b LIMIT 1", 1, 27, "expected '"),
        ("DELETE FROM t AS", 1, 17, "an alias"),
        ("UPDATE t", 1, 9, "expected SET"),
        ("UPDATE t SET a", 1, 15, "expected '='"),
        ("UPDATE t SET a = , b = 1", 1, 18, "a value"),
        ("UPDATE t SET a = 1,", 1, 20, "a column"),
        ("UPDATE t SET a = 1, A = 2", 1, 21, "twice"),
        ("UPDATE t SET a = 1 WHERE a = 2 UNION ALL SELECT 1", 1, 32, "expected '"),
        ("UPDATE t\nSET a = 1 +", 2, 12, "not complete"),
        ("UPDATE t SET a = 1\nWHERE b = 'x' 7", 2, 15, "7"),
        ("MERGE INTO t USING (SELECT 1) ON true WHEN MATCHED THEN DELETE", 1, 31, "an alias for the source"),
        ("MERGE INTO t USING s WHEN MATCHED THEN DELETE", 1, 22, "expected ON"),
        ("MERGE INTO t USING s ON t.a = s.a", 1, 34, "WHEN"),
        ("MERGE INTO t USING s ON t.a = s.a WHERE t.b = 1 WHEN MATCHED THEN DELETE", 1, 35, "expected '"),
        ("MERGE INTO t USING s ON t.a = s.a JOIN u ON true WHEN MATCHED THEN DELETE", 1, 35, "expected '"),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN INSERT *", 1, 53, "DELETE or UPDATE SET"),
        ("MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN DELETE", 1, 57, "INSERT"),
        ("MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", 1, 80, "2 columns"),
        ("MERGE INTO t USING s ON 1 = 1 WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE", 1, 56, "only the last"),
        ("MERGE INTO t USING (SELECT 1 a) t ON true WHEN MATCHED THEN DELETE", 1, 12, "alias"),
        ("MERGE INTO d.t USING t ON d.t.a = 1 WHEN MATCHED THEN DELETE", 1, 12, "each an alias"),
    ],
)
def test_what_cannot_be_read_is_refused_at_its_place(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(StatementSyntaxError, match=reason) as error:
        read(text)
    assert (error.value.line, error.value.column) == (line, column)


def test_columns_that_a_merge_copies_are_known_by_name() -> None:
    statement = read(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING s AS n ON t.k = n.k "
        "WHEN MATCHED THEN UPDATE SET a = N.`A`, b = (b), c = n.c + 1, t.d = t.d "
        "WHEN NOT MATCHED THEN INSERT (k, e) VALUES (n.k, n.k) "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET f = f"
    )
    assert isinstance(statement, ChangeRows)
    assert statement.evolves
    assert [clause.copied for clause in statement.clauses] == [("a", "b"), ("k",), ()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("UPDATE t SET a.b = 1", "a whole column"),
        ("UPDATE t@y SET a = 1", "link"),
        ("MERGE INTO t@y USING s ON true WHEN MATCHED THEN DELETE", "link"),
        ("UPDATE t SET a = s.a FROM s WHERE s.id = t.id", "UPDATE has no FROM; MERGE INTO"),
        ("UPDATE t SET a = 1, b = (s.b) FROM s", "UPDATE has no FROM"),
        ("DELETE FROM t USING s WHERE s.id = t.id", "DELETE has no USING; MERGE INTO"),
    ],
)
def test_sql_of_others_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedStatementError, match=reason):
        read(text)


def test_from_within_a_value_is_not_that_of_an_update() -> None:
    read("UPDATE t SET a = a IS DISTINCT FROM 1, b = extract(YEAR FROM d), c = (SELECT max(c) FROM s) WHERE a = 1")
