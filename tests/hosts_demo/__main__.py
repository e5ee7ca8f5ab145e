"""Run the quickstart DAG over two Spark standalone clusters, then again with one of them behind a Spark Connect server.

PostgreSQL, Airflow, each master, each worker and the server have a host of their own: an address, a name, processes,
a /tmp and a home. A cluster's folder is seen by its workers and its clients only. The DAG file is the one that
`make demo` runs. Only the Airflow connections differ by which the clusters of the warehouse find their Spark.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tests import spark_options
from tests.airflow_trial.installation import Installation
from tests.connect_server import server_on
from tests.hosts.event_logs import Places, event_log, places_of_transactions
from tests.hosts.networks import CHECKOUT, Host, HostsImpossibleError, Network, network
from tests.postgresql import PostgresqlServer, start_durable_postgresql
from tests.standalone_clusters import StandaloneCluster

DAG_ID = "hivex_quickstart"
DAG_FILE = CHECKOUT / "dags" / f"{DAG_ID}.py"
CONNECTIONS = {"c1": "spark_c1", "c2": "spark_c2"}
EVENTS = "events"
WIDTH = 140
# Each of some ten tasks starts a Spark.
PATIENCE_S = 1800.0
ROLES = {
    "database": "PostgreSQL, of Airflow and of the metastore",
    "airflow": "Airflow: api-server, scheduler, dag-processor, triggerer, tasks",
    "c1-master": "Spark's master of c1",
    "c1-worker1": "a worker of c1",
    "c1-worker2": "a worker of c1",
    "c2-master": "Spark's master of c2",
    "c2-worker": "a worker of c2",
    "connect": "a Spark Connect server; its executors are on the workers of c1",
}


@dataclass
class Hosts:
    """The hosts of the demo, by name, and the folder of each cluster, which the listed hosts share."""

    network: Network
    roots: dict[str, Path]

    def __getitem__(self, name: str) -> Host:
        return self.network.hosts[name]

    @property
    def event_logs(self) -> list[Path]:
        """The folders with the event logs of the hosts that have drivers."""
        return [self[name].folder / EVENTS for name in ("airflow", "connect")]

    def name(self, address: str) -> str:
        """The name of the host with an address."""
        return next((host.name for host in self.network.hosts.values() if host.address == address), address)


def main() -> int:
    """Run both, and return 1 if a run has failed, or if no hosts can be made."""
    parser = argparse.ArgumentParser(prog="make demo-hosts", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the folder with all files and logs")
    options = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    console.width = max(console.width, WIDTH)
    folder = Path(tempfile.mkdtemp(prefix="hivex-demo-hosts-"))
    succeeded, has_files = False, True
    try:
        with network(folder / "hosts") as made:
            succeeded = run(console, folder, made)
    except HostsImpossibleError as error:
        has_files = False
        console.print(f"[bold red]The demo needs hosts, which cannot be made here:[/] {error}")
    finally:
        if has_files and (options.keep or not succeeded):
            console.print(f"Files and logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if succeeded else 1


def run(console: Console, folder: Path, made: Network) -> bool:
    """Start everything below a folder, run the DAG twice, and stop everything. Whether both runs succeeded."""
    hosts = add_hosts(folder, made)
    show_hosts(console, hosts)
    one = StandaloneCluster("c1", hosts["c1-master"], [hosts["c1-worker1"], hosts["c1-worker2"]])
    two = StandaloneCluster("c2", hosts["c2-master"], [hosts["c2-worker"]])
    events = event_log(hosts["connect"].folder / EVENTS)
    with (
        started(console, "PostgreSQL", database(hosts)) as server,
        started(console, "two Spark standalone clusters", running(one, two)),
        started(
            console,
            "a Spark Connect server",
            server_on(hosts["connect"], one.jobtracker, **{"spark.pyspark.python": sys.executable}, **events),
        ) as jobtracker,
        started(
            console, "Airflow with its scheduler and its other parts", airflow(hosts, server, one, two)
        ) as scheduler,
    ):
        connect(scheduler, CONNECTIONS["c1"], "spark", one.jobtracker)
        connect(scheduler, CONNECTIONS["c2"], "spark", two.jobtracker)
        first = show_run(console, hosts, scheduler, f"c1 on {one.jobtracker}, c2 on {two.jobtracker}, by spark-submit")
        connect(scheduler, CONNECTIONS["c1"], "spark_connect", jobtracker.removeprefix("sc://"))
        second = show_run(console, hosts, scheduler, f"c1 by Spark Connect on {jobtracker}, c2 on {two.jobtracker}")
        if first is None or second is None:
            return False
        same = first == second
        console.print("Both runs gave the same rows." if same else "[bold red]The runs gave different rows.[/]")
        return same


def add_hosts(folder: Path, made: Network) -> Hosts:
    """Add the hosts. Those that have a client or an executor of a cluster see its folder."""
    roots = {name: folder / name for name in CONNECTIONS}
    for root in roots.values():
        root.mkdir()
    for name in ROLES:
        clusters = {"airflow": CONNECTIONS, "connect": ("c1",)}.get(name, name.split("-worker")[:1])
        made.add(name, [root for key, root in roots.items() if key in clusters])
    return Hosts(made, roots)


def show_hosts(console: Console, hosts: Hosts) -> None:
    """Show the hosts with their addresses, what runs there, and what they share."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("host", "address", "runs", "sees the folders of"):
        table.add_column(column)
    for host in hosts.network.hosts.values():
        seen = [name for name, root in hosts.roots.items() if root in host.shared]
        table.add_row(host.name, host.address, ROLES[host.name], ", ".join(seen))
    console.print(table)


