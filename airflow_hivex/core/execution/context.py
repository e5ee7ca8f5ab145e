"""The context of a statement: the services of the metastore and the state of the session."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_hivex.core.clusters.roots import check_written
from airflow_hivex.core.errors import (
    InProcessJobError,
    InvalidOperationError,
    StatementCancelledError,
    TransactionAbortedError,
)
from airflow_hivex.core.execution.pushdown import with_charsets
from airflow_hivex.core.execution.statement_record import StatementRecord
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.clusters import Cluster, Health
from airflow_hivex.core.model.ended_statements import TaskTry
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE
from airflow_hivex.core.model.json_values import json_rows
from airflow_hivex.core.model.links import LinkName
from airflow_hivex.core.model.locks import LockComponent, StatementLocks
from airflow_hivex.core.model.objects import CLUSTER
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.model.routes import Route
from airflow_hivex.core.model.session_objects import SessionObjects
from airflow_hivex.core.model.snapshots import AsOf, MaxLag
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.model.writes import BatchKey, ResumableWrite
from airflow_hivex.core.runners.registry import ResumingRunner, Runner, runner_for
from airflow_hivex.core.runners.running_jobs import ProgressLog
from airflow_hivex.core.store.exchange import Call
from airflow_hivex.core.transactions.heartbeats import TransactionJob
from airflow_hivex.core.transactions.pending_writes import PendingWrite
from airflow_hivex.core.transactions.statement_history import StatementHistory

if TYPE_CHECKING:
    from airflow_hivex.core.compaction.compactor import Compactor
    from airflow_hivex.core.namespaces.capacity import Capacities
    from airflow_hivex.core.namespaces.links import Links
    from airflow_hivex.core.namespaces.namespaces import Namespaces
    from airflow_hivex.core.parser.statements import Statement, TableName
    from airflow_hivex.core.replication.namespace_moves import NamespaceMoves
    from airflow_hivex.core.replication.primary import PrimaryClusters
    from airflow_hivex.core.replication.replicator import Replicator


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a statement.

    ``columns`` and ``rows`` are the answer of a query. ``truncated`` is true if the query has more rows than were
    requested. ``cluster`` has run the statement, and ``route`` says why this cluster was chosen. ``txn_id`` is the id
    of the transaction. ``rows_written`` is the number of added rows, ``rows_deleted`` the number of removed rows; an
    updated row counts in both numbers. ``as_of`` is the time of the rows of a query that has read lagging copies, or
    None for current rows. ``column_types`` are Spark's types of the columns of a query.
    """

    columns: list[str] = field(default_factory=list)
    rows: list[tuple[object, ...]] = field(default_factory=list)
    cluster: str | None = None
    txn_id: int | None = None
    rows_written: int | None = None
    rows_deleted: int | None = None
    truncated: bool = False
    route: Route | None = None
    as_of: AsOf | None = None
    column_types: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        """Return a text with the fields that have a value, except the route. Notebooks show this text."""
        shown = (each.name for each in fields(self) if each.name not in ("route", "column_types"))
        values = ((name, getattr(self, name)) for name in shown)
        # A count of 0 is shown.
        filled = (f"{name}={value!r}" for name, value in values if value or type(value) is int)
        return f"Result({', '.join(filled)})"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as values of JSON, without ``route`` and ``column_types``.

        Tasks and ``--format json`` return this document.
        """
        document: dict[str, Any] = {
            "columns": list(self.columns),
            "rows": json_rows(self.rows),
            "truncated": self.truncated,
            "cluster": self.cluster,
            "txn_id": self.txn_id,
            "rows_written": self.rows_written,
            "rows_deleted": self.rows_deleted,
        }
        if self.as_of is not None:
            document["as_of"] = self.as_of.to_json()
        return document


@dataclass(frozen=True)
class Services(Foundation):
    """The parts of an open metastore.

    Each part is loaded at its first use, so that a process that only asks for metadata starts quickly.
    """

    statement_locks: StatementLocks

    @cached_property
    def compactor(self) -> Compactor:
        """Return the compactor, which requests, runs and cleans compactions."""
        from airflow_hivex.core.compaction.compactor import Compactor

        return Compactor(self)

    @cached_property
    def replicator(self) -> Replicator:
        """Return the replicator, which copies tables between clusters."""
        from airflow_hivex.core.replication.replicator import Replicator

        return Replicator(self)

    @cached_property
    def links(self) -> Links:
        """Return the links between namespaces."""
        from airflow_hivex.core.namespaces.links import Links

        return Links(self.store, self.clock)

    @cached_property
    def namespaces(self) -> Namespaces:
        """Return the service for namespaces and their closure."""
        from airflow_hivex.core.namespaces.namespaces import Namespaces

        return Namespaces(self.store, self.clusters)

    @cached_property
    def primaries(self) -> PrimaryClusters:
        """Return the service that changes the primary clusters of tables."""
        from airflow_hivex.core.replication.primary import PrimaryClusters

        return PrimaryClusters(self, self.replicator)

    @cached_property
    def capacity(self) -> Capacities:
        """Return the use of storage and the quotas of the namespaces."""
        from airflow_hivex.core.namespaces.capacity import Capacities

        return Capacities(self.store, self.clusters, self.clock)

    @cached_property
    def moves(self) -> NamespaceMoves:
        """Return the moves of namespaces between clusters."""
        from airflow_hivex.core.replication.namespace_moves import NamespaceMoves

        return NamespaceMoves(self, self.replicator)

    @cached_property
    def statements(self) -> StatementHistory:
        """Return the history of statements."""
        return StatementHistory(self.store, self.settings, self.clock)

    def runner(self, cluster: Cluster) -> Runner:
        """Return the runner of jobs on a cluster.

        Raises:
            UnsupportedJobTrackerError: this release has no runner for the cluster's job tracker.
        """
        return runner_for(cluster)


@dataclass(slots=True)
class JoinedTransaction:
    """A transaction of several statements in which a session takes part.

    With ``is_own`` the session has begun the transaction (START TRANSACTION), and ends it by COMMIT or ROLLBACK.
    Otherwise another client begins and ends the transaction. ``writer`` names the session's part of the work. If a
    session fails, another session with the same ``writer`` and a higher ``began`` can repeat the part. ``held`` is the
    write of the failed session, which a statement can continue. Closing ``keep_alive`` stops the heartbeats.
    """

    txn_id: int
    timeout_s: int
    is_own: bool
    is_read_only: bool = False
    writer: str = ""
    began: int = 0
    held: PendingWrite | None = None
    snapshot: ValidTxnList | None = None
    keep_alive: ExitStack = field(default_factory=ExitStack)


Answers: TypeAlias = Sequence[Sequence[Any]]
"""The rows of queries that were sent together with the locks of a transaction."""

Opener: TypeAlias = Callable[[Sequence[LockComponent], Sequence[int], Sequence[Call]], Answers | None]
"""A function that opens a statement's own transaction, if possible with locks and write ids of tables.

