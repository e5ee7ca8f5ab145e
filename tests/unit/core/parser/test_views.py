from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.parser.grammar.views import definition, query_of
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    CreateView,
    DropView,
    RenameTable,
    Select,
    SetTableProperties,
    TableName,
)


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
