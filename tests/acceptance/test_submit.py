"""Clusters by spark-submit, on real standalone clusters: what statements give, and what is left when a part dies."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path

import psutil
import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import (
    AnalysisError,
    ClusterUnreachableError,
    HivexError,
    JobCancelledError,
    JobError,
    SparkProcessError,
)
from airflow_hivex.core.runners import driver_process
from tests.acceptance.each_statement import as_set, in_a_charset_of_java, results
from tests.object_store import ObjectStore
from tests.ports import free_port
from tests.standalone_clusters import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ENDLESS = "INSERT INTO t SELECT sum(hash(id)) FROM range(0, 1000000000000, 1, 64)"
LOST = pytest.mark.evidence(cases=1, among="parts of a Spark cluster that are lost")
SECRET = "K7MDENGwJalrXUt"


@pytest.fixture(scope="module")
def cluster(spark_clusters: list[StandaloneCluster]) -> Iterator[StandaloneCluster]:
    yield spark_clusters[0]
    driver_process.close_all()


@pytest.fixture
def metastore(cluster: StandaloneCluster, sqlite_url: str, tmp_path: Path) -> Iterator[Metastore]:
    clusters = {
        "remote": cluster.properties(tmp_path / "remote"),
        "local": {"filesystem": (tmp_path / "local").as_uri(), "jobtracker": "local[2]"},
    }
    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="remote") as metastore:
        with metastore.session() as session:
            session.sql("CREATE TABLE default.t (id bigint)")
            session.sql("INSERT INTO t VALUES (0)")
        yield metastore


def wait_for(happened: Callable[[], object], limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < end
        # Between two looks at what other processes bring about.
        time.sleep(0.05)


def drivers() -> list[psutil.Process]:
    """The Java processes of this process's drivers. Its own Spark, for clusters in this process, is another one."""
    return [each for each in psutil.Process().children() if "hivex_driver.py" in command_line(each)]


def command_line(process: psutil.Process) -> str:
    """The arguments of a process; none of one that has ended, also between two looks at it."""
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def is_busy(cluster: StandaloneCluster, before: Mapping[int, float]) -> bool:
    """Whether an executor has used more of a processor than before, by a second."""
    return any(each.cpu_times().user > before.get(each.pid, 0) + 1 for each in cluster.executors())


@contextmanager
def running(metastore: Metastore, cluster: StandaloneCluster) -> Iterator[Callable[[], HivexError]]:
    """While a statement without an end runs on executors: the function that is yielded returns its error."""
    with metastore.session() as session, ThreadPoolExecutor(1) as pool:
        # Spark has run a job before, so that what an executor does now is the statement.
        session.sql("SELECT count(*) FROM range(10)")
        before = {each.pid: each.cpu_times().user for each in cluster.executors()}
        future = pool.submit(session.sql, ENDLESS)
        try:
            wait_for(lambda: future.done() or is_busy(cluster, before))

            def error() -> HivexError:
                raised = future.exception(timeout=60)
                assert isinstance(raised, HivexError), raised
                return raised

            yield error
        finally:
            session.cancel()


def assert_nothing_was_written(metastore: Metastore, tmp_path: Path) -> None:
    assert metastore.transactions.valid_txns().open_ids == ()
    assert metastore.locks.show() == []
    assert len([path for path in (tmp_path / "remote" / "default.db" / "t").iterdir() if path.is_dir()]) == 1


