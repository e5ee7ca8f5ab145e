"""The tables in the warehouse: made, loaded, refreshed, copied, and what must be in them at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import HivexError
from benchmarks.tpch import rows
from benchmarks.tpch.tables import SMALL, TABLES

CLUSTERS = ("c1", "c2")
KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
"""The tables that refresh streams change, with the order's key in them."""


def cluster_properties(folder: Path, spark_conf: Mapping[str, str] | None = None) -> dict[str, dict[str, object]]:
    """Two clusters with file systems of their own below ``folder``."""
    return {
        name: {"filesystem": (folder / name).as_uri(), "jobtracker": "local[2]", "spark_conf": dict(spark_conf or {})}
        for name in CLUSTERS
    }


class TpchWarehouse:
    """TPC-H's tables over two clusters, with the rows of the generator and of the streams that have run."""

    def __init__(self, metastore: Metastore, folder: Path, scale: float, streams: int) -> None:
        self.metastore = metastore
        self.folder = folder
        rows.generate(folder, scale)
        self.refreshes = rows.make_refreshes(folder, scale, streams)
        self.inserted: set[int] = set()
        self.deleted: set[int] = set()
        self._places = {name: {table.cluster} for name, table in TABLES.items()}
        self._generated = {name: rows.sums(rows.generated(folder, name)) for name in TABLES}

    def session(self, user: str = "tpch") -> Session:
        return self.metastore.session(user=user)

    # -- loading -------------------------------------------------------------------------------

    def create(self, session: Session) -> None:
        """Make the eight tables, and external ones over the files that they are loaded from."""
        for table in TABLES.values():
            session.sql(table.create())
            _external(session, f"{table.name}_source", table.columns, table.cluster, f"source/{table.name}")
        for name in KEYS:
            _external(session, f"{name}_refresh", f"{TABLES[name].columns}, stream int", "c1", f"refresh/{name}")
        _external(session, "deleted_orders", "orderkey bigint, stream int", "c1", "refresh/deleted")

    def load(self, session: Session, *names: str) -> None:
        """Fill tables by one statement; several are on one cluster, and their source is a join."""
        if names == ("region", "nation"):
            done = session.sql(
                "FROM (SELECT * FROM nation_source JOIN region_source ON n_regionkey = r_regionkey) joined "
                f"INSERT INTO region SELECT DISTINCT {TABLES['region'].select_list} "
                f"INSERT INTO nation SELECT {TABLES['nation'].select_list}"
            )
        else:
            (name,) = names
            done = session.sql(f"INSERT INTO {name} SELECT {TABLES[name].select_list} FROM {name}_source")
        expected = sum(int(self._generated[name]["rows"]) for name in names)
        assert done.rows_written == expected, f"{names}: {done.rows_written} rows were written instead of {expected}"

    # -- refreshing ----------------------------------------------------------------------------

    def insert_orders(self, session: Session, stream: int) -> None:
        """RF1: the new orders of a stream, and their lines."""
        for name in KEYS:
            source = f"SELECT {TABLES[name].select_list} FROM {name}_refresh WHERE stream = :stream"
            session.sql(f"INSERT INTO {name} {source}", {"stream": stream})

    def delete_orders(self, session: Session, stream: int) -> None:
        """RF2: the old orders of a stream go, and their lines."""
        keys = "(SELECT orderkey FROM deleted_orders WHERE stream = :stream)"
        for name, key in KEYS.items():
            session.sql(f"DELETE FROM {name} WHERE {key} IN {keys}", {"stream": stream})

    def refresh(self, session: Session, stream: int) -> None:
        """RF1 and RF2, each as one transaction of two statements."""
        in_transaction(session, lambda: self.insert_orders(session, stream))
        self.inserted.add(stream)
        in_transaction(session, lambda: self.delete_orders(session, stream))
        self.deleted.add(stream)

    # -- what must be there --------------------------------------------------------------------

    def expected(self, table: str) -> rows.Sums:
        """Rows and sums of a table, as pyarrow finds them in the files of the generator and of the streams."""
        if table not in KEYS:
            return self._generated[table]
        there = rows.generated(self.folder, table)
        gone = pc.is_in(there[KEYS[table]], self._of("deleted", self.deleted)["orderkey"])
        added = rows.sums(self._of(table, self.inserted).drop_columns("stream"))
        removed = rows.sums(there.filter(gone))
        return {name: value + added[name] - removed[name] for name, value in self._generated[table].items()}

    def found(self, session: Session, table: str) -> rows.Sums:
        """The same, asked of the warehouse."""
        (values,) = session.sql(rows.sums_query(table)).rows
        return dict(zip(self._generated[table], values, strict=True))

    def verify(self, session: Session, names: Iterable[str] = TABLES) -> None:
        """See to it that tables have the rows that they must have."""
        for name in names:
            found, expected = self.found(session, name), self.expected(name)
            wrong = [
                f"{key}: {found[key]} instead of {value}" for key, value in expected.items() if found[key] != value
            ]
            assert not wrong, f"{name} has other rows than it must have: {'; '.join(wrong)}"

    def _of(self, name: str, streams: Iterable[int]) -> pa.Table:
        made = self.refreshes[name]
        return made.filter(pc.is_in(made["stream"], pa.array(sorted(streams), pa.int32())))

    # -- copies --------------------------------------------------------------------------------

    def copy(self, *names: str) -> None:
        """Replicate tables to the cluster that lacks them."""
        for name in names:
            (other,) = set(CLUSTERS) - {TABLES[name].cluster}
            self.metastore.replicator.replicate(f"default.{name}", other)
            self._places[name].add(other)

    def copy_small(self) -> None:
        """Copy the small tables that most joins need."""
        self.copy(*SMALL)

    def changed(self, name: str) -> None:
        """Note that a table was changed on its primary, so that its copy lags."""
        self._places[name] = {TABLES[name].cluster}

    def places(self, names: Iterable[str]) -> set[str]:
        """The clusters that have all of the tables."""
        return set.intersection(*(self._places[name] for name in names))


