"""Links that are cut in the middle of a write, a commit and a read: rows as before or after, and an error in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.runners import driver_process
from tests import evidence
from tests.conftest import Counts
from tests.hosts.cut_warehouse import (
    AFTER,
    BEFORE,
    LINKS,
    MOMENTS,
    SETTINGS,
    TIMEOUT_S,
    Hosts,
    add_host,
    clock_shift,
    clusters,
    stop_in,
    try_cut,
)
from tests.hosts.faulty_folder import distant_folder
from tests.hosts.networks import Network
from tests.object_store import needs_connector, start_object_store
from tests.postgresql import start_durable_postgresql
from tests.standalone_clusters import StandaloneCluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

EACH_LINK = [
    pytest.param(name, marks=needs_connector if link.cluster == "cloud" else ()) for name, link in LINKS.items()
]
SHORT_S, LONG_S = 10, 180
PATIENCE_S = 240
WAITING = ("executor to store", "driver to store")
"""The links whose calls wait as long as they are cut."""


@pytest.fixture(scope="module")
def hosts(network: Network) -> Iterator[Hosts]:
    root = network.folder / "root"
    root.mkdir()
    with ExitStack() as stack:
        stack.callback(driver_process.close_all)
        server = start_durable_postgresql(host=network.add("database"))
        stack.callback(server.stop)
        views = {
            name: stack.enter_context(distant_folder(network.folder / f"view-{name}", root))
            for name in ("client", "worker")
        }
        add_host(network, "client", root, views["client"])
        worker = add_host(network, "worker", root, views["worker"])
        master = network.add("master", tcp_keepalive_time=10, tcp_keepalive_intvl=5, tcp_keepalive_probes=3)
        cluster = StandaloneCluster("c1", master, [worker], cores=2, memory="1g")
        cluster.master_options = "-Dspark.rpc.io.enableTcpKeepAlive=true"
        stack.callback(cluster.stop)
        cluster.start()
        store = start_object_store(network.folder / "s3.log", network.add("s3"))
        stack.callback(store.stop)
        stores = {"s3": store.properties("local[1]"), "cloud": store.properties(cluster.jobtracker)}
        url = server.create_database()
        properties = clusters(cluster, root, stores, network.gateway)
        metastore = stack.enter_context(Metastore.open(url, clusters=properties, settings=SETTINGS))
        yield Hosts(network, cluster, url, root, views, stores, metastore)


LONG = pytest.mark.skipif(not evidence.does_all("HIVEX_CUT_LINKS"), reason="it takes minutes; make evidence")


@LONG
@pytest.mark.evidence
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", EACH_LINK)
def test_link_is_cut_for_ten_seconds(hosts: Hosts, name: str, moment: str, counts: Counts) -> None:
    found = try_cut(hosts, LINKS[name], moment, SHORT_S, PATIENCE_S)
    counts[f"cut of {name}, in a {moment}, for 10 s"] = found.describe()


@LONG
@pytest.mark.evidence
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", EACH_LINK)
def test_link_is_cut_for_three_minutes(hosts: Hosts, name: str, moment: str, counts: Counts) -> None:
    found = try_cut(hosts, LINKS[name], moment, LONG_S, PATIENCE_S)
    counts[f"cut of {name}, in a {moment}, for 3 min"] = found.describe()


@LONG
@pytest.mark.evidence
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", EACH_LINK)
def test_link_is_cut_for_ever(hosts: Hosts, name: str, moment: str, counts: Counts) -> None:
    found = try_cut(hosts, LINKS[name], moment, None, PATIENCE_S / 2 if name in WAITING else PATIENCE_S)
    counts[f"cut of {name}, in a {moment}, for ever"] = found.describe()


@LONG
@pytest.mark.evidence
@pytest.mark.parametrize("moment", MOMENTS)
def test_second_host_cleans_up_after_a_client_whose_host_is_gone(hosts: Hosts, moment: str, counts: Counts) -> None:
    """The client comes back under another address."""
    table = hosts.new_table()
    gone, back = f"gone-{moment}", f"back-{moment}"
    hosts.add(gone, "client")
    with hosts.client(gone) as client:
        assert client.run(f"SELECT sum(id) FROM {table}") == [[3]]
        stop_in(hosts, client, moment, table)
        hosts.network.vanish(gone)
    began = time.monotonic()
    free_s = hosts.cleaning().result(2 * TIMEOUT_S) - began
    assert hosts.rows(table) == BEFORE
    assert not list(hosts.root.rglob("_staging*"))
    wait_until(lambda: hosts.cluster.cores_used() == 0, limit_s=120)
    cores_s = time.monotonic() - began
    hosts.add(back, "client")
    with hosts.client(back) as client:
        client.run(f"INSERT INTO {table} SELECT 0")
        assert client.run(f"SELECT sum(id) FROM {table}") == [[3]]
    counts[f"host of a client gone, in a {moment}"] = (
        f"rows as before; locks free after {free_s:.0f} s; cores free after {cores_s:.0f} s"
    )


@LONG
@pytest.mark.evidence
def test_clocks_of_hosts_do_not_matter(hosts: Hosts, counts: Counts) -> None:
    """The clock of the client is two hours ahead, and that of the worker two hours behind the database's."""
    table = hosts.new_table()
    hosts.cluster.kill("worker")
    shift = clock_shift(hosts.root)
    hosts.move_worker("behind", variables={**shift, "CLOCK_SHIFT_S": "-7200"})
    with (
        hosts.client(variables={**shift, "CLOCK_SHIFT_S": "7200"}) as client,
        hosts.metastore.session() as session,
    ):
        ahead, behind = client.run(
            "SELECT java_method('java.lang.System', 'currentTimeMillis'), max(v) FROM "
            "(SELECT java_method('java.lang.System', 'currentTimeMillis') AS v FROM range(0, 1, 1, 1))"
        )[0]
        assert max(abs(int(each) / 1000 - time.time()) for each in (ahead, behind)) > 7000
        session.sql("START TRANSACTION")
        session.sql(f"INSERT INTO {table} VALUES (3)")
        # The client waits for the lock, and does the housekeeping meanwhile.
        client.ask(statement=f"INSERT OVERWRITE {table} SELECT id + 10 FROM {table}")
        assert client.answer(15) is None
        session.sql("COMMIT")
        assert client.answer(120) == {"rows": []}
        assert hosts.rows(table) == [11, 12, 13]
        client.run(f"UPDATE {table} SET id = id + 1 WHERE id > 11")
        client.ask(compacts=table)
        assert client.answer(120) == {"rows": ["READY_FOR_CLEANING"]}
        assert hosts.rows(table) == [11, 13, 14]
        assert hosts.metastore.locks.show() == []
    counts["clocks four hours apart"] = "a lock is waited for, INSERT OVERWRITE, UPDATE and compaction, rows as after"


