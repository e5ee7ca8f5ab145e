"""The operation on a Spark Connect server that writes the rows of a statement. An earlier process can have begun it.

The server keeps an operation for minutes after the end of its client (spark.connect.execute.manager.detachedTimeout).
Another client can attach to the operation by its id, and read all responses from the beginning. To make this possible,
this module, unlike pyspark, releases no response before the end of the operation.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.model.writes import ResumableWrite, ServerOperation
from airflow_hivex.core.runners.masters import ANSWER_LIMIT_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrameWriter, SparkSession

log = logging.getLogger(__name__)

_UNKNOWN = ("INVALID_HANDLE.OPERATION_NOT_FOUND", "INVALID_HANDLE.SESSION_NOT_FOUND")
_ANOTHER_CLIENT = "INVALID_CURSOR.DISCONNECTED"
_KNOWN_STATES = ("OPERATION_STATE_RUNNING", "OPERATION_STATE_SUCCEEDED")


class ConnectOperation:
    """An operation that writes rows, and the wait for its end."""

    def __init__(self, session: SparkSession, write: ResumableWrite) -> None:
        self._session: Any = session
        self._write = write
        self._observed: dict[str, object] = {}
        self.refused: HivexError | None = None
        """The error that ended the write in this process, or None."""

    def save(self, writer: DataFrameWriter, uri: str) -> Mapping[str, object]:
        """Run a writer, or wait for the operation of an earlier process. Then claim the written files for this process.

        Return the observed metrics of the rows.

        Raises:
            WriteTakenBackError: another process has taken over the write.
        """
        operation = self._write.earlier
        try:
            if operation is None:
                operation = self._begin(writer, uri)
            else:
                self._complete(operation, None)
            self._write.claim()
        except HivexError as error:
            self.refused = error
            raise
        self._release(operation)
        return self._observed

    def interrupt(self) -> None:
        """Ask the server to stop the operation of an earlier process.

        This method does not stop an operation that this process has begun. Such an operation is stopped by its tag.
        """
        from pyspark.sql.connect.proto import base_pb2

        operation = self._write.earlier
        if operation is not None:
            request = base_pb2.InterruptRequest(
                **_handle(operation),
                interrupt_type=base_pb2.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID,
                operation_id=operation.operation_id,
            )
            self._send("Interrupt", request)

    def _begin(self, writer: Any, uri: str) -> ServerOperation:
        from pyspark.sql.connect.proto import base_pb2

        client = self._session.client
        operation_id = str(uuid.uuid4())
        request = client._execute_plan_request_with_metadata(operation_id)
        operation = ServerOperation(request.session_id, request.user_context.user_id, operation_id)
        writer._write.path = uri
        client._set_command_in_plan(request.plan, writer._write.command(client))
        kept = base_pb2.ReattachOptions(reattachable=True)
        request.request_options.append(base_pb2.ExecutePlanRequest.RequestOption(reattach_options=kept))
        self._write.note(operation)
        self._complete(operation, request)
        return operation

    def _complete(self, operation: ServerOperation, request: Any) -> None:
        """Wait until the operation is complete. With a ``request``, begin the operation before the wait."""
        import grpc
        from pyspark.sql.connect.expressions import LiteralExpression
        from pyspark.sql.connect.shell.progress import Progress, from_proto

        client = self._session.client
        try:
            with Progress(handlers=client._progress_handlers, operation_id=operation.operation_id) as progress:
                for response in self._responses(operation, request):
                    for observed in response.observed_metrics:
                        values = map(LiteralExpression._to_value, observed.values)
                        self._observed.update(zip(observed.keys, values, strict=True))
                    if response.HasField("execution_progress"):
                        counts = from_proto(response.execution_progress)
                        progress.update_ticks(*counts, operation_id=response.operation_id)
        except grpc.RpcError as error:
            client._handle_error(error)

    def _responses(self, operation: ServerOperation, request: Any) -> Iterator[Any]:
        """Yield the responses of an operation up to its end. If the connection is lost, connect again."""
        import grpc
        from pyspark.sql.connect.client.retries import RetryException
        from pyspark.sql.connect.proto import base_pb2

        client = self._session.client
        metadata = client._builder.metadata()
        first, last = request, ""
        while True:
            # The server ends each stream after some minutes, even if the operation is not complete.
            for attempt in client._retrying():
                with attempt:
                    try:
                        if request is not None:
                            request = None
                            stream = client._stub.ExecutePlan(first, metadata=metadata)
                        else:
                            again = base_pb2.ReattachExecuteRequest(
                                **_handle(operation), operation_id=operation.operation_id
                            )
                            if last:
                                again.last_response_id = last
                            stream = client._stub.ReattachExecute(again, metadata=metadata)
                        for response in stream:
                            last = response.response_id
                            yield response
                            if response.HasField("result_complete"):
                                return
                    except grpc.RpcError as error:
                        if _says(error, _ANOTHER_CLIENT):
                            # This call raises an error if the other client is a later session of the writer.
                            self._write.note(operation)
                        if not last and first is not None and any(_says(error, each) for each in _UNKNOWN):
                            # The request has not reached the server.
                            request = first
                            raise RetryException from error
                        raise

    def _release(self, operation: ServerOperation) -> None:
        from pyspark.sql.connect.proto import base_pb2

        everything = base_pb2.ReleaseExecuteRequest.ReleaseAll()
        handle = _handle(operation)
        request = base_pb2.ReleaseExecuteRequest(**handle, operation_id=operation.operation_id, release_all=everything)
        self._send("ReleaseExecute", request)

    def _send(self, call: str, request: Any) -> None:
        import grpc

        client = self._session.client
        try:
            getattr(client._stub, call)(request, metadata=client._builder.metadata(), timeout=ANSWER_LIMIT_S)
        except (grpc.RpcError, ValueError) as error:
            # The server forgets an operation after a time anyway, and the connection may be closed.
            log.debug("The server has not taken %s: %s", call, error)


def is_known(stub: Any, operation: ServerOperation, **limits: Any) -> bool:
    """Return whether a server runs an operation, or has just completed it.

    Raises:
        grpc.RpcError: the server does not answer, or does not know the session.
    """
    from pyspark.sql.connect.proto import base_pb2

    asked = base_pb2.GetStatusRequest.OperationStatusRequest(operation_ids=[operation.operation_id])
    answer = stub.GetStatus(base_pb2.GetStatusRequest(**_handle(operation), operation_status=asked), **limits)
    states = base_pb2.GetStatusResponse.OperationStatus.OperationState
    return any(states.Name(each.state) in _KNOWN_STATES for each in answer.operation_statuses)


def _handle(operation: ServerOperation) -> dict[str, Any]:
    from pyspark.sql.connect.proto import base_pb2

    return {
        "session_id": operation.session_id,
        "user_context": base_pb2.UserContext(user_id=operation.user_id),
    }


def _says(error: Any, condition: str) -> bool:
    return condition in str(error.details())
