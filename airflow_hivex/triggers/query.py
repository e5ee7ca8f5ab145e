"""A trigger that runs statements on a Spark Connect server. The triggerer is the client of the server."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.model.ended_statements import TaskTry
from airflow_hivex.hooks.tasks import lasting_failure
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.triggers.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from airflow_hivex.core.session import Session

Answer = dict[str, Any]

_BY_USER = "user-action"
"""The message of a cancellation after a user has ended the task. Source: Airflow's TriggerRunner.cancel_triggers."""


class HivexQueryTrigger(BaseTrigger):
    """Run statements in an open transaction, and yield the last result. The transaction stays open.

    If a triggerer is lost, another triggerer runs the trigger again. The writes of the lost triggerer are then
    discarded. But if the job of an INSERT, UPDATE or DELETE still runs on its server, the other triggerer waits for
    this job, and does not start a second job.

    The event is ``{"result": ..., "database": ..., "cluster": ...}``, or ``{"error": sentence, "kind": ...}``. The
    kinds are ``fatal`` (a retry would fail again), ``passing`` (a retry can succeed), ``conflict`` (the transaction was
    aborted by a conflict with another transaction) and ``in process`` (the cluster does not use a Spark Connect
    server).

    :param statements: the statements, each with the values of its markers
    :param txn_id: the id of the transaction
    :param writer: the name of the task's part in the transaction
    :param is_own: whether only this task uses the transaction. Such a transaction is aborted when a user ends the task
    :param begin_task_id: the id of the task that has opened a transaction of several tasks, or None
    :param database: the current database; None for the database of the connection
    :param cluster: the cluster that runs all statements, as USE CLUSTER does; None: the router chooses
    :param max_rows: the maximum number of returned rows
    :param lag: the largest lag of copies that queries accept, as arguments of the session
    :param task_try: the try of the task (the fields of ``TaskTry``), which lists of locks and statements show
    :param course: the progress of the task (``Course``). The event has the same ``course``
    :param hivex_conn_id: the id of the connection
    """

    def __init__(
        self,
        *,
        statements: Sequence[tuple[str, Mapping[str, Any] | None]],
        txn_id: int,
        writer: str,
        is_own: bool,
        begin_task_id: str | None,
        database: str | None,
        cluster: str | None,
        max_rows: int | None,
        lag: Mapping[str, Any],
        task_try: Mapping[str, Any],
        course: Mapping[str, Any],
        hivex_conn_id: str,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.statements = statements
        self.txn_id = txn_id
        self.writer = writer
        self.is_own = is_own
        self.begin_task_id = begin_task_id
        self.database = database
        self.cluster = cluster
        self.max_rows = max_rows
        self.lag = lag
        self.task_try = task_try
        self.course = course
        self.hivex_conn_id = hivex_conn_id
        self._is_cancelled = threading.Event()
        self._session: Session | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the path of the class, and the arguments of its constructor."""
        names = (
            "txn_id",
            "writer",
            "is_own",
            "begin_task_id",
            "database",
            "cluster",
            "max_rows",
            "task_try",
            "course",
        )
        arguments = {name: getattr(self, name) for name in (*names, "lag", "hivex_conn_id")}
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            **arguments,
            "statements": [[statement, dict(values or {})] for statement, values in self.statements],
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the only event."""
        from airflow_hivex.core.errors import WriteTakenBackError

        try:
            event = await in_thread(self._run, f"hivex-transaction-{self.txn_id}")
        except asyncio.CancelledError as error:
            self._is_cancelled.set()
            session = self._session
            if error.args[:1] != (_BY_USER,) and session is not None and session.can_be_resumed:
                # The triggerer ends. The next one waits for the job.
                self.log.info("The job of transaction %s goes on while the triggerer ends", self.txn_id)
            else:
                # The job is stopped without waiting for it here.
                threading.Thread(target=self._cancel, name=f"hivex-cancel-{self.txn_id}").start()
            raise
        except WriteTakenBackError as error:
            # The other triggerer yields the event.
            self.log.warning("Another triggerer has taken over: %s", error)
            await asyncio.Event().wait()
            return
        yield TriggerEvent({**event, "course": dict(self.course)})

    async def on_kill(self) -> None:
        """Abort the transaction after a user has ended the task, unless other tasks share the transaction."""
        if self.is_own:
            await asyncio.to_thread(self._abort)

    async def cleanup(self) -> None:
        """Do nothing. The metastore stays open for other triggers of this process."""

    def _run(self) -> Answer:
        """Run the statements, and return the event.

        :raises WriteTakenBackError: another triggerer has begun to run the trigger
        """
        from airflow_hivex.core.errors import DeadlockError, InProcessJobError, WriteConflictError, WriteTakenBackError

        try:
            with WarehouseHook(self.hivex_conn_id).session(
                database=self.database,
                cluster=self.cluster,
                agent_info=TaskTry(**self.task_try),
                txn_id=self.txn_id,
                writer=self.writer,
                server_jobs_only=True,
                **self.lag,
            ) as session:
                self._session = session
                for statement, values in self.statements:
                    if self._is_cancelled.is_set():
                        return {"error": "The trigger was cancelled.", "kind": "passing"}
                    result = session.sql(statement, values or None, self.max_rows)
                return {
                    "result": result.to_json(),
                    "database": session.database,
                    "cluster": session.cluster,
                }
        except WriteTakenBackError:
            raise
        except HivexError as error:
            if isinstance(error, InProcessJobError):
                return {"error": str(error), "kind": "in process"}
            if self.is_own:
                is_conflict = isinstance(error, WriteConflictError | DeadlockError)
                kind = "conflict" if is_conflict else "passing" if error.retryable else "fatal"
                return {"error": str(error), "kind": kind}
            failure = lasting_failure(error, self.begin_task_id)
            return {"error": str(failure or error), "kind": "passing" if failure is None else "fatal"}
        finally:
            self._session = None

    def _cancel(self) -> None:
        session = self._session
        if session is not None:
            session.cancel()

    def _abort(self) -> None:
        try:
            WarehouseHook(self.hivex_conn_id).get_metastore().abort(self.txn_id, "its task was ended by a user")
        except HivexError as error:
            self.log.warning("Transaction %s was not aborted and will time out: %s", self.txn_id, error)
