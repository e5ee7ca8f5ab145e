from __future__ import annotations

from typing import TypeVar

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.parser.grammar.views import definition, expanded, query_of
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    ChangeRows,
    CreateView,
    DropView,
    RenameTable,
    RoutedStatement,
    Select,
    SetTableProperties,
    TableName,
    TableReference,
)

S = TypeVar("S", bound=RoutedStatement)

VIEWS = {"w": "SELECT `a` AS `a` FROM (SELECT a FROM `d`.`t`, `d`.`u`\n)"}


def expand(statement: S, parameters: dict[str, object] | None = None) -> S:
    def text_of(reference: TableReference) -> str | None:
        return VIEWS.get(reference.table.name)

    return expanded(statement, text_of, parameters or {}, "default")


def select(text: str, parameters: dict[str, object] | None = None) -> str:
    statement = read(text, parameters, database="default")
    assert isinstance(statement, Select)
    query = expand(statement, parameters).query
    return " ".join(query.render([str(reference.table).upper() for reference in query.references]).split())


INNER = "(SELECT `a` AS `a` FROM (SELECT a FROM D.T AS `t`, D.U AS `u` ))"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM w", f"SELECT * FROM {INNER} AS `w`"),
        ("SELECT x.a FROM w x, t", f"SELECT x.a FROM {INNER} x, T AS `t`"),
        ("SELECT default.w.a FROM default.w WHERE w.a = 1", f"SELECT `w`.a FROM {INNER} AS `w` WHERE w.a = 1"),
        ("SELECT 1 WHERE EXISTS (SELECT * FROM w)", f"SELECT 1 WHERE EXISTS (SELECT * FROM {INNER} AS `w`)"),
        ("WITH w AS (SELECT 1) SELECT * FROM w", "WITH w AS (SELECT 1) SELECT * FROM w"),
        ("SELECT * FROM t", "SELECT * FROM T AS `t`"),
        ("TABLE t", "TABLE T"),
        ("TABLE w UNION (TABLE default.w)", f"SELECT * FROM {INNER} UNION (SELECT * FROM {INNER})"),
    ],
)
def test_a_view_becomes_its_query(text: str, expected: str) -> None:
    assert select(text) == expected


def test_a_sample_of_a_view_is_refused() -> None:
    with pytest.raises(UnsupportedStatementError, match="TABLESAMPLE of view w"):
        select("SELECT * FROM w TABLESAMPLE (5 ROWS)")


def test_markers_stay() -> None:
    assert select("SELECT :x FROM w", {"x": 1}) == f"SELECT :x FROM {INNER} AS `w`"


def test_target_and_source_of_a_merge_are_still_found() -> None:
    statement = read(
        "MERGE INTO t USING (SELECT * FROM w) s ON t.a = s.a AND t.a NOT IN (SELECT a FROM w) WHEN MATCHED THEN DELETE"
    )
    assert isinstance(statement, ChangeRows)
    found = expand(statement)
    assert found.target_reference.table == TableName("t")
    assert [str(reference.table) for reference in found.others] == ["d.t", "d.u", "d.t", "d.u"]


def test_the_text_that_is_kept_names_databases_and_columns() -> None:
    statement = read("SELECT t.*, count(*) FROM t JOIN e.u JOIN l@y -- the end", database="d")
    assert isinstance(statement, Select)
    names = [TableName("t", "d"), TableName("u", "e"), TableName("l", "d", "y")]
    text = definition(statement.query, names, [Column("a", "int"), Column("count(1)", "int")], ["x", "n"])
    assert " ".join(text.split()) == (
        "SELECT `a` AS `x`, `count(1)` AS `n` FROM "
        "(SELECT t.*, count(*) FROM `d`.`t` AS `t` JOIN `e`.`u` AS `u` JOIN `d`.`l`@`y` AS `l` )"
    )
    assert [each.table for each in query_of(text).references] == names


def test_statements_about_views() -> None:
    made = read("CREATE OR REPLACE VIEW d.v (x COMMENT 'c', y) COMMENT 'all' TBLPROPERTIES ('k' = 1) AS (SELECT 1, 2)")
    assert isinstance(made, CreateView)
    assert (made.view, made.columns, made.or_replace) == (TableName("v", "d"), (("x", "c"), ("y", None)), True)
    assert (made.comment, made.properties, made.must_exist) == ("all", {"k": "1"}, False)
    changed = read("ALTER VIEW v AS SELECT 1 AS x")
    assert isinstance(changed, CreateView)
    assert changed.must_exist
    assert read("ALTER VIEW v RENAME TO d.w") == RenameTable(TableName("v"), TableName("w", "d"))
    assert read("ALTER VIEW v UNSET TBLPROPERTIES ('k')") == SetTableProperties(TableName("v"), unset=("k",))
    assert read("DROP VIEW IF EXISTS v") == DropView(TableName("v"), if_exists=True)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW v",
        "CREATE VIEW v SELECT 1",
        "CREATE VIEW v () AS SELECT 1",
        "CREATE VIEW v AS INSERT INTO t SELECT 1",
        "CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1",
        "CREATE VIEW v COMMENT 'a' COMMENT 'b' AS SELECT 1",
        "ALTER VIEW v",
        "DROP VIEW",
    ],
)
def test_what_is_no_view_is_refused(text: str) -> None:
    with pytest.raises(StatementSyntaxError):
        read(text)


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("CREATE VIEW v AS SELECT :x AS x", {"x": 1}),
        ("CREATE VIEW v@y AS SELECT 1 AS x", None),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 AS x", None),
    ],
)
def test_views_of_other_releases_are_refused(text: str, parameters: dict[str, object] | None) -> None:
    with pytest.raises(UnsupportedStatementError):
        read(text, parameters)
