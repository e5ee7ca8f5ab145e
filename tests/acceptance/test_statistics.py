"""ANALYZE, and its numbers in DESCRIBE."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchPartitionError,
    NoSuchTableError,
)


def facts(session: Session, table: str) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in session.sql(f"DESCRIBE EXTENDED {table}").rows}


def column(session: Session, table: str, name: str) -> dict[str, str]:
    rows = session.sql(f"DESCRIBE EXTENDED {table} {name}").rows
    return {str(key): str(value) for key, value in rows if value != "NULL"}


def accurate(session: Session, table: str) -> object:
    return json.loads(facts(session, table).get("COLUMN_STATS_ACCURATE", "{}"))


def test_rows_and_sizes_follow_from_what_was_written(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT) PARTITIONED BY (ds STRING, hr INT)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 1), (3, 'a', 2), (4, NULL, 2)")
    assert "Statistics" not in facts(session, "t")
    session.sql("ANALYZE TABLE t PARTITION (ds = 'a', hr) COMPUTE STATISTICS")
    assert "Statistics" not in facts(session, "t")
    assert facts(session, "t PARTITION (ds = 'a', hr = '1')")["numRows"] == "2"
    assert "numRows" not in facts(session, "t PARTITION (ds = NULL, hr = 2)")
    session.sql("ANALYZE TABLE t COMPUTE STATISTICS")
    table = facts(session, "t")
    assert (table["numRows"], table["numFiles"]) == ("4", "3")
    assert table["Statistics"] == f"{table['totalSize']} bytes, 4 rows"
    assert facts(session, "t PARTITION (ds = NULL, hr = 2)")["numRows"] == "1"
    assert accurate(session, "t") == {"BASIC_STATS": "true"}


def test_statistics_of_an_earlier_snapshot_differ_from_the_current_ones(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("ANALYZE TABLE t COMPUTE STATISTICS")
    assert accurate(session, "t") == {"BASIC_STATS": "true"}
    session.sql("ALTER TABLE t RENAME TO u")
    assert facts(session, "u")["numRows"] == "1"
    session.sql("INSERT INTO u VALUES (2)")
    assert facts(session, "u")["numRows"] == "1"
    assert accurate(session, "u") == {}
    session.sql("ANALYZE TABLE u COMPUTE STATISTICS NOSCAN")
    assert "numRows" not in facts(session, "u")
    assert facts(session, "u")["numFiles"] == "2"
    session.sql("ANALYZE TABLES COMPUTE STATISTICS")
    assert facts(session, "u")["numRows"] == "2"


def test_statistics_go_and_move_with_what_they_are_of(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT) PARTITIONED BY (ds STRING)")
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    session.sql("ANALYZE TABLE t COMPUTE STATISTICS")
    session.sql("ALTER TABLE t PARTITION (ds = 'a') RENAME TO PARTITION (ds = 'c')")
    assert facts(session, "t PARTITION (ds = 'c')")["numRows"] == "1"
    session.sql("ALTER TABLE t DROP PARTITION (ds = 'b')")
    session.sql("INSERT INTO t VALUES (2, 'b')")
    assert "numRows" not in facts(session, "t PARTITION (ds = 'b')")
    session.sql("DROP TABLE t")
    session.sql("CREATE TABLE t (id INT) PARTITIONED BY (ds STRING)")
    assert "numRows" not in facts(session, "t")


def test_what_cannot_be_analyzed_is_refused(session: Session) -> None:
    session.sql("CREATE TABLE plain (id INT)")
    session.sql("CREATE TABLE t (id INT, many ARRAY<INT>) PARTITIONED BY (ds INT)")
    session.sql("ALTER TABLE t ADD PARTITION (ds = 1)")
    session.sql("CREATE VIEW v (id) AS SELECT id FROM plain")
    refused: list[tuple[str, type[HivexError], str]] = [
        ("ANALYZE TABLE missing COMPUTE STATISTICS", NoSuchTableError, "missing"),
        ("ANALYZE TABLE v COMPUTE STATISTICS", InvalidOperationError, "it is a view"),
        ("ANALYZE TABLE plain PARTITION (ds = 'a') COMPUTE STATISTICS", InvalidOperationError, "no partition keys"),
        ("ANALYZE TABLE t PARTITION (hr = 1) COMPUTE STATISTICS", NoSuchColumnError, "hr"),
        ("ANALYZE TABLE t PARTITION (hr) COMPUTE STATISTICS", NoSuchColumnError, "hr"),
        ("ANALYZE TABLE t PARTITION (ds = 'x') COMPUTE STATISTICS", InvalidObjectError, "type int"),
        ("ANALYZE TABLE t PARTITION (ds = 9) COMPUTE STATISTICS", NoSuchPartitionError, "covers"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS nothing", NoSuchColumnError, "nothing"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS ds", InvalidOperationError, "partition key"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS many", InvalidOperationError, "type array<int>"),
        ("DESCRIBE t PARTITION (ds = 9)", NoSuchPartitionError, "9"),
        ("DESCRIBE plain PARTITION (ds = 9)", InvalidOperationError, "no partition keys"),
        ("DESCRIBE t nothing", NoSuchColumnError, "nothing"),
    ]
    for statement, error, reason in refused:
        with pytest.raises(error, match=reason):
            session.sql(statement)


def test_analyze_is_no_part_of_a_transaction(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT)")
    session.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="on its own"):
        session.sql("ANALYZE TABLE t COMPUTE STATISTICS")


def test_columns_of_all_types_are_counted_without_deleted_rows(session: Session) -> None:
    session.sql("""
        CREATE TABLE t (yes BOOLEAN, id INT, price DECIMAL(10,2), x DOUBLE, day DATE, at TIMESTAMP, name STRING,
                        code CHAR(3), raw BINARY, many ARRAY<INT>) PARTITIONED BY (ds STRING)""")
    session.sql("""
        INSERT INTO t SELECT * FROM VALUES
          (true, 1, 1.50, 1.5D, DATE'2013-01-01', TIMESTAMP'2013-01-01 10:00:00', 'a', 'x', X'00', array(1), 'p'),
          (false, 2, -2.25, 2.5D, DATE'0900-12-31', TIMESTAMP'2013-01-02 10:00:00', 'äöü', 'xyz', X'0001', null, 'p'),
          (null, null, null, null, null, null, null, null, null, null, 'p'),
          (true, 3, 3.00, 3.5D, DATE'2014-01-01', TIMESTAMP'2014-01-01 00:00:00', 'b', 'y', X'000102', null, NULL),
          (true, 99, 99.00, 99D, DATE'2099-01-01', TIMESTAMP'2099-01-01 00:00:00', 'gone', 'z', X'', null, NULL)""")
    session.sql("DELETE FROM t WHERE id = 99")
    session.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS")
    assert facts(session, "t")["numRows"] == "4"
    assert facts(session, "t PARTITION (ds = NULL)")["numRows"] == "1"
    assert facts(session, "t PARTITION (ds = 'p')")["numRows"] == "3"
    names = ["yes", "id", "price", "x", "day", "at", "name", "code", "raw"]
    assert accurate(session, "t") == {"BASIC_STATS": "true", "COLUMN_STATS": dict.fromkeys(names, "true")}
    own = {"comment", "data_type", "col_name", "COLUMN_STATS_ACCURATE"}
    found = {name: column(session, "t", f"`{name}`") for name in [*names, "many"]}
    assert {name: {key: values[key] for key in values if key not in own} for name, values in found.items()} == {
        "yes": {"num_nulls": "1", "num_trues": "2", "num_falses": "1"},
        "id": {"num_nulls": "1", "distinct_count": "3", "min": "1", "max": "3"},
        "price": {"num_nulls": "1", "distinct_count": "3", "min": "-2.25", "max": "3.00"},
        "x": {"num_nulls": "1", "distinct_count": "3", "min": "1.5", "max": "3.5"},
        "day": {"num_nulls": "1", "distinct_count": "3", "min": "0900-12-31", "max": "2014-01-01"},
        "at": {"num_nulls": "1", "distinct_count": "3", "min": "2013-01-01 10:00:00", "max": "2014-01-01 00:00:00"},
        "name": {"num_nulls": "1", "distinct_count": "3", "avg_col_len": "1.6666666666666667", "max_col_len": "3"},
        "code": {"num_nulls": "1", "distinct_count": "3", "avg_col_len": "3.0", "max_col_len": "3"},
        "raw": {"num_nulls": "1", "avg_col_len": "2.0", "max_col_len": "3"},
        "many": {},
    }
    one = session.sql("DESCRIBE EXTENDED t PARTITION (ds = 'p') id").rows
    assert dict(one)["max"] == "2"

    session.sql("ALTER TABLE t RENAME COLUMN id TO number")
    assert column(session, "t", "number")["max"] == "3"
    session.sql("UPDATE t SET number = 7 WHERE number = 3")
    session.sql("ANALYZE TABLE t PARTITION (ds = NULL) COMPUTE STATISTICS FOR COLUMNS number, x")
    of_partition = dict(session.sql("DESCRIBE FORMATTED t PARTITION (ds = NULL) number").rows)
    assert (of_partition["max"], of_partition["COLUMN_STATS_ACCURATE"]) == ("7", "true")
    of_table = column(session, "t", "number")
    assert (of_table["max"], of_table["COLUMN_STATS_ACCURATE"]) == ("3", "false")
    assert json.loads(facts(session, "t PARTITION (ds = NULL)")["COLUMN_STATS_ACCURATE"]) == {
        "BASIC_STATS": "true",
        "COLUMN_STATS": {"number": "true", "x": "true"},
    }
    session.sql("ALTER TABLE t DROP COLUMN x")
    session.sql("ALTER TABLE t ADD COLUMNS (x INT)")
    assert "max" not in column(session, "t", "x")


def test_external_and_empty_tables_are_counted(metastore: Metastore, session: Session, tmp_path: Path) -> None:
    for place, text in (("files/ds=a/1.csv", "1,x\n2,\n"), ("files/ds=b/1.csv", "3,y\n"), ("else/1.csv", "4,z\n")):
        (tmp_path / "c1" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "c1" / place).write_text(text)
    session.sql("""
        CREATE TABLE e (id INT, name STRING) USING csv PARTITIONED BY (ds STRING) LOCATION 'files'""")
    session.sql("ALTER TABLE e ADD PARTITION (ds = 'a') PARTITION (ds = 'b') PARTITION (ds = 'c') LOCATION 'else'")
    session.sql("ANALYZE TABLE e COMPUTE STATISTICS NOSCAN")
    assert facts(session, "e")["Statistics"] == "15 bytes"
    session.sql("ANALYZE TABLE e COMPUTE STATISTICS FOR COLUMNS id")
    assert {key: facts(session, "e")[key] for key in ("numRows", "numFiles", "totalSize")} == {
        "numRows": "4",
        "numFiles": "3",
        "totalSize": "15",
    }
    assert facts(session, "e PARTITION (ds = 'c')")["numRows"] == "1"
    assert column(session, "e", "id") | {"max": "4", "COLUMN_STATS_ACCURATE": "false"} == column(session, "e", "id")
    assert accurate(session, "e") == {}

    session.sql("CREATE TABLE empty (id INT, name STRING) PARTITIONED BY (ds STRING)")
    session.sql("ANALYZE TABLE empty COMPUTE STATISTICS FOR ALL COLUMNS")
    assert facts(session, "empty")["Statistics"] == "0 bytes, 0 rows"
    values = column(session, "empty", "id")
    assert (values["num_nulls"], values["distinct_count"], values.get("max")) == ("0", "0", None)


def test_given_statistics_are_shown_and_never_called_exact(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT, v STRING, d DATE, a ARRAY<INT>) PARTITIONED BY (p INT)")
    session.sql("INSERT INTO t (id, v, p) VALUES (1, 'one', 1), (2, 'two', 2)")
    session.sql("ALTER TABLE t UPDATE STATISTICS SET ('numRows' = '500', 'rawDataSize' = '9')")
    assert (facts(session, "t")["numRows"], facts(session, "t")["numFiles"]) == ("500", "2")
    session.sql("ALTER TABLE t PARTITION (p = 1) UPDATE STATISTICS SET ('NUMROWS' = '7', 'totalSize' = '12')")
    found = facts(session, "t PARTITION (p = 1)")
    assert found["Partition Statistics"] == "12 bytes, 7 rows"
    session.sql("ALTER TABLE t UPDATE STATISTICS FOR COLUMN ID SET ('numDVs' = '3', 'lowValue' = '-1') COMMENT 'c'")
    session.sql("ALTER TABLE t UPDATE STATISTICS FOR COLUMN id SET ('highValue' = '9')")
    found = column(session, "t", "id")
    assert (found["min"], found["max"], found["distinct_count"], found["num_nulls"]) == ("-1", "9", "3", "0")
    session.sql("ALTER TABLE t UPDATE STATISTICS FOR v SET ('avgColLen' = '2.5', 'maxColLen' = '4')")
    session.sql("ALTER TABLE t PARTITION (p = 2) UPDATE STATISTICS FOR COLUMN d SET ('lowValue' = '1066-10-14')")
    assert accurate(session, "t") == accurate(session, "t PARTITION (p = 1)") == {}
    assert facts(session, "t")["numRows"] == "500"
    for rest, error in {
        "SET ('numRows' = '-1')": InvalidOperationError,
        "SET ('numRows' = '1.5')": InvalidOperationError,
        "SET ('rows' = '1')": InvalidOperationError,
        "FOR COLUMN id SET ('lowValue' = 'x')": InvalidOperationError,
        "FOR COLUMN id SET ('lowValue' = '2147483648')": InvalidOperationError,
        "FOR COLUMN id SET ('maxColLen' = '1')": InvalidOperationError,
        "FOR COLUMN d SET ('highValue' = '2024-02-30')": InvalidOperationError,
        "FOR COLUMN v SET ('avgColLen' = 'nan')": InvalidOperationError,
        "FOR COLUMN a SET ('numNulls' = '1')": InvalidOperationError,
        "FOR COLUMN nope SET ('numNulls' = '1')": NoSuchColumnError,
    }.items():
        with pytest.raises(error):
            session.sql(f"ALTER TABLE t UPDATE STATISTICS {rest}")
    with pytest.raises(NoSuchPartitionError):
        session.sql("ALTER TABLE t PARTITION (p = 3) UPDATE STATISTICS SET ('numRows' = '1')")
    session.sql("ANALYZE TABLE t COMPUTE STATISTICS")
    assert (facts(session, "t")["numRows"], accurate(session, "t")) == ("2", {"BASIC_STATS": "true"})
