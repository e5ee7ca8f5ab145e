"""ALTER TABLE for the places and formats of external tables, read without Spark where that is possible."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    InvalidObjectError,
    InvalidOperationError,
    LocationOutsideClusterError,
    NoSuchPartitionError,
    NoSuchTableError,
    UnsupportedStatementError,
)


def location(session: Session, table: str, partition: str | None = None) -> str:
    clause = "" if partition is None else f" PARTITION ({partition})"
    facts = {str(row[0]).strip(" :"): str(row[1]) for row in session.sql(f"DESCRIBE FORMATTED {table}{clause}").rows}
    return facts["Location"].partition("/c1/")[2].strip()


@pytest.fixture
def e(session: Session, tmp_path: Path) -> Session:
    for folder, number in (("old", 1), ("new", 2)):
        (tmp_path / "c1" / folder).mkdir(parents=True)
        parquet.write_table(pa.table({"id": pa.array([number], pa.int32())}), tmp_path / "c1" / folder / "x.parquet")
    session.sql("CREATE EXTERNAL TABLE e (id int) STORED AS PARQUET LOCATION 'old'")
    return session


def test_a_table_is_read_where_it_lies_now(e: Session) -> None:
    assert e.to_arrow("e").to_pydict() == {"id": [1]}
    e.sql("ALTER TABLE e SET LOCATION 'new'")
    assert e.to_arrow("e").to_pydict() == {"id": [2]}
    assert location(e, "e") == "new"


def test_partitions_stay_and_move_one_by_one(session: Session) -> None:
    session.sql("CREATE EXTERNAL TABLE e (id int) PARTITIONED BY (p int) STORED AS ORC LOCATION 'old'")
    session.sql("ALTER TABLE e ADD PARTITION (p = 1)")
    session.sql("ALTER TABLE e SET LOCATION 'new'")
    session.sql("ALTER TABLE e ADD PARTITION (p = 2)")
    session.sql("ALTER TABLE e PARTITION (p = 2) SET LOCATION 'two'")
    assert (location(session, "e", "p = 1"), location(session, "e", "p = 2")) == ("old/p=1", "two")
    with pytest.raises(NoSuchPartitionError):
        session.sql("ALTER TABLE e PARTITION (p = 3) SET LOCATION 'three'")


def test_files_are_read_in_another_format(e: Session, metastore: Metastore) -> None:
    e.sql("ALTER TABLE e SET FILEFORMAT TEXTFILE")
    e.sql("ALTER TABLE e SET SERDEPROPERTIES ('field.delim' = ';')")
    stored = metastore.catalog.get_table("default", "e").storage
    assert (stored.format, stored.serde_parameters) == ("textfile", {"field.delim": ";"})
    e.sql("ALTER TABLE e UNSET SERDEPROPERTIES ('field.delim')")
    e.sql(
        "ALTER TABLE e SET SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde' "
        "WITH SERDEPROPERTIES ('separatorChar' = '|')"
    )
    e.sql("ALTER TABLE e SET SERDEPROPERTIES ('quoteChar' = '!')")
    stored = metastore.catalog.get_table("default", "e").storage
    assert (stored.format, stored.serde_parameters["sep"], stored.serde_parameters["quote"]) == ("csv", "|", "!")
    e.sql("ALTER TABLE e SET FILEFORMAT PARQUET")
    assert e.to_arrow("e").to_pydict() == {"id": [1]}


def test_columns_of_an_external_table_are_those_of_the_statement(e: Session, metastore: Metastore) -> None:
    e.sql("ALTER TABLE e CHANGE COLUMN id number bigint COMMENT 'c'")
    assert e.to_arrow("e").to_pydict() == {"number": [None]}
    e.sql("ALTER TABLE e REPLACE COLUMNS (v string, id int)")
    e.sql("ALTER TABLE e DROP COLUMN v")
    assert e.to_arrow("e").to_pydict() == {"id": [1]}
    assert "hivex.columns.dropped" not in metastore.catalog.get_table("default", "e").parameters
    with pytest.raises(InvalidOperationError, match="no column left"):
        e.sql("ALTER TABLE e DROP COLUMN id")


def test_properties_may_say_what_a_table_is_already(e: Session, metastore: Metastore) -> None:
    e.sql("CREATE TABLE m (id int) PARTITIONED BY (p int COMMENT 'old') COMMENT 'old'")
    e.sql("ALTER TABLE e SET TBLPROPERTIES ('EXTERNAL' = 'TRUE', 'a' = 'b')")
    e.sql("ALTER TABLE m SET TBLPROPERTIES ('EXTERNAL' = 'FALSE', 'comment' = 'new')")
    assert metastore.catalog.get_table("default", "m").comment == "new"
    e.sql("ALTER TABLE m UNSET TBLPROPERTIES ('comment')")
    e.sql("ALTER TABLE m CHANGE COLUMN p p int COMMENT 'new'")
    table = metastore.catalog.get_table("default", "m")
    assert (table.comment, table.partition_keys[0].comment) == (None, "new")
    with pytest.raises(InvalidObjectError, match="EXTERNAL"):
        e.sql("ALTER TABLE m SET TBLPROPERTIES ('EXTERNAL' = 'TRUE')")


def test_properties_of_a_database_are_removed(session: Session, metastore: Metastore) -> None:
    session.sql("CREATE DATABASE d WITH DBPROPERTIES (a = 1, b = 2)")
    session.sql("ALTER DATABASE d UNSET DBPROPERTIES ('a')")
    session.sql("ALTER DATABASE d UNSET DBPROPERTIES IF EXISTS ('a')")
    assert metastore.catalog.get_database("d").parameters == {"b": "2"}
    with pytest.raises(InvalidObjectError, match="no property a to unset"):
        session.sql("ALTER DATABASE d UNSET DBPROPERTIES ('a')")


@pytest.mark.parametrize(
    ("statement", "error", "reason"),
    [
        ("ALTER TABLE m SET LOCATION 'new'", InvalidOperationError, "managed table"),
        ("ALTER TABLE m SET FILEFORMAT PARQUET", InvalidOperationError, "CREATE OR REPLACE TABLE"),
        ("ALTER TABLE v SET LOCATION 'new'", InvalidOperationError, "it is a view"),
        ("ALTER TABLE nowhere SET LOCATION 'new'", NoSuchTableError, "nowhere"),
        ("ALTER TABLE e SET LOCATION '/elsewhere'", LocationOutsideClusterError, "c1"),
        ("ALTER TABLE e SET LOCATION '/'", InvalidObjectError, "no folder"),
        ("ALTER TABLE e SET LOCATION ''", InvalidObjectError, "no folder"),
        ("ALTER TABLE e SET LOCATION 'new/x.parquet'", InvalidObjectError, "is a file"),
        ("ALTER TABLE e SET LOCATION 'default.db/m'", InvalidObjectError, "not apart"),
        ("ALTER TABLE e SET FILEFORMAT SEQUENCEFILE", InvalidObjectError, "sequencefile"),
        ("ALTER TABLE e SET FILEFORMAT xml", InvalidObjectError, "rowTag"),
        ("ALTER TABLE e SET FILEFORMAT text", InvalidObjectError, "columns"),
        ("ALTER TABLE e SET SERDE 'x.Y'", UnsupportedStatementError, "OpenCSVSerde"),
        ("ALTER TABLE e UNSET SERDEPROPERTIES ('x')", InvalidObjectError, "no property x"),
        ("ALTER TABLE e PARTITION (p = 1) SET FILEFORMAT ORC", UnsupportedStatementError, "one format"),
        ("ALTER TABLE e PARTITION (p = 1) SET LOCATION 'new'", InvalidOperationError, "partition keys"),
    ],
)
def test_a_change_that_cannot_be_read_is_refused(
    e: Session, statement: str, error: type[Exception], reason: str
) -> None:
    e.sql("CREATE TABLE m (id int)")
    e.sql("CREATE VIEW v AS SELECT id FROM m")
    with pytest.raises(error, match=reason):
        e.sql(statement)
    assert e.to_arrow("e").to_pydict() == {"id": [1]}
    assert location(e, "e") == "old"
    assert e.sql("SHOW LOCKS").rows == []
