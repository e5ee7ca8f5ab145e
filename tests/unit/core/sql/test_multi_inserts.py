from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError
from airflow_hivex.core.model.predicates import ColumnReference, Comparison
from airflow_hivex.core.model.statements import MultiInsert, TableName
from airflow_hivex.core.sql.reader import read

X = Comparison(ColumnReference("x"), ">", 0)


def test_all_targets_and_sources_are_found() -> None:
    statement = read(
        "FROM s JOIN d.u ON s.id = u.id INSERT INTO a SELECT s.id "
        "INSERT OVERWRITE TABLE d.b PARTITION (ds = '1') SELECT s.id WHERE s.id IN (SELECT id FROM v)"
    )
    assert isinstance(statement, MultiInsert)
    assert statement.targets == (TableName("a"), TableName("b", "d"))
    assert [str(reference.table) for reference in statement.references] == ["s", "d.u", "v"]


def test_only_what_every_branch_filters_restricts_the_source() -> None:
    statement = read(
        "FROM s INSERT INTO a SELECT x WHERE x > 0 AND ds = 1 INSERT INTO b SELECT x WHERE ds = 2 AND x > 0"
    )
    assert isinstance(statement, MultiInsert)
    assert statement.references[0].filters == (X,)


@pytest.mark.parametrize(
    "text", ["FROM s INSERT INTO a VALUES (1)", "FROM s INSERT a SELECT 1", "FROM s INSERT INTO a"]
)
def test_branches_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(StatementSyntaxError):
        read(text)
