"""UPDATE, DELETE and MERGE of TPC-H's lineitem, compared with plain Spark ORC and deltalake.

Plain Spark has no row changes; its peer is to rewrite the whole table (copy on write). deltalake changes a copy of
the same rows in Parquet, and rewrites the files that it touches. Every change is undone before the next round.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness import Figure, compare, interleave
from benchmarks.lineitem import DELTA, Lineitem, lineitem, spark

CHANGED = "l_orderkey % 100 = 7"
"""One row in a hundred, everywhere."""
MERGED = 100_000
REWRITE = "rewrite by Spark"


def run(folder: Path, scale: float) -> list[Figure]:
    """Figures for changes of one row in a hundred, and for a MERGE that updates 50,000 rows and inserts as many."""
    with lineitem(folder, scale) as rows:
        rows.create()
        rows.insert()
        rows.write_plain()
        rows.write_delta()
        return [*_deletes(rows), *_updates(rows), *_merges(rows)]


def _figures(rows: Lineitem, name: str, statement: str, plain: Any, delta: Any, goal: float) -> list[Figure]:
    cases = {
        "ours": rows.timed(statement),
        REWRITE: rows.copy_on_write(plain),
        DELTA: rows.timed_delta(delta),
    }
    seconds = interleave(cases, rounds=5, warm_up=1)
    title = f"{name} of {rows.rows:,} rows"
    return [
        compare(title, seconds, "ours", REWRITE, goal=goal),
        compare(title, seconds, "ours", DELTA, goal=1.0),
    ]


def _deletes(rows: Lineitem) -> list[Figure]:
    return _figures(
        rows,
        "DELETE of 1%",
        "DELETE FROM {table} WHERE " + CHANGED,
        lambda there: there.where(f"NOT ({CHANGED})"),
        lambda table: table.delete(CHANGED),
        0.15,
    )


def _updates(rows: Lineitem) -> list[Figure]:
    price = f"IF({CHANGED}, l_extendedprice + 1, l_extendedprice) AS l_extendedprice"
    updated = [price if name == "l_extendedprice" else name for name in rows.names]
    return _figures(
        rows,
        "UPDATE of 1%",
        "UPDATE {table} SET l_extendedprice = l_extendedprice + 1 WHERE " + CHANGED,
        lambda there: there.selectExpr(*updated),
        lambda table: table.update({"l_extendedprice": "l_extendedprice + 1"}, predicate=CHANGED),
        0.25,
    )


def _merges(rows: Lineitem) -> list[Figure]:
    import pyarrow.dataset as ds
    from pyspark.sql.functions import broadcast

    # Half of them are there, spread over the table.
    where = rows.folder / "c1" / "changes"
    lines = spark().read.parquet(str(rows.source)).where("l_linenumber = 1 AND l_orderkey % 100 IN (7, 8, 9)")
    there = lines.limit(MERGED // 2)
    new = there.withColumn("l_orderkey", there.l_orderkey + 1_000_000_000)
    there.union(new).coalesce(1).write.parquet(str(where))
    rows.session.sql(f"CREATE EXTERNAL TABLE changes ({rows.columns}) USING parquet LOCATION 'changes'")
    source = ds.dataset(where, format="parquet").to_table()
    key = ["l_orderkey", "l_linenumber"]

    def plain(present: Any) -> Any:
        changes = spark().read.parquet(str(where))
        kept = present.join(broadcast(changes.select(*key)), key, "left_anti")
        return kept.select(*rows.names).unionByName(changes.select(*rows.names))

    def delta(table: Any) -> object:
        on = " AND ".join(f"t.{name} = s.{name}" for name in key)
        merger = table.merge(source, on, source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    statement = (
        "MERGE INTO {table} t USING changes s ON t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    return _figures(rows, f"MERGE of {source.num_rows:,} rows", statement, plain, delta, 0.3)
