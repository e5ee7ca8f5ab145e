"""The warehouse in a notebook: tables as DataFrames of the user's own Spark, and files for other engines."""

from __future__ import annotations

import ast
import json
import pprint
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pendulum
import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import orc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core import HivexError, Metastore, Session
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.errors import (
    AnalysisError,
    InvalidOperationError,
    InvalidParametersError,
    NoSuchColumnError,
    NoSuchTableError,
    NoSuchVersionError,
    RoutingError,
    StatementSyntaxError,
    TypeMismatchError,
    UnsupportedStatementError,
)
from airflow_hivex.core.warehouse import Warehouse

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


NOTEBOOK = Path(__file__).parents[2] / "docs" / "how-to" / "delta.ipynb"


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


def test_a_cached_frame_stays_cached_when_its_table_is_read_again(warehouse: Warehouse, session: Session) -> None:
    session.sql("CREATE TABLE cached (id int)")
    session.sql("INSERT INTO cached VALUES (1)")
    rows = warehouse.table("cached").cache()
    assert rows.count() == 1
    warehouse.table("cached").collect()
    session.sql("SELECT * FROM cached")
    assert rows.storageLevel.useMemory
    rows.unpersist()


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
        ("id int, v string, p int, more int", "append", NoSuchColumnError, "no column more"),
        ("id string, v string, p int", "append", TypeMismatchError, "id"),
        ("id int, v string, p int", "upsert", InvalidOperationError, "not one of append, overwrite"),
    ],
)
def test_frames_that_do_not_fit_are_refused(
    warehouse: Warehouse, spark: SparkSession, schema: str, mode: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        warehouse.write(spark.createDataFrame([], schema), "t", mode=mode)
    assert warehouse.table("t").count() == 2


def test_a_session_of_spark_that_was_stopped_is_refused(
    warehouse: Warehouse, session: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.range(1)
    with monkeypatch.context() as stopped:
        # What stop() leaves of the context.
        stopped.setattr(spark.sparkContext, "_jsc", None)
        for use in (
            lambda: warehouse.table("t"),
            lambda: warehouse.write(rows, "t"),
            lambda: session.sql("DELETE FROM t"),
        ):
            with pytest.raises(InvalidOperationError, match="it was stopped; make a new one"):
                use()
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


def test_micro_batches_of_a_stream_are_written(warehouse: Warehouse, session: Session, spark: SparkSession) -> None:
    """As docs/how-to/streaming.md has it: Spark hands each micro-batch over in a session that it has cloned."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).option("numPartitions", 1).load()
    rows = source.selectExpr("CAST(value AS int) AS id", "'streamed' AS v", "9 AS p")
    with session.transaction_batch("t", count=20) as batch:

        def write(micro_batch: DataFrame, batch_id: int) -> None:
            (batch.write(micro_batch) if batch_id % 2 else warehouse.write(micro_batch, "t"))

        query = rows.writeStream.foreachBatch(write).trigger(availableNow=True).start()
        query.awaitTermination(120)
        assert query.exception() is None
    found = session.sql("SELECT id FROM t WHERE p = 9 ORDER BY id").rows
    assert len(found) >= 5
    assert found == [(number,) for number in range(len(found))]


_OTHER_SETTINGS = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "true",
    "spark.sql.groupByAliases": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.maxRecordsPerFile": "1",
    "spark.sql.orc.impl": "hive",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "parquet,orc",
    "spark.sql.shuffle.partitions": "3",
}


def test_settings_of_the_users_spark_change_no_answer(
    warehouse: Warehouse, session: Session, spark: SparkSession
) -> None:
    session.sql("CREATE TABLE m (id int, s string, at timestamp, c char(3)) CLUSTERED BY (id) INTO 2 BUCKETS")
    warehouse.sql("INSERT INTO m SELECT id, 'a\\tb', timestamp '2024-01-01 00:00:00', 'x' FROM range(4)")
    for key, value in _OTHER_SETTINGS.items():
        spark.conf.set(key, value)
    # Set after the first statement, and again between two.
    warehouse.sql("INSERT INTO m SELECT id + 4, 'a\\tb', timestamp '2024-01-01 00:00:00', 'x' FROM range(4)")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    warehouse.sql("UPDATE m SET S = concat(s, '!') WHERE ID = 1")
    query = (
        "SELECT count(*), min(s), max(s), CAST(min(at) AS string), CAST(max(at) AS string), max(c), "
        "count(DISTINCT hour(at)) FROM m GROUP BY c ORDER BY 1"
    )
    expected = [(8, "a\tb", "a\tb!", "2024-01-01 00:00:00", "2024-01-01 00:00:00", "x  ", 1)]
    assert [tuple(row) for row in warehouse.sql(query).collect()] == expected  # type: ignore[union-attr]
    assert session.sql(query).rows == expected
    with pytest.raises(TypeMismatchError):
        warehouse.sql("INSERT INTO m SELECT 'nine', 's', timestamp '2024-01-01 00:00:00', 'x'")
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    with pytest.raises(InvalidOperationError, match="TIMESTAMP_LTZ"):
        warehouse.table("m")
    assert warehouse.table("t").count() == 2
    kept = {**_OTHER_SETTINGS, "spark.sql.session.timeZone": "America/New_York"}
    lasting = {"spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "parquet"}
    assert {key: spark.conf.get(key) for key in kept} == kept | lasting


@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_missing_and_damaged_files_are_errors_whatever_the_users_spark_ignores(
    session: Session, spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    session.sql(f"CREATE TABLE d (id int, s string) TBLPROPERTIES ('hivex.row.layout' = '{layout}')")
    warehouse = session.warehouse(spark)
    warehouse.sql("INSERT INTO d SELECT id, repeat('x', 20) FROM range(1000)")
    rows = warehouse.table("d")
    (file,) = (tmp_path / "c1").rglob("bucket_00000*")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises((PySparkException, Py4JJavaError)):
        rows.collect()
    with pytest.raises(HivexError):
        warehouse.sql("INSERT OVERWRITE TABLE d SELECT * FROM d")
    file.unlink()
    with pytest.raises((PySparkException, Py4JJavaError)):
        rows.collect()
    with pytest.raises(HivexError):
        warehouse.sql("INSERT OVERWRITE TABLE d SELECT * FROM d")
    file.write_bytes(whole)
    assert rows.count() == 1000


def test_frames_within_a_snapshot_outlive_what_others_do(
    warehouse: Warehouse, session: Session, metastore: Metastore
) -> None:
    with warehouse.snapshot():
        rows = warehouse.table("t")
        with metastore.session() as other:
            other.sql("INSERT INTO t VALUES (4, 'later', 1)")
            metastore.compactor.request("default", "t", "p=1", type="major")
            metastore.compactor.work()
            assert all(not task.deleted for task in metastore.compactor.clean())
        assert sorted(map(tuple, rows.collect()), key=str) == [(1, "a", 1), (3, None, None)]
        assert warehouse.table("t").count() == 2
    assert warehouse.table("t").count() == 3
    assert "OPEN" not in [row[1] for row in session.sql("SHOW TRANSACTIONS").rows]
    with pytest.raises(NoSuchTableError), warehouse.snapshot():
        warehouse.table("nowhere")
    with pytest.raises(InvalidOperationError), warehouse.snapshot(), warehouse.snapshot():
        pass
    assert "OPEN" not in [row[1] for row in session.sql("SHOW TRANSACTIONS").rows]


def test_an_error_of_a_job_keeps_what_spark_has_said(warehouse: Warehouse, session: Session) -> None:
    for run in (warehouse.sql, session.sql):
        with pytest.raises(HivexError) as raised:
            run("INSERT INTO t SELECT CAST(v AS int), v, p FROM t WHERE id = 1")
        cause = raised.value.__cause__
        assert "CAST_INVALID_INPUT" in str(cause)
        assert "\tat " not in str(cause)


def test_history_of_a_table_is_not_taken_for_a_column(session: Session) -> None:
    session.sql("CREATE TABLE history (t int)")
    session.sql("CREATE TABLE t (id int)")
    assert session.sql("DESCRIBE HISTORY t").columns[0] == "write_id"
    assert session.sql("DESCRIBE `history` t").rows[0] == ("col_name", "t")
    assert session.sql("DESCRIBE history").rows[0][0] == "t"


def test_a_frame_outlives_the_cleaning_of_its_files_for_a_time(
    metastore_url: str, clusters: dict[str, dict[str, str]], spark: SparkSession, tmp_path: Path
) -> None:
    now_ms = system_clock()
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", clock=lambda: now_ms) as metastore,
        metastore.session(user="ada") as session,
    ):
        session.sql("CREATE TABLE kept (id int)")
        session.sql("INSERT INTO kept VALUES (1)")
        session.sql("INSERT INTO kept VALUES (2)")
        rows = session.warehouse(spark).table("kept")
        listed = session.snapshot_files("kept").files
        metastore.compactor.request("default", "kept", type="major")
        metastore.compactor.work()
        (task,) = metastore.compactor.clean()
        assert not task.deleted
        assert "ada" in str(task.blockers[0])
        assert "kept until" in str(task.blockers[0])
        assert sorted(row.id for row in rows.collect()) == [1, 2]
        assert all(Path(unquote(urlsplit(file.uri).path)).exists() for file in listed)
        now_ms += 3_601_000
        metastore.housekeeper.run()
        (task,) = metastore.compactor.clean()
        assert len(task.deleted) == 2
        assert session.sql("SELECT count(*) FROM kept").rows == [(2,)]


def test_changes_are_the_rows_that_a_table_has_got_and_lost(warehouse: Warehouse, session: Session) -> None:
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.history.retention' = '1h')")
    before = int(session.sql("DESCRIBE HISTORY t LIMIT 1").rows[0][0])  # type: ignore[call-overload]
    session.sql("UPDATE t SET v = 'A' WHERE id = 1")
    session.sql("ALTER TABLE t CHANGE COLUMN v w string")
    session.sql("INSERT INTO t VALUES (4, 'd', 1), (5, 'e', 1)")
    session.sql("DELETE FROM t WHERE id IN (3, 5)")
    result = session.changes("t", since=before)
    assert result.columns == ["id", "w", "p", "_change_type", "_row_id"]
    assert sorted((row[3], *row[:3]) for row in result.rows) == [
        ("delete", 1, "a", 1),
        ("delete", 3, None, None),
        ("insert", 1, "A", 1),
        ("insert", 4, "d", 1),
    ]
    assert [(row[3], row[0]) for row in session.changes("t", since=before, until=before + 1).rows if row[0] != 1] == []
    assert session.changes("t", since=before + 4).rows == []
    assert warehouse.changes("t", since=None, until=before).count() == 2
    assert warehouse.table("t", version=before).columns == ["id", "v", "p"]
    assert warehouse.table("t", timestamp=pendulum.now()).count() == 2
    with pytest.raises(InvalidParametersError, match="give one of them"):
        warehouse.table("t", version=before, timestamp="2026-01-31")
    for since, until, error in (
        (before + 1, before, InvalidParametersError),
        (-1, None, InvalidParametersError),
        ("noon", None, InvalidParametersError),
        (99, None, NoSuchVersionError),
    ):
        with pytest.raises(error):
            session.changes("t", since=since, until=until)
    session.sql("CREATE TABLE o (id int) TBLPROPERTIES ('transactional_properties'='insert_only')")
    with pytest.raises(InvalidOperationError, match="insert-only"):
        session.changes("o", since=1)


def test_queries_read_the_changes_of_tables(warehouse: Warehouse, session: Session) -> None:
    session.sql(
        "CREATE TABLE h (id int, v string) PARTITIONED BY (p int) TBLPROPERTIES ('hivex.history.retention'='1h')"
    )
    session.sql("INSERT INTO h VALUES (1, 'a', 1), (2, 'b', 1)")
    session.sql("UPDATE h SET v = 'A' WHERE id = 1")
    session.sql("INSERT INTO h VALUES (3, 'c', 2)")
    changed = [("delete", 1, "a", 1), ("insert", 1, "A", 1), ("insert", 3, "c", 2)]

    def read(source: str, parameters: dict[str, object] | None = None) -> list[tuple[object, ...]]:
        return sorted(session.sql(f"SELECT _change_type, id, v, p FROM {source}", parameters).rows)

    database = session.sql("SELECT current_database()").rows[0][0]
    assert read("h CHANGES FROM VERSION 3") == changed
    assert read(f"{database}.h CHANGES FROM VERSION 2 EXCLUSIVE TO VERSION 4 INCLUSIVE AS c") == changed
    assert read("table_changes('h', :since, 4) AS c WHERE c.p = 2", {"since": 3}) == changed[2:]
    assert read("h CHANGES FROM VERSION 3 TO VERSION 4 EXCLUSIVE") == changed[:2]
    everything = [("insert", 1, "A", 1), ("insert", 2, "b", 1), ("insert", 3, "c", 2)]
    assert read("h CHANGES FROM VERSION 2") == read(f"table_changes('`{database}`.h', 0)") == everything
    assert read("h CHANGES FROM TIMESTAMP '2020-01-01' TO current_timestamp()") == everything
    assert read("h CHANGES FROM TIMESTAMP current_timestamp()") == []
    session.sql(
        "CREATE VIEW changed AS SELECT id FROM h CHANGES FROM VERSION 3 JOIN table_changes('h', 4) d USING (id)"
    )
    assert session.sql("SELECT id FROM changed").rows == [(3,)]
    done = session.sql(
        "MERGE INTO h USING h CHANGES FROM VERSION 3 AS c ON h.id = c.id + 1 AND c._change_type = 'insert' "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (c.id + 10, c.v, c.p)"
    )
    assert (done.rows_deleted, done.rows_written) == (1, 2)
    assert len(warehouse.sql("SELECT * FROM h CHANGES FROM VERSION 5 WHERE _change_type = 'insert'").collect()) == 2  # type: ignore[union-attr]
    for source, error in (
        ("h CHANGES FROM VERSION 4 TO VERSION 3", InvalidParametersError),
        ("h CHANGES FROM VERSION 0 TO VERSION 0 EXCLUSIVE", InvalidParametersError),
        ("h CHANGES FROM VERSION 99", NoSuchVersionError),
        ("h CHANGES FROM VERSION 2 TO TIMESTAMP '2999-01-01'", NoSuchVersionError),
        ("changed CHANGES FROM VERSION 2", InvalidOperationError),
        ("(SELECT 1) CHANGES FROM VERSION 2", StatementSyntaxError),
        ("table_changes(h, 1)", StatementSyntaxError),
        ("h@y CHANGES FROM VERSION 2", UnsupportedStatementError),
    ):
        with pytest.raises(error):
            read(source)


def test_stream_of_changes_has_each_change_once(warehouse: Warehouse, session: Session) -> None:
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.history.retention' = '1h')")
    session.sql("CREATE TABLE log (change string, id int)")
    calls: list[int] = []
    dies_after = [0]

    def process(rows: DataFrame, batch_id: int) -> None:
        calls.append(batch_id)
        log = rows.selectExpr("_change_type AS change", "id")
        warehouse.write(log, "log", app_id="log of t", batch_id=batch_id)
        if len(calls) in dies_after:
            raise RuntimeError("killed after its commit")

    def logged() -> list[tuple[object, ...]]:
        return sorted(session.sql("SELECT change, id FROM log").rows)

    assert warehouse.for_each_batch("t", process, stream="log of t") == 1
    assert logged() == [("insert", 1), ("insert", 3)]
    assert warehouse.for_each_batch("t", process, stream="log of t") == 0
    session.sql("UPDATE t SET v = 'x' WHERE id = 3")
    dies_after[0] = 2
    with pytest.raises(RuntimeError):
        warehouse.for_each_batch("t", process, stream="log of t")
    session.sql("DELETE FROM t WHERE id = 1")
    assert warehouse.for_each_batch("t", process, stream="log of t") == 2
    assert calls == sorted(calls)
    assert (len(calls), len(set(calls)), calls[1]) == (4, 3, calls[2])
    assert logged() == [("delete", 1), ("delete", 3), ("insert", 1), ("insert", 3), ("insert", 3)]
    # Tables in the place of this one begin with all their rows, which no earlier batch stands for.
    session.sql("CREATE OR REPLACE TABLE t AS SELECT 7 AS id")
    assert warehouse.for_each_batch("t", process, stream="log of t") == 1
    session.sql("DROP TABLE t")
    session.sql("CREATE TABLE t (id int)")
    session.sql("INSERT INTO t VALUES (8)")
    assert warehouse.for_each_batch("t", process, stream="log of t") == 1
    assert logged()[-2:] == [("insert", 7), ("insert", 8)]


def test_the_notebook_for_users_of_delta_shows_what_its_cells_return(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HIVEX_HISTORY_RETENTION", raising=False)
    document = json.loads(NOTEBOOK.read_text())
    names: dict[str, object] = {"spark": spark}
    for cell in document["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        shown = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) and cell["outputs"] else None
        exec(compile(tree, str(NOTEBOOK), "exec"), names)
        if isinstance(shown, ast.Expr):
            found = eval(compile(ast.Expression(shown.value), str(NOTEBOOK), "eval"), names)
            (output,) = cell["outputs"]
            assert pprint.pformat(found, width=100) == "".join(output["data"]["text/plain"])
    assert spark.catalog.listTables() == []
