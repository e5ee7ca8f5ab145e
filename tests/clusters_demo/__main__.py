"""Run the quickstart DAG over two Spark standalone clusters, then again with one of them behind a Spark Connect server.

All of it is real: masters, workers, the server, and an Airflow with its own database. The DAG file is the one that
`make demo` runs. Only the Airflow connections differ by which the clusters of the warehouse find their Spark.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tests.airflow_trial.installation import Installation
from tests.connect_server import running_server
from tests.standalone_clusters import StandaloneCluster, running_clusters

DAG_ID = "hivex_quickstart"
DAG_FILE = Path(__file__).parents[2] / "dags" / f"{DAG_ID}.py"
CONNECTIONS = {"c1": "spark_c1", "c2": "spark_c2"}


def main() -> int:
    """Run both, and return 1 if a run has failed."""
    parser = argparse.ArgumentParser(prog="make demo-clusters", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the folder with all files and logs")
    options = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="hivex-demo-clusters-"))
    succeeded = False
    try:
        succeeded = run(console, folder)
    finally:
        if options.keep or not succeeded:
            console.print(f"Files and logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if succeeded else 1


def run(console: Console, folder: Path) -> bool:
    """Start everything below a folder, run the DAG twice, and stop everything. Whether both runs succeeded."""
    with (
        started(console, "two Spark standalone clusters", running_clusters(folder / "spark")) as (one, two),
        started(console, "a Spark Connect server", running_server(folder / "state", **connect_conf())) as server,
        started(
            console, "Airflow with PostgreSQL, a scheduler and its other parts", airflow(folder, one, two)
        ) as scheduler,
    ):
        connect(scheduler, CONNECTIONS["c1"], "spark", one.jobtracker)
        connect(scheduler, CONNECTIONS["c2"], "spark", two.jobtracker)
        first = show_run(console, scheduler, f"c1 on {one.jobtracker}, c2 on {two.jobtracker}, by spark-submit")
        connect(scheduler, CONNECTIONS["c1"], "spark_connect", f"localhost:{server.port}")
        second = show_run(console, scheduler, f"c1 by Spark Connect on {server.url}, c2 on {two.jobtracker}")
        if first is None or second is None:
            return False
        same = first == second
        console.print(
            "Both runs gave the same rows." if same else "[bold red]The runs gave different rows.[/]",
        )
        return same


def connect_conf() -> dict[str, str]:
    """Return the configuration of the server, which takes little memory."""
    return {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}


@contextmanager
def airflow(folder: Path, *clusters: StandaloneCluster) -> Iterator[Installation]:
    """Yield a running Airflow that has the quickstart DAG, and a warehouse whose clusters have connections to Spark."""
    (folder / "dags").mkdir()
    shutil.copy(DAG_FILE, folder / "dags")
    described: dict[str, Any] = {
        each.name: {**each.properties(folder / each.name), "jobtracker": CONNECTIONS[each.name]} for each in clusters
    }
    installation = Installation(
        folder,
        described,
        folder / "dags",
        dag_count=1,
        # Each task has a driver, and an executor on its cluster.
        AIRFLOW__CORE__PARALLELISM="2",
        XDG_STATE_HOME=str(folder / "state"),
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


def show_run(console: Console, scheduler: Installation, title: str) -> list[Any] | None:
    """Run the DAG, and show what its tasks did; the rows of its last question, or None if it failed."""
    began = time.monotonic()
    console.print(f"\n[bold]{DAG_ID}[/]: {title}")
    with console.status("Running ..."):
        run_id = scheduler.trigger(DAG_ID)
        state = scheduler.wait_for_end(DAG_ID, run_id)
    path = f"/api/v2/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances"
    tasks = scheduler.get(path)["task_instances"]
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("task", "state", "cluster", "rows"):
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
            result.get("cluster") or "",
            summary(result),
            f"{each['duration'] or 0:.1f}",
        )
    console.print(table)
    console.print(f"{state} after {time.monotonic() - began:.0f} s", style="" if state == "success" else "bold red")
    return rows if state == "success" else None


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
