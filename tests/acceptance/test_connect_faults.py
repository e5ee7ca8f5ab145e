"""Faults of a Spark Connect server: each ends in a clear error, an aborted transaction, and a retry that completes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import psutil
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import ClusterUnreachableError, JobCancelledError, JobError
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.runners import connect_server
from airflow_hivex.core.runners.connect import ConnectRunner
from airflow_hivex.core.runners.connect_server import Server
from tests.connect_server import free_port, running_server
from tests.tcp_proxy import TcpProxy

pytestmark = pytest.mark.spark
in_turns = pytest.mark.evidence(cases=2, among="faults of Spark Connect")

ENDLESS = "SELECT sum(hash(id)) FROM range(0, 1000000000000, 1, 100000)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.fixture
def process(server: Server) -> psutil.Process:
    assert server.process is not None
    return server.process


@contextmanager
def opened(url: str, jobtracker: str, folder: Path) -> Iterator[Session]:
    cluster = {"filesystem": (folder / "c1").as_uri(), "jobtracker": jobtracker}
    with Metastore.open(url, clusters={"c1": cluster}) as metastore, metastore.session() as session:
        yield session


@contextmanager
def running(work: Callable[[], object], process: psutil.Process) -> Iterator[Future[object]]:
    """Yield the future of the work in another thread, once the server's process works for it."""
    before = sum(process.cpu_times()[:2])
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        while not future.done() and sum(process.cpu_times()[:2]) - before < 2:
            futures.wait([future], 0.05)
        yield future


@contextmanager
def paused(process: psutil.Process) -> Iterator[None]:
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def open_transactions(session: Session) -> list[object]:
    return [row[0] for row in session.sql("SHOW TRANSACTIONS").rows if str(row[1]).lower() == "open"]


@in_turns
def test_a_killed_server_is_started_again_and_the_same_session_goes_on(sqlite_url: str, tmp_path: Path) -> None:
    with running_server(tmp_path / "state") as server, opened(sqlite_url, server.url, tmp_path) as session:
        session.sql("CREATE TABLE t (id bigint)")
        session.sql("INSERT INTO t SELECT id FROM range(10)")
        process = server.process
        assert process is not None
        change = f"UPDATE t SET id = id + ({ENDLESS}) WHERE id > 5"
        with running(lambda: session.sql(change), process) as writing:
            process.send_signal(signal.SIGKILL)
            with pytest.raises(ClusterUnreachableError, match=r"Nothing was written to default\.t"):
                writing.result(60)
        assert open_transactions(session) == []
        connect_server.start(server.port, "local[2]")
        # The router remembers for ten seconds that no job can run there.
        deadline = time.monotonic() + 60
        while session.sql("SHOW CLUSTERS").rows[0][5] != "usable":
            assert time.monotonic() < deadline
        assert session.sql("UPDATE t SET id = id + 100 WHERE id > 5").rows_written == 4
        assert session.sql("SELECT count(*), sum(id) FROM t").rows == [(10, 445)]


@in_turns
def test_a_network_that_comes_back_in_time_loses_nothing(
    server: Server, process: psutil.Process, sqlite_url: str, tmp_path: Path
) -> None:
    with TcpProxy(server.port) as proxy:
        url = f"sc://localhost:{proxy.port}/;token={server.token}"
        with opened(sqlite_url, url, tmp_path) as session:
            session.sql("CREATE TABLE t (id bigint)")
            session.sql("INSERT INTO t SELECT id FROM range(5)")
            text = "INSERT INTO t SELECT sum(hash(a.id, b.id)) FROM range(20000) a CROSS JOIN range(10000) b"
            with running(lambda: session.sql(text), process) as writing:
                assert not writing.done()
                for _ in range(3):
                    proxy.cut()
                    futures.wait([writing], 0.3)
                    proxy.mend()
                    futures.wait([writing], 0.3)
                writing.result(120)
            assert session.sql("SELECT count(*) FROM t").rows == [(6,)]