@LONG
@pytest.mark.evidence
def test_full_disk_of_a_worker_is_an_error_that_names_it(hosts: Hosts, counts: Counts) -> None:
    """Spark's own files fill it."""
    table = hosts.new_table()
    hosts.cluster.kill("worker")
    local = hosts.network.folder / "full" / "local"
    hosts.move_worker("full", [f"mkdir {local}", f"mount -t tmpfs -o size=1m none {local}"])
    with hosts.client() as client:
        began = time.monotonic()
        client.ask(statement=f"INSERT INTO {table} SELECT /*+ REPARTITION(2, id) */ hash(id) FROM range(0, 3000000)")
        answer = client.answer(PATIENCE_S)
        ended_s = time.monotonic() - began
        assert answer is not None
        assert hosts.network.hosts["full"].address in answer["error"], answer
        assert "No space left" in answer["error"]
        assert hosts.rows(table) == BEFORE
        assert hosts.metastore.locks.show() == []
        client.run(f"INSERT INTO {table} SELECT 0")
    counts["a full disk on a worker"] = f"rows as before; ended after {ended_s:.0f} s; {answer['type']}"


@LONG
@pytest.mark.evidence
def test_worker_comes_back_under_another_address_in_a_write(hosts: Hosts, counts: Counts) -> None:
    table = hosts.new_table()
    (worker,) = hosts.cluster.workers
    with hosts.client() as client:
        assert client.run(f"SELECT sum(id) FROM {table}") == [[3]]
        stop_in(hosts, client, "write", table)
        hosts.network.vanish(worker.name)
        hosts.cluster.kill("worker")
        began = time.monotonic()
        hosts.move_worker("moved")
        answer = client.answer(PATIENCE_S)
        ended_s = time.monotonic() - began
        assert answer == {"rows": []}
        assert hosts.rows(table) == AFTER
    counts["a worker that comes back under another address, in a write"] = f"rows as after; ended after {ended_s:.0f} s"
