"""Tasks whose jobs run elsewhere: time-outs and retries hold, and nothing goes on in vain on the cluster."""

from __future__ import annotations

import json
import signal
import threading
import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from airflow.sdk import DAG

from airflow_hivex.core.runners import driver_process
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.query import HivexQueryOperator
from tests.airflow.runs import states, tries, wait_until
from tests.connect_server import running_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow.models.dagrun import DagRun

    from tests.standalone_clusters import StandaloneCluster

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

# The first try has no end.
SQL = (
    "INSERT INTO t SELECT CAST(sum(hash(id)) % 7 AS int) "
    "FROM range(0, {{ 1000000000000 if ti.try_number == 1 else 10 }}, 1, 64)"
)


class Cluster:
    """A cluster, and the processes that work for its jobs."""

    def __init__(self, properties: dict[str, Any], processes: Callable[[], list[psutil.Process]]) -> None:
        self.properties = properties
        self._processes = processes
        self._seen: dict[int, float] = {}

    def worked_s(self) -> float:
        """The seconds of a processor that all processes have taken for jobs, as far as they were seen."""
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                self._seen[process.pid] = process.cpu_times().user
        return sum(list(self._seen.values()))

    @contextmanager
    def at_work(self, act: Callable[[], object]) -> Iterator[None]:
        """Act once a job in the block works; see also processes that end in it."""
        before, ended = self.worked_s(), threading.Event()

        def watch() -> None:
            has_acted = False
            while not ended.wait(0.2):
                if self.worked_s() - before > 1 and not has_acted:
                    act()
                    has_acted = True

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def is_idle(self) -> bool:
        """Whether no job works: the processes take less than a third of a processor for half a second."""
        before = self.worked_s()
        # There is no sign of nothing.
        time.sleep(0.5)
        return self.worked_s() - before < 0.15


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "spark-submit":
        standalone: StandaloneCluster = request.getfixturevalue("spark_clusters")[0]
        yield Cluster(standalone.properties(tmp_path / "c1"), standalone.executors)
        driver_process.close_all()
        return
    with running_server(tmp_path / "connect") as server:
        assert server.process is not None
        processes = [server.process]
        yield Cluster({"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": server.url}, lambda: processes)


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("cluster", ["Spark Connect", "spark-submit"], indirect=True)
def test_a_task_that_times_out_stops_its_job_on_the_cluster_and_its_retry_completes(
    warehouse: dict[str, Any],
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    run_dag: Callable[..., DagRun],
) -> None:
    warehouse["cluster_properties"]["c1"] = cluster.properties
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": warehouse}))
    # Spark runs, so that the time-out is that of the statement.
    HivexHook().run("CREATE TABLE t (id int); INSERT INTO t SELECT CAST(id AS int) FROM range(5)")
    after_first: list[object] = []

    def look(_: Any) -> None:
        wait_until(cluster.is_idle)
        open_ids = HivexHook().get_metastore().transactions.valid_txns().open_ids
        after_first.append(open_ids)

    with DAG("hivex_times_out_on_a_cluster", schedule=None) as dag:
        HivexQueryOperator(
            task_id="load",
            sql=SQL,
            execution_timeout=timedelta(minutes=5),
            retries=1,
            retry_delay=timedelta(0),
            on_retry_callback=look,
        )
    # The time of the first try is over when its job works. Airflow measures it by this timer.
    with cluster.at_work(lambda: signal.setitimer(signal.ITIMER_REAL, 0.01)):
        run = run_dag(dag)
    assert after_first == [()]
    assert (states(run), tries(run)) == ({"load": "success"}, {"load": 2})
    assert HivexHook().run("SELECT count(*) FROM t").rows == [(6,)]
