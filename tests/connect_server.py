"""A Spark Connect server for tests, as ``hivex spark start`` starts it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.writes import ServerOperation
from airflow_hivex.core.runners import connect_server
from airflow_hivex.core.runners.registry import ResumingRunner, runner_for
from tests.ports import free_port

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
def running_server(folder: Path, command: Sequence[str] = (), **conf: str) -> Iterator[connect_server.Server]:
    """Yield a server whose files are below a folder, which clients in this process find there.

    ``command`` is put before the command that starts it, as one that gives it another view of the files.
    """
    before = os.environ.get(STATE)
    os.environ[STATE] = str(folder)
    port = free_port()
    try:
        if command:
            start = ["spark", "start", "--port", str(port), "--master", "local[2]"]
            subprocess.run([*command, sys.executable, "-m", "airflow_hivex.cli.main", *start], check=True)
        yield connect_server.start(port, "local[2]", conf)[0]
    finally:
        connect_server.stop(port)
        if before is None:
            del os.environ[STATE]
        else:
            os.environ[STATE] = before
