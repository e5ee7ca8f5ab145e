"""DataFrames as new tables and as rows of tables that exist, as notebooks write them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    ForeignNameError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    InvalidParametersError,
    NoSuchColumnError,
    NoSuchTableError,
    ReplaceConditionError,
    TypeMismatchError,
)
from airflow_hivex.core.warehouse import Warehouse

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


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
    assert warehouse.write(frame, "t", mode="Ignore").rows_written == 0
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
        (frame.selectExpr("id AS `my id`"), {}, InvalidObjectError, "'my id' has a blank"),
        (frame.selectExpr("id AS `a``b`"), {}, InvalidObjectError, "'a`b' has '`'"),
        (frame.selectExpr("v COLLATE UTF8_LCASE AS v"), {}, InvalidObjectError, "string collate UTF8_LCASE"),
        (frame, {"partitioned_by": [None]}, InvalidOperationError, "None is not a text"),
        (frame, {"partitioned_by": 3}, InvalidOperationError, "3 is not a list"),
        (frame, {"properties": ["a"]}, InvalidOperationError, "not a mapping"),
        (frame, {"clustered_by": "id", "buckets": 2.5}, InvalidOperationError, "clustered_by names"),
        (frame, {"partitioned_by": "day"}, NoSuchColumnError, "day"),
        (frame, {"buckets": 4}, InvalidOperationError, "clustered_by"),
        (frame, {"format": "delta"}, InvalidObjectError, "not delta"),
        (frame, {"properties": {"a": 1}}, InvalidOperationError, "not a text"),
        (frame, {"partition": {"v": "a"}}, InvalidOperationError, "add them to the DataFrame"),
        (
            frame,
            {"mode": "upsert"},
            InvalidOperationError,
            "not one of append, overwrite, error, ignore, replace_where",
        ),
        (frame.selectExpr("id", "CAST(raise_error('broken') AS string) AS v"), {}, HivexError, "broken"),
        (frame.toPandas(), {}, InvalidParametersError, r"rows is a pandas\.DataFrame, .* spark\.createDataFrame makes"),
        ([(1, "a")], {}, InvalidParametersError, "rows is a list"),
        (frame, {"where": frame.id == 1}, InvalidParametersError, "where is a Column; give a condition in SQL"),
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
    odd = spark.sql("SELECT named_struct('user-id', 1, 'a b', array(named_struct('@type', 'x'))) AS s").cache()
    warehouse.write(odd, "odd", create=True)
    warehouse.write(odd, "odd")
    assert session.sql("SELECT * FROM odd").rows == [({"user-id": 1, "a b": [{"@type": "x"}]},)] * 2
    assert odd.storageLevel.useMemory
    odd.unpersist()
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


@pytest.mark.parametrize("options", [{}, {"format": "parquet"}], ids=["full ACID", "insert-only"])
def test_columns_and_fields_are_added_in_the_commit_of_the_rows(
    warehouse: Warehouse, session: Session, spark: SparkSession, metastore: Metastore, options: dict[str, str]
) -> None:
    first = spark.sql("SELECT 1 AS id, named_struct('a', 1) AS s, array(named_struct('p', 1)) AS l")
    second = spark.sql(
        "SELECT 'new' AS E, array(named_struct('q', 2.5D, 'p', 2)) AS l, named_struct('b', 'x', 'a', 2) AS s, 2 AS id"
    )
    kept = {"hivex.history.retention": "1h"}
    warehouse.write(first, "t", create=True, properties=kept, format=options.get("format"))
    columns = session.sql("DESCRIBE t").rows
    failing = second.selectExpr("*", "CAST(raise_error('broken') AS int) AS f")
    with pytest.raises(HivexError, match="broken"):
        warehouse.write(failing, "t", merge_schema=True)
    session.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="new columns"):
        warehouse.write(second, "t", merge_schema=True)
    assert warehouse.write(first.selectExpr("id + 10 AS id"), "t", merge_schema=True).rows_written == 1
    session.sql("ROLLBACK")
    assert session.sql("DESCRIBE t").rows == columns
    assert warehouse.write(second, "t", merge_schema=True).rows_written == 1
    assert warehouse.write(spark.sql("SELECT 3 AS id, named_struct('b', 'y') AS s"), "t", merge_schema=True)
    assert [column[1] for column in session.sql("DESCRIBE t").rows] == [
        "int",
        "struct<a:int,b:string>",
        "array<struct<p:int,q:double>>",
        "string",
    ]
    expected = [
        (1, {"a": 1, "b": None}, [{"p": 1, "q": None}], None),
        (2, {"a": 2, "b": "x"}, [{"p": 2, "q": 2.5}], "new"),
        (3, {"a": None, "b": "y"}, None, None),
    ]
    query = "SELECT * FROM t ORDER BY id"
    assert session.sql(query).rows == expected
    assert session.sql("SELECT * FROM t VERSION AS OF 1").rows == [(1, {"a": 1}, [{"p": 1}])]
    metastore.compactor.request("default", "t", type="major")
    assert metastore.compactor.work() is not None
    assert session.sql(query).rows == expected
    assert [tuple(row.values()) for row in session.to_arrow("t").sort_by("id").to_pylist()] == expected
    session.sql("ALTER TABLE t CHANGE COLUMN s s struct<a:int,b:string,c:date>")
    assert session.sql("SELECT s.b, s.c FROM t ORDER BY id").rows == [(None, None), ("x", None), ("y", None)]
    for fewer in ("struct<a:int,c:date>", "struct<b:string,a:int,c:date>", "struct<a:bigint,b:string,c:date>"):
        with pytest.raises(InvalidObjectError, match="could not be read"):
            session.sql(f"ALTER TABLE t CHANGE COLUMN s s {fewer}")


def test_writers_that_add_columns_at_once_add_them_all(
    metastore: Metastore, session: Session, spark: SparkSession
) -> None:
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (p string)")

    def write(number: int) -> int | None:
        with metastore.session(user=f"writer {number}") as own:
            rows = spark.newSession().sql(f"SELECT {number} AS id, {number} AS c{number % 3}, 'a' AS p")
            return own.warehouse(rows.sparkSession).write(rows, "t", merge_schema=True).rows_written

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, range(4))) == [1] * 4
    assert session.sql("SELECT id, c0, c1, c2, p FROM t ORDER BY id").rows == [
        (0, 0, None, None, "a"),
        (1, None, 1, None, "a"),
        (2, None, None, 2, "a"),
        (3, 3, None, None, "a"),
    ]
    with pytest.raises(NoSuchColumnError, match=r"^The DataFrame has no column p"):
        session.warehouse(spark).write(spark.sql("SELECT 5 AS id"), "t", merge_schema=True)


def test_rows_of_a_condition_are_replaced(warehouse: Warehouse, session: Session, spark: SparkSession) -> None:
    session.sql("CREATE TABLE t (id int, v string, n int DEFAULT 7) PARTITIONED BY (day int)")
    session.sql("INSERT INTO t (id, v, day) VALUES (1, 'a', 1), (2, 'b', 1), (3, 'a', 2), (4, NULL, 2), (5, 'c', 3)")
    query = "SELECT id, v, n, day FROM t ORDER BY id"
    before = session.sql(query).rows
    rows = spark.createDataFrame([(2, 30, "x", 0), (4, 40, None, 0)], "day int, id int, v string, n int")
    for where, reason in (("day BETWEEN 2 AND 3", "day = 4"), ("v = 'x'", "v = NULL")):
        with pytest.raises(ReplaceConditionError, match=reason):
            warehouse.write(rows, "t", "replace_where", where=where)
    session.sql("CREATE FUNCTION luck(x INT) RETURNS DOUBLE RETURN rand() * x")
    session.sql("CREATE TEMPORARY FUNCTION own_luck() RETURNS DOUBLE RETURN rand()")
    session.sql("CREATE TEMPORARY FUNCTION twice_luck() RETURNS DOUBLE RETURN own_luck() * 2")
    for options, error, reason in (
        ({"where": "nothing = 1"}, NoSuchColumnError, "nothing"),
        ({"where": "day IN (SELECT 1)"}, InvalidOperationError, "one row"),
        ({"where": "day = 2) OR (day = 4"}, InvalidOperationError, "one row"),
        ({"where": "day = 2 AND `Rand`() < 2"}, InvalidOperationError, "where calls rand"),
        ({"where": "day = 2 AND luck(1) < 2"}, InvalidOperationError, "where calls rand"),
        ({"where": "day = 2 AND twice_luck() < 2"}, InvalidOperationError, "where calls rand"),
        ({}, InvalidOperationError, "give both or none"),
        ({"where": "day = 2", "create": True}, InvalidOperationError, "a table that exists"),
    ):
        with pytest.raises(error, match=reason):
            warehouse.write(rows, "t", "replace_where", **options)  # type: ignore[arg-type]
    assert session.sql(query).rows == before
    for counts in ((3, 1), (0, 0)):
        done = warehouse.write(
            rows.where("day = 2"), "t", "replace_where", where="day BETWEEN 2 AND 3", app_id="a", batch_id=1
        )
        assert (done.rows_deleted, done.rows_written) == counts
    assert session.sql(query).rows == [(1, "a", 7, 1), (2, "b", 7, 1), (30, "x", 0, 2)]
    session.sql("CREATE FUNCTION plus(x INT) RETURNS INT RETURN x + 1")
    with pytest.raises(ReplaceConditionError, match="day = 2"):
        warehouse.write(rows.where("day = 2"), "t", "replace_where", where="plus(day) = 4")
    assert warehouse.write(rows.where("day = 2"), "t", "replace_where", where="plus(day) = 3").rows_written == 1
    session.sql("START TRANSACTION")
    short = spark.createDataFrame([(9, 31, "x")], "day int, id int, v string")
    warehouse.write(short, "t", "replace_where", where="v = 'a' OR v = 'x'", merge_schema=True)
    expected = [(2, "b", 7, 1), (31, "x", 7, 9)]
    assert session.sql(query).rows == expected
    session.sql("COMMIT")
    assert session.sql(query).rows == expected
    assert session.sql("DESCRIBE HISTORY t LIMIT 1").rows[0][5] == "REPLACE WHERE"
    session.sql("CREATE TABLE u USING parquet AS SELECT 1 AS id")
    with pytest.raises(InvalidOperationError, match="insert-only"):
        warehouse.write(spark.sql("SELECT 1 AS id"), "u", "replace_where", where="id = 1")


def test_a_condition_of_a_closed_namespace_calls_its_own_functions(
    warehouse: Warehouse, session: Session, spark: SparkSession
) -> None:
    session.sql("CREATE DATABASE theirs")
    session.sql("CREATE TABLE theirs.t (id int)")
    session.sql("CREATE FUNCTION theirs.f(x INT) RETURNS INT RETURN x + 1")
    session.sql("CREATE TEMPORARY FUNCTION g(x INT) RETURNS INT RETURN theirs.f(x)")
    session.sql("CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1")
    session.sql("CREATE TABLE t (id int)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("ALTER DATABASE default SET DBPROPERTIES ('hivex.namespace.mode' = 'true')")
    rows = spark.sql("SELECT 2 AS id")
    for where in ("theirs.f(id) > 0", "g(id) > 0", "id > 0 AND abs(`theirs`.F(id)) > 0"):
        with pytest.raises(ForeignNameError, match=r"theirs\.f"):
            warehouse.write(rows, "t", "replace_where", where=where)
    with pytest.raises(ForeignNameError, match="A link is read only") as refused:
        warehouse.write(rows, "theirs.t")
    assert refused.value.create_link is None
    assert session.sql("SELECT * FROM t").rows == [(1,)]
    warehouse.write(rows, "t", "replace_where", where="f(id) > 0")
    assert session.sql("SELECT * FROM t").rows == [(2,)]
