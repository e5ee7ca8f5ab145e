"""Deferrable queries: the statements run one after the other, and their jobs run in the triggerer.

The worker opens the transaction of each statement, the triggerer runs the statement, and the worker commits the
transaction. The transaction gets no heartbeats while the task waits for a triggerer or a worker.
"""

from __future__ import annotations

import getpass
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_hivex.core.errors import HivexError
from airflow_hivex.hooks.tasks import agent_info, agent_info_of_try, cause_of, part_name, task_try
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.triggers.query import HivexQueryTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.core.session import Session

    Statements = Sequence[tuple[str, Mapping[str, Any] | None]]
    RunHere = Callable[[Session, str, Mapping[str, Any] | None], dict[str, Any]]

REST = timedelta(hours=1)
"""The time-out of a deferred statement's transaction."""


@dataclass(slots=True)
class Course:
    """The progress of a deferrable task. Airflow keeps the progress while the task is deferred.

    ``database`` and ``cluster`` are the current database and cluster of the session. ``done`` is the number of complete
    statements. ``txn_id`` is the transaction of the next statement. ``conflicts`` is the number of times that a
    conflict has aborted the next statement. ``runs_here`` is true if the next statement runs in the worker. ``ends_at``
    is the end of the task's ``execution_timeout``, in ISO 8601. If ``is_of_group`` is true, all statements share the
    transaction of a group. ``committed`` has the transactions of complete statements. ``links`` has the changes of
    links by complete statements (``LinkChange`` in ``operators/query.py``). ``scripts`` has the scripts that the
    function of a decorated task has returned.
    """

    database: str | None
    cluster: str | None
    done: int = 0
    txn_id: int | None = None
    conflicts: int = 0
    runs_here: bool = False
    ends_at: str | None = None
    is_of_group: bool = False
    committed: list[int] = field(default_factory=list)
    links: list[Any] = field(default_factory=list)
    scripts: list[str] | None = None

    @classmethod
    def begin(
        cls, database: str | None, cluster: str | None, timeout: timedelta | None, scripts: list[str] | None
    ) -> Course:
        """Return the ``Course`` of a task that begins now."""
        ends_at = None if timeout is None else (datetime.now(UTC) + timeout).isoformat()
        return cls(database, cluster, ends_at=ends_at, scripts=scripts)

    @property
    def time_left(self) -> timedelta | None:
        """Return the time until ``ends_at``, at least one second, or None if the task does not have a time limit."""
        if self.ends_at is None:
            return None
        return max(datetime.fromisoformat(self.ends_at) - datetime.now(UTC), timedelta(seconds=1))

    def as_json(self) -> dict[str, Any]:
        """Return the arguments of the constructor as a dict in JSON types."""
        return asdict(self)


class Deferral(Exception):  # noqa: N818 - a request, no error
    """An exception that requests to defer the task with a trigger."""

    def __init__(self, trigger: HivexQueryTrigger, timeout: timedelta | None) -> None:
        super().__init__("the task is deferred")
        self.trigger = trigger
        self.timeout = timeout