@pytest.mark.evidence(cases=1, among="statements on clusters and in this process")
@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_each_kind_of_statement_gives_what_it_gives_in_process(
    metastore: Metastore, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The names of files do not depend on the locale of the client, nor on that of the worker.
    monkeypatch.setenv("LC_ALL", "C")
    driver_process.close_all()
    assert as_set(results(metastore, "remote", layout)) == as_set(results(metastore, "local", layout))


def test_files_of_europes_excel_are_read_and_written(metastore: Metastore, tmp_path: Path) -> None:
    rows, written = in_a_charset_of_java(metastore, "remote", tmp_path / "remote")
    assert rows == [("Café „Zürich“ 5 €", Decimal("1234.50"))]
    assert written.decode("windows-1252") == "Café „Zürich“ 5 €\n"


def test_errors_are_those_of_the_statement(metastore: Metastore, tmp_path: Path) -> None:
    with metastore.session() as session:
        with pytest.raises(AnalysisError, match="nothing_here"):
            session.sql("SELECT nothing_here FROM t")
        with pytest.raises(JobError, match="DIVIDE_BY_ZERO"):
            session.sql("INSERT INTO t SELECT 1 / (id - id) FROM range(3)")
        assert session.sql("SELECT id FROM t").rows == [(0,)]
    assert_nothing_was_written(metastore, tmp_path)


@pytest.mark.evidence(cases=1, among="permanent functions")
def test_a_class_of_hive_is_called_on_the_cluster(cluster: StandaloneCluster, sqlite_url: str, tmp_path: Path) -> None:
    clusters = {"remote": cluster.properties(tmp_path / "remote")}
    settings = {"hivex.allow.code.execution": True}
    with Metastore.open(sqlite_url, clusters=clusters, settings=settings) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE v (a string)")
        session.sql("INSERT INTO v VALUES ('a'), ('b')")
        session.sql("CREATE FUNCTION hexed AS 'org.apache.hadoop.hive.ql.udf.UDFHex'")
        session.sql("CREATE FUNCTION twice(x STRING) RETURNS STRING RETURN concat(hexed(x), hexed(x))")
        assert session.sql("UPDATE v SET a = hexed(a) WHERE twice(a) = '6161'").rows_written == 1
        assert session.sql("SELECT twice(a) FROM v ORDER BY a").rows == [("36313631",), ("6262",)]


def test_cancel_stops_the_job_on_the_cluster(metastore: Metastore, cluster: StandaloneCluster, tmp_path: Path) -> None:
    with running(metastore, cluster) as error:
        # The end of the block cancels it.
        pass
    assert isinstance(error(), JobCancelledError)
    assert_nothing_was_written(metastore, tmp_path)
    with metastore.session() as session:
        # The executors are free again.
        assert session.sql("SELECT count(*) FROM range(1000)").rows == [(1000,)]


@LOST
def test_a_driver_that_dies_leaves_nothing_and_is_replaced(
    metastore: Metastore, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    with running(metastore, cluster) as error:
        drivers()[0].kill()
        raised = error()
    assert isinstance(raised, SparkProcessError)
    assert "was killed by signal 9" in str(raised)
    assert raised.retryable
    assert_nothing_was_written(metastore, tmp_path)
    with metastore.session() as session:
        assert session.sql("SELECT id FROM t WHERE id + 0 = 0").rows == [(0,)]


@LOST
def test_a_lost_worker_ends_the_statement_and_a_new_one_serves_the_next(
    cluster: StandaloneCluster, sqlite_url: str, tmp_path: Path
) -> None:
    clusters = {"remote": cluster.properties(tmp_path / "remote", **{"spark.hivex.executors.timeout": "3"})}
    with Metastore.open(sqlite_url, clusters=clusters) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id bigint)")
        session.sql("INSERT INTO t VALUES (0)")
        with running(metastore, cluster) as error:
            cluster.kill("worker")
            raised = error()
        cluster.start_worker()
        assert isinstance(raised, ClusterUnreachableError)
        assert re.search(r"all executors were lost.* ran on 127\.0\.0\.1: check", str(raised))
        assert_nothing_was_written(metastore, tmp_path)
        cluster.wait_for_workers(1)
        assert session.sql("SELECT id FROM t WHERE id + 0 = 0").rows == [(0,)]


@LOST
def test_a_lost_executor_is_replaced(metastore: Metastore, cluster: StandaloneCluster) -> None:
    slow = "SELECT count(*) FROM range(0, 12000000, 1, 60) WHERE hash(sha2(CAST(id AS string), 256)) <> 3"
    with metastore.session() as session, ThreadPoolExecutor(1) as pool:
        session.sql("SELECT count(*) FROM range(10)")
        result = pool.submit(session.sql, slow)
        before = {each.pid: each.cpu_times().user for each in cluster.executors()}
        wait_for(lambda: is_busy(cluster, before))
        cluster.executors()[0].kill()
        assert 11_999_000 < result.result(timeout=120).rows[0][0] <= 12_000_000


@LOST
def test_a_lost_master_stops_no_job_and_takes_no_new_application(
    metastore: Metastore, cluster: StandaloneCluster
) -> None:
    with metastore.session() as session:
        session.sql("SELECT count(*) FROM range(10)")
        cluster.kill("master")
        try:
            # The driver and its executors need no master.
            assert session.sql("INSERT INTO t SELECT id FROM range(1, 4)").rows_written == 3
            driver_process.close_all()
            with pytest.raises(ClusterUnreachableError, match="no cluster manager takes connections at"):
                session.sql("INSERT INTO t SELECT id FROM range(1, 4)")
        finally:
            cluster.stop()
            cluster.start()
        assert sorted(session.sql("SELECT id FROM t").rows) == [(0,), (1,), (2,), (3,)]


CLIENT = """
import sys, tempfile
from airflow_hivex.core import Metastore
url, clusters, statement = sys.argv[1:]
with Metastore.open(url, clusters=clusters, default_cluster="remote") as metastore:
    with metastore.session() as session:
        session.sql("SELECT count(*) FROM range(10)")
        print("ready", flush=True)
        session.sql(statement)
"""


@LOST
def test_a_client_that_is_killed_takes_its_job_on_the_cluster_with_it(
    metastore: Metastore, cluster: StandaloneCluster, sqlite_url: str, tmp_path: Path
) -> None:
    driver_process.close_all()
    cluster.wait_for_applications(0)
    described = {
        "remote": cluster.properties(tmp_path / "remote"),
        "local": {"filesystem": (tmp_path / "local").as_uri(), "jobtracker": "local[2]"},
    }
    (tmp_path / "files").mkdir()
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, sqlite_url, json.dumps(described), ENDLESS],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path / "files")},
    )
    with client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        before = {each.pid: each.cpu_times().user for each in cluster.executors()}
        wait_for(lambda: is_busy(cluster, before))
        assert len(cluster.applications()) == 1
        os.kill(client.pid, signal.SIGKILL)
    cluster.wait_for_applications(0, 60)
    wait_for(lambda: not cluster.executors())
    assert not list((tmp_path / "files").glob("hivex-spark-*"))
    with metastore.session() as session:
        assert session.sql("SELECT id FROM t").rows == [(0,)]


