"""The time of a SELECT until Spark has its physical plan, with many deltas and with many partitions.

That is everything but running the job: reading the statement, a transaction with its locks and snapshot, the route,
the listing of the files, and Spark's own planning. Plain Spark is given the same directories, the columns with their
types and the base path: it lists them, takes the partition values from the paths, and plans the same query. It lists
them in the driver as the warehouse does: by its default Spark starts a job with a task for each, which takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_hivex.core import Metastore
from benchmarks.harness import Figure, compare, interleave

DELTAS = 500
PARTITIONS = 10_000
PLAIN = "plain Spark ORC"
GOAL = 1.3


def run(folder: Path) -> list[Figure]:
    """Figures for 500 deltas and for 10,000 partitions, against plain Spark with the same directories."""
    clusters = {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[2]"}}
    with (
        Metastore.open(f"sqlite:///{folder / 'planning.db'}", clusters=clusters) as metastore,
        metastore.session() as session,
    ):
        session.sql("SELECT 1")
        # Small INSERTs of VALUES start no job.
        session.sql("CREATE TABLE deltas (id bigint)")
        for number in range(DELTAS):
            session.sql(f"INSERT INTO deltas VALUES ({number})")
        session.sql("CREATE TABLE partitions (id bigint) PARTITIONED BY (n int)")
        values = ", ".join(f"({number}, {number})" for number in range(PARTITIONS))
        session.sql(f"INSERT INTO partitions VALUES {values}")
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.getOrCreate()
        warehouse = session.warehouse(spark)
        plain_spark = spark.newSession()
        plain_spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", 10 * PARTITIONS)

        def plain(table: str, columns: str) -> Callable[[], Any]:
            (root,) = (folder / "c1").glob(f"*/{table}")
            paths = sorted(str(path) for path in root.glob("**/delta_*"))
            reader = plain_spark.read.schema(columns).option("basePath", str(root))
            return lambda: reader.orc(paths).selectExpr("count(id)", "sum(id)")

        def ours(table: str) -> Callable[[], Any]:
            return lambda: warehouse.sql(f"SELECT count(id), sum(id) FROM {table}")

        figures: list[Figure] = []
        for name, count, table, columns in (
            (f"{DELTAS} deltas", DELTAS, "deltas", "id bigint"),
            (f"{PARTITIONS:,} partitions", PARTITIONS, "partitions", "id bigint, n int"),
        ):
            cases = {name: ours(table), PLAIN: plain(table, columns)}
            for title, rows in cases.items():
                found = tuple(rows().collect()[0])
                assert found == (count, count * (count - 1) // 2), f"{title}: {found}"
            seconds = interleave({title: _planned(rows) for title, rows in cases.items()}, rounds=10, warm_up=2)
            figures.append(compare(f"planning, {name}", seconds, name, PLAIN, goal=GOAL))
        return figures


def _planned(rows: Callable[[], Any]) -> Callable[[], None]:
    """Return what makes a DataFrame, and has Spark plan it."""

    def plan() -> None:
        rows()._jdf.queryExecution().executedPlan()

    return plan
