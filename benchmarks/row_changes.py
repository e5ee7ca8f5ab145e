"""UPDATE, DELETE and MERGE of TPC-H's lineitem, and reading what they leave: beside plain Spark ORC and deltalake.

Plain Spark has no row changes; its peer is to write the whole table anew (copy on write). deltalake changes a copy of
the same rows in Parquet, and writes anew the files that it touches. Every change is undone before the next round.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_hivex.core import Metastore, Session
from benchmarks.harness import Figure, compare, interleave

SCALE = 10 / 6
"""Lineitem has some six million rows at scale 1."""
CHANGED = "l_orderkey % 100 = 7"
"""One row in a hundred, everywhere."""
PARTS = 4
MERGED = 100_000
AGGREGATE = "SELECT sum(l_quantity), sum(l_extendedprice) FROM {table}"


def run(folder: Path) -> list[Figure]:
    """Figures for changes of one row in a hundred, a MERGE of 100,000 rows, and for scans with deltas and deletes."""
    clusters = {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[2]"}}
    with (
        Metastore.open(f"sqlite:///{folder / 'rows.db'}", clusters=clusters) as metastore,
        metastore.session() as session,
    ):
        session.sql("SELECT 1")
        lineitem = _Lineitem(session, folder)
        return [*_changes(lineitem), *_scans(lineitem)]


def _spark() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


class _Lineitem:
    """The same rows as a table of ours, as plain ORC files, and as a Delta table."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session = session
        self.folder = folder
        program = Path(sys.executable).with_name("tpchgen-cli")
        options = ("--tables=lineitem", f"--parts={PARTS}", f"--output-dir={folder / 'c1'}")
        subprocess.run([str(program), "parquet", "-s", f"{SCALE:.4f}", *options], check=True)
        self.source = folder / "c1" / "lineitem"
        self.schema = _spark().read.parquet(str(self.source)).schema
        self.columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in self.schema.fields)
        session.sql(f"CREATE EXTERNAL TABLE source ({self.columns}) USING parquet LOCATION 'lineitem'")
        self.insert("lineitem", ["true"])
        self.rows = session.sql("SELECT count(*) FROM lineitem").rows[0][0]
        self.plain = folder / "plain"
        self.rewrite(_spark().read.parquet(str(self.source)), self.plain)
        # Half of them are there, spread over the table.
        self.changes = folder / "c1" / "changes"
        lines = _spark().read.parquet(str(self.source)).where("l_linenumber = 1 AND l_orderkey % 100 IN (7, 8)")
        there = lines.limit(MERGED // 2)
        new = there.withColumn("l_orderkey", there.l_orderkey + 1_000_000_000)
        there.union(new).coalesce(1).write.parquet(str(self.changes))
        session.sql(f"CREATE EXTERNAL TABLE changes ({self.columns}) USING parquet LOCATION 'changes'")

    def insert(self, table: str, parts: list[str]) -> None:
        """A table of ours with the rows of ``source``, one delta for each condition."""
        self.session.sql(f"CREATE TABLE {table} ({self.columns})")
        for part in parts:
            self.session.sql(f"INSERT INTO {table} SELECT * FROM source WHERE {part}")

    def rewrite(self, rows: Any, target: Path) -> None:
        shutil.rmtree(target, ignore_errors=True)
        rows.write.option("compression", "zstd").orc(str(target))

    def read(self) -> Any:
        return _spark().read.schema(self.schema).orc(str(self.plain))

    def timed(self, statement: str, table: str = "lineitem") -> Callable[[], float]:
        """Seconds of a statement; what it did is undone."""

        def case() -> float:
            self.session.sql("START TRANSACTION")
            started = time.perf_counter()
            self.session.sql(statement.format(table=table))
            elapsed = time.perf_counter() - started
            self.session.sql("ROLLBACK")
            return elapsed

        return case

    def copy_on_write(self, change: Callable[[Any], Any]) -> Callable[[], None]:
        return lambda: self.rewrite(change(self.read()), self.folder / "rewritten")

    def delta(self, change: Callable[[Any], object]) -> Callable[[], float]:
        """Seconds of a change by deltalake; it is undone."""
        from deltalake import DeltaTable

        where = str(self.folder / "delta")

        def case() -> float:
            table = DeltaTable(where)
            version = table.version()
            started = time.perf_counter()
            change(table)
            elapsed = time.perf_counter() - started
            DeltaTable(where).restore(version)
            return elapsed

        return case


def _changes(lineitem: _Lineitem) -> list[Figure]:
    import pyarrow.dataset as ds
    from deltalake import write_deltalake

    write_deltalake(str(lineitem.folder / "delta"), ds.dataset(lineitem.source, format="parquet").to_table())
    source = ds.dataset(lineitem.changes, format="parquet").to_table()
    names = [field.name for field in lineitem.schema.fields]

    def merged_plain(rows: Any) -> Any:
        changes = _spark().read.parquet(str(lineitem.changes))
        from pyspark.sql.functions import broadcast

        kept = rows.join(
            broadcast(changes.select("l_orderkey", "l_linenumber")), ["l_orderkey", "l_linenumber"], "left_anti"
        )
        return kept.select(*names).unionByName(changes.select(*names))

    def merge_delta(table: Any) -> object:
        on = "t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber"
        merger = table.merge(source, on, source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    price = "IF(l_orderkey % 100 = 7, l_extendedprice + 1, l_extendedprice) AS l_extendedprice"
    updated = [price if name == "l_extendedprice" else name for name in names]
    update = "UPDATE {table} SET l_extendedprice = l_extendedprice + 1 WHERE " + CHANGED
    merge = (
        "MERGE INTO {table} t USING changes s ON t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    figures = []
    for name, statement, plain, delta, goal in (
        (
            "DELETE of 1%",
            "DELETE FROM {table} WHERE " + CHANGED,
            lambda rows: rows.where(f"NOT ({CHANGED})"),
            lambda table: table.delete(CHANGED),
            0.15,
        ),
        (
            "UPDATE of 1%",
            update,
            lambda rows: rows.selectExpr(*updated),
            lambda table: table.update({"l_extendedprice": "l_extendedprice + 1"}, predicate=CHANGED),
            0.25,
        ),
        (f"MERGE of {MERGED:,} rows", merge, merged_plain, merge_delta, 0.3),
    ):
        cases = {
            "ours": lineitem.timed(statement),
            "rewrite by Spark": lineitem.copy_on_write(plain),
            "deltalake": lineitem.delta(delta),
        }
        seconds = interleave(cases, rounds=3, warm_up=0)
        figures += [
            compare(f"{name} of {lineitem.rows:,} rows", seconds, "ours", "rewrite by Spark", goal=goal),
            compare(f"{name} of {lineitem.rows:,} rows", seconds, "ours", "deltalake", goal=1.0),
        ]
    return figures


def _scans(lineitem: _Lineitem) -> list[Figure]:
    """All columns of all rows, and a sum of two columns; a table of plain ORC with the same rows is the peer."""
    full = "SELECT " + ", ".join(f"max({field.name})" for field in lineitem.schema.fields) + " FROM {table}"
    deltas = {count: [f"l_orderkey % {count} = {part}" for part in range(count)] for count in (10, 50)}
    lineitem.session.sql("DROP TABLE lineitem")
    figures = []
    for name, parts, deleted, goals in (
        ("clean", ["true"], None, (1.05, 1.05)),
        ("1% deleted", None, "l_orderkey % 100 = 7", (1.25, 2.0)),
        ("10% deleted", None, "l_orderkey % 100 BETWEEN 20 AND 28", (1.4, 2.4)),
        ("10 deltas", deltas[10], None, (1.1, 1.2)),
        ("50 deltas", deltas[50], None, (1.2, 1.6)),
    ):
        if parts is not None:
            lineitem.session.sql("DROP TABLE IF EXISTS lineitem")
            lineitem.insert("lineitem", parts)
            lineitem.rewrite(_spark().read.parquet(str(lineitem.source)), lineitem.plain)
        if deleted is not None:
            lineitem.session.sql(f"DELETE FROM lineitem WHERE {deleted}")
            kept = lineitem.folder / "kept"
            lineitem.rewrite(lineitem.read().where(f"NOT ({deleted})"), kept)
            shutil.rmtree(lineitem.plain)
            kept.rename(lineitem.plain)
        for title, query, goal in (("full scan", full, goals[0]), ("sum of two columns", AGGREGATE, goals[1])):
            figures.append(_scan(lineitem, f"{title}, {name}", query, goal))
    return figures


def _scan(lineitem: _Lineitem, name: str, query: str, goal: float) -> Figure:
    names = itertools.count()

    def plain() -> list[tuple[object, ...]]:
        view = f"plain_{next(names)}"
        lineitem.read().createOrReplaceTempView(view)
        found = _spark().sql(query.format(table=view)).toArrow()
        return [tuple(row.values()) for row in found.to_pylist()]

    def ours() -> list[tuple[object, ...]]:
        return lineitem.session.sql(query.format(table="lineitem")).rows

    assert ours() == plain(), name
    seconds = interleave({"ours": ours, "plain ORC": plain}, rounds=3, warm_up=0)
    return compare(name, seconds, "ours", "plain ORC", goal=goal)
