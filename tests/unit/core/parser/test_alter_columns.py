from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.constraints import Constraints, Key, KeyKind
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import AddColumns, ChangeColumn, DropColumns, ReplaceColumns, TableName

T = TableName("t")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ADD COLUMN x int", AddColumns(T, (Column("x", "int"),))),
        (
            "ADD COLUMNS (x int COMMENT 'c', y string) CASCADE",
            AddColumns(T, (Column("x", "int", "c"), Column("y", "string"))),
        ),
        (
            "REPLACE COLUMNS (x INT, y array<string>)",
            ReplaceColumns(T, (Column("x", "int"), Column("y", "array<string>"))),
        ),
        ("ADD COLUMNS x int, y string", AddColumns(T, (Column("x", "int"), Column("y", "string")))),
        (
            "ADD COLUMNS (x int FIRST, y string COMMENT 'c' AFTER `a b`, z int)",
            AddColumns(T, (Column("x", "int"), Column("y", "string", "c"), Column("z", "int")), {"x": "", "y": "a b"}),
        ),
        (
            "CHANGE x x string CONSTRAINT c NOT NULL DISABLE RELY COMMENT 'd'",
            ChangeColumn(
                T,
                "x",
                name="x",
                type="string",
                comment="d",
                added=Constraints(keys={"c": Key(KeyKind.NOT_NULL, ("x",), rely=True)}),
            ),
        ),
        ("CHANGE COLUMN x COMMENT 'c'", ChangeColumn(T, "x", comment="c")),
        ("DROP COLUMN x", DropColumns(T, ("x",))),
        ("DROP COLUMNS IF EXISTS (x, `y z`)", DropColumns(T, ("x", "y z"), if_exists=True)),
        ("DROP COLUMNS x, y", DropColumns(T, ("x", "y"))),
        ("RENAME COLUMN x TO Y", ChangeColumn(T, "x", name="y")),
        ("CHANGE x y bigint", ChangeColumn(T, "x", name="y", type="bigint")),
        ("CHANGE COLUMN x bigint COMMENT 'c'", ChangeColumn(T, "x", name="x", type="bigint", comment="c")),
        (
            "CHANGE COLUMN x x decimal(4, 1) COMMENT 'c' AFTER z CASCADE",
            ChangeColumn(T, "x", name="x", type="decimal(4,1)", comment="c", after="z"),
        ),
        ("CHANGE x y int FIRST", ChangeColumn(T, "x", name="y", type="int", after="")),
        ("ALTER COLUMN x TYPE bigint COMMENT ''", ChangeColumn(T, "x", type="bigint", comment="")),
        ("ALTER COLUMN x FIRST", ChangeColumn(T, "x", after="")),
    ],
)
def test_changes_of_columns(text: str, expected: object) -> None:
    assert read(f"ALTER TABLE t {text}") == expected


@pytest.mark.parametrize(
    "text",
    [
        "RENAME COLUMN x y",
        "DROP COLUMNS ()",
        "DROP COLUMN",
        "CHANGE x",
        "CHANGE x y nosuchtype",
        "ALTER COLUMN x",
        "ALTER COLUMN x int",
        "ALTER COLUMN x TYPE int TYPE int",
        "REPLACE COLUMNS (x int, x int)",
        "ADD COLUMNS x int, x int",
        "ADD COLUMNS x int,",
        "REPLACE COLUMNS (x int) FIRST",
        "ADD COLUMN x int FIRST AFTER y",
    ],
)
def test_what_is_no_change_is_refused(text: str) -> None:
    with pytest.raises(StatementSyntaxError):
        read(f"ALTER TABLE t {text}")


@pytest.mark.parametrize(
    "text",
    [
        "RENAME COLUMN s.f TO g",
        "ALTER COLUMN x SET TAGS 1",
        "ADD CONSTRAINT p PRIMARY KEY (x)",
        "CHANGE x x int NOT NULL",
    ],
)
def test_changes_of_other_releases_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedStatementError):
        read(f"ALTER TABLE t {text}")
