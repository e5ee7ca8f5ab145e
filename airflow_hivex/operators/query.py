"""Run SQL on the cluster that has the data."""

from __future__ import annotations

import contextvars
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.model.json_values import json_rows
from airflow_hivex.hooks.hivex import HivexHook, split_statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.session import Result, Session


# How long a task that timed out waits for its statement to end.
CANCEL_LIMIT_S = 60


class HivexQueryOperator(BaseOperator):
    """Run one or several statements and return the result of the last one.

    They share one session, so ``USE`` and ``USE CLUSTER`` hold for those that follow. Each statement
    is a transaction of its own. The result goes to XCom as ``{"columns": [...], "rows": [[...], ...],
    "truncated": bool, "cluster": ..., "txn_id": ..., "rows_written": ...}`` in JSON's types: decimals
    and whatever else JSON lacks are text, dates and times in ISO 8601.

    :param sql: a script, a list of them, or the path of a ``.sql`` or ``.hql`` file (templated)
    :param parameters: values of the ``:name`` markers in the statements, bound and never pasted (templated)
    :param cluster: the cluster to run on, as USE CLUSTER; None to let the router choose (templated)
    :param database: the current database; None for that of the connection (templated)
    :param max_rows: at most so many rows are returned
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = ("sql", "parameters", "cluster", "database", "hivex_conn_id")
    template_ext: Sequence[str] = (".sql", ".hql")
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql": "sql", "parameters": "json"}
    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        sql: str | Sequence[str],
        parameters: Mapping[str, Any] | None = None,
        cluster: str | None = None,
        database: str | None = None,
        max_rows: int = 1000,
        hivex_conn_id: str = HivexHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 0:
            raise ValueError(f"max_rows is {max_rows!r}; it must be a whole number, 0 or more")
        self.sql = sql
        self.parameters = parameters
        self.cluster = cluster
        self.database = database
        self.max_rows = max_rows
        self.hivex_conn_id = hivex_conn_id
        self._session: Session | None = None
        self._killed = False

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the statements.

        :raises AirflowFailException: the statement is wrong, so that a retry would fail again
        :raises HivexError: the failure may pass; Airflow retries the task as its ``retries`` say
        """
        try:
            return self._run(agent_info(context))
        except HivexError as error:
            if error.retryable:
                raise
            raise AirflowFailException(str(error)) from error

    def on_kill(self) -> None:
        """Stop the Spark job and abort the transaction."""
        self._killed = True
        session = self._session
        if session is not None:
            self.log.info("Stopping the running statement and aborting its transaction.")
            session.cancel()

    def _run(self, agent: str) -> dict[str, Any]:
        from airflow_hivex.core.sql.scripts import share_parameters

        statements = split_statements(self.sql)
        shared = share_parameters(statements, self.parameters)
        hook = HivexHook(self.hivex_conn_id)
        with (
            hook.session(database=self.database, cluster=self.cluster, agent_info=agent) as session,
            _StatementThread(session) as thread,
        ):
            self._session = session
            try:
                for number, (statement, values) in enumerate(zip(statements, shared, strict=True), start=1):
                    if self._killed:
                        raise AirflowFailException("The task was killed between two statements.")
                    self.log.info("Statement %d of %d:\n%s", number, len(statements), statement)
                    result = thread.sql(statement, values, self.max_rows)
                    self._log(result)
            finally:
                self._session = None
        return {
            "columns": list(result.columns),
            "rows": json_rows(result.rows),
            "truncated": result.truncated,
            "cluster": result.cluster,
            "txn_id": result.txn_id,
            "rows_written": result.rows_written,
        }

    def _log(self, result: Result) -> None:
        if result.route is not None:
            self.log.info("Route: %s", result.route.describe())
        if result.rows_written is not None:
            self.log.info("Wrote %d rows in transaction %s.", result.rows_written, result.txn_id)
        elif result.columns:
            more = f"; there are more than max_rows={self.max_rows}" if result.truncated else ""
            self.log.info("Read %d rows%s.", len(result.rows), more)


class _StatementThread:
    """Runs a session's statements in a thread of its own while the caller waits.

    Signals come to the main thread: Airflow's time-out raises there, and ``on_kill`` is called on top
    of whatever it does. It must find a wait that can be broken off, not a connection to the JVM or to
    the metastore in the middle of an answer.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hivex-statement")

    def __enter__(self) -> _StatementThread:
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(wait=False)

    def sql(self, statement: str, parameters: Mapping[str, Any] | None, max_rows: int) -> Result:
        """The result of a statement, which is cancelled if the wait for it is broken off."""
        variables = contextvars.copy_context()
        future = self._executor.submit(variables.run, self._session.sql, statement, parameters, max_rows)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                self._session.cancel()
                wait([future], timeout=CANCEL_LIMIT_S)
            raise


def agent_info(context: Context) -> str:
    """Who runs a transaction: ``dag_id.task_id run_id try_number``, with the map index of a mapped task."""
    ti = context["ti"]
    mapped = f"[{ti.map_index}]" if ti.map_index is not None and ti.map_index >= 0 else ""
    return f"{ti.dag_id}.{ti.task_id}{mapped} {ti.run_id} {ti.try_number}"
