"""A server that answers late is asked again before an error says that it does not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import ClusterUnreachableError
from airflow_hivex.core.runners import connect_watch, masters
from airflow_hivex.core.runners.connect import ConnectRunner
from airflow_hivex.core.runners.registry import runner_for

grpc = pytest.importorskip("grpc")


Late = tuple[int, threading.Event, list[float]]


@pytest.fixture
def late_server() -> Iterator[Late]:
    """The port of a server of Spark Connect that answers its first call only once the event is set."""
    from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

    go_on, is_quick = threading.Event(), threading.Event()
    calls: list[float] = []

    class Service(base_pb2_grpc.SparkConnectServiceServicer):
        def AnalyzePlan(self, request: Any, context: Any) -> Any:  # noqa: N802
            calls.append(context.time_remaining())
            if len(calls) == 1 or not is_quick.is_set():
                go_on.wait(30)
            answer = base_pb2.AnalyzePlanResponse()
            answer.spark_version.version = version("pyspark")
            return answer

        def ReleaseSession(self, request: Any, context: Any) -> Any:  # noqa: N802
            return base_pb2.ReleaseSessionResponse()

    server = grpc.server(ThreadPoolExecutor(4))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port, is_quick, calls
    go_on.set()
    server.stop(None).wait()


def test_server_that_is_late_with_its_first_answer_is_asked_once_more(
    late_server: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, is_quick, calls = late_server
    is_quick.set()
    monkeypatch.setattr(connect_watch, "ANSWER_LIMIT_S", 0.2)
    found = ConnectRunner(f"sc://localhost:{port}", patience_s=20).health("c1")
    assert found.problem is None
    assert found.version == version("pyspark")
    assert len(calls) == 2
    assert calls[0] < 1 < 15 < calls[1] < 21


def test_server_that_never_answers_is_distinguished_from_an_address_that_takes_no_connection(
    late_server: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_watch, "ANSWER_LIMIT_S", 0.2)
    monkeypatch.setattr(masters, "ANSWER_LIMITS_S", (0.2, 0.2))
    port, _, calls = late_server
    silent = ConnectRunner(f"sc://localhost:{port}", patience_s=1).health("c1").problem
    assert isinstance(silent, ClusterUnreachableError)
    assert "takes connections, and has not answered for 1 s" in str(silent)
    assert "hivex.cluster.answer.timeout" in str(silent)
    assert len(calls) == 2
    with full_queue() as full:
        away = ConnectRunner(f"sc://127.0.0.1:{full}", patience_s=60).health("c1").problem
    assert isinstance(away, ClusterUnreachableError)
    assert f"no Spark Connect server takes a connection at sc://127.0.0.1:{full}" in str(away)


def test_patience_comes_from_the_settings(sqlite_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "sc://localhost:1"}}
    settings = {"hivex.cluster.answer.timeout": "2min"}
    with Metastore.open(sqlite_url, clusters=clusters, settings=settings) as metastore:
        runner: Any = runner_for(metastore.clusters.get("c1"))
        assert runner.patience_s == 120


@contextmanager
def full_queue() -> Iterator[int]:
    """A port that takes no connection and refuses none, as those of a host that is away."""
    with socket.socket() as listening, ExitStack() as waiting:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]
