"""The operator that runs SQL on the cluster that has the data."""

from __future__ import annotations

import contextvars
import logging
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from airflow.sdk import XComArg, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferralError, TaskDeferralTimeout

from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.errors.secrets import hide
from airflow_hivex.hooks.tasks import agent_info, as_txn_id, failing_for_good, lasting_failure, part_name, task_try
from airflow_hivex.hooks.warehouse import WarehouseHook, split_statements
from airflow_hivex.operators.asset_events import (
    WritingOperator,
    declare_inlets,
    declare_tables,
    send_event,
    send_events,
)
from airflow_hivex.operators.page_links import HivexStatementsLink, HivexTransactionsLink
from airflow_hivex.operators.query_deferral import Course, Deferral, DeferredQuery
from airflow_hivex.operators.query_output import Format, Mode, QueryOutput
from airflow_hivex.operators.transaction import HivexTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from tenacity import RetryCallState

    from airflow_hivex.core.dbapi import ResultRows
    from airflow_hivex.core.errors import HivexError
    from airflow_hivex.core.parser.inspection import Inspection
    from airflow_hivex.core.session import Result, Session
    from airflow_hivex.hooks.warehouse import WarehouseHook


# How long a task that timed out waits for its statement to end.
CANCEL_LIMIT_S = 60


class StatementThread:
    """A thread that runs the statements of a session while the main thread waits.

    Airflow's time-out and ``on_kill`` raise errors in the main thread. So these errors interrupt only the wait, and not
    a connection to the JVM or the metastore.
    """

    def __init__(self, session: Session, conflict_retries: int) -> None:
        self._session = session
        self._conflict_retries = conflict_retries
        self._broken_off = threading.Event()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hivex-statement")

    def __enter__(self) -> StatementThread:
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(wait=False)

    def sql(self, statement: str, parameters: Mapping[str, Any] | None, max_rows: int | None) -> Result:
        """Run a statement, and return its result. An interrupt of the wait cancels the statement."""
        variables = contextvars.copy_context()
        future = self._executor.submit(variables.run, self._sql, statement, parameters, max_rows)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                self.cancel()
                wait([future], timeout=CANCEL_LIMIT_S)
            raise

    def cancel(self) -> None:
        """Stop the running statement, or the pause before its next attempt."""
        self._broken_off.set()
        self._session.cancel()

    def _sql(self, statement: str, parameters: Mapping[str, Any] | None, max_rows: int | None) -> Result:
        """Run a statement, with retries after write conflicts and deadlocks, and return its result."""
        from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

        from airflow_hivex.core.errors import DeadlockError, WriteConflictError

        # The aborted transaction had other statements, too, and running one of them again does not repeat these.
        is_alone = self._session.txn_id is None

        def may_run_again(error: BaseException) -> bool:
            return is_alone and isinstance(error, WriteConflictError | DeadlockError)

        attempts = Retrying(
            retry=retry_if_exception(may_run_again),
            stop=stop_after_attempt(self._conflict_retries + 1),
            wait=wait_random_exponential(multiplier=0.5, max=30),
            sleep=self._pause,
            before_sleep=_log_retry,
            reraise=True,
        )
        return attempts(self._session.sql, statement, parameters, max_rows)

    def _pause(self, seconds: float) -> None:
        if self._broken_off.wait(seconds):
            raise AirflowException("The task was killed before its statement was run again.")


def _log_retry(attempt: RetryCallState) -> None:
    error = attempt.outcome.exception() if attempt.outcome is not None else None
    pause = attempt.next_action.sleep if attempt.next_action is not None else 0
    log.warning("Running the statement again in %.1f s, for the %d. time: %s", pause, attempt.attempt_number, error)


class _Default(int):
    """A number that is the default of an argument.

    The type shows that the caller has not given the argument.
    """


DEFAULT_MAX_ROWS = _Default(1000)


