"""DataFrames and temporary views of the user's own Spark as inputs of statements."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AnalysisError,
    HivexError,
    InvalidOperationError,
    InvalidParametersError,
    MergeCardinalityError,
    NoSuchColumnError,
    NoSuchTableError,
    StatementSyntaxError,
    TypeMismatchError,
)
from airflow_hivex.core.warehouse import Warehouse
from tests.integration.test_documentation import blocks

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "notebook.md"


@pytest.fixture
def warehouse(session: Session, spark: SparkSession) -> Iterator[Warehouse]:
    session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 2)")
    yield session.warehouse(spark)
    assert not [view.name for view in spark.catalog.listTables() if view.name.startswith("hivex")]


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(2, "B", 2), (4, "D", 2)], "id int, v string, p int")


def _rows(session: Session) -> list[tuple[object, ...]]:
    return session.sql("SELECT * FROM t ORDER BY id").rows


def test_a_query_reads_frames_and_views(
    warehouse: Warehouse, session: Session, spark: SparkSession, frame: DataFrame
) -> None:
    session.sql("CREATE VIEW w AS SELECT id, v FROM t WHERE p = 2")
    session.sql("CREATE TEMPORARY VIEW mine AS SELECT id FROM t")
    frame.createTempView("Updates")
    found = warehouse.sql(
        "SELECT /*+ BROADCAST({df}) */ w.id, {df}.v, updates.v, concat('{df}', :more) FROM w JOIN {df} USING (id) "
        "JOIN updates ON updates.id = `df`.id JOIN mine ON mine.id = w.id -- {not one}",
        {"more": "!"},
        df=frame,
    )
    assert isinstance(found, DataFrame)
    spark.catalog.dropTempView("updates")
    session.sql("DELETE FROM t")
    assert [tuple(row) for row in found.collect()] == [(2, "B", "B", "{df}!")]
    assert warehouse.sql("DESCRIBE QUERY SELECT id FROM {df}", df=frame).rows == [("id", "int", None)]  # type: ignore[union-attr]
    assert "Scan ExistingRDD" in str(warehouse.sql("EXPLAIN SELECT id FROM {df}", df=frame).rows)  # type: ignore[union-attr]
    assert warehouse.sql("EXPLAIN ROUTE INSERT INTO t TABLE {df}", df=frame).rows  # type: ignore[union-attr]


def test_rows_of_frames_are_inserted(warehouse: Warehouse, session: Session, frame: DataFrame) -> None:
    frame.cache().count()
    assert warehouse.sql("INSERT INTO t SELECT id + 10, v, p FROM {df} WHERE id = 4", df=frame).rows_written == 1  # type: ignore[union-attr]
    assert warehouse.sql("INSERT OVERWRITE t TABLE {df}", df=frame).rows_written == 2  # type: ignore[union-attr]
    assert _rows(session) == [(1, "a", 1), (2, "B", 2), (4, "D", 2)]
    warehouse.sql(
        "CREATE TABLE made AS WITH x AS (SELECT id FROM {df}) SELECT x.id, {y}.v FROM x JOIN {y} USING (id)",
        df=frame,
        y=frame,
    )
    assert session.sql("SELECT * FROM made ORDER BY id").rows == [(2, "B"), (4, "D")]
    assert frame.storageLevel.useMemory
    frame.unpersist()
    session.sql("START TRANSACTION")
    warehouse.sql("INSERT INTO made SELECT id, v FROM {df}", df=warehouse.table("t"))
    assert len(warehouse.sql("SELECT * FROM made").collect()) == 5  # type: ignore[union-attr]
    session.sql("ROLLBACK")
    assert session.sql("SELECT count(*) FROM made").rows == [(2,)]


def test_rows_are_changed_by_frames(warehouse: Warehouse, session: Session, frame: DataFrame) -> None:
    merge = (
        "MERGE INTO t USING {df} ON t.id = {df}.id WHEN MATCHED THEN UPDATE SET v = concat(t.v, df.v) "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id NOT IN (SELECT id FROM {keep}) THEN DELETE"
    )
    done = warehouse.sql(merge, df=frame, keep=frame.selectExpr("3 AS id"))
    assert (done.rows_written, done.rows_deleted) == (2, 2)  # type: ignore[union-attr]
    assert _rows(session) == [(2, "bB", 2), (3, "c", 2), (4, "D", 2)]
    frame.createTempView("source")
    warehouse.sql(
        "UPDATE t SET v = (SELECT max(v) FROM source WHERE source.id = t.id) WHERE id IN (TABLE {df})",
        df=frame.select("id"),
    )
    assert _rows(session) == [(2, "B", 2), (3, "c", 2), (4, "D", 2)]
    warehouse.sql("DELETE FROM t WHERE EXISTS (SELECT 1 FROM {df} WHERE {df}.id = t.id)", df=frame)
    assert _rows(session) == [(3, "c", 2)]
    with pytest.raises(MergeCardinalityError):
        warehouse.sql(merge, df=frame.union(frame).withColumn("id", F.lit(3)), keep=frame)
    assert _rows(session) == [(3, "c", 2)]


def test_a_frame_that_is_not_deterministic_is_computed_once(
    warehouse: Warehouse, session: Session, spark: SparkSession
) -> None:
    draw = F.udf(lambda _: uuid.uuid4().hex, "string").asNondeterministic()
    frame = spark.range(20, numPartitions=3).select(F.col("id").cast("int"), draw("id").alias("v"), F.lit(1).alias("p"))
    session.sql("CREATE TABLE other (id int, v string, p int)")
    warehouse.sql("FROM {df} INSERT INTO t SELECT * WHERE id > 3 INSERT INTO other SELECT *", df=frame)
    assert session.sql("SELECT count(*) FROM t JOIN other ON t.v = other.v").rows == [(16,)]
    warehouse.sql("CREATE TABLE twice AS SELECT a.v AS v, b.v AS w FROM {df} a JOIN {df} b ON a.id = b.id", df=frame)
    assert session.sql("SELECT count(*), count(DISTINCT v) FROM twice WHERE v = w").rows == [(20, 20)]
    warehouse.sql(
        "MERGE INTO other USING (SELECT *, substr(v, 1, 1) < '8' AS low FROM {df}) s "
        "ON s.id = other.id AND low WHEN MATCHED THEN UPDATE SET v = 'old' "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (99)",
        df=frame,
    )
    # Each row of the source either matches or does not.
    assert session.sql("SELECT count(*) FROM other WHERE id = 99 OR v = 'old'").rows == [(20,)]


def test_micro_batches_are_merged(warehouse: Warehouse, session: Session, spark: SparkSession) -> None:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).option("numPartitions", 1).load()
    rows = source.selectExpr("CAST(value % 3 AS int) AS id", "'streamed' AS v", "2 AS p").distinct()

    def merge(micro_batch: DataFrame, _: int) -> None:
        warehouse.sql(
            "MERGE INTO t USING {batch} AS s ON t.id = s.id AND t.p = s.p WHEN MATCHED THEN UPDATE SET v = s.v "
            "WHEN NOT MATCHED THEN INSERT *",
            batch=micro_batch,
        )

    query = rows.writeStream.foreachBatch(merge).trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    assert _rows(session)[0] == (0, "streamed", 2)


def test_a_batch_is_merged_once(warehouse: Warehouse, session: Session, frame: DataFrame) -> None:
    def merge(batch_id: int) -> tuple[int | None, int | None]:
        merge = warehouse.merge(frame, "t", ["id", "p"], app_id="orders", batch_id=batch_id)
        done = merge.when_matched_update({"v": "concat(target.v, 's')"}).when_not_matched_insert_all().execute()
        return done.rows_written, done.rows_deleted

    assert [merge(3), merge(3)] == [(2, 1), (0, 0)]
    assert _rows(session) == [(1, "a", 1), (2, "bs", 2), (3, "c", 2), (4, "D", 2)]
    assert merge(4) == (2, 2)
    # A batch that changes no row counts, too; and batches of all writes have their numbers together.
    none = warehouse.merge(frame.where("id = 0"), "t", ["id"], app_id="orders", batch_id=5)
    assert none.when_matched_delete().execute().rows_written == 0
    assert warehouse.write(frame, "t", app_id="orders", batch_id=5).rows_written == 0
    assert merge(5) == (0, 0)
    session.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match=r"batch_id in transaction .* COMMIT or ROLLBACK"):
        merge(6)
    session.sql("ROLLBACK")
    with pytest.raises(InvalidParametersError, match="belong together"):
        warehouse.merge(frame, "t", ["id"], app_id="orders")
    assert _rows(session) == [(1, "a", 1), (2, "bss", 2), (3, "c", 2), (4, "Ds", 2)]


REFUSED: list[tuple[str, type[Exception], str]] = [
    ("SELECT * FROM {other}", StatementSyntaxError, r"column 15.*\{other\} is not the name.*\{df\}"),
    ("SELECT * FROM {df[id]}", StatementSyntaxError, "is not the name"),
    ("SELECT {df} FROM t", StatementSyntaxError, "does not stand where a table is read"),
    ("WITH df AS (SELECT 1) SELECT * FROM {df}", StatementSyntaxError, "common table expression"),
    ("INSERT INTO {df} SELECT * FROM t", StatementSyntaxError, "does not stand where a table is read"),
    ("MERGE INTO {df} USING t ON t.id = {df}.id WHEN MATCHED THEN DELETE", StatementSyntaxError, "does not stand"),
    ("SELECT * FROM t", InvalidParametersError, "does not read the DataFrames df"),
    ("SELECT * FROM {df} JOIN df", NoSuchTableError, "default.df"),
    ("SELECT nothing FROM {df}", AnalysisError, "nothing"),
    ("CREATE VIEW v AS SELECT * FROM {df}", InvalidOperationError, "make a table of its rows"),
    ("CREATE TEMPORARY VIEW v AS SELECT * FROM {df}", InvalidOperationError, "make a table of its rows"),
    ("SELECT * FROM {df} VERSION AS OF 1", HivexError, "df"),
    ("MERGE INTO t USING {df} ON t.id = {df}.id WHEN MATCHED THEN UPDATE SET u = 1", HivexError, "u"),
    ("SELECT * FROM `frame 0` JOIN {df}", NoSuchTableError, "frame 0"),
]


def test_texts_that_do_not_fit_their_frames_are_refused(
    warehouse: Warehouse, session: Session, frame: DataFrame
) -> None:
    for text, error, reason in REFUSED:
        with pytest.raises(error, match=f"(?s){reason}"):
            warehouse.sql(text, df=frame)
    assert len(_rows(session)) == 3
    assert session.sql("SHOW LOCKS").rows == []


def test_values_are_not_frames(warehouse: Warehouse, session: Session, spark: SparkSession, frame: DataFrame) -> None:
    with pytest.raises(InvalidParametersError, match="limit is a int"):
        warehouse.sql("SELECT * FROM t WHERE id > {limit}", limit=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidParametersError, match="several SparkSessions"):
        warehouse.sql("SELECT * FROM {a} JOIN {b}", a=frame, b=spark.newSession().range(1))
    frame.createTempView("t")
    with pytest.raises(InvalidOperationError, match=r"write default\.t for the table, or \{t\}"):
        warehouse.sql("SELECT * FROM t")
    assert warehouse.table("t").count() == 3
    assert len(warehouse.sql("SELECT * FROM default.t JOIN {t} USING (id)", t=frame).collect()) == 1  # type: ignore[union-attr]
    warehouse.sql("INSERT INTO t SELECT * FROM {t}", t=frame)
    assert len(_rows(session)) == 5
    spark.catalog.dropTempView("t")


def test_a_frame_is_merged_clause_by_clause(
    warehouse: Warehouse, session: Session, spark: SparkSession, frame: DataFrame
) -> None:
    merge = warehouse.merge(frame, "t", "target.id = source.id").when_matched_update(
        {"v": "concat(target.v, source.v)"}
    )
    session.sql("START TRANSACTION")
    done = merge.when_not_matched_insert_all().when_not_matched_by_source_delete("target.p = 1").execute()
    assert (done.rows_written, done.rows_deleted) == (2, 2)
    assert warehouse.table("t").count() == 3
    session.sql("ROLLBACK")
    merge.when_not_matched_insert({"id": "source.id", "v": "'new'", "p": 1}).execute()
    assert _rows(session) == [(1, "a", 1), (2, "bB", 2), (3, "c", 2), (4, "new", 1)]
    for on, reason in (("id", r"give a list of names, \['id'\]"), (frame.id == 1, "on is a Column")):
        with pytest.raises(InvalidParametersError, match=reason):
            warehouse.merge(frame, "t", on)  # type: ignore[arg-type]
    with pytest.raises(InvalidParametersError, match="value of v in a MERGE is a Column; give an expression in SQL"):
        merge.when_matched_update({"v": frame.v})
    with pytest.raises(MergeCardinalityError, match="match each: 1"):
        warehouse.merge(frame.withColumn("id", F.lit(3)), "t", ["id"]).when_matched_update_all().execute()
    wrong: list[tuple[DataFrame, dict[str, object], type[HivexError], str]] = [
        (frame.drop("v"), {}, NoSuchColumnError, "no column v"),
        (frame, {"nothing": 1}, HivexError, "nothing"),
        (frame, {"v": "source.nothing"}, AnalysisError, "nothing"),
        (frame, {"id": "'one'"}, TypeMismatchError, "id"),
        (frame.withColumn("v", F.struct("v")), {}, TypeMismatchError, "v"),
        (frame.select("*", "v"), {}, HivexError, "v"),
    ]
    for rows, assigned, error, reason in wrong:
        clauses = warehouse.merge(rows, "t", "target.id = source.id")
        clauses = clauses.when_matched_update(assigned) if assigned else clauses.when_matched_update_all()
        with pytest.raises(error, match=reason):
            clauses.execute()
    assert _rows(session) == [(1, "a", 1), (2, "bB", 2), (3, "c", 2), (4, "new", 1)]


def test_fields_of_structs_are_merged_by_name(warehouse: Warehouse, session: Session, spark: SparkSession) -> None:
    session.sql("CREATE TABLE s (id int, at struct<x: int, y: int>)")
    rows = spark.sql("SELECT named_struct('y', 2, 'x', 1) AS at, 1 AS id")
    merge = warehouse.merge(rows, "default.s", ["id"]).when_matched_update_all().when_not_matched_insert_all()
    merge.execute()
    merge.execute()
    assert session.sql("SELECT id, at.x, at.y FROM s").rows == [(1, 1, 2)]


def test_examples_of_the_page_run_one_after_the_other(
    clusters: dict[str, dict[str, str]], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = tmp_path / ".demo"
    demo.mkdir()
    (demo / "clusters.json").write_text(json.dumps(clusters))
    with (
        Metastore.open(f"sqlite:///{demo / 'metastore.db'}", clusters=clusters, default_cluster="c1") as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE DATABASE nycflights")
        session.sql("USE nycflights")
        session.sql("CREATE TABLE airlines (carrier STRING, name STRING)")
        session.sql("INSERT INTO airlines VALUES ('AA', 'American')")
        session.sql("CREATE TABLE flights (day INT, carrier STRING, dep_delay INT) PARTITIONED BY (month INT)")
        session.sql("INSERT INTO flights VALUES (1, 'AA', 5, 1), (9, 'AA', 70, 1), (1, 'AA', 61, 2), (1, 'AA', 1, 3)")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(PAGE, "python"):
        exec(block, names)
    with names["metastore"], names["session"] as session:
        assert session.sql("SELECT dep_delay FROM late ORDER BY 1").rows == [(61,), (70,)]
        assert session.sql("SELECT month, day, is_late FROM winter ORDER BY 1, 2").rows == [
            (1, 1, None),
            (1, 9, None),
            (3, 1, False),
        ]
        assert session.sql("SELECT text FROM notes").rows == [("NOTEnote",)]
    assert (len(names["report"]), len(names["found"].files)) == (1, 3)
    names["spark"].catalog.dropTempView("recent")


def test_sessions_with_other_objects_and_settings_share_a_spark(
    metastore: Metastore, warehouse: Warehouse, spark: SparkSession
) -> None:
    assert warehouse.table("t").count() == 3
    ansi = spark.conf.get("spark.sql.ansi.enabled")

    def run(number: int) -> list[tuple[object, ...]]:
        with metastore.session() as session:
            own = session.warehouse(spark)
            session.sql(f"DECLARE number INT DEFAULT {number}")
            session.sql("CREATE TEMPORARY FUNCTION plus(x INT) RETURNS INT RETURN x + number")
            session.sql(f"SET spark.sql.ansi.enabled = {number == 0}")
            frames = [own.sql("SELECT plus(id), number FROM t WHERE id = 1") for _ in range(2)]
            converted = "SELECT IF(number > 0, CAST('x' AS INT), plus(0)) FROM t LIMIT 1"
            return [*(tuple(row) for frame in frames for row in frame.collect()), *session.sql(converted).rows]

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(run, range(3)))
    assert found == [[(number + 1, number)] * 2 + [(None if number else 0,)] for number in range(3)]
    with metastore.session() as session:
        session.warehouse(spark)
        session.sql("SET spark.sql.ansi.enabled = perhaps")
        with pytest.raises(HivexError, match="perhaps"):
            session.sql("SELECT 1")
        session.sql("RESET")
        assert session.sql("SELECT 1").rows == [(1,)]
    assert spark.conf.get("spark.sql.ansi.enabled") == ansi
