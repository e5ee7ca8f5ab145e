"""Real Spark standalone clusters of pyspark's own jars: a master and workers each, on this machine or on hosts.

They take as little memory as they can. The fixture ``spark_clusters`` has two of them on this machine.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests import spark_options
from tests.hosts.networks import Host
from tests.ports import free_ports
from tests.processes import end_with_parent

_PYSPARK = importlib.util.find_spec("pyspark")
assert _PYSPARK is not None
assert _PYSPARK.origin is not None
HOME = Path(_PYSPARK.origin).parent
LOCALHOST = "127.0.0.1"
START_LIMIT_S = 90.0
_INTERVAL_S = 0.1
_DAEMON_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=32m"
_QUIET = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


@dataclass
class StandaloneCluster:
    """A master and workers, each a process that a test may kill and start again.

    ``ports`` are those of the master, of its page, of each worker, and of the page of each worker. ``master_options``
    are for the Java of the master.
    """

    name: str
    master: Host
    workers: Sequence[Host]
    ports: Sequence[int] = (7077, 8080, 7078, 8081)
    cores: int = 4
    memory: str = "2g"
    master_options: str = ""
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def jobtracker(self) -> str:
        """The job tracker of a warehouse's cluster whose jobs run here."""
        return f"spark://{self.master.address}:{self.ports[0]}"

    def conf(self, client: str) -> dict[str, str]:
        """Spark's configuration for small jobs of a client with this address."""
        # Spark itself finds the Python of a client on the host of the master.
        python = {} if client == LOCALHOST else {"spark.pyspark.python": sys.executable}
        return {
            "spark.driver.host": client,
            "spark.driver.bindAddress": client,
            "spark.driver.memory": "1g",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": spark_options.java_options().replace("-XX:NewSize=512m", ""),
            "spark.cores.max": "2",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            **python,
        }

    def properties(self, root: Path, client: str = LOCALHOST, **conf: str) -> dict[str, Any]:
        """The properties of a warehouse's cluster with its files below ``root``, for a client with this address."""
        return {
            "filesystem": root.as_uri(),
            "jobtracker": self.jobtracker,
            "spark_conf": {**self.conf(client), **conf},
        }

    def start(self) -> None:
        """Start all processes; the workers are registered when this returns."""
        self.start_master()
        for worker in self.workers:
            self.start_worker(worker)
        self.wait_for_workers(len(self.workers))

    def start_master(self) -> None:
        """Start the master, and wait until it answers."""
        port, ui = self.ports[:2]
        self._start("master", self.master, "org.apache.spark.deploy.master.Master", port=port, webui_port=ui)
        self._wait_for("the master answers", lambda: self.state() is not None)

    def start_worker(self, host: Host | None = None) -> None:
        """Start a worker, by default the first, which registers itself in a moment."""
        at = 0 if host is None else list(self.workers).index(host)
        port, ui = self.ports[2:4]
        self._start(
            f"worker{at or ''}",
            self.workers[at],
            "org.apache.spark.deploy.worker.Worker",
            self.jobtracker,
            port=port,
            webui_port=ui,
            cores=self.cores,
            memory=self.memory,
            work_dir=self.workers[at].folder / "work",
        )

    def kill(self, name: str) -> None:
        """Kill the master or a worker, with the executors of the worker, as the loss of its machine would."""
        process = self._processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all processes."""
        for name in list(self._processes):
            self.kill(name)

    def state(self) -> dict[str, Any] | None:
        """The state of the cluster from its master; None while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{self.master.address}:{self.ports[1]}/json/", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, ValueError):
            # It listens before it can answer.
            return None

    def applications(self) -> list[str]:
        """The ids of the applications that run now."""
        state = self.state()
        return [str(each["id"]) for each in state["activeapps"]] if state is not None else []

    def cores_used(self) -> int:
        """The number of cores that applications have."""
        return int((self.state() or {}).get("coresused", 0))

    def executors(self) -> list[psutil.Process]:
        """The executors that run now."""
        workers = [process for name, process in self._processes.items() if name != "master"]
        with suppress(psutil.NoSuchProcess):
            started = [each for worker in workers for each in psutil.Process(worker.pid).children(recursive=True)]
            return [each for each in started if _is_executor(each)]
        return []

    def wait_for_workers(self, count: int) -> None:
        """Wait until this number of workers is alive."""
        self._wait_for(f"{count} workers", lambda: (self.state() or {}).get("aliveworkers") == count)

    def wait_for_applications(self, count: int, limit_s: float = START_LIMIT_S) -> None:
        """Wait until this number of applications runs."""
        self._wait_for(f"{count} applications", lambda: len(self.applications()) == count, limit_s)

    def _start(self, name: str, host: Host, main: str, *arguments: str, **options: object) -> None:
        for each in ("work", "local", "conf"):
            (host.folder / each).mkdir(parents=True, exist_ok=True)
        (host.folder / "conf" / "log4j2.properties").write_text(_QUIET)
        environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": host.address,
            "SPARK_DAEMON_MEMORY": "160m",
            "SPARK_DAEMON_JAVA_OPTS": _DAEMON_OPTIONS,
            "SPARK_MASTER_OPTS": self.master_options,
            "SPARK_LOCAL_DIRS": str(host.folder / "local"),
            "SPARK_CONF_DIR": str(host.folder / "conf"),
            # File names must not depend on it.
            "LC_ALL": "C",
        }
        options["host"] = host.address
        given = [text for key, value in options.items() for text in (f"--{key.replace('_', '-')}", str(value))]
        with self._log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*host.command, str(HOME / "bin" / "spark-class"), main, *given, *arguments],
                env=environment,
                cwd=host.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def _wait_for(self, what: str, happened: Any, limit_s: float = START_LIMIT_S) -> None:
        end = time.monotonic() + limit_s
        while not happened():
            ended = [name for name, each in self._processes.items() if each.poll() is not None]
            assert not ended, f"{self.name}: {ended[0]} has ended: {self._end_of_log(ended[0])}"
            assert time.monotonic() < end, f"{self.name}: not {what} within {limit_s:g} s: {self.state()}"
            # Between two looks at what other processes bring about.
            time.sleep(_INTERVAL_S)

    def _log(self, name: str) -> Path:
        return self.master.folder / f"{name}.log"

    def _end_of_log(self, name: str) -> str:
        return self._log(name).read_text(errors="replace")[-2000:]


def _is_executor(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any("CoarseGrainedExecutorBackend" in argument for argument in process.cmdline())
    return False


@contextmanager
def running_clusters(
    folder: Path, names: Sequence[str] = ("c1", "c2"), **sizes: Any
) -> Iterator[list[StandaloneCluster]]:
    """Yield running clusters, whose files are below a folder; they end with the block."""
    ports = free_ports(4 * len(names))
    hosts = [Host(name, LOCALHOST, folder / name) for name in names]
    clusters = [
        StandaloneCluster(host.name, host, [host], ports[4 * at : 4 * at + 4], **sizes) for at, host in enumerate(hosts)
    ]
    try:
        for each in clusters:
            each.start_master()
            each.start_worker()
        for each in clusters:
            each.wait_for_workers(1)
        yield clusters
    finally:
        for each in clusters:
            each.stop()
