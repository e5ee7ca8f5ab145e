"""Comparisons with ALL, ANY and SOME of a query, as Spark reads them."""

from __future__ import annotations

import pytest

from airflow_hivex.core.errors import UnsupportedStatementError
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select


def rendered(text: str) -> str:
    """Return the text of a query for Spark, with the counting of a comparison shortened."""
    statement = read(text)
    assert isinstance(statement, Select)
    names = [str(reference.table) for reference in statement.query.references]
    whole = statement.query.render(names)
    return whole.replace("count(`__held`) < count(*)", "N")


ALL = "(SELECT CASE WHEN count_if(NOT `__held`) > 0 THEN FALSE WHEN N THEN NULL ELSE TRUE END FROM (SELECT "
ANY = "(SELECT CASE WHEN count_if(`__held`) > 0 THEN TRUE WHEN N THEN NULL ELSE FALSE END FROM (SELECT "
END = " AS `__compared`(`__value`)))"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = ANY (SELECT 1)", f"{ANY}a = `__value` AS `__held` FROM (SELECT 1){END}"),
        ("a == some (VALUES (1))", f"{ANY}a == `__value` AS `__held` FROM (VALUES (1)){END}"),
        ("NOT a <> ALL (SELECT 1)", f"NOT {ALL}a <> `__value` AS `__held` FROM (SELECT 1){END}"),
        ("a > ALL (SELECT 1)", f"{ALL}a > `__value` AS `__held` FROM (SELECT 1){END}"),
        (
            "b AND t.a + f(1, 2) <= SOME (SELECT 1) OR c",
            f"b AND {ANY}t.a + f(1, 2) <= `__value` AS `__held` FROM (SELECT 1){END} OR c",
        ),
        (
            "NOT CASE WHEN a > 1 THEN b END != ANY ((SELECT 1))",
            f"NOT {ANY}CASE WHEN a > 1 THEN b END != `__value` AS `__held` FROM ((SELECT 1)){END}",
        ),
        (
            "a > ALL (SELECT 1 WHERE 2 < ANY (SELECT 3))",
            f"{ALL}a > `__value` AS `__held` FROM (SELECT 1 "
            f"WHERE {ANY}2 < `__value` AS `__held` FROM (SELECT 3){END}){END}",
        ),
        ("!a > ALL (SELECT 1)", f"!{ALL}a > `__value` AS `__held` FROM (SELECT 1){END}"),
        ("t.set + t.end = ANY (SELECT 1)", f"{ANY}t.set + t.end = `__value` AS `__held` FROM (SELECT 1){END}"),
        ("a LIKE ANY ('x', 'y')", "a LIKE ANY ('x', 'y')"),
    ],
)
def test_comparisons_with_rows_are_written_for_spark(condition: str, expected: str) -> None:
    assert rendered(f"SELECT * FROM t WHERE {condition}") == f"SELECT * FROM t AS `t` WHERE {expected}"


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("a = b > ALL (SELECT 1)", "in parentheses"),
        ("a IS NULL > ANY (SELECT 1)", "in parentheses"),
        ("a IS NOT NULL = ANY (SELECT true)", "in parentheses"),
        ("a IS DISTINCT FROM b = ANY (SELECT true)", "in parentheses"),
        ("max(a) > ALL (SELECT 1)", "sub-query of FROM"),
    ],
)
def test_operands_without_a_certain_meaning_are_refused(condition: str, reason: str) -> None:
    with pytest.raises(UnsupportedStatementError, match=reason):
        read(f"SELECT a FROM t GROUP BY a HAVING {condition}")