class HivexQueryOperator(WritingOperator):
    """Run one or several statements, and return the result of the last statement.

    The statements share one session, so that ``USE`` holds for later ones. Each is a transaction of its own, unless the
    script has START TRANSACTION, or ``transaction`` is set.

    The result in XCom is ``{"columns": [...], "rows": [[...], ...], "truncated": bool, "cluster": ..., "txn_id": ...,
    "rows_written": ..., "rows_deleted": ...}`` in JSON types. Types that JSON lacks, such as decimals, are texts; dates
    and times are in ISO 8601.

    :param sql: a script, a list of scripts, or the path of a ``.sql`` or ``.hql`` file (templated)
    :param parameters: values of the ``:name`` markers, which never become a part of the SQL text (templated)
    :param cluster: the cluster that runs all statements; None: the router chooses (templated)
    :param database: the current database; None for the database of the connection (templated)
    :param transaction: the group whose transaction the statements join, or the id of an open transaction. A retry first
        discards the writes of the previous try (templated)
    :param conflict_retries: the most retries, after a pause, of a statement that a write conflict or deadlock has
        aborted. A transaction of several statements is not retried
    :param max_rows: the most returned rows; by default all of them with a ``handler`` or an ``output_path``
    :param handler: a function from a cursor over the last rows to the result of the task
    :param output_path: a file, or the URI of an object such as ``s3://bucket/key``, that gets the rows (templated)
    :param output_format: ``csv``, ``json``, ``jsonl`` or ``parquet``
    :param output_table: a table that gets the rows, without the worker. A missing table is created (templated)
    :param output_mode: ``overwrite`` or ``append``
    :param show_return_value_in_logs: whether to log the result
    :param asset_events: whether to send an event for the asset of each changed table or link
    :param asset_partitions: whether to send an event for each written partition, with its name as the partition key
    :param max_lag: the largest accepted lag of copies, in seconds or as a text such as ``10min``. If the last query has
        read a copy that lags, the result has ``"as_of": {"time", "lag_s", "commits", "write_ids"}`` (templated)
    :param max_lag_commits: the largest accepted lag in commits (templated)
    :param deferrable: True: statements that run a job on a Spark Connect server run in the triggerer; without such a
        server the task fails. None: as ``[operators] default_deferrable`` says, and in the worker without such a server
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    """

    template_fields: Sequence[str] = (
        "sql",
        "parameters",
        "cluster",
        "database",
        "transaction",
        "max_lag",
        "max_lag_commits",
        "output_path",
        "output_table",
        "hivex_conn_id",
    )
    template_ext: Sequence[str] = (".sql", ".hql")
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql": "sql", "parameters": "json"}
    operator_extra_links = (HivexTransactionsLink(), HivexStatementsLink())
    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        sql: str | Sequence[str],
        parameters: Mapping[str, Any] | None = None,
        cluster: str | None = None,
        database: str | None = None,
        transaction: HivexTransaction | XComArg | int | str | None = None,
        conflict_retries: int = 3,
        max_rows: int = DEFAULT_MAX_ROWS,
        handler: Callable[[ResultRows], Any] | None = None,
        output_path: str | None = None,
        output_format: Format = "csv",
        output_table: str | None = None,
        output_mode: Mode = "overwrite",
        show_return_value_in_logs: bool = False,
        asset_partitions: bool = False,
        max_lag: float | str | None = None,
        max_lag_commits: int | str | None = None,
        deferrable: bool | None = None,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if deferrable is not None and not isinstance(deferrable, bool):
            raise ValueError(f"deferrable is {deferrable!r}; it must be True, False or None")
        if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 0:
            raise ValueError(f"max_rows is {max_rows!r}; it must be a whole number, 0 or more")
        if isinstance(conflict_retries, bool) or not isinstance(conflict_retries, int) or conflict_retries < 0:
            raise ValueError(f"conflict_retries is {conflict_retries!r}; it must be a whole number, 0 or more")
        output = QueryOutput(handler, output_path, output_format, output_table, output_mode)
        output.check()
        if deferrable and output.needs_rows:
            raise ValueError(
                "deferrable=True cannot be combined with handler or output_path, whose rows come into the worker; "
                "use output_table, or set deferrable=False"
            )
        self._begin_task_id: str | None = None
        if isinstance(transaction, HivexTransaction):
            self._check_is_in(transaction)
            self._begin_task_id = transaction.begin_task_id
            transaction = transaction.txn_id_template
        elif isinstance(transaction, XComArg):
            self._begin_task_id = next((operator.task_id for operator, _ in transaction.iter_references()), None)
        self.sql = sql
        self.parameters = parameters
        self.cluster = cluster
        self.database = database
        self.transaction = transaction
        self.conflict_retries = conflict_retries
        self.max_rows = None if output.needs_rows and max_rows is DEFAULT_MAX_ROWS else int(max_rows)
        self.handler = handler
        self.output_path = output_path
        self.output_format: Format = output_format
        self.output_table = output_table
        self.output_mode: Mode = output_mode
        self.show_return_value_in_logs = show_return_value_in_logs
        self.asset_partitions = asset_partitions
        self.max_lag = max_lag
        self.max_lag_commits = max_lag_commits
        self.deferrable = deferrable
        self.hivex_conn_id = hivex_conn_id
        self._thread: StatementThread | None = None
        self._killed = False
        self.txn_ids: list[int] = []

    def execute(self, context: Context) -> Any:
        """Run the statements.

        :raises AirflowFailException: the statement is wrong, or its transaction has ended, and a retry would fail again
        :raises HivexError: a retry can succeed
        """
        txn_id = None if self.transaction is None else as_txn_id(self.transaction)
        with self._failures(txn_id):
            if self._defers():
                course = Course.begin(self.database, self.cluster, self.execution_timeout, self._scripts_of_function)
                query = self._deferred_query(context, course)
                if query.can_defer():
                    if txn_id is not None:
                        self._defer(query.in_group(txn_id, self._begin_task_id))
                    query.abort_all(f"repeated by {agent_info(context)}")
                    return self._complete(context, query, self._until_deferred(query.go_on))
            return self._run(context, txn_id)

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """Continue after the triggerer has run a statement.

        :raises AirflowFailException: the statement is wrong, and a retry would fail again
        :raises AirflowException: a retry can succeed
        """
        if not event or "course" not in event:
            raise AirflowException("The trigger has ended without an answer.")
        reached = Course(**event["course"])
        self.sql = reached.scripts or self.sql
        query = self._deferred_query(context, reached)
        with self._failures(reached.txn_id if reached.is_of_group else None):
            if reached.is_of_group and event.get("kind") == "in process" and not self.deferrable:
                return self._run(context, reached.txn_id)
            return self._complete(context, query, self._until_deferred(partial(query.resume, event)))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Continue after a deferral. If the trigger failed or timed out, first abort the task's open transactions."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralError, TaskDeferralTimeout) as error:
            query = self._deferred_query(context, Course(self.database, self.cluster))
            query.abort_all(f"the task has waited in vain: {error}")
            raise

    def _failures(self, txn_id: int | None) -> AbstractContextManager[None]:
        """Return a context manager that converts errors. Then Airflow retries the task only if a retry can succeed."""

        def describe(error: HivexError) -> AirflowFailException | None:
            if txn_id is not None:
                return lasting_failure(error, self._begin_task_id)
            # A retry would write the rows a second time, if the commit whose outcome is unknown was applied.
            return None if error.retryable else AirflowFailException(str(error))

        # A worker that shuts down kills its tasks, too. Airflow decides whether to retry them elsewhere.
        return failing_for_good(lambda _: self._killed, describe)

    def _defers(self) -> bool:
        if self.deferrable is None:
            return (
                self.handler is None
                and not self.output_path
                and conf.getboolean("operators", "default_deferrable", fallback=False)
            )
        return self.deferrable

    def _until_deferred(self, go_on: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return go_on()
        except Deferral as deferral:
            self._defer(deferral)

    def _defer(self, deferral: Deferral) -> NoReturn:
        self.defer(trigger=deferral.trigger, method_name="execute_complete", timeout=deferral.timeout)

    def _complete(self, context: Context, query: DeferredQuery, result: dict[str, Any]) -> Any:
        """Return the result of a deferrable task after its last statement."""
        course = query.course
        hook = WarehouseHook(self.hivex_conn_id)
        return self._end(context, hook, [] if course.is_of_group else course.committed, course.links, result)

    def _end(
        self, context: Context, hook: WarehouseHook, txn_ids: Sequence[int], links: Sequence[Any], result: Any
    ) -> Any:
        """Declare the read tables as inlets, send the events of transactions and links, and return ``result``."""
        self.txn_ids = list(txn_ids)
        declare_inlets(self, hook, split_statements(self.sql), self.database)
        declare_links(self, context, self.hivex_conn_id, links)
        send_events(self, context, hook, txn_ids, with_partition_keys=self.asset_partitions)
        if self.output_table and isinstance(result, dict):
            result = result | {"output_table": self.output_table}
        if self.show_return_value_in_logs:
            self.log.info("Result: %s", result)
        return result

    @property
    def _scripts_of_function(self) -> list[str] | None:
        """Return the scripts that the function of a decorated task has returned, or None for any other task."""
        return None

    def _statements(self) -> list[str]:
        """Return the statements to run.

        With ``output_table`` the last statement is rewritten to write to this table.
        """
        if not isinstance(self.sql, str | list | tuple):
            # A function of the task returns them, and was not called in this process.
            return []
        hook = WarehouseHook(self.hivex_conn_id)
        return self._output().rewritten(split_statements(self.sql), hook, self.database)

    def _output(self) -> QueryOutput:
        return QueryOutput(
            self.handler, self.output_path, self.output_format, self.output_table or None, self.output_mode
        )

    def _deferred_query(self, context: Context, course: Course) -> DeferredQuery:
        from airflow_hivex.core.parser.lexer.substitution import share_parameters
        from airflow_hivex.operators.query import link_change

        statements = self._statements()
        hook = WarehouseHook(self.hivex_conn_id)

        def run_here(session: Session, statement: str, values: Mapping[str, Any] | None) -> dict[str, Any]:
            with StatementThread(session, self.conflict_retries) as thread:
                self._thread = thread
                try:
                    if self._killed:
                        raise AirflowException("The task was killed between two statements.")
                    self.log.info("Statement runs in the worker:\n%s", hide(statement))
                    result = thread.sql(statement, values, self.max_rows)
                finally:
                    self._thread = None
            self._log(result)
            course.links += link_change(hook, session, statement, result, context["ti"].try_number)
            return result.to_json()

        return DeferredQuery(
            self.hivex_conn_id,
            context,
            course,
            list(zip(statements, share_parameters(statements, self.parameters), strict=True)),
            max_rows=self.max_rows,
            lag={
                "max_lag": None if self.max_lag == "" else self.max_lag,
                "max_lag_commits": None if self.max_lag_commits == "" else self.max_lag_commits,
            },
            conflict_retries=self.conflict_retries,
            must_defer=self.deferrable is True,
            run_here=run_here,
        )

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any] | None:
        """Return the tables of the statements, for OpenLineage."""
        return self._lineage(())

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:  # noqa: ARG002
        """Return the tables of the statements, with the rows and bytes that were written."""
        return self._lineage(self.txn_ids)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:  # noqa: ARG002
        """Return the tables of the statements."""
        return self._lineage(())

    def _lineage(self, txn_ids: Sequence[int]) -> OperatorLineage[Any, Any] | None:
        from airflow_hivex.hooks.openlineage import lineage_of

        if not isinstance(self.sql, str | list | tuple):
            # The function of the task returns the statements when the task runs.
            return None
        return lineage_of(WarehouseHook(self.hivex_conn_id), self._statements(), self.database, txn_ids)

    def on_kill(self) -> None:
        """Stop the Spark job.

        A transaction that this task has opened is aborted. A transaction that this task has joined, such as the
        transaction of a task group, stays open.
        """
        self._killed = True
        thread = self._thread
        if thread is not None:
            self.log.info("Stopping the running statement.")
            thread.cancel()

    def _check_is_in(self, transaction: HivexTransaction) -> None:
        group = self.task_group
        while group is not None and group.group_id != transaction.group_id:
            group = group.parent_group
        if group is None or not transaction.is_building:
            raise ValueError(
                f"Task {self.task_id} joins the transaction of group {transaction.group_id}; "
                "make it inside of that group's with block, so that the commit waits for it"
            )

    def _run(self, context: Context, txn_id: int | None) -> Any:
        from airflow_hivex.core.parser.lexer.substitution import share_parameters
        from airflow_hivex.operators.query import link_change

        statements = self._statements()
        txn_ids: list[int] = []
        links: list[Any] = []
        shared = share_parameters(statements, self.parameters)
        hook = WarehouseHook(self.hivex_conn_id)
        with (
            hook.session(
                max_lag=None if self.max_lag == "" else self.max_lag,
                max_lag_commits=None if self.max_lag_commits == "" else self.max_lag_commits,
                database=self.database,
                cluster=self.cluster,
                agent_info=task_try(context),
                txn_id=txn_id,
                writer=None if txn_id is None else part_name(context),
            ) as session,
            StatementThread(session, self.conflict_retries) as thread,
        ):
            self._thread = thread
            try:
                for number, (statement, values) in enumerate(zip(statements, shared, strict=True), start=1):
                    if self._killed:
                        raise AirflowException("The task was killed between two statements.")
                    self.log.info("Statement %d of %d:\n%s", number, len(statements), hide(statement))
                    result = thread.sql(statement, values, self.max_rows)
                    self._log(result)
                    txn_ids += [] if result.txn_id is None else [result.txn_id]
                    links += link_change(hook, session, statement, result, context["ti"].try_number)
                session.check_ended()
            finally:
                self._thread = None
        if result.as_of is not None:
            self.log.info("Read %s", result.as_of.describe())
        described = result.to_json() if self.handler is None else {}
        delivered = self._output().deliver(result, described)
        return self._end(context, hook, txn_ids if txn_id is None else [], links, delivered)

    def _log(self, result: Result) -> None:
        if result.rows_written is not None:
            self.log.info("Rows written: %d, in transaction %s", result.rows_written, result.txn_id)
        elif result.columns:
            more = f"; there are more than max_rows={self.max_rows}" if result.truncated else ""
            self.log.info("Rows read: %d%s", len(result.rows), more)