The function sends queries together with the request for locks. If the transaction gets the locks, the function returns
the answers to the queries, else None.
"""


@dataclass(slots=True)
class Running(TransactionJob):
    """The statement that a session is running: its transaction and the tag of all its jobs.

    The statement's own transaction is opened by :meth:`begin_with` or, if it needs no locks, by the first use of its
    id. ``write_ids`` is a dict from table id to the write id with which the transaction began. ``joined`` is set if the
    transaction continues after the statement. ``snapshot`` is the snapshot of the statement, once it is taken.
    ``earliest`` is the snapshot of the oldest table version that the statement reads. ``waiting_lock_id`` is the lock
    request for which the statement waits. ``operation`` is the operation of a job that another process can resume. The
    functions in ``undo`` delete the files of the statement; these functions are called when the files can never become
    visible. ``functions`` is a dict from full name to declaration, for the permanent functions that the jobs call.
    Called functions come before the functions that call them.
    """

    opener: Opener | None = None
    write_ids: Mapping[int, int] = field(default_factory=dict)
    joined: JoinedTransaction | None = None
    snapshot: ValidTxnList | None = None
    earliest: ValidTxnList | None = None
    cancelled: bool = False
    waiting_lock_id: int | None = None
    operation: ResumableWrite | None = None
    undo: list[Callable[[], object]] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)

    @property
    def txn_id(self) -> int:
        """Return the id of the transaction. If there is no transaction yet, open it.

        Raises:
            TransactionAbortedError: the statement was cancelled before.
        """
        if self.opened_id is None:
            self.begin_with(())
        assert self.opened_id is not None
        return self.opened_id

    def begin_with(
        self, components: Sequence[LockComponent], write_ids_of: Sequence[int] = (), also: Sequence[Call] = ()
    ) -> Answers | None:
        """Open the transaction, if possible with locks and write ids of tables.

        If the transaction gets the locks, return the answers to the queries ``also``, else None. The queries run in the
        same database transaction, after the locks are granted.

        Raises:
            TransactionAbortedError: the statement was cancelled before.
        """
        assert self.opener is not None
        answers = self.opener(components, write_ids_of, also)
        # A thread that cancels the statement looks for the transaction after that.
        self.check_not_cancelled()
        return answers

    def check_may_write(self, operation: str) -> None:
        """Refuse a statement that writes in a READ ONLY transaction.

        Raises:
            InvalidOperationError: the transaction was started READ ONLY.
        """
        if self.joined is not None and self.joined.is_read_only:
            raise InvalidOperationError(
                operation, f"transaction {self.txn_id}", "it was started READ ONLY; write in another one"
            )

    def check_not_cancelled(self) -> None:
        """Raise the error of a statement that was cancelled.

        Raises:
            TransactionAbortedError: the statement was cancelled, or another client has aborted its transaction.
            StatementCancelledError: the statement was cancelled, and its transaction continues.
        """
        if not self.cancelled:
            if self.ended is not None:
                raise self.ended
            return
        if self.joined is None or self.joined.is_own:
            raise TransactionAbortedError(self.txn_id, "it was cancelled")
        raise StatementCancelledError(self.txn_id)


@dataclass(frozen=True, slots=True)
class BatchTransaction:
    """An open transaction of a streaming batch, and the range of write ids that the whole batch has in a table."""

    txn_id: int
    table_id: int
    write_ids: tuple[int, int]


@dataclass(slots=True)
class SessionState:
    """The state of a session: the current database, the pinned cluster, the transaction, the running statement.

    ``task`` is the try of a task to which the session belongs. ``record`` is the record of the running statement, if
    the history of statements is on. ``runner`` runs jobs instead of the cluster's own runner. ``report`` is called with
    the progress of a job that takes longer than a few seconds. If ``report`` is None, the progress is logged.
    ``max_lag`` is the greatest lag of copies that queries of the session accept. With ``server_jobs_only`` no job runs
    in this process. ``objects`` are the temporary objects.
    """

    user: str
    database: str = DEFAULT_DATABASE
    cluster: str | None = None
    agent_info: str | None = None
    task: TaskTry | None = None
    record: StatementRecord | None = None
    transaction: JoinedTransaction | None = None
    running: Running | None = None
    runner: Runner | None = None
    report: ProgressReport | None = None
    max_lag: MaxLag = field(default_factory=MaxLag)
    server_jobs_only: bool = False
    objects: SessionObjects = field(default_factory=SessionObjects)

    def step(self, name: str) -> AbstractContextManager[None]:
        """Return a block whose seconds count for a step of the running statement."""
        return nullcontext() if self.record is None else self.record.step(name)

    def with_variables(self, text: str) -> str:
        """Return the text of a statement with Hive's variables replaced by their values (``SET hivevar:x = ...``).

        Raises:
            InvalidOperationError: the values name each other in a cycle.
        """
        from airflow_hivex.core.parser.lexer.substitution import substituted

        return substituted(text, self.objects.texts, {**self.objects.without_effect, **self.objects.configuration})

    def full_name(self, name: TableName) -> str:
        """Return ``database.table`` of a table as users know the table, also of a temporary table."""
        return f"{name.namespace or name.database or self.database}.{name.name}".lower()

    def qualify(self, name: TableName) -> tuple[str, str]:
        """Return the database and name of a table; for a temporary table, the names under which it is stored.

        Raises:
            InvalidOperationError: the name is that of a link.
        """
        if name.namespace is not None:
            raise InvalidOperationError(
                "The statement", str(name), f"it takes a table; the table of the link is {name.namespace}.{name.name}"
            )
        return self.objects.table(name) or (name.database or self.database, name.name)

    def qualify_link(self, name: TableName) -> LinkName:
        """Return the name of a link with its namespace, by default the current namespace."""
        assert name.namespace is not None
        return LinkName(name.database or self.database, name.name, name.namespace)


@dataclass(frozen=True, slots=True)
class Frames:
    """The DataFrames of a statement: a dict from names to views in the user's Spark, and the runner of that Spark."""

    views: Mapping[str, str]
    runner: Runner


