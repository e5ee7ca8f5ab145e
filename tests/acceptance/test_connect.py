"""Clusters on a Spark Connect server: each kind of statement gives what it gives with Spark in the process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql.connect.session import SparkSession

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AnalysisError,
    ClusterUnreachableError,
    CopyAlteredError,
    InvalidOperationError,
    JobCancelledError,
    JobError,
    RoutingError,
    TransactionAbortedError,
)
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.directories import UNFINISHED
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.model.progress import Progress
from airflow_hivex.core.runners import connect_server
from airflow_hivex.core.runners.connect_server import Server, stop
from airflow_hivex.core.runners.registry import runner_for
from tests.acceptance.each_statement import PRELUDE, as_set, in_a_charset_of_java, results
from tests.acceptance.replicating_process import replicate_by_job
from tests.connect_server import running_server
from tests.ports import free_port
from tests.processes import ClientProcess

pytestmark = pytest.mark.spark
LONG_JOBS = pytest.mark.evidence(cases=1, among="long jobs and faults of Spark Connect")


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
    settings = {"hivex.replication.timeout": 10}
    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="remote", settings=settings) as metastore:
        yield metastore


@pytest.mark.evidence(cases=1, among="statements on clusters and in this process")
@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_each_kind_of_statement_gives_what_it_gives_in_process(metastore: Metastore, layout: str) -> None:
    # One after the other in one process, whose pyspark serves both kinds.
    assert as_set(results(metastore, "remote", layout)) == as_set(results(metastore, "local", layout))
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


def test_files_of_europes_excel_are_read_and_written(metastore: Metastore, tmp_path: Path) -> None:
    rows, written = in_a_charset_of_java(metastore, "remote", tmp_path / "remote")
    assert rows == [("Café „Zürich“ 5 €", Decimal("1234.50"))]
    assert written.decode("windows-1252") == "Café „Zürich“ 5 €\n"


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


def test_a_query_and_functions_are_explained_by_the_server(metastore: Metastore) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (id int)")
        session.sql("INSERT INTO t VALUES (1)")
        explained = session.sql("EXPLAIN FORMATTED SELECT * FROM t WHERE id > 1")
        assert explained.cluster == "remote"
        assert "(1) Scan orc" in str(explained.rows[0][0])
        assert ("lower",) in session.sql("SHOW FUNCTIONS").rows
        session.sql("CREATE FUNCTION plus(x INT) RETURNS INT RETURN x + 1")
        assert session.sql("SELECT plus(id), default.plus(2) FROM t").rows == [(2, 3)]


def test_a_class_needs_a_server_with_support_for_hive(server: Server) -> None:
    runner = runner_for(Cluster("remote", "file:///data/c1", server.url))
    made = "CREATE OR REPLACE TEMPORARY FUNCTION `d.f` AS 'org.apache.hadoop.hive.ql.udf.UDFHex'"
    with pytest.raises(InvalidOperationError, match=r"A call of d\.f .*the server has no support for Hive"):
        runner.run(Plan("classes", "classes", "SELECT `d.f`('a')", prelude=(made,)), "remote")


def test_dataframes_of_spark_connect_are_refused(metastore: Metastore, server: Server) -> None:
    spark = SparkSession(connection=connect_server.with_token(server.url))
    with metastore.session() as session, pytest.raises(InvalidOperationError, match="runs in this process"):
        session.warehouse(spark)
    spark.stop()


def test_cancel_stops_the_job_on_the_server(server: Server) -> None:
    runner = runner_for(Cluster("remote", "file:///data/c1", server.url))
    endless = Plan("endless", "endless", "SELECT sum(hash(id)) FROM range(0, 1000000000000, 1, 1000000)")
    runs = Event()

    def report(progress: Progress) -> None:
        if progress.tasks_done:
            runs.set()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, endless, "remote", report)
        # Spark loses the end of a job that is just beginning, and runs it on without a client.
        began = runs.wait(timeout=120)
        runner.cancel("endless")
        assert began
        with pytest.raises(JobCancelledError):
            running.result(timeout=60)


ENDLESS = "SELECT sum(hash(r.id, s.id)) FROM s CROSS JOIN range(0, 1000000000000, 1, 100000) r"


@LONG_JOBS
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
    # A server of Spark Connect reports no rows.
    assert last.rows_read is None if cluster == "remote" else (last.rows_read or 0) >= 4
    assert (last.bytes_read or 0) > 0
    jobs = {str(row[0]): (row[8], row[9]) for row in shown[:2]}
    assert jobs == {"remote": (0, 0), "local": (0, 0), cluster: (1, 1)}
    assert all(isinstance(row[7], int) and row[7] > 0 for row in shown)


NO_JAVA = """
import subprocess, sys
from airflow_hivex.core import Metastore, Session
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


def is_unfinished(name: str) -> bool:
    return name.endswith(UNFINISHED)


def files_of(root: Path) -> dict[str, str]:
    """The checksums of the files of tables below a root, hidden ones too."""
    folder = root / "default.db"
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def lengthen(root: Path) -> None:
    """Make one file so long that a slow copy of it takes seconds; no replication reads rows."""
    with next(root.rglob("bucket_*")).open("ab") as file:
        file.write(bytes(100_000))


