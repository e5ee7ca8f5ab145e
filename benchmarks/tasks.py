"""Airflow tasks with a trivial query, one and eight at once: Spark in each task against one Spark Connect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from airflow_hivex.core import Metastore
from airflow_hivex.core.runners import connect_server
from benchmarks.harness import Figure, compare

_PORT = 15077
_ROUNDS = 5
_ROUNDS_AT_ONCE = 2
_TASKS = 8
_GIB = 1 << 30
_CONNECT, _IN_TASK = "Spark Connect", "Spark in the task"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds by the clock, seconds of the processors, and the most memory in GiB, of all processes together."""

    seconds: float
    processor_s: float
    memory_gib: float


@dataclass(slots=True)
class Trial:
    """A warehouse whose cluster has a job tracker, and the server that runs its jobs, if there is one."""

    folder: Path
    jobtracker: str
    server: psutil.Process | None = None

    def fill(self) -> None:
        """Make the table that the tasks read."""
        with Metastore.open(self._url, clusters=self._clusters) as metastore, metastore.session() as session:
            session.sql("CREATE TABLE t (id int, v string)")
            rows = ", ".join(f"({number}, 'v{number}')" for number in range(10))
            session.sql(f"INSERT INTO t VALUES {rows}")

    def run(self, tasks: int) -> Cost:
        """Return the cost of this number of tasks at once, with that of the server for them."""
        extra = {"metastore_url": self._url, "cluster_properties": self._clusters}
        environment = os.environ | {
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW_CONN_HIVEX_DEFAULT": json.dumps({"conn_type": "hivex", "extra": extra}),
        }
        before = self._server_s()
        ran = subprocess.run(
            [sys.executable, "-m", "benchmarks.task_processes", str(tasks)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found = json.loads(ran.stdout.splitlines()[-1])
        memory = found["peak_bytes"] + (0 if self.server is None else self.server.memory_full_info().uss)
        return Cost(found["seconds"], found["processor_s"] + self._server_s() - before, memory / _GIB)

    @property
    def _url(self) -> str:
        return f"sqlite:///{self.folder / 'metastore.db'}"

    @property
    def _clusters(self) -> dict[str, dict[str, str]]:
        return {"c1": {"filesystem": (self.folder / "c1").as_uri(), "jobtracker": self.jobtracker}}

    def _server_s(self) -> float:
        if self.server is None:
            return 0.0
        times = self.server.cpu_times()
        return float(times.user + times.system)


def run(folder: Path) -> list[Figure]:
    """Figures for one task, and for eight at once."""
    with _trials(folder) as (local, connect):
        for trial in (local, connect):
            trial.fill()
        # The first job of a server loads its classes.
        connect.run(1)
        one = _figures("A task", local, connect, 1, _ROUNDS, (0.25, 1.0, 1.0))
        return [*one, *_figures(f"{_TASKS} tasks at once", local, connect, _TASKS, _ROUNDS_AT_ONCE, (1.0, 0.3, 0.3))]


def _figures(
    name: str, local: Trial, connect: Trial, tasks: int, rounds: int, goals: tuple[float, float, float]
) -> list[Figure]:
    costs: dict[str, list[Cost]] = {_CONNECT: [], _IN_TASK: []}
    for _ in range(rounds):
        costs[_CONNECT].append(connect.run(tasks))
        costs[_IN_TASK].append(local.run(tasks))
    seconds, processor, memory = goals
    facts = (
        ("whole time", "seconds", seconds),
        ("time of the processors", "processor_s", processor),
        ("memory with the server, in GiB", "memory_gib", memory),
    )
    return [
        compare(
            f"{name}, {what}",
            {kind: [getattr(cost, field) for cost in found] for kind, found in costs.items()},
            _CONNECT,
            _IN_TASK,
            goal,
        )
        for what, field, goal in facts
    ]


@contextmanager
def _trials(folder: Path) -> Iterator[tuple[Trial, Trial]]:
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    server, _ = connect_server.start(_PORT, "local[2]")
    try:
        trials = Trial(folder / "local", "local[2]"), Trial(folder / "connect", server.url, server.process)
        for trial in trials:
            trial.folder.mkdir()
        yield trials
    finally:
        connect_server.stop(_PORT)
        del os.environ["XDG_STATE_HOME"]
