"""TPC-H's lineitem for benchmarks of the data plane: as a table of ours, as plain ORC files, and as a Delta table."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_hivex.core import Metastore, Session
from benchmarks.harness import Figure, compare, interleave

SCALE = 10 / 6
"""Lineitem has some six million rows at scale 1."""
FILES = 4
SLICES = 500

AGGREGATE = "SELECT sum(l_quantity), sum(l_extendedprice) FROM {table}"
PLAIN = "plain Spark ORC"
DELTA = "deltalake"
HIVE = " TBLPROPERTIES ('hivex.row.layout' = 'hive')"
"""The row layout that Hive reads, too."""

Rows = list[tuple[object, ...]]


@contextmanager
def lineitem(folder: Path, scale: float) -> Iterator[Lineitem]:
    """The rows at a scale, and a session of a metastore that has them as the external table ``source``."""
    clusters = {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[2]"}}
    with (
        Metastore.open(f"sqlite:///{folder / 'rows.db'}", clusters=clusters) as metastore,
        metastore.session() as session,
    ):
        session.sql("SELECT 1")
        yield Lineitem(metastore, session, folder, scale)


class Lineitem:
    """Parquet files from the generator in ``source``, and what is made from them."""

    def __init__(self, metastore: Metastore, session: Session, folder: Path, scale: float) -> None:
        self.metastore = metastore
        self.session = session
        self.folder = folder
        program = Path(sys.executable).with_name("tpchgen-cli")
        options = ("--tables=lineitem", f"--parts={FILES}", "--quiet", f"--output-dir={folder / 'c1'}")
        subprocess.run([str(program), "parquet", f"--scale-factor={scale:.4f}", *options], check=True)
        self.source = folder / "c1" / "lineitem"
        self.plain = folder / "plain"
        self.delta = folder / "delta"
        rows = spark().read.parquet(str(self.source))
        self.schema = rows.schema
        self.rows = rows.count()
        self.columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in self.schema.fields)
        session.sql(f"CREATE EXTERNAL TABLE source ({self.columns}) USING parquet LOCATION 'lineitem'")
        self._views = itertools.count()

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.schema.fields]

    @property
    def full_scan(self) -> str:
        """A query that reads all columns of all rows."""
        return "SELECT " + ", ".join(f"max({name})" for name in self.names) + " FROM {table}"

    @property
    def point_lookup(self) -> str:
        """A query for the lines of one order in the middle."""
        middle = (
            spark()
            .read.parquet(str(self.source))
            .selectExpr("percentile_approx(l_orderkey, 0.5) AS k")
            .collect()[0]["k"]
        )
        return f"SELECT count(*), sum(l_extendedprice) FROM {{table}} WHERE l_orderkey = {middle}"

    # -- ours ----------------------------------------------------------------------------------

    def create(self, table: str = "lineitem", properties: str = "") -> None:
        """An empty table of ours; an earlier one of that name goes."""
        self.session.sql(f"DROP TABLE IF EXISTS {table}")
        self.session.sql(f"CREATE TABLE {table} ({self.columns}){properties}")

    def insert(self, table: str = "lineitem") -> None:
        """All rows, by one INSERT."""
        assert self.session.sql(f"INSERT INTO {table} SELECT * FROM source").rows_written == self.rows

    def slice(self) -> None:
        """The same rows once more as the external table ``slices`` of 500 partitions, for small INSERTs to read."""
        from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

        rows = spark().read.parquet(str(self.source)).withColumn("slice", F.expr(f"l_orderkey % {SLICES}").cast("int"))
        where = self.folder / "c1" / "slices"
        rows.repartition(8, "slice").write.partitionBy("slice").parquet(str(where))
        self.session.sql(
            f"CREATE EXTERNAL TABLE slices ({self.columns}) PARTITIONED BY (slice int) STORED AS PARQUET "
            "LOCATION 'slices'"
        )
        there = sorted(int(path.name.partition("=")[2]) for path in where.glob("slice=*"))
        partitions = " ".join(f"PARTITION (slice = {number})" for number in there)
        self.session.sql(f"ALTER TABLE slices ADD {partitions}")

    def insert_slices(self, deltas: int, table: str = "lineitem") -> None:
        """All rows, by ``deltas`` INSERTs of as many slices each.

        Four at a time: each is small, and one alone waits for Spark's driver most of the time.
        """
        names = ", ".join(self.names)

        def insert(number: int) -> None:
            first, last = (SLICES * each // deltas for each in (number, number + 1))
            source = f"SELECT {names} FROM slices WHERE slice >= {first} AND slice < {last}"
            with self.metastore.session() as session:
                session.sql(f"INSERT INTO {table} {source}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(insert, range(deltas)))

    def ask(self, query: str, table: str = "lineitem") -> Rows:
        return self.session.sql(query.format(table=table)).rows

    def timed(self, statement: str, table: str = "lineitem") -> Callable[[], float]:
        """Seconds of a statement; what it did is undone."""
        return self.timed_change(lambda: self.session.sql(statement.format(table=table)))

    def timed_change(self, change: Callable[[], object]) -> Callable[[], float]:
        """Seconds of a change by the session; it is undone."""

        def case() -> float:
            self.session.sql("START TRANSACTION")
            started = time.perf_counter()
            change()
            elapsed = time.perf_counter() - started
            self.session.sql("ROLLBACK")
            return elapsed

        return case

    # -- plain Spark ---------------------------------------------------------------------------

    def write_plain(self, rows: Any = None, target: Path | None = None) -> None:
        """Rows (all without) as plain ORC files, instead of those that are there."""
        there = spark().read.parquet(str(self.source)) if rows is None else rows
        where = target or self.plain
        shutil.rmtree(where, ignore_errors=True)
        there.write.option("compression", "zstd").orc(str(where))

    def read_plain(self) -> Any:
        return spark().read.schema(self.schema).orc(str(self.plain))

    def delete_plain(self, condition: str) -> None:
        """Take rows out of the plain ORC files."""
        kept = self.folder / "kept"
        self.write_plain(self.read_plain().where(f"NOT ({condition})"), kept)
        shutil.rmtree(self.plain)
        kept.rename(self.plain)

    def ask_plain(self, query: str) -> Rows:
        view = f"plain_{next(self._views)}"
        self.read_plain().createOrReplaceTempView(view)
        found = spark().sql(query.format(table=view)).toArrow()
        return [tuple(row.values()) for row in found.to_pylist()]

    def copy_on_write(self, change: Callable[[Any], Any]) -> Callable[[], None]:
        """Rewriting the whole table with a change: what plain Spark has instead of changes of rows."""
        return lambda: self.write_plain(change(self.read_plain()), self.folder / "rewritten")

    # -- deltalake -----------------------------------------------------------------------------

    def write_delta(self) -> None:
        """All rows as a Delta table, instead of the one that is there."""
        import pyarrow.dataset as ds
        from deltalake import write_deltalake

        shutil.rmtree(self.delta, ignore_errors=True)
        write_deltalake(str(self.delta), ds.dataset(self.source, format="parquet").scanner().to_reader())

    def append_delta_slices(self, deltas: int) -> None:
        """The same by ``deltas`` appends."""
        import pyarrow.dataset as ds
        from deltalake import write_deltalake

        shutil.rmtree(self.delta, ignore_errors=True)
        slices = ds.dataset(self.folder / "c1" / "slices", format="parquet", partitioning="hive")
        for number in range(deltas):
            first, last = (SLICES * each // deltas for each in (number, number + 1))
            part = slices.to_table(self.names, filter=(ds.field("slice") >= first) & (ds.field("slice") < last))
            write_deltalake(str(self.delta), part, mode="append")

    def delete_delta(self, condition: str) -> None:
        """Take rows out of the Delta table."""
        from deltalake import DeltaTable

        DeltaTable(str(self.delta)).delete(condition)

    def ask_delta(self, query: str) -> Rows:
        """Return the answer of deltalake's own query engine."""
        import pyarrow as pa
        from deltalake import DeltaTable, QueryBuilder

        found = QueryBuilder().register("delta", DeltaTable(str(self.delta))).execute(query.format(table="delta"))
        return [tuple(row.values()) for row in pa.table(found.read_all()).to_pylist()]

    def timed_delta(self, change: Callable[[Any], object]) -> Callable[[], float]:
        """Seconds of a change by deltalake; it is undone."""
        from deltalake import DeltaTable

        def case() -> float:
            table = DeltaTable(str(self.delta))
            version = table.version()
            started = time.perf_counter()
            change(table)
            elapsed = time.perf_counter() - started
            DeltaTable(str(self.delta)).restore(version)
            return elapsed

        return case

    # -- next to each other ---------------------------------------------------------------------

    def scan(
        self, name: str, query: str, goal: float, table: str = "lineitem", **others: Callable[[], object]
    ) -> list[Figure]:
        """A query on the table of ours, on the plain ORC files and on the Delta table, which have the same rows.

        ``others`` are further ways of ours, measured against the plain files.
        """
        expected = self.ask_plain(query)
        for found in (self.ask(query, table), self.ask_delta(query)):
            assert found == expected, f"{name}: {found} instead of {expected}"
        cases = {
            name: lambda: self.ask(query, table),
            PLAIN: lambda: self.ask_plain(query),
            DELTA: lambda: self.ask_delta(query),
            **{f"{name}, {title.replace('_', ' ')}": case for title, case in others.items()},
        }
        seconds = interleave(cases, rounds=3, warm_up=1, at_least_s=15)
        ours = [each for each in cases if each not in (PLAIN, DELTA)]
        return [
            *(compare(each, seconds, each, PLAIN, goal=goal) for each in ours),
            compare(name, seconds, name, DELTA, goal=1.0),
        ]


def spark() -> Any:
    """The Spark that runs in this process."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
