"""Faults of a Spark Connect server: each ends in a clear error, an aborted transaction, and a retry that completes."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

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
from tests.connect_server import is_running, noted_operation, running_server
from tests.ports import free_port
from tests.tcp_proxy import TcpProxy

pytestmark = pytest.mark.spark
in_turns = pytest.mark.evidence(cases=1, among="long jobs and faults of Spark Connect")

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
    runner = ConnectRunner(server.url, silence_s=3, patience_s=4)
    with running(lambda: runner.run(Plan("lost", "lost", ENDLESS), "c1"), process) as lost, paused(process):
        with pytest.raises(ClusterUnreachableError, match="has not answered for 3 s"):
            lost.result(60)
        problem = runner.health("c1").problem
        assert isinstance(problem, ClusterUnreachableError)
        assert "takes connections, and has not answered for 4 s" in str(problem)
    # The next job has a connection of its own, and ends the job without a client.
    assert runner.run(Plan("next", "next", "SELECT 1 AS a"), "c1").rows == ((1,),)


@in_turns
def test_a_job_on_a_server_that_hangs_can_be_cancelled(server: Server, process: psutil.Process) -> None:
    runner = ConnectRunner(server.url)
    with running(lambda: runner.run(Plan("stuck", "stuck", ENDLESS), "c1"), process) as stuck, paused(process):
        runner.cancel("stuck")
        with pytest.raises(JobCancelledError):
            stuck.result(5)
    assert runner.run(Plan("next", "next", "SELECT 1 AS a"), "c1").rows == ((1,),)


CLIENT = """
import sys
from airflow_hivex.core import Metastore
url, folder, tracker, txn_id, statement = sys.argv[1:]
with Metastore.open(url, clusters={"c1": {"filesystem": folder, "jobtracker": tracker}}) as metastore:
    with metastore.session(txn_id=int(txn_id), writer="w") as session:
        try:
            session.sql(statement)
        except Exception as error:
            print(type(error).__name__, flush=True)
"""
SLOW = "SELECT sum(hash(a.id, b.id)) FROM range(20000) a CROSS JOIN range(10000) b"


@contextmanager
def writing_client(url: str, folder: Path, tracker: str, txn_id: int, statement: str) -> Iterator[Popen[str]]:
    """Yield a process that runs a statement in a transaction, once the server works for it."""
    arguments = [url, (folder / "c1").as_uri(), tracker, str(txn_id), statement]
    with Popen([sys.executable, "-c", CLIENT, *arguments], stdout=PIPE, text=True) as client:
        try:
            deadline = time.monotonic() + 60
            while not is_running(noted_operation(url, txn_id), tracker):
                assert time.monotonic() < deadline
                assert client.poll() is None
                # Between two looks at what the server does.
                time.sleep(0.05)
            yield client
        finally:
            client.kill()


def folders(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "c1" / "default.db" / "t").iterdir() if path.is_dir())


@in_turns
@pytest.mark.parametrize("statement", [f"INSERT INTO t {SLOW}", f"UPDATE t SET id = ({SLOW}) WHERE id = 4"])
def test_a_killed_client_s_write_is_waited_for_by_its_next_session(
    server: Server, sqlite_url: str, tmp_path: Path, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": server.url}
    with Metastore.open(sqlite_url, clusters={"c1": cluster}) as metastore:
        with metastore.session() as session:
            session.sql("CREATE TABLE t (id bigint)")
            session.sql("INSERT INTO t SELECT id FROM range(5)")
        (txn_id,) = metastore.transactions.open()
        with writing_client(sqlite_url, tmp_path, server.url, txn_id, statement) as client:
            client.kill()
            client.wait()
            with metastore.session(txn_id=txn_id, writer="w") as session:
                assert session.sql(statement).rows_written == 1
        assert "its job still runs on c1, and is waited for" in caplog.text
        metastore.commit(txn_id)
        with metastore.session() as session:
            total = session.sql("SELECT count(*), sum(IF(id BETWEEN 0 AND 4, id, 0)) FROM t").rows
        assert total == [(6, 10)] if statement.startswith("INSERT") else total == [(5, 6)]
    assert len(folders(tmp_path)) == (2 if statement.startswith("INSERT") else 3)


@in_turns
def test_a_paused_client_s_write_goes_on_elsewhere_and_its_own_end_changes_nothing(
    server: Server, sqlite_url: str, tmp_path: Path
) -> None:
    cluster = {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": server.url}
    statement = f"INSERT INTO t {SLOW}"
    with Metastore.open(sqlite_url, clusters={"c1": cluster}) as metastore:
        with metastore.session() as session:
            session.sql("CREATE TABLE t (id bigint)")
        (txn_id,) = metastore.transactions.open()
        with writing_client(sqlite_url, tmp_path, server.url, txn_id, statement) as client:
            client.send_signal(signal.SIGSTOP)
            with metastore.session(txn_id=txn_id, writer="w") as session:
                assert session.sql(statement).rows_written == 1
                client.send_signal(signal.SIGCONT)
                assert client.communicate(timeout=60)[0].split() == ["WriteTakenBackError"]
            metastore.commit(txn_id)
        with metastore.session() as session:
            assert session.sql("SELECT count(*) FROM t").rows == [(1,)]
    assert len(folders(tmp_path)) == 1


@in_turns
def test_another_statement_of_the_next_session_takes_the_write_back(
    server: Server, sqlite_url: str, tmp_path: Path
) -> None:
    cluster = {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": server.url}
    with Metastore.open(sqlite_url, clusters={"c1": cluster}) as metastore:
        with metastore.session() as session:
            session.sql("CREATE TABLE t (id bigint)")
        (txn_id,) = metastore.transactions.open()
        with writing_client(sqlite_url, tmp_path, server.url, txn_id, f"INSERT INTO t {SLOW}") as client:
            client.kill()
            client.wait()
        with metastore.session(txn_id=txn_id, writer="w") as session:
            assert session.sql("INSERT INTO t SELECT id FROM range(3)").rows_written == 3
        metastore.commit(txn_id)
        with metastore.session() as session:
            assert session.sql("SELECT count(*), sum(id) FROM t").rows == [(3, 3)]


def test_a_wrong_token_is_no_lost_server(server: Server, sqlite_url: str, tmp_path: Path) -> None:
    with opened(sqlite_url, f"sc://localhost:{server.port}/;token=guessed", tmp_path) as session:
        session.sql("CREATE TABLE t (id bigint)")
        with pytest.raises(JobError, match="refuses the token") as refused:
            session.sql("SELECT * FROM t")
        assert not refused.value.retryable
        assert "guessed" not in str(refused.value)


class OtherRelease(base_pb2_grpc.SparkConnectServiceServicer):
    """The service of a release that is not installed here: it returns its name."""

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