def in_transaction(session: Session, work: Callable[[], None]) -> None:
    """Run ``work`` as one transaction, and again when another one was first."""
    while True:
        session.sql("START TRANSACTION")
        try:
            work()
            session.sql("COMMIT")
        except BaseException as error:
            if session.txn_id is not None:
                session.sql("ROLLBACK")
            if not isinstance(error, HivexError) or not error.retryable:
                raise
        else:
            return


def _external(session: Session, name: str, columns: str, cluster: str, location: str) -> None:
    session.sql(
        f"CREATE EXTERNAL TABLE {name} ({columns}) USING parquet LOCATION '{location}' "
        f"TBLPROPERTIES ('hivex.cluster' = '{cluster}')"
    )


class PlainSpark:
    """The same rows in files that plain Spark reads: the generator's, or ORC files divided by the same columns."""

    def __init__(self, warehouse: TpchWarehouse, spark_conf: Mapping[str, str] | None = None) -> None:
        self._warehouse = warehouse
        self._folder = warehouse.folder / "plain"
        from pyspark.sql import SparkSession

        # A session of its own has views of its own, which may be called as the tables are.
        self._spark = SparkSession.builder.getOrCreate().newSession()
        for key, value in (spark_conf or {}).items():
            self._spark.conf.set(key, value)

    def write(self, name: str) -> None:
        """Write a table's rows as ORC files, as the streams that have run have left them."""
        from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

        table, there = TABLES[name], self._source(name)
        deleted, inserted = self._warehouse.deleted, self._warehouse.inserted
        if name in KEYS and deleted:
            gone = self._stream("deleted", deleted)
            there = there.join(gone, there[KEYS[name]] == gone["orderkey"], "left_anti")
        if name in KEYS and inserted:
            there = there.unionByName(self._stream(name, inserted).drop("stream"))
        if table.year is not None:
            there = there.withColumn(table.year[0], F.year(table.year[1]))
        writer = there.write.mode("overwrite").option("compression", "zstd")
        (writer if table.year is None else writer.partitionBy(table.year[0])).orc(str(self._folder / name))

    def query(self, text: str, names: Iterable[str]) -> list[tuple[object, ...]]:
        """The rows of a query on the tables ``names``."""
        for name in names:
            table, written = TABLES[name], self._folder / name
            columns = table.columns if table.year is None else f"{table.columns}, {table.year[0]} int"
            there = self._spark.read.schema(columns).orc(str(written)) if written.exists() else self._source(name)
            there.createOrReplaceTempView(name)
        return [tuple(row.values()) for row in self._spark.sql(text).toArrow().to_pylist()]

    def _source(self, name: str):
        return self._spark.read.parquet(str(self._warehouse.folder / TABLES[name].cluster / "source" / name))

    def _stream(self, name: str, streams: Iterable[int]):
        made = self._spark.read.parquet(str(self._warehouse.folder / "c1" / "refresh" / name))
        return made.where(made["stream"].isin(sorted(streams)))
