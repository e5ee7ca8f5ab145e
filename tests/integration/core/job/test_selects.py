from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from airflow_hivex.core.errors import AnalysisError, InvalidOperationError, JobCancelledError, JobError
from airflow_hivex.core.job.configuration import configured
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import Plan, Scan, ScanPart, WriteIdFilter
from airflow_hivex.core.runners.registry import Runner

pytestmark = pytest.mark.spark


def run(runner: Runner, sql: str, **changes: Any) -> Any:
    return runner.run(Plan(f"select{abs(hash((sql, str(changes))))}", "select", sql, **changes), "c1")


layouts = pytest.mark.parametrize("layout", ["flat", "hive"])


def test_types_of_a_query_are_exact(runner: Runner) -> None:
    found = run(
        runner,
        """SELECT 1Y, 1.50BD, 1.5F, 'x', X'00', DATE'0001-01-01', TIMESTAMP'2020-01-01 10:00:00+02:00',
        TIMESTAMP_NTZ'2020-01-01 10:00:00', TIME'10:00:00', INTERVAL '1' DAY, INTERVAL '1' MONTH, NULL,
        array(NULL), map(1, 'x'), named_struct('a', array(1)), map(array(1), 2), parse_json('{"a": 1}')""",
    )
    assert found.rows == (
        (
            1,
            Decimal("1.50"),
            1.5,
            "x",
            b"\0",
            date(1, 1, 1),
            datetime(2020, 1, 1, 8, tzinfo=UTC),
            datetime(2020, 1, 1, 10),  # noqa: DTZ001
            time(10),
            timedelta(days=1),
            "INTERVAL '1' MONTH",
            None,
            [None],
            {1: "x"},
            {"a": [1]},
            [([1], 2)],
            '{"a":1}',
        ),
    )
    assert found.columns[11].type == "void"


def test_one_name_may_stand_for_several_columns(runner: Runner) -> None:
    found = run(runner, "SELECT 1 AS a, 2 AS a, 3 AS A")
    assert found.rows == ((1, 2, 3),)
    assert [column.name for column in found.columns] == ["a", "a", "A"]


def test_one_name_may_stand_for_several_fields(runner: Runner) -> None:
    found = run(
        runner,
        "SELECT struct(1 AS a, 2 AS a, 3 AS b) AS s, array(struct(4 AS x, 5 AS x)) AS l, "
        "map('k', struct(struct(6 AS y, 7 AS y) AS y)) AS m",
    )
    assert found.rows == (({"a_0": 1, "a_1": 2, "b": 3}, [{"x_0": 4, "x_1": 5}], {"k": {"y": {"y_0": 6, "y_1": 7}}}),)
    assert found.columns[0].type == "struct<a:int,a:int,b:int>"


def test_at_most_so_many_rows_come_back(runner: Runner) -> None:
    found = run(runner, "SELECT id FROM range(10) ORDER BY id DESC", max_rows=3)
    assert found.rows == ((9,), (8,), (7,))
    assert found.truncated
    assert not run(runner, "SELECT id FROM range(3)", max_rows=3).truncated


def test_with_no_rows_asked_for_nothing_is_run(runner: Runner) -> None:
    found = run(runner, "SELECT raise_error('not run') AS x, 1 AS y", max_rows=0)
    assert [(column.name, column.type) for column in found.columns] == [("x", "void"), ("y", "int")]
    assert found.rows == ()


def test_parameters_keep_their_types(runner: Runner) -> None:
    parameters = {
        "text": "it's -- not SQL",
        "number": 2**40,
        "decimal": Decimal("1.50"),
        "day": date(2020, 1, 1),
        "moment": datetime(2020, 1, 1, 12, tzinfo=UTC),
        "local": datetime(2020, 1, 1, 12),  # noqa: DTZ001
        "bytes": b"\0",
        "nothing": None,
    }
    [row] = run(
        runner,
        "SELECT :text, :number, :decimal, :day, :moment, :local = TIMESTAMP'2020-01-01 12:00:00', :bytes, :nothing",
        parameters=parameters,
    ).rows
    assert row == ("it's -- not SQL", 2**40, Decimal("1.50"), date(2020, 1, 1), parameters["moment"], True, b"\0", None)


