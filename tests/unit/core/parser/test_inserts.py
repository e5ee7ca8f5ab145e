"""INSERT: its target, partition and source, and the rows of VALUES where Spark is not needed for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Insert, InsertDirectory, Literal, MultiInsert, Query, TableName


def insert(text: str, parameters: Mapping[str, object] | None = None) -> Insert:
    statement = read(text, parameters)
    assert isinstance(statement, Insert)
    return statement


def test_target_partition_and_columns_are_read() -> None:
    found = insert("INSERT INTO TABLE Db.T PARTITION (ds='1', Hr, `mi` = 2) (A, `b c`) SELECT 1, 2, 3")
    assert found.target == TableName("t", "db")
    assert found.partition == ("ds", "hr", "mi")
    assert found.static == {"ds": Literal("1", "string"), "mi": Literal(2, "int")}
    assert found.columns == ("a", "b c")
    assert (found.overwrite, found.if_not_exists, found.rows) == (False, False, None)


def test_overwrite_is_read() -> None:
    found = insert("INSERT OVERWRITE t PARTITION (ds = NULL) IF NOT EXISTS SELECT 1")
    assert (found.overwrite, found.if_not_exists) == (True, True)
    assert found.static == {"ds": Literal(None, "void")}


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("INSERT OVERWRITE t PARTITION (ds = 'a', hr)", "dynamic partitions do not support IF NOT EXISTS"),
        ("INSERT OVERWRITE t PARTITION (ds, hr)", "give partition key ds a value"),
        ("INSERT OVERWRITE t", "follows a PARTITION clause"),
        ("INSERT INTO t PARTITION (ds = 'a')", "INSERT INTO does not support IF NOT EXISTS"),
        ("INSERT INTO t", "INSERT INTO does not support IF NOT EXISTS"),
    ],
)
@pytest.mark.parametrize(
    "shape", ["{} IF NOT EXISTS SELECT 1", "FROM s INSERT INTO u SELECT a {} IF NOT EXISTS SELECT b"]
)
def test_if_not_exists_needs_one_whole_partition_to_overwrite(head: str, reason: str, shape: str) -> None:
    with pytest.raises((UnsupportedStatementError, StatementSyntaxError), match=reason):
        read(shape.format(head))


@pytest.mark.parametrize(
    ("source", "tables"),
    [
        ("SELECT * FROM u", ["u"]),
        ("(SELECT * FROM u)", ["u"]),
        ("WITH c AS (SELECT * FROM u) SELECT * FROM c", ["u"]),
        ("FROM u SELECT x", ["u"]),
        ("TABLE u", ["u"]),
        ("VALUES ((SELECT max(x) FROM u))", ["u"]),
        ("(VALUES (1))", []),
        ("VALUES (1) UNION ALL SELECT * FROM u", ["u"]),
    ],
)
def test_source_is_a_query_with_its_tables(source: str, tables: list[str]) -> None:
    found = insert(f"INSERT INTO t {source};")
    assert found.query.text[found.query.start : found.query.end] == source
    assert [str(reference.table) for reference in found.query.references] == tables
    assert found.columns is None


@pytest.mark.parametrize(
    ("cell", "value", "type"),
    [
        ("1", 1, "int"),
        ("-2147483648", -2147483648, "int"),
        ("2147483648", 2147483648, "bigint"),
        ("9223372036854775808", Decimal(9223372036854775808), "decimal(19,0)"),
        ("1L", 1, "bigint"),
        ("-2s", -2, "smallint"),
        ("3Y", 3, "tinyint"),
        ("0.001", Decimal("0.001"), "decimal(3,3)"),
        ("- 1.50", Decimal("-1.50"), "decimal(3,2)"),
        (".5", Decimal("0.5"), "decimal(1,1)"),
        ("5BD", Decimal(5), "decimal(1,0)"),
        ("1e3BD", Decimal("1E+3"), "decimal(4,0)"),
        ("1e3", 1000.0, "double"),
        ("1.5D", 1.5, "double"),
        ("'it''s'", "it's", "string"),
        ("'a' \"b\"", "ab", "string"),
        ("r'\\n'", "\\n", "string"),
        ("TRUE", True, "boolean"),
        ("null", None, "void"),
        ("DATE '2013-01-31'", date(2013, 1, 31), "date"),
        ("TIMESTAMP '2013-01-31 12:30:00.25'", datetime(2013, 1, 31, 12, 30, 0, 250000), "timestamp"),  # noqa: DTZ001
        ("TIMESTAMP_NTZ '2013-01-31'", datetime(2013, 1, 31), "timestamp_ntz"),  # noqa: DTZ001
        ("X'1Fa0'", b"\x1f\xa0", "binary"),
    ],
)
def test_constants_are_what_they_are_in_spark(cell: str, value: object, type: str) -> None:
    rows = insert(f"INSERT INTO t VALUES ({cell})").rows
    assert rows == ((Literal(value, type),),)  # type: ignore[arg-type]
    assert rows[0][0].value.__class__ is value.__class__


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (None, "void"),
        (True, "boolean"),
        (1, "int"),
        (2**31, "bigint"),
        (1.5, "double"),
        (Decimal("1.50"), "decimal(3,2)"),
        (Decimal("1E+3"), "decimal(4,0)"),
        ("x", "string"),
        (b"x", "binary"),
        (date(2013, 1, 31), "date"),
        (datetime(2013, 1, 31), "timestamp"),  # noqa: DTZ001
    ],
)
def test_parameters_are_constants(value: object, type: str) -> None:
    found = insert("INSERT INTO t PARTITION (ds = :day) VALUES (:x, ':y')", {"x": value, "day": "1"})
    assert found.rows == ((Literal(value, type), Literal(":y", "string")),)  # type: ignore[arg-type]
    assert found.static == {"ds": Literal("1", "string")}
    assert found.query.parameters == {"x"}


@pytest.mark.parametrize(
    "values",
    [
        "(1 + 1)",
        "(f(1))",
        "(a)",
        "(+1)",
        "(- -1)",
        "((1))",
        "(1F)",
        "(300Y)",
        "(DATE '2013-1')",
        "(DATE '2013-02-30')",
        "(TIMESTAMP '2013-01-01 00:00:00 UTC')",
        "(X'ABC')",
        "(INTERVAL '1' DAY)",
        "(1 AS a)",
        "(1) AS v(a)",
        "(1) ORDER BY 1",
    ],
)
def test_rows_that_are_not_plain_constants_are_made_by_spark(values: str) -> None:
    found = insert(f"INSERT INTO t VALUES {values}")
    assert found.rows is None
    assert found.query.render([]) == f"VALUES {values}"


def test_constants_of_several_types_in_a_column_are_rows() -> None:
    found = insert("INSERT INTO t VALUES (1), ('a'), (1D), (DATE '2013-01-01'), (NULL)")
    assert [[literal.type for literal in row] for row in found.rows or ()] == [
        ["int"],
        ["string"],
        ["double"],
        ["date"],
        ["void"],
    ]


def test_rows_without_parentheses_and_of_numbers_that_widen_are_read() -> None:
    assert insert("INSERT INTO t VALUES 1, 2").rows == ((Literal(1, "int"),), (Literal(2, "int"),))
    rows = insert("INSERT INTO t VALUES (1, 'a'), (NULL, NULL), (1.5, 'b'), (3L, 'c')").rows
    assert rows is not None
    assert [row[0].type for row in rows] == ["int", "void", "decimal(2,1)", "bigint"]


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("INSERT t VALUES (1)", 8, "INTO or OVERWRITE"),
        ("INSERT INTO t", 14, "VALUES, a query or BY NAME"),
        ("INSERT INTO t VALUES", 21, "expected a row"),
        ("INSERT INTO t VALUES (1),", 26, "a row"),
        ("INSERT INTO t VALUES (1), (1, 2)", 27, "row 2 has 2 values"),
        ("INSERT INTO t (a, A) SELECT 1, 2", 19, "named twice"),
        ("INSERT INTO t PARTITION (ds=1, DS=2) SELECT 1", 32, "named twice"),
        ("INSERT INTO t PARTITION (ds=x) SELECT 1", 29, "a constant"),
        ("INSERT INTO t SHOW TABLES", 15, "VALUES, a query or BY NAME"),
    ],
)
def test_insert_that_cannot_be_read_is_refused_at_its_place(text: str, column: int, reason: str) -> None:
    with pytest.raises(StatementSyntaxError, match=reason) as error:
        read(text)
    assert error.value.column == column


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("INSERT INTO t@y VALUES (1)", 13),
        ("INSERT INTO a.b.c VALUES (1)", 13),
        ("INSERT INTO t REPLACE WHERE a = 1 SELECT 1", 15),
        ("FROM s INSERT OVERWRITE DIRECTORY 'x' SELECT a INSERT INTO t SELECT b", 8),
        ("INSERT OVERWRITE DIRECTORY 'x' STORED BY 'hbase' SELECT 1", 39),
    ],
)
def test_insert_of_another_release_is_refused_at_its_place(text: str, column: int) -> None:
    with pytest.raises(UnsupportedStatementError) as error:
        read(text)
    assert error.value.column == column


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OVERWRITE DIRECTORY 'x' SELECT a FROM t", InsertDirectory("x", Query("", 0, 0, ()), "textfile")),
        (
            "OVERWRITE LOCAL DIRECTORY '/x' ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' (SELECT 1)",
            InsertDirectory("/x", Query("", 0, 0, ()), "textfile", is_local=True, options={"field.delim": ","}),
        ),
        (
            "OVERWRITE DIRECTORY USING csv OPTIONS (PATH 'x', header 'true') VALUES (1)",
            InsertDirectory("x", Query("", 0, 0, ()), "csv", options={"header": "true"}),
        ),
    ],
)
def test_insert_of_a_directory_has_its_format(text: str, expected: InsertDirectory) -> None:
    statement = read(f"INSERT {text}")
    assert isinstance(statement, InsertDirectory)
    assert replace(statement, query=expected.query) == expected
    for table in ("INSERT OVERWRITE directory SELECT 1", "INSERT OVERWRITE local SELECT 1"):
        assert isinstance(read(table), Insert)


@pytest.mark.parametrize(
    "text", ["DIRECTORY USING csv SELECT 1", "DIRECTORY 'x' USING csv OPTIONS (path 'y') SELECT 1", "DIRECTORY 'x'"]
)
def test_insert_of_a_directory_names_one_directory_and_a_query(text: str) -> None:
    with pytest.raises(StatementSyntaxError, match=r"directory|query"):
        read(f"INSERT OVERWRITE {text}")


def test_insert_into_several_tables_names_all_that_it_reads_and_writes() -> None:
    statement = read(
        "FROM db.s INSERT INTO a SELECT x INSERT OVERWRITE TABLE db.b SELECT y WHERE z IN (SELECT 1 FROM u)"
    )
    assert isinstance(statement, MultiInsert)
    assert statement.targets == (TableName("a"), TableName("b", "db"))
    assert [str(reference.table) for reference in statement.references] == ["db.s", "db.s", "u"]
