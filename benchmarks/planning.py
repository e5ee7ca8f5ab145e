"""How long a SELECT takes until Spark has its physical plan, with many deltas and with many partitions.

That is everything but running the job: reading the statement, a transaction with its locks and snapshot, the route,
the listing of the files, and Spark's own planning.
"""

from __future__ import annotations

from pathlib import Path

from airflow_hivex.core import Metastore
from benchmarks.harness import Figure, interleave, within

DELTAS = 500
PARTITIONS = 10_000


def run(folder: Path) -> list[Figure]:
    """Figures for 500 deltas and for 10,000 partitions, against what they may take."""
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

        warehouse = session.warehouse(SparkSession.builder.getOrCreate())

        def plan(table: str, count: int) -> None:
            rows = warehouse.sql(f"SELECT count(id), sum(id) FROM {table}")
            rows._jdf.queryExecution().executedPlan()
            if count not in checked:
                assert tuple(rows.collect()[0]) == (count, count * (count - 1) // 2)
                checked.add(count)

        checked: set[int] = set()
        cases = {
            f"{DELTAS} deltas": lambda: plan("deltas", DELTAS),
            f"{PARTITIONS:,} partitions": lambda: plan("partitions", PARTITIONS),
        }
        seconds = interleave(cases, rounds=10, warm_up=2)
    limits = dict(zip(cases, (0.5, 1.0), strict=True))
    return [within(f"planning, {name}", seconds[name], limit) for name, limit in limits.items()]