def test_statements_that_spark_refuses_say_why(table: Any) -> None:
    t = table("a int")
    t.insert("SELECT 1")
    for sql, reason in (
        ("SELECT nope FROM t", "nope"),
        ("SELEC 1", "PARSE_SYNTAX_ERROR"),
        ("SELECT nofunction(1)", "nofunction"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT array(1) + 1", "DATATYPE_MISMATCH"),
    ):
        with pytest.raises(AnalysisError, match=reason) as caught:
            t.select(sql)
        assert "SQLSTATE" not in str(caught.value)


def test_a_query_that_fails_while_it_runs_is_one_sentence(table: Any) -> None:
    t = table("a string")
    t.insert("SELECT 'x'")
    with pytest.raises(JobError, match=r"CAST_INVALID_INPUT.*'x'") as caught:
        t.select("SELECT CAST(a AS INT) FROM t")
    assert "\n" not in str(caught.value)


def test_a_missing_directory_of_a_transactional_table_is_an_error(table: Any) -> None:
    t = table("a int")
    with pytest.raises(JobError, match="Path does not exist"):
        t.select(scans=(t.scan(parts=(ScanPart((f"file://{t.root}/delta_0000001_0000001_0000",), "", "flat"),)),))


def test_two_tables_join(table: Any) -> None:
    left, right = table("id int; v string"), table("id int; w string", "p int")
    left.insert("SELECT * FROM VALUES (1, 'a'), (2, 'b')")
    right.insert("SELECT * FROM VALUES (2, 'B', 7), (3, 'C', 8)")
    scans = (left.scan("l"), right.scan("r"))
    assert left.rows("SELECT l.v, r.w, r.p FROM l JOIN r USING (id)", scans=scans) == [("b", "B", 7)]
    assert left.rows("WITH x AS (SELECT id FROM l UNION SELECT id FROM r) SELECT count(*) FROM x", scans=scans) == [
        (3,)
    ]


@layouts
def test_several_deltas_are_one_scan_and_write_ids_are_filtered(table: Any, layout: str) -> None:
    t = table("a int", "p string", layout=layout)
    for i in range(1, 5):
        t.insert(f"SELECT {i}, 'x'")
    assert t.rows("SELECT a FROM t ORDER BY a") == [(1,), (2,), (3,), (4,)]
    scans = (t.scan(filter=WriteIdFilter(3, (2,))),)
    assert t.rows("SELECT a FROM t ORDER BY a", scans=scans) == [(1,), (3,)]
    assert t.rows("SELECT a FROM t", scans=(t.scan(filter=WriteIdFilter(1)),)) == [(1,)]


def test_an_empty_table_has_its_columns(table: Any) -> None:
    t = table("a int; c char(3); s struct<x:int>", "p date")
    found = t.select("SELECT * FROM t")
    assert found.rows == ()
    assert [column.type for column in found.columns] == ["int", "string", "struct<x:int>", "date"]


def test_rows_of_hives_own_files_are_read(table: Any) -> None:
    t = table("a int; s struct<x:int>; b string", layout="hive")
    count = 3
    ids = {
        "operation": pa.array([0] * count, pa.int32()),
        "originalTransaction": pa.array([1] * count, pa.int64()),
        "bucket": pa.array([1 << 29] * count, pa.int32()),
        "rowId": pa.array(range(count), pa.int64()),
        "currentTransaction": pa.array([1] * count, pa.int64()),
    }
    row = pa.array([{"a": i, "s": {"x": -i}} for i in range(count)])
    gone = {
        **ids,
        "operation": pa.array([2] * count, pa.int32()),
        "currentTransaction": pa.array([2] * count, pa.int64()),
    }
    for name, columns in (
        ("delta_0000001_0000001_0000", {**ids, "row": row}),
        ("delete_delta_0000002_0000002_0000", {**gone, "row": pa.nulls(count, row.type)}),
    ):
        (t.root / name).mkdir(parents=True)
        whole = pa.table(columns)
        orc.write_table(whole if name.startswith("delta") else whole.slice(1, 1), t.root / name / "bucket_00000")
    rows, deletes = (
        ScanPart((f"file://{t.root}/{name}_0000",), "", "hive", files=1)
        for name in ("delta_0000001_0000001", "delete_delta_0000002_0000002")
    )
    assert t.rows(scans=(t.scan(parts=(rows,)),)) == [(0, {"x": 0}, None), (1, {"x": -1}, None), (2, {"x": -2}, None)]
    assert t.rows("SELECT a FROM t WHERE s.x = 0 OR s.x < -1", scans=(t.scan(parts=(rows,), deletes=(deletes,)),)) == [
        (0,),
        (2,),
    ]
    assert t.rows("SELECT count(*) FROM t", scans=(t.scan(parts=(rows,), deletes=(deletes,)),)) == [(2,)]


@layouts
def test_column_names_ignore_case(table: Any, layout: str) -> None:
    t = table("Id int; `x y` int; Name string", "Part string", layout=layout)
    t.columns = (Column("Id", "int"), Column("x y", "int"), Column("Name", "string"))
    t.insert("SELECT 1, 2, 'n', 'p'")
    assert t.directories[0].partition == "part=p"
    assert t.rows("SELECT ID, `X Y`, NAME, PART FROM t WHERE pArT = 'p'") == [(1, 2, "n", "p")]


@layouts
def test_char_compares_without_its_padding(table: Any, layout: str) -> None:
    t = table("c char(5)", layout=layout)
    t.insert("SELECT 'ab'")
    assert t.rows("SELECT c, length(c) FROM t WHERE c = 'ab'") == [("ab   ", 5)]


@layouts
def test_columns_added_later_are_null_in_older_files(table: Any, layout: str) -> None:
    t = table("a int", layout=layout)
    t.insert("SELECT 1")
    t.columns = (*t.columns, Column("b", "string"))
    t.insert("SELECT 2, 'x'")
    assert t.rows("SELECT a, b FROM t ORDER BY a") == [(1, None), (2, "x")]


@layouts
def test_located_partitions_have_the_values_of_the_catalog(table: Any, layout: str) -> None:
    t = table("a int", "p int; q string", layout=layout)
    t.insert("SELECT * FROM VALUES (1, 1, 'x'), (2, 2, NULL), (3, 3, 'z')")
    one, two, _ = t.directories
    t.directories = t.directories[2:]
    located = (replace(t.located(one), values=("10", "y")), replace(t.located(two), values=(None, None)))
    found = t.rows("SELECT * FROM t ORDER BY a", scans=(t.scan(parts=(*t.scan().parts, *located)),))
    assert found == [(1, 10, "y"), (2, None, None), (3, 3, "z")]


# -- external tables ---------------------------------------------------------------------


def external(path: Path, columns: str, format: str, **changes: Any) -> Scan:
    from tests.integration.core.job.conftest import parse

    partitioned = parse(changes.pop("partitioned", ""))
    paths = changes.pop("paths", (f"file://{path}",))
    parts = (ScanPart(paths, f"file://{path}"),)
    return Scan("t", "db.ext", parse(columns), partitioned, format, f"file://{path}", parts, **changes)


def test_csv_is_read_with_its_options(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;name\n1;x y\n2;NA\n")
    scan = external(tmp_path, "id int; name string", "csv", options={"header": "true", "sep": ";", "nullValue": "NA"})
    assert run(runner, "SELECT * FROM t ORDER BY id", scans=(scan,)).rows == ((1, "x y"), (2, None))


def test_paths_are_taken_as_they_stand(runner: Runner, tmp_path: Path) -> None:
    folder = tmp_path / "a{b}[c] *?%2F"
    folder.mkdir()
    (folder / "a.csv").write_text("1\n")
    assert run(runner, "SELECT * FROM t", scans=(external(folder, "id int", "csv"),)).rows == ((1,),)


@pytest.mark.parametrize("format", ["parquet", "json", "orc"])
def test_partitions_of_external_tables_come_from_the_path(
    runner: Runner, tmp_path: Path, format: str, spark: Any
) -> None:
    for p in ("007", "a%2Fb", "__HIVE_DEFAULT_PARTITION__"):
        spark.sql("SELECT 1 AS id").write.format(format).save(f"file://{tmp_path}/p={p}")
    paths = tuple(f"file://{tmp_path}/p={p}" for p in ("007", "a%2Fb", "__HIVE_DEFAULT_PARTITION__", "missing"))
    scan = external(tmp_path, "id int", format, partitioned="p string", paths=paths)
    assert run(runner, "SELECT * FROM t ORDER BY p", scans=(scan,)).rows == ((1, None), (1, "007"), (1, "a/b"))


def test_an_external_directory_that_is_not_there_is_empty(runner: Runner, tmp_path: Path) -> None:
    scan = external(tmp_path / "none", "id int", "csv")
    assert run(runner, "SELECT * FROM t", scans=(scan,)).rows == ()


def test_a_layout_that_is_not_known_is_refused(table: Any) -> None:
    t = table("a int")
    t.insert("SELECT 1")
    (part,) = t.scan().parts
    with pytest.raises(InvalidOperationError, match="layout 'other'"):
        t.select(scans=(t.scan(parts=(replace(part, layout="other"),)),))


# -- running -----------------------------------------------------------------------------


@pytest.mark.parametrize("writes", [False, True])
def test_a_job_is_cancelled_from_another_thread(table: Any, writes: bool, spark: Any) -> None:
    t = table("x bigint")
    sql = "SELECT a.id FROM range(1000000000000) a CROSS JOIN range(1000) b WHERE hash(a.id, b.id) = 5"
    plan = Plan(f"endless{writes}", "endless", sql, write=t.write() if writes else None)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            t.runner.run(plan, "c1")
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    tracker = spark.sparkContext.statusTracker()
    while thread.is_alive() and not tracker.getActiveJobsIds():
        thread.join(0.05)
    t.runner.cancel(plan.tag)
    thread.join(30)
    assert not thread.is_alive()
    [error] = failures
    assert isinstance(error, JobCancelledError)
    assert t.files() == []


def test_cancelling_an_unknown_job_does_nothing(runner: Runner) -> None:
    runner.cancel("unknown")
    assert run(runner, "SELECT 1").rows == ((1,),)


def test_several_threads_run_plans_at_once(table: Any) -> None:
    tables = [table("a int") for _ in range(4)]
    results: dict[int, Any] = {}

    def work(i: int) -> None:
        tables[i].insert(f"SELECT {i}")
        results[i] = tables[i].rows(f"SELECT a FROM t{i}", scans=(tables[i].scan(f"t{i}"),))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: [(i,)] for i in range(4)}


def test_configuration_of_one_cluster_does_not_reach_another(runner: Runner) -> None:
    sql = "SELECT string(TIMESTAMP'2020-01-01 00:00:00Z') AS x"
    berlin = run(runner, sql, spark_conf={"spark.sql.session.timeZone": "Europe/Berlin"})
    assert berlin.rows == (("2020-01-01 01:00:00",),)
    assert run(runner, sql).rows == (("2020-01-01 00:00:00",),)


def test_hadoops_settings_of_one_cluster_do_not_reach_another(runner: Runner) -> None:
    run(runner, "SELECT 1 AS x")
    sessions: list[Any] = [SparkSession.builder.getOrCreate().newSession() for _ in range(2)]
    name, value = "fs.s3a.bucket.data.endpoint", "http://minio:9000"
    with configured(sessions[0], {f"spark.hadoop.{name}": value}):
        pass
    # A DataFrame reads its files when it is computed, perhaps after the job.
    assert [each._jsparkSession.sessionState().newHadoopConf().get(name) for each in sessions] == [value, None]


def test_views_are_dropped_after_a_job(table: Any) -> None:
    t = table("a int")
    t.insert("SELECT 1")
    t.rows()
    with pytest.raises(AnalysisError):
        run(t.runner, "SELECT * FROM t")


def test_sql_configuration_of_the_first_job_stays_with_it() -> None:
    # Its own process: Spark must start with this job.
    program = """
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.runners.registry import runner_for
sql = "SELECT string(TIMESTAMP'2020-01-01 00:00:00Z'), :local = TIMESTAMP'2020-01-01 00:00:00' AS x"
from datetime import datetime
for i, conf in enumerate([{"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "false"}, {}]):
    plan = Plan(f"t{i}", "n", sql, parameters={"local": datetime(2020, 1, 1)}, spark_conf=conf)
    print(runner_for(Cluster("c", "file:///data/c", "local[1]")).run(plan, "c").rows)
plan = Plan("t3", "n", "SELECT CAST('x' AS INT)")
try:
    print(runner_for(Cluster("c", "file:///data/c", "local[1]")).run(plan, "c").rows)
except Exception as error:
    print(type(error).__name__)
"""
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.splitlines() == [
        "(('2020-01-01 09:00:00', True),)",
        "(('2020-01-01 00:00:00', True),)",
        "JobError",
    ]
