"""The time to route and plan a SELECT on one partition, by the number of partitions."""

from __future__ import annotations

from pathlib import Path

from airflow_hivex.core import Metastore
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.execution import planning
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.parser.reader import read
from benchmarks.harness import Figure, compare, interleave

SIZES = (10, 1_000, 10_000)


def run(folder: Path) -> list[Figure]:
    """Figures for 1,000 and 10,000 partitions against 10."""
    url = f"sqlite:///{folder / 'routing.db'}"
    clusters = {name: {"filesystem": (folder / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")}
    with Metastore.open(url, clusters=clusters, default_cluster="c1") as metastore:
        for size in SIZES:
            _make_table(metastore, size)
        cases = {str(size): lambda size=size: _plan(metastore, size) for size in SIZES}
        seconds = interleave(cases, rounds=200, warm_up=20)
    return [compare(f"route and plan, {size} partitions", seconds, str(size), "10", goal=2.0) for size in SIZES[1:]]


def _make_table(metastore: Metastore, size: int) -> None:
    """A table with one registered directory a partition; planning reads no file."""
    with metastore.session() as session:
        session.sql(f"CREATE TABLE p{size} (id bigint) PARTITIONED BY (n int)")
    table = metastore.catalog.get_table("default", f"p{size}")
    (txn_id,) = metastore.transactions.open()
    write_id = metastore.transactions.allocate_write_ids([txn_id], "default", table.name)[txn_id]
    written = [
        WrittenDirectory(f"n={n}", (str(n),), f"delta_{write_id:07d}_{write_id:07d}_0000", 1, 100, 1000)
        for n in range(size)
    ]
    registration = Registration.of_write(table, TableWrite(txn_id, write_id, "c1"), written)
    metastore.transactions.commit(
        txn_id, lambda connection: metastore.catalog.joining(connection).register(registration)
    )


def _plan(metastore: Metastore, size: int) -> None:
    session = metastore.session()
    context = StatementContext(session._services, session._state)
    statement = read(f"SELECT count(*) FROM p{size} WHERE n = {size // 2}")
    routed = route(context, statement)
    (scan,) = [planning.scan(bound, chosen_cluster(context, routed), "v") for bound in routed.bound]
    assert sum(len(part.paths) for part in scan.parts) == 1
