"""A server that answers late is asked again before an error says that it does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_hivex.core.runners import connect_watch

grpc = pytest.importorskip("grpc")


@pytest.fixture
def late_server() -> Iterator[tuple[Any, threading.Event, list[float]]]:
    """A server of Spark Connect that answers its first call only once the event is set."""
    from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

    go_on, calls = threading.Event(), []

    class Late(base_pb2_grpc.SparkConnectServiceServicer):
        def AnalyzePlan(self, request: Any, context: Any) -> Any:  # noqa: N802
            calls.append(context.time_remaining())
            if len(calls) == 1:
                go_on.wait(30)
            answer = base_pb2.AnalyzePlanResponse()
            answer.spark_version.version = "4.2.0"
            return answer

        def ReleaseSession(self, request: Any, context: Any) -> Any:  # noqa: N802
            return base_pb2.ReleaseSessionResponse()

    server = grpc.server(ThreadPoolExecutor(4))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(Late(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield base_pb2_grpc.SparkConnectServiceStub(channel), go_on, calls
    go_on.set()
    server.stop(None).wait()


def test_late_server_is_asked_once_more(
    late_server: tuple[Any, threading.Event, list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stub, _, calls = late_server
    monkeypatch.setattr(connect_watch, "ANSWER_LIMITS_S", (0.2, 30.0))
    assert connect_watch.answered_release(stub, "tester") == "4.2.0"
    assert len(calls) == 2
    assert calls[0] < 1 < calls[1]
