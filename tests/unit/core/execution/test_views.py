"""Views in queries: the name of a view is replaced by its query."""

from __future__ import annotations

from typing import TypeVar

import pytest

from airflow_hivex.core.errors import UnsupportedStatementError
from airflow_hivex.core.execution.binding import Expansion
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import ChangeRows, RoutedStatement, Select, TableName

S = TypeVar("S", bound=RoutedStatement)

VIEWS = {"w": "SELECT `a` AS `a` FROM (SELECT a FROM `d`.`t`, `d`.`u`\n)"}


def expand(statement: S, parameters: dict[str, object] | None = None) -> S:
    texts = {(each.table, each.changes): VIEWS.get(each.table.name) for each in statement.references}
    return Expansion(texts, parameters or {}, "default").of(statement)


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
