"""Spark Connect servers for tests: as ``hivex spark start`` starts one on this machine, and one on another host."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.writes import ServerOperation
from airflow_hivex.core.runners import connect_server
from airflow_hivex.core.runners.registry import ResumingRunner, runner_for
from tests import spark_options
from tests.hosts.networks import Host
from tests.ports import free_port
from tests.standalone_clusters import HOME
from tests.waiting import wait_until

STATE = "XDG_STATE_HOME"


def noted_operation(metastore_url: str, txn_id: int) -> ServerOperation | None:
    """The operation that is noted for a transaction, whose metastore is on SQLite; None before there is one."""
    with closing(sqlite3.connect(metastore_url.removeprefix("sqlite:///"))) as connection:
        found = connection.execute("SELECT document FROM pending_writes WHERE txn_id = ?", (txn_id,)).fetchone()
    noted = None if found is None else json.loads(found[0]).get("operation_at_server")
    return None if noted is None else ServerOperation(**noted)


def is_running(operation: ServerOperation | None, server_url: str) -> bool:
    """Whether a server runs an operation."""
    runner = runner_for(Cluster("c1", "file:///data/c1", server_url))
    assert isinstance(runner, ResumingRunner)
    return operation is not None and runner.has_operation(operation, "c1")


@contextmanager
def running_server(folder: Path, **conf: str) -> Iterator[connect_server.Server]:
    """Yield a server whose files are below a folder, which clients in this process find there."""
    before = os.environ.get(STATE)
    os.environ[STATE] = str(folder)
    port = free_port()
    try:
        yield connect_server.start(port, "local[2]", conf)[0]
    finally:
        connect_server.stop(port)
        if before is None:
            del os.environ[STATE]
        else:
            os.environ[STATE] = before


@contextmanager
def server_on(host: Host, master: str = "local[2]", **conf: str) -> Iterator[str]:
    """Yield the job tracker of a server on a host of a network, which serves any client of the network."""
    java = "-Duser.timezone=UTC " + spark_options.java_options().replace("-XX:NewSize=512m", "")
    settings = {
        "spark.master": master,
        "spark.connect.grpc.binding.address": host.address,
        "spark.driver.host": host.address,
        "spark.driver.bindAddress": host.address,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": java,
        "spark.cores.max": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": (host.folder / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        **conf,
    }
    (host.folder / "connect.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    submit = [str(HOME / "bin" / "spark-submit"), "--properties-file", str(host.folder / "connect.properties")]
    main = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (
        (host.folder / "connect.log").open("wb") as log,
        subprocess.Popen(
            [*host.command, *submit, *main],
            env={**os.environ, "SPARK_LOCAL_IP": host.address, "PYSPARK_PYTHON": sys.executable, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        try:
            wait_until(lambda: process.poll() is not None or _listens(host.address))
            assert process.poll() is None, (host.folder / "connect.log").read_text()[-2000:]
            yield f"sc://{host.address}:{connect_server.DEFAULT_PORT}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _listens(address: str) -> bool:
    with suppress(OSError), socket.create_connection((address, connect_server.DEFAULT_PORT), timeout=1):
        return True
    return False
