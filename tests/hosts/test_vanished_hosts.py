"""A host that vanishes closes no connection; others notice it by the time limits of PostgreSQL and of Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.engine import make_url

from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import counters
from tests.hosts import vanishing_client
from tests.hosts.networks import Network, network
from tests.postgresql import DURABLE_OPTIONS, TemporaryPostgresqlServer, start_durable_postgresql


@pytest.fixture
def hosts() -> Iterator[Network]:
    with network() as made:
        yield made


@pytest.fixture
def server(hosts: Network) -> Iterator[TemporaryPostgresqlServer]:
    """A PostgreSQL server that the hosts reach at the gateway of their network."""
    with tempfile.NamedTemporaryFile("w", dir="/tmp") as rules:
        rules.write("local all all trust\nhost all all samenet trust\n")
        rules.flush()
        Path(rules.name).chmod(0o644)
        server = start_durable_postgresql((*DURABLE_OPTIONS, "listen_addresses=*", f"hba_file={rules.name}"))
        yield server
        server.stop()


def test_row_of_a_client_whose_host_has_vanished_is_free_in_time(
    hosts: Network, server: TemporaryPostgresqlServer
) -> None:
    """The keepalives of TCP end its connection; the limit of idle transactions is off."""
    limit_s = 6
    url = make_url(server.create_database()).set(host=hosts.gateway)
    without_idle = url.update_query_dict({"options": "-c idle_in_transaction_session_timeout=0"})
    hosts.add("client")
    store = Store(url.render_as_string(hide_password=False))
    migrating.prepare(store)
    command = [sys.executable, "-m", vanishing_client.__name__, without_idle.render_as_string(False), str(limit_s)]
    with subprocess.Popen(
        [*hosts.on("client"), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "changed\n"
        hosts.vanish("client")
        began = time.monotonic()
        change = update(counters).where(counters.c.name == "txn").values(value=counters.c.value + 1)
        store.write(lambda connection: connection.execute(change))
        took_s = time.monotonic() - began
        store.close()
    assert limit_s / 3 < took_s < 5 * limit_s, took_s
