from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.parser.grammar import syntax
from airflow_hivex.core.parser.grammar.values import KINDS
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import CHAPTERS, RoutedStatement, Statement, TableName, statements_of
from airflow_hivex.core.parser.statements.base import Named

STATEMENTS = [kind for chapter in CHAPTERS for kind in statements_of(chapter)]


def _parts(sequence: tuple[syntax.Part, ...]) -> list[syntax.Part]:
    found: list[syntax.Part] = []
    for part in sequence:
        found.append(part)
        if isinstance(part, syntax.Group):
            found += [each for alternative in part.alternatives for each in _parts(alternative)]
    return found


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda each: each.__name__)
def test_syntax_names_kinds_of_values_that_can_be_read(statement: type[Statement]) -> None:
    forms = [*statement.SYNTAX, *(form for form, _ in statement.REFUSED)]
    parts = [part for form in forms for part in _parts(syntax.compiled(form, frozenset()))]
    assert {part.kind for part in parts if isinstance(part, syntax.Value)} <= set(KINDS)


def test_only_queries_and_statements_around_others_have_no_syntax() -> None:
    without = {statement.__name__ for statement in STATEMENTS if not statement.SYNTAX}
    around = {"ExplainQuery", "ExplainChanges", "ExplainMultiInsert", "ExplainRoute", "MultiInsert"}
    # SET and RESET of the configuration have the forms of these two.
    settings = {"SetSetting", "ResetSetting"}
    assert without == {"Select", "DescribeQuery", *around, *settings}


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda each: each.__name__)
def test_statement_returns_each_table_that_it_names(statement: type[Any]) -> None:
    hints = get_type_hints(statement, include_extras=True)
    unnamed = [
        field.name
        for field in fields(statement)
        if "TableName" in str(field.type) and not any(isinstance(each, Named) for each in _metadata(hints[field.name]))
    ]
    # A method of the class returns the objects that have no role in their type.
    assert not unnamed or "uses" in vars(statement) or issubclass(statement, RoutedStatement)


def _metadata(hint: Any) -> tuple[object, ...]:
    return getattr(hint, "__metadata__", ())


@pytest.mark.parametrize(
    "form",
    ["SHOW [TABLES", "SHOW ] TABLES", "SHOW {A | B & C}", "show tables", "SHOW <table", "SHOW TABLES]"],
)
def test_form_that_does_not_follow_the_notation_is_refused(form: str) -> None:
    with pytest.raises(ValueError, match=r"has no place|is not closed|either"):
        syntax.compiled(form, frozenset())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("DROP LINK to@b", "to"),
        ("DROP TABLE if", "if"),
        ("DROP TABLE IF EXISTS exists", "exists"),
        ("ALTER LINK to TO x@b ADD PARTITION (p = 1)", None),
        ("DESCRIBE extended", "extended"),
        ("DESCRIBE table table", "table"),
        ("SHOW COMPACTIONS type TYPE 'major'", "type"),
        ("SHOW COPIES copies", "copies"),
        ("VACUUM table DRY RUN", "table"),
        ("TRUNCATE table", "table"),
        ("INSERT INTO table VALUES (1)", "table"),
        ("LOAD DATA INPATH 'x' INTO TABLE partition PARTITION (p = 1)", "partition"),
    ],
)
def test_keywords_are_not_reserved(text: str, names: str | None) -> None:
    if names is None:
        with pytest.raises(StatementSyntaxError):
            read(text)
        return
    statement: Any = read(text)
    found = next(value for field in fields(statement) if isinstance(value := getattr(statement, field.name), TableName))
    assert found.name == names


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("ALTER LINK t@b FOO", 16, "expected ADD, DROP, SET LINKPROPERTIES or UNSET LINKPROPERTIES, found FOO"),
        ("DROP LINK IF t@b", 14, "expected EXISTS or the end of the statement, found t"),
        ("REPLICATE TABLE t TO c2", 22, "expected CLUSTER, found c2"),
        ("SHOW COMPACTIONS POOL 'a' TYPE 'major' POOL 'b'", 40, "POOL is given twice"),
        ("ALTER TABLE t ADD PARTITION (p = 1) LOCATION", 45, "expected a location, but the statement ends here"),
        ("SHOW TABLES IN d LIKE", 22, "expected a pattern, but the statement ends here"),
        ("CREATE TABLE t (a INT) STORD AS ORC", 24, "found STORD; perhaps STORED is meant"),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED DELETE", 48, "expected AND or THEN, found DELETE"),
        ("INSERT INTO t (a, b) VALEUS (1, 2)", 22, "expected VALUES or a query, found VALEUS; perhaps VALUES is meant"),
        ("DROP TEMPORARY VARIABLE IF x", 28, "expected EXISTS or the end of the statement, found x"),
        ("USE CLUSTER a:b", 13, "a cluster's name"),
    ],
)
def test_error_is_that_of_the_form_that_was_read_the_farthest(text: str, column: int, reason: str) -> None:
    with pytest.raises((StatementSyntaxError, UnsupportedStatementError)) as caught:
        read(text)
    assert reason in caught.value.reason
    assert caught.value.column == column