@pytest.fixture
def days(metastore: Metastore) -> Iterator[Session]:
    """A table on the cluster of this process, with two partitions of three files each."""
    with metastore.session(cluster="local") as session:
        session.sql("CREATE TABLE days (id int) PARTITIONED BY (ds string)")
        for number in range(6):
            session.sql(f"INSERT INTO days PARTITION (ds = '{number % 2}') VALUES ({number})")
        yield session


def test_a_job_on_the_server_copies_what_is_lacking(metastore: Metastore, days: Session, tmp_path: Path) -> None:
    replicate = partial(metastore.replicator.replicate, "days", "remote", copy_cluster="remote")
    done = replicate()
    before = files_of(tmp_path / "local")
    assert (done.files_copied, done.files_kept) == (len(before), 0)
    assert files_of(tmp_path / "remote") == files_of(tmp_path / "local")
    with metastore.session(cluster="remote") as session:
        assert session.sql("SELECT sum(id) FROM days").rows == [(15,)]
    days.sql("INSERT INTO days PARTITION (ds = '1') VALUES (6)")
    done = replicate()
    assert (done.files_copied, done.files_kept) == (len(files_of(tmp_path / "local")) - len(before), 0)
    # A damaged file is replaced, and no task does so, as queries may be reading it.
    damaged = next((tmp_path / "remote").rglob("bucket_*"))
    damaged.write_bytes(bytes(damaged.stat().st_size))
    assert replicate(verify=True).files_copied > 0
    assert files_of(tmp_path / "remote") == files_of(tmp_path / "local")


@LONG_JOBS
def test_a_job_leaves_the_files_of_others_and_names_lost_sources(
    metastore: Metastore, days: Session, tmp_path: Path
) -> None:
    replicate = partial(metastore.replicator.replicate, "days", "remote", copy_cluster="remote")
    source = next((tmp_path / "local").rglob("bucket_*"))
    foreign = tmp_path / "remote" / source.relative_to(tmp_path / "local")
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"x" * source.stat().st_size)
    with pytest.raises(InvalidOperationError, match="is another file; move it away"):
        replicate()
    assert foreign.read_bytes() == b"x" * source.stat().st_size
    foreign.unlink()
    content = source.read_bytes()
    source.write_bytes(content[:-1])
    with pytest.raises(CopyAlteredError, match="are registered"):
        replicate()
    source.write_bytes(content)
    assert replicate().files_kept == len(files_of(tmp_path / "local")) - 1
    assert files_of(tmp_path / "remote") == files_of(tmp_path / "local")


@LONG_JOBS
def test_a_killed_client_of_a_job_that_copies_leaves_no_half_copy(
    metastore: Metastore, server: Server, sqlite_url: str, days: Session, tmp_path: Path
) -> None:
    lengthen(tmp_path / "local")
    clusters = {
        "remote": {"filesystem": (tmp_path / "remote").as_uri(), "jobtracker": server.url},
        "local": {"filesystem": (tmp_path / "local").as_uri(), "jobtracker": "local[2]"},
    }
    options = {"clusters": clusters, "default_cluster": "remote"}
    with ClientProcess(replicate_by_job, sqlite_url, options, "days", "remote", 20_000, log=tmp_path / "log") as client:
        while not list((tmp_path / "remote").rglob("bucket_*")):
            assert client.is_alive, client.error()
        client.kill()
    # The server may go on with the job for a while; nothing of it counts, and nothing of it is in the way.
    with metastore.session(cluster="remote") as session, pytest.raises(RoutingError):
        session.sql("SELECT count(*) FROM days")
    assert metastore.replicator.replicate("days", "remote", copy_cluster="remote").files_kept > 0
    copied = {name: each for name, each in files_of(tmp_path / "remote").items() if not is_unfinished(name)}
    assert copied == files_of(tmp_path / "local")


@LONG_JOBS
def test_a_job_that_copies_is_cancelled_with_its_transaction(
    metastore: Metastore, days: Session, tmp_path: Path
) -> None:
    lengthen(tmp_path / "local")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            metastore.replicator.replicate, "days", "remote", copy_cluster="remote", bytes_per_second=20_000
        )
        while not list((tmp_path / "remote").rglob("bucket_*")):
            assert not running.done(), running.exception()
        (txn_id,) = metastore.transactions.valid_txns().open_ids
        began = time.monotonic()
        metastore.transactions.abort(txn_id, "for the test")
        # The heartbeats find out about it, long before the copy would end.
        with pytest.raises(TransactionAbortedError, match="for the test"):
            running.result(60)
        assert time.monotonic() - began < 30
    assert metastore.replicator.replicate("days", "remote").files_kept > 0


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
        # The client of Spark would try for ten minutes.
        assert time.monotonic() - began < 60
        assert "no Spark Connect server answers" in str(session.sql("SHOW CLUSTERS").rows[0][5])


@LONG_JOBS
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
