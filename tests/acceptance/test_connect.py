"""Clusters on a Spark Connect server: each kind of statement gives what it gives with Spark in the process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import (
    AnalysisError,
    ClusterUnreachableError,
    JobCancelledError,
    JobError,
)
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.model.progress import Progress
from airflow_hivex.core.runners.connect_server import Server, stop
from airflow_hivex.core.runners.registry import runner_for
from tests.acceptance.each_statement import PRELUDE, as_set, results
from tests.connect_server import free_port, running_server

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.fixture
def metastore(server: Server, sqlite_url: str, tmp_path: Path) -> Iterator[Metastore]:
    trackers = {"remote": server.url, "local": "local[2]"}
    clusters = {
        name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": tracker} for name, tracker in trackers.items()
    }
    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="remote") as metastore:
        yield metastore


@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_each_kind_of_statement_gives_what_it_gives_in_process(metastore: Metastore, layout: str) -> None:
    # One after the other in one process, whose pyspark serves both kinds.
    assert as_set(results(metastore, "remote", layout)) == as_set(results(metastore, "local", layout))
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


def test_errors_are_those_of_the_statement(metastore: Metastore, tmp_path: Path) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (id int)")
        with pytest.raises(AnalysisError, match="nothing_here"):
            session.sql("SELECT nothing_here FROM t")
        with pytest.raises(JobError, match="DIVIDE_BY_ZERO") as caught:
            session.sql("INSERT INTO t SELECT CAST(1 / (id - id) AS int) FROM range(3)")
        assert "stacktrace" not in str(caught.value)
        assert session.sql("SELECT count(*) FROM t").rows == [(0,)]
        assert not [path.name for path in (tmp_path / "remote" / "default.db" / "t").glob("*") if path.is_dir()]


def test_cancel_stops_the_job_on_the_server_within_seconds(server: Server) -> None:
    runner = runner_for(Cluster("remote", "file:///data/c1", server.url))
    endless = Plan("endless", "endless", "SELECT sum(hash(id)) FROM range(0, 1000000000000, 1, 1000000)")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, endless, "remote")
        # It runs on the server by then; whether it does, the time of its end does not depend on it.
        with pytest.raises(TimeoutError):
            running.result(timeout=3)
        stopped = time.monotonic()
        runner.cancel("endless")
        with pytest.raises(JobCancelledError):
            running.result(timeout=30)
    assert time.monotonic() - stopped < 10


ENDLESS = "SELECT sum(hash(r.id, s.id)) FROM s CROSS JOIN range(0, 1000000000000, 1, 100000) r"


@pytest.mark.parametrize("cluster", ["remote", "local"])
def test_progress_of_a_long_job_is_reported(metastore: Metastore, cluster: str) -> None:
    reported: list[Progress] = []

    shown: list[tuple[object, ...]] = []

    def report(progress: Progress) -> None:
        reported.append(progress)
        if progress.tasks_done > 5:
            with metastore.session() as other:
                shown.extend(other.sql("SHOW CLUSTERS").rows)
            session.cancel()

    with metastore.session(cluster=cluster, progress=report) as session:
        for text in PRELUDE:
            session.sql(text)
        with pytest.raises(JobCancelledError):
            session.sql(ENDLESS)
    last = reported[-1]
    assert last.tasks > 1000 > last.tasks_done > 5
    assert 0 < last.tasks_running < 10
    assert last.elapsed_s > 3
    # A server of Spark Connect tells no rows.
    assert last.rows_read is None if cluster == "remote" else (last.rows_read or 0) >= 4
    assert (last.bytes_read or 0) > 0
    jobs = {str(row[0]): (row[8], row[9]) for row in shown[:2]}
    assert jobs == {"remote": (0, 0), "local": (0, 0), cluster: (1, 1)}
    assert all(isinstance(row[7], int) and row[7] > 0 for row in shown)


NO_JAVA = """
import subprocess, sys
from airflow_hivex.core import Metastore
url, folder, tracker = sys.argv[1:]
with Metastore.open(url, clusters={"c1": {"filesystem": folder, "jobtracker": tracker}}) as metastore:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (id int, v string) CLUSTERED BY (id) INTO 2 BUCKETS")
        session.sql("INSERT INTO t SELECT CAST(id AS int), 'v' FROM range(10)")
        session.sql("DELETE FROM t WHERE id > 6")
        print(session.sql("SELECT count(*) FROM t").rows)
from pyspark import SparkContext
print(SparkContext._gateway)
"""


def test_a_client_needs_no_java(server: Server, sqlite_url: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    environment["PATH"] = str(Path(sys.executable).parent)
    ran = subprocess.run(
        [sys.executable, "-c", NO_JAVA, sqlite_url, (tmp_path / "c1").as_uri(), server.url],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.splitlines() == ["[(7,)]", "None"], ran.stderr


def test_nothing_listens(sqlite_url: str, tmp_path: Path) -> None:
    cluster = {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": f"sc://localhost:{free_port()}"}
    with Metastore.open(sqlite_url, clusters={"c1": cluster}) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id int)")
        session.sql("INSERT INTO t VALUES (1)")
        began = time.monotonic()
        with pytest.raises(ClusterUnreachableError, match="no Spark Connect server answers at sc://localhost"):
            session.sql("SELECT count(*) FROM t")
        assert time.monotonic() - began < 3
        assert "no Spark Connect server answers" in str(session.sql("SHOW CLUSTERS").rows[0][5])


def test_a_server_that_dies_in_the_middle_of_a_job_leaves_nothing(sqlite_url: str, tmp_path: Path) -> None:
    with running_server(tmp_path / "state") as server:
        cluster = {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": server.url}
        with (
            Metastore.open(sqlite_url, clusters={"c1": cluster}) as metastore,
            metastore.session() as session,
            ThreadPoolExecutor(1) as pool,
        ):
            session.sql("CREATE TABLE t (id bigint)")
            session.sql("INSERT INTO t SELECT id FROM range(5)")
            writing = pool.submit(
                session.sql, "INSERT INTO t SELECT sum(hash(id)) FROM range(0, 1000000000000, 1, 1000000)"
            )
            with pytest.raises(TimeoutError):
                writing.result(timeout=3)
            stop(server.port)
            with pytest.raises(ClusterUnreachableError, match=r"Nothing was written to default\.t"):
                writing.result(timeout=60)
            # The write before it alone; its transaction has ended.
            assert [row[2] for row in session.sql("SHOW TRANSACTIONS").rows].count("open") == 0
        folders = [path for path in (tmp_path / "c1" / "default.db" / "t").iterdir() if path.is_dir()]
        assert len(folders) == 1
