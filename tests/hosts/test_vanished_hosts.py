"""A host that vanishes closes no connection; others notice it by the time limits of PostgreSQL and of Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.engine import make_url

from airflow_hivex.core import Metastore
from airflow_hivex.core.runners import driver_process
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import counters
from tests import evidence
from tests.conftest import Counts
from tests.hosts import vanishing_client, vanishing_writer
from tests.hosts.networks import CHECKOUT, Network
from tests.postgresql import TemporaryPostgresqlServer, start_durable_postgresql
from tests.standalone_clusters import StandaloneCluster
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def server(network: Network) -> Iterator[TemporaryPostgresqlServer]:
    server = start_durable_postgresql(host=network.add("database"))
    yield server
    server.stop()


def test_row_of_a_client_whose_host_has_vanished_is_free_in_time(
    network: Network, server: TemporaryPostgresqlServer
) -> None:
    """The keepalives of TCP end its connection; the limit of idle transactions is off."""
    limit_s = 6
    url = make_url(server.create_database())
    without_idle = url.update_query_dict({"options": "-c idle_in_transaction_session_timeout=0"})
    client_host = network.add("client")
    store = Store(url.render_as_string(hide_password=False))
    migrating.prepare(store)
    command = [sys.executable, "-m", vanishing_client.__name__, without_idle.render_as_string(False), str(limit_s)]
    with subprocess.Popen(
        [*client_host.command, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "changed\n"
        network.vanish("client")
        began = time.monotonic()
        change = update(counters).where(counters.c.name == "txn").values(value=counters.c.value + 1)
        store.write(lambda connection: connection.execute(change))
        took_s = time.monotonic() - began
        store.close()
    assert limit_s / 3 < took_s < 5 * limit_s, took_s


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.evidence
@pytest.mark.skipif(not evidence.does_all("HIVEX_VANISHED_WRITERS"), reason="it takes two minutes; make evidence")
def test_cluster_and_table_of_a_client_whose_host_has_vanished_are_free_in_time(
    network: Network, server: TemporaryPostgresqlServer, tmp_path: Path, counts: Counts
) -> None:
    """The master has the keepalives that docs/how-to/spark-submit.md recommends, with a third of their times."""
    (root := tmp_path / "root").mkdir()
    keepalives = {"tcp_keepalive_time": 10, "tcp_keepalive_intvl": 5, "tcp_keepalive_probes": 3}
    master, worker = network.add("master", **keepalives), network.add("worker", [root])
    cluster = StandaloneCluster("c1", master, [worker], cores=2, memory="1g")
    cluster.master_options = "-Dspark.rpc.io.enableTcpKeepAlive=true"
    settings = {"hivex.database.timeout": 10, "hive.txn.timeout": 20, "hivex.history.retention": 0}

    def clusters(address: str) -> dict[str, Any]:
        return {"c1": cluster.properties(root, address)}

    url = make_url(server.create_database()).render_as_string(hide_password=False)
    with Metastore.open(url, clusters=clusters(network.gateway), settings=settings) as metastore:
        try:
            cluster.start()
            with metastore.session() as session:
                session.sql("CREATE TABLE t (id bigint)")
                session.sql("INSERT INTO t VALUES (1), (2)")
                write = "UPDATE t SET id = (SELECT max(hash(id)) FROM range(0, 1000000000000, 1, 1000))"
                client = network.add("writer", [root])
                command = (url, json.dumps(clusters(client.address)), json.dumps(settings), write)
                with (
                    (tmp_path / "writer.log").open("wb") as log,
                    subprocess.Popen(
                        [*client.command, sys.executable, "-m", vanishing_writer.__name__, *command],
                        stdout=log,
                        stderr=log,
                        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
                    ),
                ):
                    wait_until(lambda: cluster.cores_used() == 2, limit_s=120)
                    # An executor that has registered itself sends heartbeats.
                    wait_until(lambda: is_busy(cluster), limit_s=60)
                    network.vanish("writer")
                began = time.monotonic()
                session.sql("INSERT INTO t VALUES (3)")
                metastore.compactor.clean()
                inserted_s = time.monotonic() - began
                session.sql("UPDATE t SET id = id + 10")
                updated_s = time.monotonic() - began
                assert sorted(session.to_arrow("t")["id"].to_pylist()) == [11, 12, 13]
                assert metastore.locks.show() == []
        finally:
            driver_process.close_all()
            cluster.stop()
    counts["a host that vanished in the middle of a write of Spark"] = (
        f"others inserted rows and cleaned up after {inserted_s:.0f} s, and updated by Spark after {updated_s:.0f} s"
    )
    assert inserted_s < 30
    assert updated_s < 120


def is_busy(cluster: StandaloneCluster) -> bool:
    """Whether an executor has worked for some seconds."""
    return any(sum(each.cpu_times()[:2]) > 10 for each in cluster.executors())
