"""INSERT and SELECT against what plain Spark takes for the same rows in the same process."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.model.plans import Plan, Write
from airflow_hivex.core.model.statements import Literal, Select
from airflow_hivex.core.spark.values import write_rows
from airflow_hivex.core.sql.reader import read
from airflow_hivex.core.statements import planning
from airflow_hivex.core.statements.context import StatementContext, new_tag
from airflow_hivex.core.statements.routing import chosen_cluster, route
from benchmarks.harness import Figure, compare, interleave

ROWS = 5_000_000
COLUMNS = "id bigint, k int, amount double, quantity int, city string, note string"
FULL = "SELECT count(*), sum(id), sum(k), sum(amount), sum(quantity), max(city), max(note) FROM {table}"
FILTERED = "SELECT count(*), sum(amount) FROM {table} WHERE id BETWEEN 1000000 AND 1010000"


def run(folder: Path) -> list[Figure]:
    """Figures for INSERT of many and of ten rows, and for a full and a filtered scan."""
    clusters = {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[2]"}}
    with (
        Metastore.open(f"sqlite:///{folder / 'data.db'}", clusters=clusters) as metastore,
        metastore.session() as session,
    ):
        session.sql("SELECT 1")
        return [*_inserts(session, folder), *_small_inserts(session, metastore, folder), *_scans(session, folder)]


def _spark():
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _inserts(session: Session, folder: Path) -> list[Figure]:
    source = folder / "c1" / "source"
    rows = (
        _spark()
        .range(ROWS)
        .selectExpr(
            "id",
            "cast(id % 1000 AS int) AS k",
            "cast(hash(id) AS double) / 7 AS amount",
            "cast(abs(hash(id, 1)) % 50 AS int) AS quantity",
            "concat('city', abs(hash(id, 2)) % 300) AS city",
            "concat('note ', hash(id, 3)) AS note",
        )
    )
    rows.write.parquet(str(source))
    session.sql(f"CREATE EXTERNAL TABLE source ({COLUMNS}) USING parquet LOCATION 'source'")

    def insert() -> None:
        session.sql("DROP TABLE IF EXISTS t")
        session.sql(f"CREATE TABLE t ({COLUMNS})")
        assert session.sql("INSERT INTO t SELECT * FROM source").rows_written == ROWS

    def plain() -> None:
        shutil.rmtree(folder / "plain", ignore_errors=True)
        _spark().read.parquet(str(source)).write.option("compression", "zstd").orc(str(folder / "plain"))

    seconds = interleave({"insert": insert, "plain Spark ORC write": plain}, rounds=5, warm_up=1)
    return [compare(f"INSERT of {ROWS:,} rows", seconds, "insert", "plain Spark ORC write", goal=1.15)]


def _small_inserts(session: Session, metastore: Metastore, folder: Path) -> list[Figure]:
    session.sql("CREATE TABLE small (id bigint, name string)")
    table = metastore.catalog.get_table("default", "small")
    values = [(Literal(n, "int"), Literal(f"name {n}", "string")) for n in range(10)]
    write_ids = itertools.count(1)
    text = ", ".join(f"({n}, 'name {n}')" for n in range(10))

    # Beside the table, whose own write ids the whole statements take.
    aside = (folder / "c1" / "aside").as_uri()

    def ours() -> None:
        assert write_rows(Write(aside, "small", table.columns, (), next(write_ids)), values)

    def spark_job() -> None:
        _spark().sql(f"SELECT * FROM VALUES {text} AS v (id, name)").write.mode("overwrite").orc(str(folder / "ten"))

    def statement() -> None:
        session.sql(f"INSERT INTO small VALUES {text}")

    cases = {"ours": ours, "Spark job": spark_job, "statement": statement}
    seconds = interleave(cases, rounds=20, warm_up=5)
    return [
        compare("INSERT of ten rows, without its commit", seconds, "ours", "Spark job", goal=0.1),
        compare("INSERT of ten rows, the whole statement", seconds, "statement", "Spark job", goal=1.0),
    ]


def _scans(session: Session, folder: Path) -> list[Figure]:
    """From the table's files to rows in this process, and the same for plain ORC files of the same rows."""

    def plain(query: str) -> list[tuple[object, ...]]:
        _spark().read.schema(COLUMNS).orc(str(folder / "plain")).createOrReplaceTempView("plain_orc")
        found = _spark().sql(query.format(table="plain_orc")).toArrow()
        return [tuple(row.values()) for row in found.to_pylist()]

    figures = []
    for name, query in (("full scan", FULL), ("filtered scan", FILTERED)):
        assert plain(query) == session.sql(query.format(table="t")).rows
        jobs = _timed_jobs(session, query.format(table="t"))
        cases = {
            "statement": lambda query=query: session.sql(query.format(table="t")),
            "job": jobs,
            "plain ORC": lambda query=query: plain(query),
        }
        seconds = interleave(cases, rounds=15, warm_up=5)
        figures += [
            compare(f"{name}, its job", seconds, "job", "plain ORC", goal=1.05),
            compare(f"{name}, whole statement", seconds, "statement", "plain ORC", goal=1.05),
        ]
    return figures


def _timed_jobs(session: Session, query: str) -> Callable[[], object]:
    """The job of a SELECT alone: its plan is made once, then run again and again."""
    services = session._services
    context = StatementContext(services, session._state)
    statement = read(query)
    assert isinstance(statement, Select)
    routed = route(context, statement)
    cluster = chosen_cluster(context, routed)
    tag = new_tag(0)
    scans = tuple(planning.scan(bound, cluster, f"{tag}_{i}") for i, bound in enumerate(routed.bound))
    sql = statement.query.render([scan.view for scan in scans])
    runner = services.runner(cluster)
    return lambda: runner.run(Plan(tag, "benchmark", sql, scans), cluster.name)
