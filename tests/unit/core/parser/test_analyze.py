from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Analyze, AnalyzeTables, DescribeTable, Literal, TableName

T = TableName("t")
ONE = Literal(1, "int")


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("ANALYZE TABLE t COMPUTE STATISTICS", Analyze(T)),
        ("analyze table db.`T` compute statistics noscan;", Analyze(TableName("t", "db"), noscan=True)),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS", Analyze(T, columns=())),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", Analyze(T, columns=())),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a, `B c`", Analyze(T, columns=("a", "b c"))),
        ("ANALYZE TABLE t PARTITION (ds = 1) COMPUTE STATISTICS", Analyze(T, {"ds": ONE})),
        ("ANALYZE TABLE t PARTITION (ds = 1, hr) COMPUTE STATISTICS NOSCAN", Analyze(T, {"ds": ONE, "hr": None}, True)),
        ("ANALYZE TABLE t PARTITION (ds) COMPUTE STATISTICS FOR COLUMNS", Analyze(T, {"ds": None}, columns=())),
        ("ANALYZE TABLES COMPUTE STATISTICS", AnalyzeTables()),
        ("ANALYZE TABLES IN sales COMPUTE STATISTICS NOSCAN", AnalyzeTables("sales", True)),
        ("ANALYZE TABLES FROM sales COMPUTE STATISTICS", AnalyzeTables("sales")),
    ],
)
def test_analyze_is_read(text: str, statement: Analyze | AnalyzeTables) -> None:
    assert read(text) == statement


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ANALYZE t COMPUTE STATISTICS", "expected TABLE or TABLES, found t"),
        ("ANALYZE TABLE t STATISTICS", "expected PARTITION or COMPUTE STATISTICS"),
        ("ANALYZE TABLE t COMPUTE", "expected STATISTICS"),
        ("ANALYZE TABLE t COMPUTE STATISTICS NOSCAN FOR COLUMNS a", "expected the end of the statement, found FOR"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a,", "expected the name of a column"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a, A", "a is named twice"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS (a)", "expected the name of a column"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR a", "expected ALL COLUMNS or COLUMNS"),
        ("ANALYZE TABLE t PARTITION (ds = 1, ds = 2) COMPUTE STATISTICS", "ds is named twice"),
        ("ANALYZE TABLE t PARTITION (ds > 1) COMPUTE STATISTICS", "expected"),
        ("ANALYZE TABLES t COMPUTE STATISTICS", "expected IN, FROM or COMPUTE STATISTICS"),
        ("ANALYZE TABLES COMPUTE STATISTICS FOR COLUMNS", "expected NOSCAN or the end of the statement"),
    ],
)
def test_what_is_not_analyze_is_refused_with_its_position(text: str, reason: str) -> None:
    with pytest.raises(StatementSyntaxError, match=reason.replace("(", r"\(")):
        read(text)


def test_link_is_not_analyzed() -> None:
    with pytest.raises(UnsupportedStatementError, match="links are read only"):
        read("ANALYZE TABLE t@far COMPUTE STATISTICS")


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("DESCRIBE t", DescribeTable(T)),
        ("DESC FORMATTED t", DescribeTable(T, True)),
        ("DESCRIBE t id", DescribeTable(T, column="id")),
        ("DESCRIBE EXTENDED t `My Column`", DescribeTable(T, True, column="my column")),
        ("DESCRIBE EXTENDED t PARTITION (ds = 1)", DescribeTable(T, True, {"ds": ONE})),
        ("DESCRIBE FORMATTED t PARTITION (ds = 1) id", DescribeTable(T, True, {"ds": ONE}, "id")),
        ("DESCRIBE FORMATTED t id PARTITION (ds = 1)", DescribeTable(T, True, {"ds": ONE}, "id")),
    ],
)
def test_describe_is_read(text: str, statement: DescribeTable) -> None:
    assert read(text) == statement


def test_describe_names_one_partition_and_one_column() -> None:
    with pytest.raises(StatementSyntaxError, match="needs a value"):
        read("DESCRIBE t PARTITION (ds)")
    with pytest.raises(UnsupportedStatementError, match="field of a column"):
        read("DESCRIBE t person.name")
    with pytest.raises(StatementSyntaxError, match="end of the statement"):
        read("DESCRIBE t a b")
