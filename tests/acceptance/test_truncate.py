"""TRUNCATE TABLE: rows go at once, without a job; concurrent readers and writers see a consistent table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchPartitionError,
    WriteConflictError,
)

on_sqlite = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)


@pytest.fixture
def t(session: Session) -> Session:
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (ds string, n int)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b/c', 1), (4, NULL, NULL)")
    return session


def ids(session: Session) -> list[object]:
    return [row[0] for row in session.sql("SELECT id FROM t ORDER BY id").rows]


@pytest.mark.spark
@on_sqlite
def test_a_table_and_partitions_are_truncated(t: Session, tmp_path: Path) -> None:
    t.sql("TRUNCATE TABLE t PARTITION (ds = 'b/c', n = 1)")
    assert ids(t) == [1, 2, 4]
    t.sql("TRUNCATE TABLE t PARTITION (ds = 'a')")
    assert ids(t) == [4]
    t.sql("INSERT INTO t VALUES (5, 'a', 1)")
    assert ids(t) == [4, 5]
    t.sql("TRUNCATE TABLE t PARTITION (ds, n = 1)")
    assert ids(t) == [4]
    t.sql("INSERT INTO t VALUES (5, 'a', 1)")
    assert len(t.sql("SHOW PARTITIONS t").rows) == 4
    t.sql("TRUNCATE TABLE t")
    assert ids(t) == []
    t.sql("TRUNCATE TABLE t PARTITION (ds = NULL)")
    base = sorted((tmp_path / "c1/default.db/t/ds=a/n=1").glob("base_*"))[-1]
    # As Hive writes it.
    assert sorted(path.name for path in base.iterdir()) == ["_metadata_acid", "_orc_acid_version"]
    written = json.loads((base / "_metadata_acid").read_text())
    assert written == {"thisFileVersion": "0", "dataFormat": "truncated"}


@pytest.mark.spark
@on_sqlite
def test_in_a_transaction_it_counts_with_the_commit(t: Session, metastore: Metastore) -> None:
    with metastore.session() as other:
        t.sql("START TRANSACTION READ ONLY")
        with pytest.raises(InvalidOperationError, match="READ ONLY"):
            t.sql("TRUNCATE TABLE t")
        t.sql("ROLLBACK")
        t.sql("START TRANSACTION")
        t.sql("TRUNCATE TABLE t PARTITION (ds = 'a')")
        assert ids(t) == [3, 4]
        assert ids(other) == [1, 2, 3, 4]
        t.sql("ROLLBACK")
        assert ids(t) == [1, 2, 3, 4]
        t.sql("START TRANSACTION")
        t.sql("TRUNCATE TABLE t")
        t.sql("COMMIT")
        assert ids(other) == []


@pytest.mark.spark
@on_sqlite
def test_an_update_from_before_it_cannot_bring_rows_back(t: Session, metastore: Metastore) -> None:
    with metastore.session() as other:
        t.sql("START TRANSACTION")
        assert ids(t) == [1, 2, 3, 4]
        t.sql("UPDATE t SET id = 30 WHERE ds = 'b/c'")
        other.sql("TRUNCATE TABLE t PARTITION (ds = 'a')")
        with pytest.raises(WriteConflictError):
            t.sql("UPDATE t SET id = 10 WHERE ds = 'a'")
    with metastore.session() as other:
        assert ids(other) == [3, 4]


@on_sqlite
def test_it_needs_no_spark_for_many_partitions(session: Session) -> None:
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (n int)")
    session.sql("ALTER TABLE t ADD " + " ".join(f"PARTITION (n = {n})" for n in range(300)))
    session.sql("TRUNCATE TABLE t")
    session.sql("CREATE TABLE empty (id int) PARTITIONED BY (n int)")
    session.sql("TRUNCATE TABLE empty")


@on_sqlite
@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("TRUNCATE TABLE t PARTITION (ds = 'z')", NoSuchPartitionError),
        ("TRUNCATE TABLE t PARTITION (id = 1)", NoSuchColumnError),
        ("TRUNCATE TABLE plain PARTITION (id = 1)", InvalidOperationError),
        ("TRUNCATE TABLE outside", InvalidOperationError),
    ],
)
def test_what_cannot_be_truncated_is_refused(
    session: Session, sql: str, error: type[Exception], tmp_path: Path
) -> None:
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (ds string)")
    session.sql("CREATE TABLE plain (id int)")
    (tmp_path / "c1" / "x").mkdir(parents=True)
    session.sql("CREATE EXTERNAL TABLE outside (id int) STORED AS ORC LOCATION 'x'")
    with pytest.raises(error):
        session.sql(sql)
    assert not list(tmp_path.glob("c1/default.db/**/base_*"))
