"""DataFrames as new tables and as rows of tables that exist, as notebooks write them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchTableError,
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
    yield session.warehouse(spark)
    assert [view.name for view in spark.catalog.listTables()] == []


def test_a_write_makes_the_table_that_is_missing(warehouse: Warehouse, session: Session, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "a", 10), (2, "b", 20)], "ID int, v string, P int")
    with pytest.raises(NoSuchTableError):
        warehouse.write(frame, "t")
    made = warehouse.write(
        frame, "t", create=True, partitioned_by="p", clustered_by=["id"], buckets=2, properties={"team": "sales"}
    )
    assert made.rows_written == 2
    definition = str(session.sql("SHOW CREATE TABLE t").rows[0][0])
    for part in ("`id` int", "PARTITIONED BY (`p` int)", "CLUSTERED BY (`id`) INTO 2 BUCKETS", "'team' = 'sales'"):
        assert part in definition
    assert warehouse.write(frame.select("p", "v", "id"), "t", create=True, partitioned_by=["P"]).rows_written == 2
    assert session.sql("SELECT * FROM t ORDER BY 1, 2").rows == [(1, "a", 10)] * 2 + [(2, "b", 20)] * 2
    with pytest.raises(AlreadyExistsError, match="append"):
        warehouse.write(frame, "t", mode="error")
    assert warehouse.write(frame, "t", mode="ignore").rows_written == 0
    assert warehouse.write(frame, "u", mode="error", format="parquet").rows_written == 2
    assert warehouse.write(frame, "v", mode="ignore", app_id="a", batch_id=1).rows_written == 2
    assert warehouse.write(frame, "v", app_id="a", batch_id=1).rows_written == 0
    assert warehouse.write(frame.limit(0), "u", mode="overwrite").rows_written == 0
    assert session.sql("SELECT count(*) FROM u UNION ALL SELECT count(*) FROM v").rows == [(0,), (2,)]


def test_what_cannot_become_a_table_makes_none(warehouse: Warehouse, session: Session, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "a")], "id int, v string")
    refused = [
        (frame.selectExpr("id", "id AS Id"), {}, InvalidOperationError, "two columns called Id"),
        (frame.selectExpr("named_struct('a', 1, 'A', 2) AS s"), {}, InvalidOperationError, "two fields of s"),
        (frame.selectExpr("id", "NULL AS n"), {}, InvalidObjectError, "void"),
        (frame.selectExpr("id AS `my id`"), {}, InvalidObjectError, "plain name"),
        (frame, {"partitioned_by": "day"}, NoSuchColumnError, "day"),
        (frame, {"buckets": 4}, InvalidOperationError, "clustered_by"),
        (frame, {"format": "delta"}, InvalidObjectError, "not delta"),
        (frame, {"properties": {"a": 1}}, InvalidOperationError, "not a text"),
        (frame, {"partition": {"v": "a"}}, InvalidOperationError, "add them to the DataFrame"),
        (frame, {"mode": "upsert"}, InvalidOperationError, "not one of append, overwrite, error, ignore"),
        (frame.selectExpr("id", "CAST(raise_error('broken') AS string) AS v"), {}, HivexError, "broken"),
    ]
    for rows, options, error, reason in refused:
        with pytest.raises(error, match=reason):
            warehouse.write(rows, "t", create=True, **options)  # type: ignore[arg-type]
    session.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="is open"):
        warehouse.write(frame, "t", create=True)
    session.sql("ROLLBACK")
    assert session.sql("SHOW TABLES").rows == []
    warehouse.write(frame, "t", create=True)
    for options in ({"partitioned_by": "v"}, {"clustered_by": "id", "buckets": 2}):
        with pytest.raises(InvalidOperationError, match="it has no"):
            warehouse.write(frame, "t", create=True, **options)  # type: ignore[arg-type]
    assert session.sql("SELECT * FROM t").rows == [(1, "a")]


def test_two_writers_that_create_one_table_write_it_both(metastore: Metastore, spark: SparkSession) -> None:
    def write(number: int) -> int | None:
        with metastore.session(user=f"writer {number}") as session:
            own = spark.newSession()
            rows = own.range(number, number + 1).selectExpr("CAST(id AS int) AS id")
            return session.warehouse(own).write(rows, "t", create=True).rows_written

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(write, range(3))) == [1, 1, 1]
    with metastore.session() as session:
        assert session.sql("SELECT id FROM t ORDER BY id").rows == [(0,), (1,), (2,)]


def test_fields_of_structs_go_to_those_of_their_names(
    warehouse: Warehouse, session: Session, spark: SparkSession
) -> None:
    nested = "array(named_struct('p', 1, 'q', 2)) AS l, map('k', named_struct('m', 1, 'n', 2)) AS m"
    warehouse.write(spark.sql(f"SELECT 1 AS id, named_struct('a', 1, 'B', 'x') AS s, {nested}"), "t", create=True)
    turned = "map('k', named_struct('n', 20, 'm', 10)) AS m, array(named_struct('q', 20, 'p', 10), NULL) AS l"
    rows = spark.sql(
        f"SELECT {turned}, named_struct('b', 'y', 'A', 10) AS s, 2 AS id UNION ALL SELECT NULL, NULL, NULL, 3"
    )
    assert warehouse.write(rows, "t").rows_written == 2
    assert session.sql("SELECT s, l, m FROM t ORDER BY id").rows == [
        ({"a": 1, "B": "x"}, [{"p": 1, "q": 2}], {"k": {"m": 1, "n": 2}}),
        ({"a": 10, "B": "y"}, [{"p": 10, "q": 20}, None], {"k": {"m": 10, "n": 20}}),
        (None, None, None),
    ]
    for value, error, reason in (
        ("named_struct('a', 1, 'b', 'x', 'c', 1)", NoSuchColumnError, r"s\.c"),
        ("named_struct('a', 1)", NoSuchColumnError, r"s\.B"),
        ("named_struct('a', 'x', 'b', 'x')", TypeMismatchError, "struct"),
        ("1", TypeMismatchError, "int"),
    ):
        with pytest.raises(error, match=reason):
            warehouse.write(rows.selectExpr("id", f"{value} AS s", "l", "m"), "t")
