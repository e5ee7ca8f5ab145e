"""Airflow for the tests: a home of its own, made once, and DAG runs in this process."""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hivex.core.model.clusters import JobTrackerKind
from airflow_hivex.core.runners.registry import register_runner

# Airflow reads these once, when it is imported, so they are set before any test module is.
assert "airflow" not in sys.modules, "a test module outside of tests/airflow imports Airflow, which has its home now"
HOME = Path(tempfile.mkdtemp(prefix="hivex-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
(HOME / "dags").mkdir()
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW_CONFIG": str(HOME / "airflow.cfg"),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
    "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
    # One that is made up is short, and each use of it a warning.
    "AIRFLOW__API_AUTH__JWT_SECRET": "only for tests " * 5,
}

# Airflow puts the root logger at INFO, and py4j still has something to say when pytest has closed its log.
logging.getLogger("py4j").setLevel(logging.WARNING)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG


@pytest.fixture(autouse=True)
def process_of_this_test() -> Iterator[None]:
    """Take back what Airflow, and a job tracker that is a connection, leave in the process: others are tested in it."""
    on_sigterm = signal.getsignal(signal.SIGTERM)
    yield
    register_runner(JobTrackerKind.CONNECTION, None)
    signal.signal(signal.SIGTERM, on_sigterm)
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CTX_")]:
        del os.environ[name]


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """The folder that all of Airflow's files are in."""
    return HOME


@pytest.fixture(scope="session")
def airflow_database(airflow_home: Path) -> None:
    """Airflow's own database, as ``airflow db migrate`` makes it."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture
def store_dag(airflow_database: None, tmp_path: Path) -> Callable[[DAG], None]:
    """A function that puts a DAG of the test into Airflow's database."""

    def store(dag: DAG) -> None:
        from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
        from airflow.models.dagbundle import DagBundleModel
        from airflow.utils.session import create_session

        # A run needs its DAG in Airflow's database, and only DAGs of a bundle get there.
        with create_session() as session:
            session.merge(DagBundleModel(name="tests"))
        empty = tmp_path / "empty"
        empty.mkdir(exist_ok=True)
        bag = DagBag(str(empty))
        bag.bag_dag(dag)
        sync_bag_to_db(bag, "tests", None)

    return store


@pytest.fixture
def run_dag(store_dag: Callable[[DAG], None]) -> Callable[..., DagRun]:
    """A function that runs a DAG of the test with Airflow, as ``dag.test()`` does."""

    def run(dag: DAG, **arguments: Any) -> DagRun:
        store_dag(dag)
        return dag.test(**arguments)

    return run


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A connection ``hivex_default`` to a new metastore with the clusters c1 and c2: its extra."""
    from airflow_hivex.hooks.hivex import close_metastores

    extra = {
        "metastore_url": f"sqlite:///{tmp_path / 'metastore.db'}",
        "cluster_properties": {
            name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")
        },
        "default_cluster": "c1",
    }
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": extra}))
    yield extra
    close_metastores()


@pytest.fixture
def when_waiting() -> Iterator[Callable[[str, Callable[[], None]], None]]:
    """A function that does something once the task of a DAG waits outside of the worker."""
    yield from _when(lambda state, method: state == "up_for_reschedule" or method is not None)


@pytest.fixture
def when_running() -> Iterator[Callable[[str, Callable[[], None]], None]]:
    """A function that does something once the task of a DAG has begun."""
    yield from _when(lambda state, method: state in ("running", "up_for_reschedule", "deferred") or method is not None)


def _when(is_time: Callable[[Any, Any], bool]) -> Iterator[Callable[[str, Callable[[], None]], None]]:
    threads: list[threading.Thread] = []
    failures: list[BaseException] = []

    def arrange(dag_id: str, action: Callable[[], None]) -> None:
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from sqlalchemy import select

        from tests.airflow.runs import wait_until

        def waits() -> bool:
            with create_session() as session:
                found = session.execute(
                    select(TaskInstance.state, TaskInstance.next_method).where(TaskInstance.dag_id == dag_id)
                ).all()
            return any(is_time(state, method) for state, method in found)

        def run() -> None:
            try:
                wait_until(waits)
                action()
            except BaseException as error:
                failures.append(error)

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield arrange
    for thread in threads:
        thread.join()
    assert not failures
