"""An Airflow as people run it: four processes over PostgreSQL, started and killed one by one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.hosts.networks import Host
from tests.ports import free_port
from tests.postgresql import PostgresqlServer, start_postgresql

COMPONENTS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
PATIENCE_S = 420.0
_LOOK_S = 0.5


class NotHappenedError(AssertionError):
    """Something that was waited for has not happened."""


def wait_for(what: str, happened: Callable[[], Any], limit_s: float = PATIENCE_S) -> Any:
    """What ``happened`` returns once that is true; it is asked twice a second.

    Raises:
        NotHappenedError: it was not true in time.
    """
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if found := happened():
            return found
        # Between two looks at what other processes bring about.
        time.sleep(_LOOK_S)
    raise NotHappenedError(f"{what}: not within {limit_s:g} s")


class Installation:
    """Airflow in a folder, with a metastore on the same PostgreSQL server unless ``metastore_url`` names another one.

    ``dags`` is the folder of the DAG files, which have ``dag_count`` DAGs. The connection ``hivex_default`` describes
    ``clusters``, which is one that runs Spark in the tasks unless given. ``host`` is where its processes run, by
    default this machine, and ``server`` their PostgreSQL server, by default one that ends with them. ``environment`` is
    added to that of Airflow.
    """

    def __init__(
        self,
        folder: Path,
        clusters: Mapping[str, Any] | None = None,
        dags: Path = Path(__file__).parent / "dags",
        dag_count: int = 6,
        metastore_url: str | None = None,
        host: Host | None = None,
        server: PostgresqlServer | None = None,
        **environment: str,
    ) -> None:
        self.folder = folder
        self._dag_count = dag_count
        self._ends_server = server is None
        self._server = server or start_postgresql()
        self.metastore_url = metastore_url or self._server.create_database()
        port = free_port()
        self._command = () if host is None else host.command
        address = "127.0.0.1" if host is None else host.address
        self.url = f"http://{address}:{port}"
        self.clusters = clusters or {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[2]"}}
        extra = {
            "metastore_url": self.metastore_url,
            "cluster_properties": self.clusters,
            "default_cluster": next(iter(self.clusters)),
            # Those that die are found soon.
            "settings": {"hive.txn.timeout": 20},
        }
        airflow_url = self._server.create_database().replace("postgresql://", "postgresql+psycopg://")
        self.environment = {
            **os.environ,
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW_CONFIG": str(folder / "airflow" / "airflow.cfg"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": airflow_url,
            # psycopg does both, so that asyncpg is not needed.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": airflow_url,
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__HOST": address,
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__SECRET_KEY": "trial",
            "AIRFLOW__API_AUTH__JWT_SECRET": "a-secret-of-the-trial-that-is-long-enough-for-its-algorithm",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            # Tasks whose processes were killed are noticed within a minute instead of five.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "20",
            "AIRFLOW_CONN_HIVEX_DEFAULT": json.dumps({"conn_type": "hivex", "extra": extra}),
            **environment,
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._client = httpx.Client(base_url=self.url, timeout=60)

    def start(self) -> None:
        """Make Airflow's database and start all of its processes; they are healthy when this returns."""
        (self.folder / "airflow").mkdir(parents=True)
        (self.folder / "c1").mkdir()
        with (self.folder / "db.log").open("wb") as log:
            subprocess.run([*self._airflow, "db", "migrate"], env=self.environment, check=True, stdout=log, stderr=log)
        # Tasks that begin before it answers fail.
        self.start_component("api-server")
        wait_for("the api-server answers", self._sign_in)
        for name in COMPONENTS:
            if name != "api-server":
                self.start_component(name)
        wait_for("all components are healthy", self.is_healthy)
        wait_for("the DAGs are known", lambda: self.get("/api/v2/dags").get("total_entries") == self._dag_count)

    @property
    def _airflow(self) -> list[str]:
        return [*self._command, str(Path(sys.executable).with_name("airflow"))]

    def start_component(self, name: str) -> None:
        """Start a component that does not run; its output goes to a file."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*self._airflow, *COMPONENTS[name]],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
            )

    def kill_component(self, name: str) -> None:
        """Kill a component and all that it has started, as the loss of its machine would."""
        process = self._processes.pop(name)
        children = psutil.Process(process.pid).children(recursive=True)
        for each in (process.pid, *(child.pid for child in children)):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()

    def is_healthy(self) -> bool:
        """Whether all components say that they live."""
        with suppress(httpx.HTTPError):
            found = self._client.get("/api/v2/monitor/health").json()
            return all(
                found.get(each, {}).get("status") == "healthy"
                for each in ("metadatabase", "scheduler", "triggerer", "dag_processor")
            )
        return False

    def _sign_in(self) -> bool:
        with suppress(httpx.HTTPError):
            answer = self._client.get("/auth/token")
            if answer.is_success:
                self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
                return True
        return False

    def get(self, path: str) -> dict[str, Any]:
        """What the API answers, asked again while the api-server is away."""
        return self._call("GET", path, None)

    def send(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What the API answers to a change."""
        return self._call(method, path, body)

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        def ask() -> httpx.Response | None:
            with suppress(httpx.HTTPError):
                return self._client.request(method, path, json=body)
            return None

        answer: httpx.Response = wait_for(f"the API answers {method} {path}", ask)
        if not answer.is_success:
            raise NotHappenedError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        found: dict[str, Any] = answer.json()
        return found

    def trigger(self, dag_id: str, **params: Any) -> str:
        """Start a run and return its id."""
        body = {"logical_date": None, "conf": params}
        return str(self.send("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def state(self, dag_id: str, run_id: str) -> str:
        """The state of a run."""
        return str(self.get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def wait_for_end(self, dag_id: str, run_id: str, limit_s: float = PATIENCE_S) -> str:
        """The state in which a run has ended."""
        return str(
            wait_for(
                f"{dag_id} {run_id} ends",
                lambda: (state := self.state(dag_id, run_id)) in ("success", "failed") and state,
                limit_s,
            )
        )

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """What Airflow knows of a task of a run."""
        return self.get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")

    def java_process(self, busy_s: float) -> psutil.Process | None:
        """A Java process of a task that runs now, and has used this number of seconds of a processor."""
        scheduler = self._processes.get("scheduler")
        if scheduler is None:
            return None
        with suppress(psutil.Error):
            for each in psutil.Process(scheduler.pid).children(recursive=True):
                with suppress(psutil.Error):
                    if each.name() == "java" and each.cpu_times().user > busy_s:
                        return each
        return None

    def stop(self) -> None:
        """End all processes, and the database."""
        for name in list(self._processes):
            self.kill_component(name)
        self._client.close()
        if self._ends_server:
            self._server.stop()
