from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Literal, LoadData, RenamePartition, TableName


def test_load_data() -> None:
    assert read("LOAD DATA INPATH '/a b' INTO TABLE d.t") == LoadData(TableName("t", "d"), "/a b")
    assert read("LOAD DATA LOCAL INPATH 'x' OVERWRITE INTO TABLE t PARTITION (p = 1, q = NULL)") == LoadData(
        TableName("t"), "x", is_local=True, overwrite=True, static={"p": Literal(1, "int"), "q": Literal(None, "void")}
    )


@pytest.mark.parametrize("text", ["LOAD 'x' INTO TABLE t", "LOAD DATA INPATH x INTO TABLE t", "LOAD DATA INPATH 'x' t"])
def test_what_is_no_load_is_refused(text: str) -> None:
    with pytest.raises(StatementSyntaxError):
        read(text)


TEXT = "org.apache.hadoop.mapred.TextInputFormat"


def test_files_have_the_format_of_the_named_classes() -> None:
    serde = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
    statement = read(f"LOAD DATA INPATH 'x' INTO TABLE t PARTITION (p = 1, q) INPUTFORMAT '{TEXT}' SERDE '{serde}'")
    assert isinstance(statement, LoadData)
    assert (statement.static, statement.dynamic) == ({"p": Literal(1, "int")}, ("q",))
    assert (statement.format, statement.options["sep"]) == ("csv", ",")


@pytest.mark.parametrize(
    ("classes", "error", "reason"),
    [
        ("INPUTFORMAT 'a' SERDE 'b'", UnsupportedStatementError, "input format a are not read"),
        (f"INPUTFORMAT '{TEXT}' SERDE 'b'", UnsupportedStatementError, "b is not one of the SerDes"),
        (f"INPUTFORMAT '{TEXT}'", StatementSyntaxError, "SERDE"),
        (
            f"INPUTFORMAT '{TEXT}' SERDE 'org.apache.hadoop.hive.ql.io.orc.OrcSerde'",
            StatementSyntaxError,
            "goes with files of",
        ),
    ],
)
def test_formats_that_are_not_read_are_refused(classes: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        read(f"LOAD DATA INPATH 'x' INTO TABLE t {classes}")


def test_rename_partition() -> None:
    statement = read("ALTER TABLE t PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 2, q = NULL)")
    assert statement == RenamePartition(
        TableName("t"),
        {"p": Literal(1, "int"), "q": Literal("a", "string")},
        {"p": Literal(2, "int"), "q": Literal(None, "void")},
    )
    with pytest.raises(StatementSyntaxError, match="q needs a value"):
        read("ALTER TABLE t PARTITION (p = 1, q) RENAME TO PARTITION (p = 2, q = 'b')")