# Links that the statements of a task have created or altered: their inlets and asset events.
#
# CREATE, ALTER and DROP LINK declare the same inlets and outlets as the operators of `operators/links.py`.


log = logging.getLogger(__name__)

_CREATED = "CREATE LINK"
_ADDED = "ALTER LINK ADD PARTITION"
_KINDS = (_CREATED, _ADDED, "ALTER LINK DROP PARTITION", "ALTER LINK SET LINKPROPERTIES")


class LinkChange(NamedTuple):
    """A link ``table@namespace`` in ``database`` that a statement has created or altered.

    ``shown`` has the partitions that the event of the link's asset names. None means that no event is sent.
    """

    database: str
    link: str
    source: str
    shown: list[str] | None = None


def link_change(hook: WarehouseHook, session: Session, statement: str, result: Result, try_number: int) -> list[Any]:
    """Return a list with one :class:`LinkChange`, in JSON types, if a finished statement has created or altered a link.

    For any other statement the list is empty. A retry also returns a change that a previous try has made. An error is
    only logged, because the link has already changed.
    """
    inspection = session.inspect(statement)[0]
    if inspection.kind not in _KINDS:
        return []
    try:
        return [list(_change(hook, session, inspection, result, is_retry=try_number > 1))]
    except HivexError as error:
        log.warning("The event of a link is not sent: %s", error)
        return []