@contextmanager
def database(hosts: Hosts) -> Iterator[PostgresqlServer]:
    """Yield a running PostgreSQL."""
    server = start_durable_postgresql(host=hosts["database"])
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def running(*clusters: StandaloneCluster) -> Iterator[None]:
    """Start clusters, which end with the block."""
    try:
        for each in clusters:
            each.start()
        yield
    finally:
        for each in clusters:
            each.stop()


@contextmanager
def airflow(hosts: Hosts, server: PostgresqlServer, *clusters: StandaloneCluster) -> Iterator[Installation]:
    """Yield a running Airflow that has the quickstart DAG, and a warehouse whose clusters have connections to Spark."""
    host = hosts["airflow"]
    (host.folder / "dags").mkdir()
    shutil.copy(DAG_FILE, host.folder / "dags")
    events = event_log(host.folder / EVENTS)
    described: dict[str, Any] = {
        each.name: {
            **each.properties(hosts.roots[each.name], host.address, **events),
            "jobtracker": CONNECTIONS[each.name],
        }
        for each in clusters
    }
    installation = Installation(
        host.folder,
        described,
        host.folder / "dags",
        dag_count=1,
        host=host,
        server=server,
        # Each task has a driver, and executors on its cluster.
        AIRFLOW__CORE__PARALLELISM="2",
        **{spark_options.VARIABLE: spark_options.java_options()},
    )
    try:
        installation.start()
        yield installation
    finally:
        installation.stop()


@contextmanager
def started(console: Console, what: str, starting: Any) -> Iterator[Any]:
    """Say what is started and stopped, and how long that took."""
    began = time.monotonic()
    with ExitStack() as stack:
        with console.status(f"Starting {what} ..."):
            found = stack.enter_context(starting)
        console.print(f"Started {what} ({time.monotonic() - began:.0f} s)")
        yield found
        began = time.monotonic()
    console.print(f"Stopped {what} ({time.monotonic() - began:.0f} s)")


def connect(scheduler: Installation, conn_id: str, conn_type: str, address: str) -> None:
    """Let an Airflow connection lead to a Spark."""
    host, _, port = address.rpartition(":")
    body = {"connection_id": conn_id, "conn_type": conn_type, "host": host, "port": int(port)}
    known = {each["connection_id"] for each in scheduler.get("/api/v2/connections")["connections"]}
    if conn_id in known:
        scheduler.send("PATCH", f"/api/v2/connections/{conn_id}", body)
    else:
        scheduler.send("POST", "/api/v2/connections", body)


def show_run(console: Console, hosts: Hosts, scheduler: Installation, title: str) -> list[Any] | None:
    """Run the DAG, and show what its tasks did, and where; the rows of its last question, or None if it failed."""
    began = time.monotonic()
    console.print(f"\n[bold]{DAG_ID}[/]: {title}")
    with console.status("Running ..."):
        run_id = scheduler.trigger(DAG_ID)
        state = scheduler.wait_for_end(DAG_ID, run_id, PATIENCE_S)
    path = f"/api/v2/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances"
    tasks = scheduler.get(path)["task_instances"]
    places = places_of_transactions(hosts.event_logs)
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("task", "state", "on", "cluster", "driver on", "executors on", "rows"):
        table.add_column(column)
    table.add_column("seconds", justify="right")
    rows: list[Any] | None = None
    for each in sorted(tasks, key=lambda task: task["start_date"] or "~"):
        result = result_of(scheduler, f"{path}/{each['task_id']}") if each["state"] == "success" else {}
        if each["task_id"] == "delay_per_airline":
            rows = result.get("rows")
        table.add_row(
            each["task_id"],
            each["state"],
            each["hostname"],
            result.get("cluster") or "",
            *names_of(hosts, places.get(result.get("txn_id") or 0)),
            summary(result),
            f"{each['duration'] or 0:.1f}",
        )
    console.print(table)
    console.print(f"{state} after {time.monotonic() - began:.0f} s", style="" if state == "success" else "bold red")
    return rows if state == "success" else None


def names_of(hosts: Hosts, places: Places | None) -> Sequence[str]:
    """Return the host of the driver of a job and those of its executors; nothing for a task without a job."""
    if places is None:
        return "", ""
    return hosts.name(places.driver), ", ".join(sorted(map(hosts.name, places.executors)))


def result_of(scheduler: Installation, path: str) -> dict[str, Any]:
    """Return the result of a task, if it is a mapping."""
    found = scheduler.get(f"{path}/xcomEntries/return_value?deserialize=true")["value"]
    return found if isinstance(found, dict) else {}


def summary(result: dict[str, Any]) -> str:
    """Return what a task did with rows, in a few words."""
    if "detail" in result:
        return str(result["detail"])
    if result.get("rows_written") is not None:
        return f"{result['rows_written']:,} written"
    return f"{len(result['rows']):,} read" if result.get("columns") else ""


if __name__ == "__main__":
    sys.exit(main())