class DeferredQuery:
    """The work of a deferrable task in one worker process, up to the next deferral or to the result."""

    def __init__(
        self,
        hivex_conn_id: str,
        context: Context,
        course: Course,
        statements: Statements,
        *,
        max_rows: int | None,
        lag: Mapping[str, Any],
        conflict_retries: int,
        must_defer: bool,
        run_here: RunHere,
    ) -> None:
        self._hook = WarehouseHook(hivex_conn_id)
        self._context = context
        self._course = course
        self._statements = statements
        self._max_rows = max_rows
        self._lag = lag
        self._conflict_retries = conflict_retries
        self._must_defer = must_defer
        self._run_here = run_here

    @property
    def course(self) -> Course:
        """Return the current course of the task."""
        return self._course

    def can_defer(self) -> bool:
        """Return whether any cluster that can run the statements has a Spark Connect server.

        :raises AirflowFailException: no cluster has such a server, and ``deferrable`` is true
        """
        clusters = self._metastore.clusters
        names = [self._course.cluster] if self._course.cluster else list(clusters)
        found = [clusters.get(name) for name in names]
        if any(cluster.kind.is_server for cluster in found):
            return True
        if self._must_defer:
            shown = ", ".join(f"{cluster.name} ({cluster.shown_jobtracker})" for cluster in found)
            raise AirflowFailException(
                "deferrable=True needs a cluster with a Spark Connect server (jobtracker sc://host:port), which runs "
                f"the job while no worker does; these do not have one: {shown}. Set deferrable=False."
            )
        return False

    def in_group(self, txn_id: int, begin_task_id: str | None) -> Deferral:
        """Return a :class:`Deferral`: the triggerer runs all statements in the transaction of a group."""
        self._course.txn_id, self._course.is_of_group = txn_id, True
        self._hook.log.info("%d statements run in the triggerer, in transaction %d", len(self._statements), txn_id)
        return Deferral(self._trigger(self._statements, txn_id, begin_task_id, is_own=False), self._course.time_left)

    def go_on(self) -> dict[str, Any]:
        """Run the remaining statements, and return the result of the last statement.

        :raises Deferral: the triggerer must run the next statement
        :raises HivexError: a statement has failed
        """
        course = self._course
        with self._hook.session(
            database=course.database, cluster=course.cluster, agent_info=task_try(self._context), **self._lag
        ) as session:
            while True:
                statement, values = self._statements[course.done]
                if session.is_detachable(statement, values) and not course.runs_here:
                    # An earlier statement, such as USE, may have changed the database or the cluster.
                    course.database, course.cluster = session.database, session.cluster
                    raise self._deferral(statement, values)
                result = self._run_here(session, statement, values)
                if session.txn_id is not None:
                    raise AirflowFailException(
                        "START TRANSACTION cannot be in a script of a deferrable task, whose statements run in several "
                        "processes. Put the task into a HivexTransaction group, or set deferrable=False."
                    )
                self._note_done(session.database, session.cluster, result["txn_id"])
                if course.done == len(self._statements):
                    return result

    def resume(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Continue after the event of a trigger, and return the result of the last statement.

        :raises Deferral: the triggerer must run the next statement, or retry the statement of the event
        :raises AirflowFailException: the statement has failed, and would fail again
        :raises AirflowException: the statement has failed, and a retry can succeed
        """
        course = self._course
        assert course.txn_id is not None
        if course.is_of_group:
            if "error" in event:
                raise (AirflowException if event.get("kind") == "passing" else AirflowFailException)(event["error"])
            of_group: dict[str, Any] = event["result"]
            return of_group
        try:
            self._settle(event, course.txn_id)
        except _ConflictError as conflict:
            if course.conflicts == self._conflict_retries:
                raise AirflowException(str(conflict)) from None
            course.conflicts += 1
            self._hook.log.warning("Running the statement again after conflict %d: %s", course.conflicts, conflict)
            return self.go_on()
        if course.runs_here:
            return self.go_on()
        self._note_done(event["database"], event["cluster"], course.txn_id)
        if course.done == len(self._statements):
            result: dict[str, Any] = event["result"]
            return result
        return self.go_on()

    def abort_all(self, reason: str) -> None:
        """Abort the open transactions of all tries of this task, including tries whose worker was lost."""
        from airflow_hivex.core.model.transactions import TxnState

        tries = range(1, self._context["ti"].try_number + 1)
        of_tries = {agent_info_of_try(self._context, number) for number in tries}
        for transaction in self._metastore.transactions.show():
            if transaction.state is TxnState.OPEN and transaction.agent_info in of_tries:
                self._abort(transaction.id, reason)

    @property
    def _metastore(self) -> Metastore:
        return self._hook.get_metastore()

    def _note_done(self, database: str | None, cluster: str | None, txn_id: int | None) -> None:
        course = self._course
        course.done += 1
        course.committed += [] if txn_id is None else [txn_id]
        course.database, course.cluster = database, cluster
        course.txn_id, course.conflicts, course.runs_here = None, 0, False

    def _deferral(self, statement: str, values: Mapping[str, Any] | None) -> Deferral:
        """Open a transaction for a statement, and return a deferral.

        In the :class:`Deferral`, the triggerer runs the statement.
        """
        course = self._course
        self.can_defer()
        (course.txn_id,) = self._metastore.transactions.open(
            user=getpass.getuser(), agent_info=agent_info(self._context), timeout=int(REST.total_seconds())
        )
        self._hook.log.info(
            "Statement %d of %d runs in the triggerer, in transaction %d:\n%s",
            course.done + 1,
            len(self._statements),
            course.txn_id,
            statement,
        )
        return Deferral(self._trigger([(statement, values)], course.txn_id, None, is_own=True), course.time_left)

    def _trigger(
        self, statements: Statements, txn_id: int, begin_task_id: str | None, *, is_own: bool
    ) -> HivexQueryTrigger:
        return HivexQueryTrigger(
            statements=statements,
            txn_id=txn_id,
            writer=part_name(self._context),
            is_own=is_own,
            begin_task_id=begin_task_id,
            database=self._course.database,
            cluster=self._course.cluster,
            max_rows=self._max_rows,
            lag=self._lag,
            task_try=asdict(task_try(self._context)),
            course=self._course.as_json(),
            hivex_conn_id=self._hook.hivex_conn_id,
        )

    def _settle(self, event: Mapping[str, Any], txn_id: int) -> None:
        """Commit the transaction of a statement, or abort it if the statement has failed in the triggerer.

        If the statement cannot run in the triggerer, set ``runs_here``, so that the worker runs it.

        :raises _ConflictError: a conflict with another transaction has aborted the transaction
        :raises AirflowFailException: the statement has failed, and would fail again
        :raises AirflowException: the statement has failed, and a retry can succeed
        :raises HivexError: the transaction cannot be committed
        """
        from airflow_hivex.core.errors import TransactionAbortedError, WriteConflictError

        if "error" not in event:
            try:
                self._metastore.commit(txn_id)
            except WriteConflictError as error:
                raise _ConflictError(str(error)) from error
            except TransactionAbortedError as error:
                if self._has_timed_out(txn_id):
                    raise AirflowException(str(error)) from None
                raise
            return
        sentence = str(event["error"])
        if self._has_timed_out(txn_id):
            raise AirflowException(sentence)
        self._abort(txn_id, sentence)
        match event.get("kind"):
            case "conflict":
                raise _ConflictError(sentence)
            case "in process" if not self._must_defer:
                self._course.runs_here = True
            case "passing":
                raise AirflowException(sentence)
            case _:
                raise AirflowFailException(sentence)

    def _has_timed_out(self, txn_id: int) -> bool:
        """Return whether a transaction was aborted because its last heartbeat was too old."""
        from airflow_hivex.core.errors import NoSuchTransactionError
        from airflow_hivex.core.model.transactions import AbortReason

        try:
            return self._metastore.transactions.get(txn_id).reason_code == AbortReason.TIMEOUT.number
        except NoSuchTransactionError:
            # The record of the transaction is deleted, and so the transaction has ended.
            return False

    def _abort(self, txn_id: int, reason: str) -> None:
        """Abort a transaction. An error of the abort is only logged, so that the caller's error is not hidden."""
        try:
            self._metastore.abort(txn_id, reason.partition("\n")[0][:1000])
        except HivexError as error:
            self._hook.log.warning("Transaction %s was not aborted: %s", txn_id, error, exc_info=cause_of(error))


class _ConflictError(Exception):
    """Error: a conflict with another transaction has aborted the transaction of a statement."""