def read(url: str) -> str:
    with urllib.request.urlopen(url) as page:
        return str(page.read().decode())


def test_secrets_are_in_no_argument_log_or_page_of_spark(
    cluster: StandaloneCluster,
    sqlite_url: str,
    object_store: ObjectStore,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither a setting of Spark, nor the key of S3 that Spark gets from the options of the client."""
    port = free_port()
    bucket = object_store.create_bucket()
    secrets = {
        "spark.hadoop.fs.azure.account.key": SECRET,
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.log.level": "INFO",
    }
    caplog.set_level(logging.DEBUG)
    driver_process.close_all()
    options = {**object_store.options, "secret": SECRET}
    store = {"filesystem": f"s3://{bucket}", "storage_options": options}
    clusters = {"remote": {**cluster.properties(tmp_path / "remote", **secrets), **store}}
    with Metastore.open(sqlite_url, clusters=clusters) as metastore, metastore.session() as session:
        assert session.sql("SELECT count(*) FROM range(10)").rows == [(10,)]
        (driver,) = drivers()
        processes = [driver, *driver.children(recursive=True), *cluster.executors()]
        assert len(processes) > 2
        assert not [each for each in processes if SECRET in command_line(each)]
        # The file with the configuration has gone, and no other user can look into its folder.
        folder = Path(driver.cwd())
        assert folder.stat().st_mode & 0o777 == 0o700
        assert not [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        pages = f"http://127.0.0.1:{port}/api/v1/applications"
        (application,) = json.loads(read(pages))
        text = read(f"{pages}/{application['id']}/environment")
        assert f"fs.s3a.bucket.{bucket}.secret.key" in text
        text += read(f"http://127.0.0.1:{port}/SQL/execution/?id=0")
        assert f"<td>fs.s3a.bucket.{bucket}.secret.key</td>" in text
        assert SECRET not in text
    driver_process.close_all()
    assert application["id"] in caplog.text
    assert SECRET not in caplog.text
    assert not folder.exists()


def test_nothing_listens(sqlite_url: str, tmp_path: Path) -> None:
    port = free_port()
    cluster = {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": f"spark://127.0.0.1:{port}"}
    with Metastore.open(sqlite_url, clusters={"c1": cluster}) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id int)")
        session.sql("INSERT INTO t VALUES (1)")
        began = time.monotonic()
        with pytest.raises(ClusterUnreachableError, match=f"no cluster manager takes connections at 127.0.0.1:{port}"):
            session.sql("SELECT count(*) FROM t")
        # Spark would try for minutes.
        assert time.monotonic() - began < 60
        assert "no cluster manager" in str(session.sql("SHOW CLUSTERS").rows[0][5])