Execute: TypeAlias = "Callable[[Statement, Mapping[str, object], int | None, str], Result]"


@dataclass(frozen=True, slots=True)
class StatementContext:
    """The context of one statement: the metastore, the session, and the arguments that came with the text.

    ``batch`` has the transaction of a streaming batch in which the statement runs. ``runner`` runs the jobs instead of
    the runner of the session or cluster. ``batch_key`` is recorded with the commit, so that the batch counts once.
    ``frames`` are DataFrames that the statement reads. ``text`` is the text of the statement. ``execute`` is a function
    that runs another statement of the session. The arguments of ``execute`` are the statement, the parameters, the
    greatest number of rows to return, and the text. ``kind`` is the statement's name in the record of commits.
    """

    services: Services
    session: SessionState
    parameters: Mapping[str, object] = field(default_factory=dict)
    max_rows: int | None = None
    batch: BatchTransaction | None = None
    runner: Runner | None = None
    batch_key: BatchKey | None = None
    text: str | None = None
    execute: Execute | None = None
    kind: str = ""
    frames: Frames | None = None

    def run(self, cluster: Cluster, plan: Plan, write: ResumableWrite | None = None) -> JobResult:
        """Run a job of the statement on a cluster, and return its result.

        With ``write``, another session can wait for the job if this process ends before the job.

        Raises:
            TransactionAbortedError, StatementCancelledError: the statement was cancelled before the job began.
        """
        running = self.session.running
        assert running is not None
        runner = self._own_runner or self.services.runner(cluster)
        plan = self.completed(cluster, plan)
        running.begin(runner, plan.tag)
        running.check_not_cancelled()
        report = self.session.report or ProgressLog(f"Transaction {running.txn_id}")
        with self.session.step("job"):
            if write is not None and isinstance(runner, ResumingRunner):
                result = runner.run_resumable(plan, cluster.name, write, report)
            else:
                result = runner.run(plan, cluster.name, report)
        if plan.write is not None or plan.inserts:
            self.note_written(result)
        return check_written(cluster, plan, result)

    def note_written(self, result: JobResult) -> None:
        """Note the rows that the statement has written, for the history of statements."""
        if self.session.record is not None:
            self.session.record.note_written(result)

    def completed(self, cluster: Cluster, plan: Plan) -> Plan:
        """Return the plan with the root that Spark's processes check, and with all charsets if a file needs them."""
        return with_charsets(replace(plan, roots=(self.services.roots.planned(cluster.name),)))

    def joined(self, running: Running | None) -> JoinedTransaction | None:
        """Return the transaction of several statements to which the statement belongs, or None.

        If the statement is only explained, ``running`` is None, and the session's transaction is returned.
        """
        return self.session.transaction if running is None else running.joined

    def home_cluster(self, database: str) -> str:
        """Return the cluster of new tables of a database: its property ``hivex.cluster``, else the default cluster.

        Raises:
            NoSuchDatabaseError: the database does not exist.
        """
        properties = self.services.catalog.get_database(database).parameters
        return properties.get(CLUSTER) or self.services.clusters.default

    def health(self, cluster: str, *, runs_job: bool) -> Health:
        """Return the health of a cluster: whether the statement could run there now.

        With ``runs_job`` the runner must be usable, too.
        """
        configured = self.services.clusters.get(cluster)
        if runs_job and self.session.server_jobs_only and not configured.kind.is_server:
            return Health(InProcessJobError(cluster, configured.shown_jobtracker))
        health = self.services.health.of_root(cluster)
        if health.problem is not None or not runs_job:
            return health
        runner = self._own_runner
        return self.services.health.of_runner(cluster) if runner is None else runner.health(cluster)

    @property
    def _own_runner(self) -> Runner | None:
        if self.frames is not None:
            return self.frames.runner
        return self.runner or self.session.runner


def new_tag(txn_id: int) -> str:
    """Return a name for the jobs and views of a transaction. The name is unique in this process."""
    return f"hivex_{txn_id}_{uuid.uuid4().hex[:8]}"
