"""The warehouse in a notebook: tables as DataFrames of the user's own Spark, and files for other engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AnalysisError,
    ColumnCountMismatchError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchTableError,
    RoutingError,
    StatementSyntaxError,
    TypeMismatchError,
)
from airflow_hivex.core.warehouse import Warehouse

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


@pytest.fixture
def spark(session: Session) -> SparkSession:
    """A Spark session of the user's, in the Spark of this process."""
    session.sql("SELECT 1")
    return SparkSession.builder.getOrCreate().newSession()


@pytest.fixture
def warehouse(session: Session, spark: SparkSession) -> Iterator[Warehouse]:
    session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    session.sql("DELETE FROM t WHERE id = 2")
    session.sql("INSERT INTO t VALUES (3, NULL, NULL)")
    yield session.warehouse(spark)
    assert [view.name for view in spark.catalog.listTables()] == []


def test_a_table_is_a_frame_of_one_snapshot(warehouse: Warehouse, session: Session, spark: SparkSession) -> None:
    rows = warehouse.table("default.t")
    assert rows.sparkSession is spark
    session.sql("INSERT INTO t VALUES (4, 'later', 1)")
    session.sql("UPDATE t SET v = 'changed'")
    assert sorted(map(tuple, rows.collect()), key=str) == [(1, "a", 1), (3, None, None)]
    assert warehouse.table("t").where("v = 'changed'").count() == 3
    joined = warehouse.sql(
        "SELECT t.id, x.n FROM t JOIN VALUES (1, 'one') AS x(id, n) ON x.id = t.id WHERE p = :p", {"p": 1}
    )
    assert not isinstance(joined, type(session.sql("SHOW TABLES")))
    assert [tuple(row) for row in joined.collect()] == [(1, "one")]  # type: ignore[union-attr]


def test_frames_are_written(warehouse: Warehouse, session: Session, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "x", 7), (1, "y", 8)], "p int, V string, id int")
    assert warehouse.write(frame, "t").rows_written == 2
    assert session.sql("SELECT id, v FROM t WHERE p = 1 ORDER BY id").rows == [(1, "a"), (7, "x"), (8, "y")]
    warehouse.write(frame.drop("p"), "t", mode="overwrite", partition={"P": 1})
    assert session.sql("SELECT id, v FROM t WHERE p = 1 ORDER BY id").rows == [(7, "x"), (8, "y")]
    done = warehouse.sql("INSERT INTO t SELECT id + 100, v, p FROM t WHERE p = 1")
    assert done.rows_written == 2  # type: ignore[union-attr]
    session.sql("START TRANSACTION")
    warehouse.write(frame, "t")
    assert warehouse.table("t").count() == 7
    session.sql("ROLLBACK")
    assert warehouse.table("t").count() == 5


@pytest.mark.parametrize(
    ("schema", "mode", "error", "reason"),
    [
        ("id int, v string", "append", NoSuchColumnError, "p"),
        ("id int, v string, p int, more int", "append", ColumnCountMismatchError, "4"),
        ("id string, v string, p int", "append", TypeMismatchError, "id"),
        ("id int, v string, p int", "upsert", InvalidOperationError, "neither append nor overwrite"),
    ],
)
def test_frames_that_do_not_fit_are_refused(
    warehouse: Warehouse, spark: SparkSession, schema: str, mode: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        warehouse.write(spark.createDataFrame([], schema), "t", mode=mode)
    assert warehouse.table("t").count() == 2


def test_what_cannot_be_read_is_refused(warehouse: Warehouse, session: Session, metastore: Metastore) -> None:
    with pytest.raises(NoSuchTableError):
        warehouse.table("nowhere")
    with pytest.raises(StatementSyntaxError):
        warehouse.table("t WHERE id = 1")
    with pytest.raises(AnalysisError, match="nothing"):
        warehouse.sql("SELECT nothing FROM t")
    session.sql("USE CLUSTER c2")
    with pytest.raises(RoutingError):
        warehouse.table("t")
    assert session.sql("SHOW LOCKS").rows == []


def test_other_engines_find_the_files_of_a_snapshot(warehouse: Warehouse, session: Session, tmp_path: Path) -> None:
    session.sql("START TRANSACTION")
    before = session.snapshot_files("t")
    data = [file for file in before.files if not file.deletes]
    (deletes,) = [file for file in before.files if file.deletes]
    assert (before.table, before.cluster, before.format, before.row_layout) == ("default.t", "c1", "orc", "flat")
    assert {file.partition["p"] for file in data} == {"1", "2", None}
    assert deletes.partition == {"p": "2"}
    assert all(file.uri.startswith((tmp_path / "c1").as_uri()) for file in before.files)
    ids = [orc.read_table(file.uri.removeprefix("file://")).column("id").to_pylist() for file in data]
    assert sorted(ids) == [[1], [2], [3]]
    assert sum(file.size_bytes for file in before.files) == sum(
        Path(file.uri.removeprefix("file://").replace("%", "%")).stat().st_size for file in before.files
    )
    session.sql("COMMIT")
    session.sql("TRUNCATE TABLE t")
    assert session.snapshot_files("t").files == ()
    session.sql("CREATE VIEW w AS SELECT id FROM t")
    with pytest.raises(InvalidOperationError, match="it is a view"):
        session.snapshot_files("w")