def _change(
    hook: WarehouseHook, session: Session, inspection: Inspection, result: Result, *, is_retry: bool
) -> LinkChange:
    used = next(use for use in inspection.outputs if use.namespace)
    database, name = used.database or session.database, f"{used.name}@{used.namespace}"
    links = hook.get_metastore().links
    link = links.get(database, name)
    source = links.source(link)
    shown: list[str] | None = None
    # A CREATE LINK that has found the link has no transaction. A new link to a partitioned table shows no partition.
    if inspection.kind == _CREATED and (result.txn_id is not None or is_retry) and not source.is_partitioned:
        shown = []
    elif inspection.kind == _ADDED and (result.truncated or is_retry):
        shown = links.partitions(database, name)
    elif inspection.kind == _ADDED and result.rows:
        shown = [str(row[0]) for row in result.rows]
    return LinkChange(link.name.database, link.name.in_database, source.full_name, shown)


def declare_links(operator: WritingOperator, context: Context, hivex_conn_id: str, changes: Iterable[Any]) -> None:
    """Declare the source of each link as an inlet.

    Declare each link that shows additional rows as an outlet with an event.
    """
    from airflow_hivex.assets.hivex import table_uri

    shown: dict[tuple[str, str, str], set[str]] = {}
    for each in changes:
        change = LinkChange(*each)
        declare_tables(operator, hivex_conn_id, [change.source])
        if change.shown is not None:
            shown.setdefault((change.database, change.link, change.source), set()).update(change.shown)
    for (database, link, source), partitions in shown.items():
        send_event(operator, context, table_uri(hivex_conn_id, database, link), {"source": source}, partitions)
