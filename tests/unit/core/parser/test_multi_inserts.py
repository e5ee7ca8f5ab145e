from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.predicates import ColumnReference, Comparison
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Insert, MultiInsert, TableName

X = Comparison(ColumnReference("x"), ">", 0)


def multi(text: str) -> MultiInsert:
    statement = read(text)
    assert isinstance(statement, MultiInsert)
    return statement


def rendered(statement: MultiInsert) -> list[str]:
    """The text of each INSERT's query, its tables numbered."""
    return [
        " ".join(each.query.render([f"v{number}" for number in range(len(each.query.references))]).split())
        for each in statement.inserts
    ]


def test_all_targets_and_sources_are_found() -> None:
    statement = multi(
        "FROM s JOIN d.u ON s.id = u.id INSERT INTO a SELECT s.id "
        "INSERT OVERWRITE TABLE d.b PARTITION (ds = '1') IF NOT EXISTS (x) SELECT s.id WHERE s.id IN (SELECT id FROM v)"
    )
    assert statement.targets == (TableName("a"), TableName("b", "d"))
    first, second = statement.inserts
    assert (first.overwrite, first.if_not_exists, first.columns, first.partition) == (False, False, None, ())
    assert (second.overwrite, second.if_not_exists, second.columns, second.partition) == (True, True, ("x",), ("ds",))
    assert [str(reference.table) for reference in statement.references] == ["s", "d.u", "s", "d.u", "v"]
    assert rendered(statement) == [
        "FROM v0 AS `s` JOIN v1 AS `u` ON s.id = u.id SELECT s.id",
        "FROM v0 AS `s` JOIN v1 AS `u` ON s.id = u.id SELECT s.id WHERE s.id IN (SELECT id FROM v2 AS `v`)",
    ]


def test_every_insert_has_its_own_filters() -> None:
    statement = multi("FROM s INSERT INTO a SELECT x WHERE x > 0 AND ds = 1 INSERT INTO b SELECT x WHERE x > 0")
    first, second = statement.references
    assert first.filters == (X, Comparison(ColumnReference("ds"), "=", 1))
    assert second.filters == (X,)


@pytest.mark.parametrize(
    ("beginning", "sources", "expected"),
    [
        ("FROM (SELECT x FROM t) s", ["SELECT x FROM t"], "FROM v0 s SELECT s.x"),
        ("FROM (SELECT x FROM t)", ["SELECT x FROM t"], "FROM v0 AS `source 0` SELECT s.x"),
        (
            "FROM u AS s LEFT JOIN (SELECT x FROM t) AS r ON r.x = s.x",
            ["SELECT x FROM t"],
            "FROM v0 AS s LEFT JOIN v1 AS r ON r.x = s.x SELECT s.x",
        ),
        (
            "FROM (VALUES (1)) s(x), (SELECT 1 y) r",
            ["VALUES (1)", "SELECT 1 y"],
            "FROM v0 s(x), v1 r SELECT s.x",
        ),
        (
            "WITH q AS (SELECT x FROM t), s AS (SELECT * FROM q) FROM s",
            ["WITH q AS (SELECT x FROM t), s AS (SELECT * FROM q) SELECT * FROM s"],
            "WITH q AS (SELECT x FROM v0 AS `t`), s AS (SELECT * FROM q) FROM v1 AS `s` SELECT s.x",
        ),
        (
            "WITH q AS (SELECT x FROM t) FROM (SELECT * FROM q) s",
            ["WITH q AS (SELECT x FROM t) SELECT * FROM q"],
            "WITH q AS (SELECT x FROM v0 AS `t`) FROM v1 s SELECT s.x",
        ),
        ("FROM s LATERAL VIEW explode(a) e AS x, y", [], "FROM v0 AS `s` LATERAL VIEW explode(a) e AS x, y SELECT s.x"),
        ("FROM s, LATERAL (SELECT s.x + 1 z)", [], "FROM v0 AS `s`, LATERAL (SELECT s.x + 1 z) SELECT s.x"),
        ("FROM range(5) s", [], "FROM range(5) s SELECT s.x"),
    ],
)
def test_what_can_be_computed_once_is_taken_out(beginning: str, sources: list[str], expected: str) -> None:
    statement = multi(f"{beginning} INSERT INTO a SELECT s.x INSERT INTO b SELECT s.x")
    assert rendered(statement) == [expected, expected]
    assert [" ".join(source.text.split()) for source in statement.sources] == sources


def test_one_insert_behind_with_is_an_insert() -> None:
    statement = read("WITH q AS (SELECT 1 x) INSERT INTO a (k) SELECT x FROM q")
    assert isinstance(statement, Insert)
    assert statement.columns == ("k",)
    assert " ".join(statement.query.text.split()) == "WITH q AS (SELECT 1 x) SELECT x FROM q"


@pytest.mark.parametrize(
    "text",
    [
        "FROM s INSERT INTO a VALUES (1)",
        "FROM s INSERT a SELECT 1",
        "FROM s INSERT INTO a",
        "WITH q AS (SELECT 1) INSERT INTO a SELECT 1 INSERT INTO b SELECT 2",
        "WITH q AS (SELECT 1) INSERT INTO a",
    ],
)
def test_branches_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(StatementSyntaxError):
        read(text)


@pytest.mark.parametrize("word", ["MAP", "REDUCE"])
def test_script_of_a_branch_is_refused_by_its_name(word: str) -> None:
    with pytest.raises(UnsupportedStatementError, match="MAP and REDUCE would run a program"):
        read(f"FROM s INSERT INTO a {word} x USING 'cat' AS (y)")


def test_an_error_is_reported_at_its_place() -> None:
    text = "FROM (SELECT x FROM t) s INSERT INTO a SELECT x\nINSERT INTO b SELECT x + + FROM"
    with pytest.raises(StatementSyntaxError) as error:
        read(text)
    assert error.value.line == 2
    with pytest.raises(UnsupportedStatementError, match=r"link such as b@y"):
        read("FROM s INSERT INTO a SELECT x INSERT INTO b@y SELECT x")