@in_turns
def test_a_network_that_stays_away_ends_the_statement(
    server: Server, process: psutil.Process, sqlite_url: str, tmp_path: Path
) -> None:
    with TcpProxy(server.port) as proxy:
        url = f"sc://localhost:{proxy.port}/;token={server.token}"
        with opened(sqlite_url, url, tmp_path) as session:
            session.sql("CREATE TABLE t (id bigint)")
            session.sql("INSERT INTO t SELECT id FROM range(5)")
            with running(lambda: session.sql(f"INSERT INTO t {ENDLESS}"), process) as writing:
                proxy.cut()
                with pytest.raises(ClusterUnreachableError, match="connection to its Spark Connect server was lost"):
                    writing.result(60)
            assert open_transactions(session) == []
            proxy.mend()
        # Another process has remembered nothing.
        with opened(sqlite_url, url, tmp_path) as session:
            assert session.sql("INSERT INTO t SELECT id FROM range(5)").rows_written == 5
            assert session.sql("SELECT count(*) FROM t").rows == [(10,)]


@in_turns
def test_a_server_that_hangs_is_not_waited_for(server: Server, process: psutil.Process) -> None:
    runner = ConnectRunner(server.url, silence_s=3)
    with running(lambda: runner.run(Plan("lost", "lost", ENDLESS), "c1"), process) as lost, paused(process):
        with pytest.raises(ClusterUnreachableError, match="has not answered for 3 s"):
            lost.result(60)
        problem = runner.health("c1").problem
        assert isinstance(problem, ClusterUnreachableError)
        assert "no answer within" in str(problem)
    # The next job has a connection of its own, and ends the one that nobody waits for.
    assert runner.run(Plan("next", "next", "SELECT 1 AS a"), "c1").rows == ((1,),)


@in_turns
def test_a_job_on_a_server_that_hangs_can_be_cancelled(server: Server, process: psutil.Process) -> None:
    runner = ConnectRunner(server.url)
    with running(lambda: runner.run(Plan("stuck", "stuck", ENDLESS), "c1"), process) as stuck, paused(process):
        runner.cancel("stuck")
        with pytest.raises(JobCancelledError):
            stuck.result(5)
    assert runner.run(Plan("next", "next", "SELECT 1 AS a"), "c1").rows == ((1,),)


def test_a_wrong_token_is_no_lost_server(server: Server, sqlite_url: str, tmp_path: Path) -> None:
    with opened(sqlite_url, f"sc://localhost:{server.port}/;token=guessed", tmp_path) as session:
        session.sql("CREATE TABLE t (id bigint)")
        with pytest.raises(JobError, match="refuses the token") as refused:
            session.sql("SELECT * FROM t")
        assert not refused.value.retryable
        assert "guessed" not in str(refused.value)


class OtherRelease(base_pb2_grpc.SparkConnectServiceServicer):
    """The service of a release that is not installed here: it tells its name."""

    def AnalyzePlan(self, request, context):  # type: ignore[no-untyped-def]  # noqa: N802 - gRPC's names
        version = base_pb2.AnalyzePlanResponse.SparkVersion(version="4.1.1")
        return base_pb2.AnalyzePlanResponse(spark_version=version)

    def ReleaseSession(self, request, context):  # type: ignore[no-untyped-def]  # noqa: N802 - gRPC's names
        return base_pb2.ReleaseSessionResponse()


def test_a_server_of_another_release_is_named_with_both_releases(sqlite_url: str, tmp_path: Path) -> None:
    service = grpc.server(ThreadPoolExecutor(2))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(OtherRelease(), service)  # type: ignore[no-untyped-call]
    port = service.add_insecure_port(f"127.0.0.1:{free_port()}")
    service.start()
    try:
        with opened(sqlite_url, f"sc://localhost:{port}", tmp_path) as session:
            session.sql("CREATE TABLE t (id bigint)")
            with pytest.raises(JobError, match=r"runs Spark 4\.1\.1, and this client has pyspark 4"):
                session.sql("SELECT * FROM t")
            assert "runs Spark 4.1.1" in str(session.sql("SHOW CLUSTERS").rows[0][5])
    finally:
        service.stop(None).wait()
