"""Spark Connect servers of this user on this machine: ``hivex spark start``, ``status`` and ``stop``.

A server listens on this machine only, and answers clients with its token. The token, the process id and the log are in
a private folder of the user, one folder for each port. A client of the same user finds the token in this folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from airflow_hivex.core.errors import SparkProcessError, SparkServerError
from airflow_hivex.core.runners import java

DEFAULT_PORT = 15002
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of the variable
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_HOSTS = ("localhost", "127.0.0.1")
_START_LIMIT_S = 90.0
_STOP_LIMIT_S = 10.0
_INTERVAL_S = 0.1
_LINES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Server:
    """A started server. ``began`` is the start time of its process, because the system can reuse a process id."""

    port: int
    pid: int
    began: float
    master: str
    token: str

    @property
    def url(self) -> str:
        """Return the URL of the server, which is the job tracker of a cluster whose jobs run on the server."""
        return f"sc://localhost:{self.port}"

    @property
    def process(self) -> psutil.Process | None:
        """Return the process of the server, or None if it has ended."""
        try:
            found = psutil.Process(self.pid)
            is_it = found.create_time() == self.began and found.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return found if is_it else None

    def answers(self) -> bool:
        """Return whether the port accepts connections."""
        return _listens(self.port)


def folder_of(port: int, *, make: bool = False) -> Path:
    """Return the folder of the server on a port, below ``XDG_STATE_HOME``.

    Raises:
        SparkServerError: other users can write to the folder, and so could make clients of this user run their code.
    """
    state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    folder = state / "hivex" / f"spark-{port}"
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise SparkServerError(f"{folder} is not a folder that only this user can write to; remove it or mend it")
    return folder


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def log_file(port: int) -> Path:
    """Return the path of the log of the server on a port."""
    return folder_of(port) / "server.log"


def known_server(port: int) -> Server | None:
    """Return the server that this user has started on a port, or None if no such server runs.

    Raises:
        SparkServerError: see :func:`folder_of`.
    """
    try:
        server = Server(**json.loads((folder_of(port) / "server.json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        # No server was started, or its start was interrupted.
        return None
    return server if server.process is not None else None


def with_token(url: str) -> str:
    """Return the URL of a job tracker. The token is added if this user has started the server on this machine."""
    where = urlsplit(url)
    if where.hostname not in _HOSTS or ";token=" in url or os.environ.get(TOKEN_VARIABLE):
        return url
    server = known_server(where.port or DEFAULT_PORT)
    if server is None:
        return url
    # Without TLS, pyspark sends a token to the name localhost only.
    _, slash, parameters = where.path.partition("/;")
    given = f"{parameters.rstrip(';')};" if slash and parameters else ""
    return f"{server.url}/;{given}token={server.token}"


def start(
    port: int = DEFAULT_PORT, master: str = "local[*]", conf: Mapping[str, str] | None = None
) -> tuple[Server, bool]:
    """Start the server on a port, and wait for its answer. Return a pair: the server, and whether it was started now.

    If the server already runs, it keeps its configuration, and nothing is started. ``conf`` is Spark's configuration.

    Raises:
        SparkServerError: another program uses the port, or Spark is not installed.
        SparkProcessError: the server did not start.
    """
    folder = folder_of(port, make=True)
    running = known_server(port)
    if running is not None:
        _wait_for(running, folder)
        return running, False
    if _listens(port):
        raise SparkServerError(f"Port {port} cannot be used: another program listens there. Choose one with --port")
    server = _launch(folder, port, master, conf or {})
    _write(folder / "server.json", json.dumps(asdict(server)))
    _wait_for(server, folder)
    return server, True


def missing_library() -> str | None:
    """Return the reason why a client of Spark Connect cannot run in this process, or None if a client can run."""
    try:
        import grpc  # noqa: F401
        import pyspark.sql.connect.proto  # noqa: F401
    except ImportError as error:
        return str(error)
    return None


def stop(port: int = DEFAULT_PORT) -> bool:
    """Stop the server on a port, and wait until the port is free. Return whether a server ran.

    Raises:
        SparkServerError: the process of the server does not end.
    """
    folder = folder_of(port)
    server = known_server(port)
    if server is not None:
        _end(server)
        until = time.monotonic() + _STOP_LIMIT_S
        while _listens(port) and time.monotonic() < until:
            # The first thread of Java may end before other threads, which hold the port for a moment longer.
            time.sleep(_INTERVAL_S)
    (folder / "server.json").unlink(missing_ok=True)
    return server is not None


def _launch(folder: Path, port: int, master: str, conf: Mapping[str, str]) -> Server:
    found = importlib.util.find_spec("pyspark")
    submit = Path(found.origin).parent / "bin" / "spark-submit" if found is not None and found.origin else None
    if submit is None or not submit.exists():
        raise SparkServerError("The package pyspark with Spark's jars is not installed here; pip install pyspark")
    utc = "-Duser.timezone=UTC"
    settings = {
        "spark.master": master,
        "spark.app.name": f"hivex {port}",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        # ORC's timestamps are local times of the JVM.
        "spark.driver.extraJavaOptions": f"{utc} {java.options_to_use()}".rstrip(),
        "spark.executor.extraJavaOptions": utc,
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        **conf,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    # A file, because every user of the machine can read the arguments of a process.
    properties = folder / "spark.properties"
    _write(properties, "".join(f"{key}={java.escaped(value)}\n" for key, value in settings.items()))
    token = secrets.token_urlsafe(32)
    command = [str(submit), "--properties-file", str(properties), "--class", _CLASS, "spark-internal"]
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        **os.environ,
        TOKEN_VARIABLE: token,
        # With this locale the JVM reads and writes file names in UTF-8.
        "LC_ALL": "C.UTF-8",
    }
    _write(folder / "server.log", "")
    # A shell starts the server and ends at once, so that this process has no child to wait for.
    started = subprocess.run(  # noqa: S603 - a program of Spark's
        ["/bin/sh", "-c", '"$@" > server.log 2>&1 < /dev/null & echo $!', "sh", *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        start_new_session=True,
    )
    pid = int(started.stdout)
    return Server(port, pid, psutil.Process(pid).create_time(), master, token)


def _write(file: Path, text: str) -> None:
    """Write a file that only this user can read. Other processes see the complete file or no file."""
    new = file.with_suffix(f".{os.getpid()}")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(text)
    new.replace(file)


def _wait_for(server: Server, folder: Path) -> None:
    until = time.monotonic() + _START_LIMIT_S
    # The server listens before its first session is possible, which takes seconds.
    while not (server.answers() and _takes_sessions(server, until)):
        if server.process is None:
            raise SparkProcessError("", f"the Spark Connect server on port {server.port} has ended: {_end_of(folder)}")
        if time.monotonic() > until:
            _end(server)
            raise SparkProcessError(
                "", f"the Spark Connect server did not answer within {_START_LIMIT_S:.0f} s: {_end_of(folder)}"
            )
        # No event reports that the server listens.
        time.sleep(_INTERVAL_S)


def _takes_sessions(server: Server, until: float) -> bool:
    """Return whether a listening server answers a client. Without the libraries of the client the result is True."""
    try:
        import grpc
        from pyspark.sql.connect.client.core import DefaultChannelBuilder
        from pyspark.sql.connect.proto import base_pb2_grpc

        from airflow_hivex.core.runners.connect_watch import release_of
    except ImportError:
        return True
    builder = DefaultChannelBuilder(f"{server.url}/;token={server.token}")
    limit_s = max(until - time.monotonic(), _INTERVAL_S)
    try:
        with builder.toChannel() as channel:
            stub = base_pb2_grpc.SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
            release_of(stub, builder.userId or "", timeout=limit_s, metadata=list(builder.metadata()))
    except grpc.RpcError:
        return False
    return True


def _end_of(folder: Path) -> str:
    lines = (folder / "server.log").read_text(errors="replace").splitlines()
    return f"the end of {folder / 'server.log'} is:\n" + "\n".join(lines[-_LINES_SHOWN:])


def _end(server: Server) -> None:
    process = server.process
    if process is None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
        until = time.monotonic() + _STOP_LIMIT_S
        while server.process is not None and time.monotonic() < until:
            # Usually another process has started the server, so that no event reports its end.
            time.sleep(_INTERVAL_S)
        if server.process is None:
            return
    raise SparkServerError(f"Process {server.pid} of the Spark Connect server on port {server.port} does not end")
