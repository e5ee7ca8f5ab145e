"""A MERGE from a DataFrame into TPC-H's lineitem, compared with deltalake; every change is undone before the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness import Figure, compare, interleave
from benchmarks.lineitem import DELTA, Lineitem, lineitem, spark

GOAL = 1.0
SIZES = (1_000, 100_000)
"""Rows of the DataFrame: half of them change a row, half are new."""
_KEY = ["l_orderkey", "l_linenumber"]
_OURS = "ours"


def run(folder: Path, scale: float) -> list[Figure]:
    """Figures for a few and for many rows."""
    with lineitem(folder, scale) as rows:
        rows.create()
        rows.insert()
        rows.write_delta()
        return [_merge(rows, size) for size in SIZES]


def _merge(rows: Lineitem, size: int) -> Figure:
    import pyarrow.parquet as pq
    from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

    # Half of them are there, spread over the table.
    lines = spark().read.parquet(str(rows.source)).where("l_linenumber = 1")
    there = lines.orderBy(F.xxhash64("l_orderkey")).limit(size // 2)
    new = there.withColumn("l_orderkey", there.l_orderkey + 1_000_000_000)
    where = rows.folder / f"changes_{size}"
    there.union(new).coalesce(1).write.parquet(str(where))
    frame = spark().read.parquet(str(where))
    # deltalake takes its source from memory.
    source = pq.read_table(where)
    warehouse = rows.session.warehouse(spark())
    on = " AND ".join(f"t.{name} = s.{name}" for name in _KEY)

    def ours() -> tuple[object, ...]:
        merge = warehouse.merge(frame, "lineitem", on, source_alias="s", target_alias="t")
        result = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        return (size // 2, (result.rows_written or 0) - (result.rows_deleted or 0), result.rows_deleted)

    def delta(table: Any) -> tuple[object, ...]:
        merger = table.merge(source, on, source_alias="s", target_alias="t")
        found = merger.when_matched_update_all().when_not_matched_insert_all().execute()
        return (size // 2, found["num_target_rows_inserted"], found["num_target_rows_updated"])

    def checked(counts: tuple[object, ...]) -> None:
        assert len(set(counts)) == 1, counts

    cases = {
        _OURS: rows.timed_change(lambda: checked(ours())),
        DELTA: rows.timed_delta(lambda table: checked(delta(table))),
    }
    seconds = interleave(cases, rounds=9, warm_up=2, swap=True)
    return compare(f"merge of {size:,} rows into {rows.rows:,}", seconds, _OURS, DELTA, goal=GOAL)
