"""The lag of the copies of all tables, in sums: the same as partition by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, select, update

from airflow_hivex.core import Metastore
from airflow_hivex.core.catalog.copy_rows import CopyLag
from airflow_hivex.core.store.schema import directories, directory_copies

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

LONG_AGO = 1_600_000_000_000


def test_lag_is_that_of_the_copies(metastore_url: str, tmp_path: Path) -> None:
    clusters = {
        name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[1]"} for name in ("c1", "c2", "c3")
    }
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as metastore,
        metastore.session() as session,
    ):

        def lags() -> list[CopyLag]:
            found = metastore.catalog_listing.copy_lags()
            now_ms = metastore.services.clock()
            for lag in found:
                of_cluster = [
                    each
                    for table in ("whole", "parts")
                    for each in metastore.replicator.copies(table)
                    if each.cluster == lag.cluster and not each.is_primary
                ]
                longest = max((each.lag_ms or 0 for each in of_cluster), default=0)
                # The clock of the database has gone on meanwhile.
                assert longest >= (0 if lag.oldest_ms is None else now_ms - lag.oldest_ms)
                assert (lag.oldest_ms is None) == all(each.is_current for each in of_cluster)
            return found

        session.sql("CREATE TABLE whole (id INT)")
        session.sql("CREATE TABLE parts (id INT) PARTITIONED BY (ds INT)")
        session.sql("INSERT INTO whole VALUES (1)")
        session.sql("INSERT INTO parts VALUES (1, 1), (1, 2)")
        assert lags() == []
        metastore.replicator.replicate(["default.whole", "default.parts"], "c2")
        metastore.replicator.replicate("default.parts", "c3", ["ds=1"])
        current = [CopyLag("c2", 2, 0, None), CopyLag("c3", 1, 0, None)]
        assert lags() == current
        # One that was never copied to c3 does not lag there.
        session.sql("INSERT INTO parts VALUES (2, 2)")
        assert [(each.cluster, each.lagging_tables) for each in lags()] == [("c2", 1), ("c3", 0)]
        session.sql("INSERT INTO whole VALUES (2)")
        assert [each.lagging_tables for each in lags()] == [2, 0]
        # Files that an INSERT OVERWRITE has replaced are not read any more, and not copied.
        session.sql("INSERT OVERWRITE TABLE whole VALUES (3)")
        metastore.services.store.write(_age_deltas)
        (first, _) = lags()
        assert first.oldest_ms is not None
        metastore.replicator.replicate(["default.whole", "default.parts"], "c2")
        assert lags() == current
        # So are those that a compaction has merged.
        session.sql("INSERT INTO whole VALUES (4)")
        session.sql("INSERT INTO whole VALUES (5)")
        metastore.services.store.write(_merge_deltas)
        assert lags() == current
        session.sql("INSERT INTO parts VALUES (3, 1)")
        assert [each.lagging_tables for each in lags()] == [1, 1]
        session.sql("ALTER TABLE parts DROP PARTITION (ds = 1)")
        session.sql("DROP TABLE whole")
        found = metastore.catalog_listing.copy_lags()
        assert [(each.cluster, each.tables, each.lagging_tables) for each in found] == [("c2", 1, 0), ("c3", 1, 0)]


def _age_deltas(connection: Connection) -> None:
    deltas = select(directories.c.id).where(directories.c.kind == "delta", directories.c.partition_id.is_(None))
    connection.execute(
        update(directory_copies).where(directory_copies.c.directory_id.in_(deltas)).values(registered_ms=LONG_AGO)
    )


def _merge_deltas(connection: Connection) -> None:
    """Register the merged deltas as a compaction does, on both clusters."""
    d = directories.c
    last = select(directories).where(d.partition_id.is_(None)).order_by(d.max_write_id.desc()).limit(2)
    second, first = connection.execute(last).all()
    merged = {
        **{key: value for key, value in second._mapping.items() if key != "id"},
        "name": f"delta_{first.min_write_id:07}_{second.max_write_id:07}_v0000999",
        "min_write_id": first.min_write_id,
        "statement_id": None,
        "visibility_txn_id": 999,
    }
    (new_id,) = connection.execute(insert(directories).values(merged).returning(d.id)).one()
    for cluster in ("c1", "c2"):
        connection.execute(
            insert(directory_copies).values(directory_id=new_id, cluster=cluster, registered_ms=LONG_AGO)
        )
