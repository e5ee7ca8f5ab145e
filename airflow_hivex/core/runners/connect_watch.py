"""The check that a Spark Connect server still answers while a job runs on it.

If a server hangs, or a network loses packets, the connection stays open, and a client without the watch would wait for
ever. The watch sends a small request over the connection of the job from time to time.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_hivex.core.runners.masters import ANSWER_LIMIT_S, Address, listens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_INTERVAL_S = 10.0
_INTERRUPTS = 3


class ConnectWatch:
    """A watch over the server of a session while a job runs, which closes the connection if the server stays silent."""

    def __init__(self, session: SparkSession, silence_s: float) -> None:
        """Create the watch. ``silence_s`` is the longest time without an answer from the server."""
        self._session: Any = session
        self._silence_s = silence_s
        self._interval_s = min(_INTERVAL_S, silence_s / 3)
        self._ended = threading.Event()
        self._unanswered = 0
        self.lost: str | None = None
        """The reason for which the connection was closed, or None."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the server during the block."""
        threading.Thread(target=self._watch, name="hivex-connect-watch", daemon=True).start()
        try:
            yield
        finally:
            self._ended.set()

    def interrupt(self, tag: str) -> None:
        """Ask the server to stop the operations with a tag. After three unanswered calls, close the connection."""
        import grpc

        client = self._session.client
        request = client._interrupt_request("tag", tag)
        try:
            client._stub.Interrupt(request, metadata=client._builder.metadata(), timeout=ANSWER_LIMIT_S)
            self._unanswered = 0
        except grpc.RpcError as error:
            self._unanswered += 1
            log.debug("The server could not be asked to stop job %s: %s", tag, error)
            if self._unanswered >= _INTERRUPTS:
                self._end("its Spark Connect server does not answer the request to stop the job")
        except ValueError:
            # The connection was closed before.
            return

    def _watch(self) -> None:
        answered = time.monotonic()
        while not self._ended.wait(self._interval_s):
            if _is_answering(self._session, self._interval_s):
                answered = time.monotonic()
            elif time.monotonic() - answered >= self._silence_s and not self._ended.is_set():
                self._end(f"its Spark Connect server has not answered for {self._silence_s:g} s")
                return

    def _end(self, why: str) -> None:
        self.lost = why
        # The client's own close() would wait for calls to this server.
        self._session.client._channel.close()


def release_of(stub: Any, user: str, **limits: Any) -> str:
    """Return the release of a server's Spark.

    Raises:
        grpc.RpcError: the server does not answer in time, or refuses the call.
    """
    from pyspark.sql.connect.proto import base_pb2

    who: dict[str, Any] = {"session_id": str(uuid.uuid4()), "user_context": base_pb2.UserContext(user_id=user)}
    asked = base_pb2.AnalyzePlanRequest(**who, spark_version=base_pb2.AnalyzePlanRequest.SparkVersion())
    release = str(stub.AnalyzePlan(asked, **limits).spark_version.version)
    # Otherwise the server would keep the session for an hour.
    stub.ReleaseSession(base_pb2.ReleaseSessionRequest(**who), **limits)
    return release


def answered_release(stub: Any, user: str, address: Address, patience_s: float, **limits: Any) -> str:
    """Return the release of a server's Spark. A call without an answer in time is repeated once.

    The second call waits for ``patience_s`` if the address takes connections: a server that has just started, on a
    busy machine, needs long for its first answer.

    Raises:
        ConnectionError: the address takes no connection.
        grpc.RpcError: the server does not answer in time, or refuses the call.
    """
    import grpc

    try:
        return release_of(stub, user, timeout=min(ANSWER_LIMIT_S, patience_s), **limits)
    except grpc.RpcError as error:
        late: Any = error
        if late.code().name != "DEADLINE_EXCEEDED":
            raise
        if not listens(address):
            raise ConnectionError from error
    log.info(
        "The Spark Connect server at %s:%d has not answered within %g s, and is asked again.", *address, ANSWER_LIMIT_S
    )
    return release_of(stub, user, timeout=patience_s, **limits)


def ask(session: Any, limit_s: float) -> None:
    """Ensure that the server of a session answers and knows the session.

    Raises:
        grpc.RpcError: the server does not answer in time, or does not know the session.
        ValueError: the connection is closed.
    """
    client = session.client
    request = client._analyze_plan_request_with_metadata()
    request.spark_version.SetInParent()
    client._stub.AnalyzePlan(request, metadata=client._builder.metadata(), timeout=limit_s)


def _is_answering(session: Any, limit_s: float) -> bool:
    """Return whether the server of a session answers in time, even if it answers with an error."""
    import grpc

    try:
        ask(session, limit_s)
    except grpc.RpcError as error:
        code: Any = error
        return code.code().name not in ("DEADLINE_EXCEEDED", "UNAVAILABLE", "CANCELLED")
    except ValueError:
        return False
    return True
