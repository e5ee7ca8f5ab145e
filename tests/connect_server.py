"""A Spark Connect server for tests, as ``hivex spark start`` starts it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from airflow_hivex.core.runners import connect_server

STATE = "XDG_STATE_HOME"


def free_port() -> int:
    """A port below those that the system gives to clients: one that tries again might connect to itself."""
    for port in range(20000 + os.getpid() % 10000, 32000):
        with socket.socket() as opened, suppress(OSError):
            opened.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


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
