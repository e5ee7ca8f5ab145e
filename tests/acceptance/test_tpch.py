"""TPC-H at a small scale over two clusters: what ``make tpch`` measures, with every row verified."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import RoutingError
from benchmarks.tpch import rows, run
from benchmarks.tpch.queries import query
from benchmarks.tpch.warehouse import KEYS, PlainSpark, TpchWarehouse, cluster_properties, in_transaction

# The one test of all queries takes its time on a busy machine.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCALE = 0.01
STREAMS = 3
# Small rows in few tasks.
SPARK_CONF = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
# `make tpch` compares all of them.
COMPARED = (3, 9, 10, 11, 13)
NEED_ONLY_SMALL_COPIES = [1, 2, 4, 6, 11, 12, 15, 16, 21]


@dataclass
class Loaded:
    warehouse: TpchWarehouse
    session: Session
    plain: PlainSpark


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Loaded]:
    """The tables after their load, with copies of the small ones."""
    folder = tmp_path_factory.mktemp("tpch")
    url = f"sqlite:///{shutil.copy(sqlite_template, folder / 'tpch.db')}"
    with Metastore.open(url, clusters=cluster_properties(folder, SPARK_CONF), default_cluster="c1") as metastore:
        warehouse = TpchWarehouse(metastore, folder, SCALE, STREAMS)
        with warehouse.session() as session:
            warehouse.create(session)
            for names in run.LOADS:
                warehouse.load(session, *names)
            warehouse.verify(session)
            warehouse.copy_small()
            yield Loaded(warehouse, session, PlainSpark(warehouse, SPARK_CONF))


@pytest.mark.evidence(cases=1, among="long scenarios")
def test_keys_of_new_orders_lie_in_the_gaps_between_the_old_ones(loaded: Loaded) -> None:
    refreshes = loaded.warehouse.refreshes
    old = rows.generated(loaded.warehouse.folder, "orders")["o_orderkey"].to_pylist()
    new = refreshes["orders"]["o_orderkey"].to_pylist()
    assert {key % 32 for key in old} == set(range(8))
    assert {key % 32 for key in new} == set(range(8, 16))
    assert len(set(new)) == len(new) == round(1500 * SCALE) * STREAMS
    assert set(refreshes["lineitem"]["l_orderkey"].to_pylist()) == set(new)
    assert set(refreshes["deleted"]["orderkey"].to_pylist()) < set(old)


@pytest.mark.evidence(cases=1, among="long scenarios")
def test_refreshed_tables_answer_all_queries_as_plain_spark_does(loaded: Loaded) -> None:
    warehouse, session = loaded.warehouse, loaded.session
    assert run.ask_routes(warehouse, session) == NEED_ONLY_SMALL_COPIES
    with pytest.raises(RoutingError, match=r"lineitem \(primary c1\)(?s:.)*partsupp \(primary c2\) is not there"):
        session.sql(query(9, SCALE))

    with pytest.raises(ZeroDivisionError):
        in_transaction(session, lambda: refresh_and_fail(warehouse, session))
    warehouse.refresh(session, 1)
    warehouse.verify(session, KEYS)
    run.refresh_beside_reader(warehouse, (2, 3))

    for name in KEYS:
        loaded.plain.write(name)
    warehouse.copy("customer", "part", "partsupp")
    found = {number: run.check_query(warehouse, session, loaded.plain, number, SCALE) for number in COMPARED}
    assert {number for number, (cluster, _) in found.items() if cluster == "c2"} == {11}
    assert all(count for _, count in found.values()), "queries without rows compare nothing"
    run.show_stale_copy(warehouse, session)


def refresh_and_fail(warehouse: TpchWarehouse, session: Session) -> None:
    warehouse.insert_orders(session, 2)
    warehouse.delete_orders(session, 3)
    raise ZeroDivisionError
