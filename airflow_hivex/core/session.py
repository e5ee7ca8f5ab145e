"""Session: what one user does with a metastore, statement by statement."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from airflow_hivex.core.commands import exports, session_settings, temporary_tables, transactions, variables
from airflow_hivex.core.commands.batch_writes import insert_rows
from airflow_hivex.core.commands.exports import Export
from airflow_hivex.core.commands.handlers import HANDLERS
from airflow_hivex.core.commands.snapshot_files import SnapshotFiles, snapshot_files
from airflow_hivex.core.errors import (
    HivexError,
    InvalidOperationError,
    InvalidParametersError,
    LockOfOpenTransactionError,
    TransactionCommittedError,
)
from airflow_hivex.core.execution.closed_names import check_name, check_statement
from airflow_hivex.core.execution.context import Frames, Result, Running, Services, SessionState, StatementContext
from airflow_hivex.core.execution.own_errors import own_errors
from airflow_hivex.core.execution.routing import route
from airflow_hivex.core.execution.table_changes import Version, changes_query
from airflow_hivex.core.execution.versions import query_of_version
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE, MAX_NAME_LENGTH
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.model.routes import Route
from airflow_hivex.core.model.texts import check_length, check_text
from airflow_hivex.core.model.writes import BatchKey
from airflow_hivex.core.parser import statements as kinds
from airflow_hivex.core.parser.grammar.session_settings import variable_statement
from airflow_hivex.core.parser.inspection import Inspection, inspect
from airflow_hivex.core.parser.lexer.markers import values_of
from airflow_hivex.core.parser.reader import read, read_table_name
from airflow_hivex.core.scan import Scan
from airflow_hivex.core.settings import MAX_LAG, MAX_LAG_COMMITS
from airflow_hivex.core.streaming import TransactionBatch
from airflow_hivex.core.warehouse import Warehouse

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from airflow_hivex.core.commands.arrow_reads import Filter
    from airflow_hivex.core.runners.given import GivenSession

log = logging.getLogger(__name__)

__all__ = ["Result", "Session"]


class Session:
    """A current database, perhaps a pinned cluster, and statements that run one after the other.

    A session belongs to one thread; only :meth:`cancel` may be called from others.
    """

    def __init__(
        self,
        services: Services,
        *,
        user: str,
        database: str = DEFAULT_DATABASE,
        cluster: str | None = None,
        agent_info: str | None = None,
        txn_id: int | None = None,
        writer: str = "",
        progress: ProgressReport | None = None,
        max_lag: object = None,
        max_lag_commits: object = None,
        server_jobs_only: bool = False,
    ) -> None:
        self._services = services
        check_length("The name of a user", check_text("The name of a user", user), MAX_NAME_LENGTH)
        self._state = SessionState(user=user, agent_info=agent_info, report=progress, server_jobs_only=server_jobs_only)
        given = {MAX_LAG: max_lag, MAX_LAG_COMMITS: max_lag_commits}
        self._given_lag = self._state.max_lag = session_settings.max_lag_of(services.settings, given)
        self._is_closed = False
        self._execute(kinds.UseDatabase(database))
        self._execute(kinds.UseCluster(cluster))
        if txn_id is not None:
            transactions.join(self._context(None), txn_id, writer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def database(self) -> str:
        """Return the current database."""
        return self._state.database

    @property
    def cluster(self) -> str | None:
        """Return the cluster that USE CLUSTER has pinned, or None."""
        return self._state.cluster

    @property
    def txn_id(self) -> int | None:
        """Return the transaction that the session has begun or joined, or None: each statement has its own then."""
        return None if self._state.transaction is None else self._state.transaction.txn_id

    def sql(self, text: str, parameters: Mapping[str, object] | None = None, max_rows: int | None = None) -> Result:
        """Run one statement and return what it brought.

        Args:
            text: the statement, in Spark SQL or one of Hive's.
            parameters: values of its ``:name`` markers; Spark binds them, they are never text.
            max_rows: the most rows that the statement returns; None returns all.

        Raises:
            StatementSyntaxError: the text is not a statement that this warehouse runs.
            RoutingError: no cluster has all that it needs; the error's ``route`` has the details.
            NoSuchObjectError, AnalysisError, TypeMismatchError, ...: it cannot be run as written.
            InvalidParametersError: parameters do not fit the markers, or ``max_rows`` is negative.
            JobError: its job failed on the cluster. Nothing of it is visible.
        """
        if self._is_closed:
            # Out of the transaction that closing has rolled back, it would count on its own.
            raise InvalidOperationError("A statement in", "the session", "it is closed; begin another one")
        if max_rows is not None and not (isinstance(max_rows, int) and max_rows >= 0):
            raise InvalidParametersError(f"max_rows = {max_rows!r} is not a valid number of rows; None returns all.")
        with own_errors("The statement"):
            text = self._state.with_variables(text)
            statement = read(text, parameters, database=self._state.database)
            return self._execute(statement, parameters, max_rows, text)

    def read(self, text: str, parameters: Mapping[str, object] | None = None) -> kinds.Statement:
        """Return the statement that a text has, or the one in the text that EXECUTE IMMEDIATE runs; nothing is run.

        Raises:
            StatementSyntaxError: the text is not a statement that this warehouse runs.
            NoSuchVariableError, InvalidParametersError: EXECUTE IMMEDIATE cannot be run as written.
        """
        statement = read(self._state.with_variables(text), parameters, database=self._state.database)
        if isinstance(statement, kinds.ExecuteImmediate):
            return variables.statement_of(self._context(parameters), statement).statement
        return statement

    def insert_rows(self, table: str, rows: Sequence[Sequence[object] | Mapping[str, object]]) -> Result:
        """Insert Python values, as INSERT INTO ... VALUES does: in the open transaction, or in one of its own.

        Args:
            table: ``table`` or ``database.table``.
            rows: sequences of values in the order of the table's columns, its partition columns last; or mappings from
                column names to values, all with the same names, where columns left out become NULL.

        Raises:
            InvalidParametersError: there are no rows, they have different columns, or a value has a type that there is
                no literal for.
            HivexError: as an INSERT.
        """
        if self._is_closed:
            raise InvalidOperationError("An INSERT in", "the session", "it is closed; begin another one")
        name = read_table_name(table)
        check_name(self._context(None), name, table, kinds.Role.INSERT)
        with own_errors("The INSERT"):
            return insert_rows(self._context(None), name, rows)

    def set_variable(self, name: str, value: str) -> None:
        """Set ``hivevar:name``, ``hiveconf:name`` or a parameter, as ``SET name = value`` does, to any text.

        Raises:
            InvalidParametersError: a session has no such parameter.
            InvalidOperationError: it is a setting of the metastore that has another value.
        """
        self._execute(variable_statement(name, value))

    def is_detachable(self, text: str, parameters: Mapping[str, object] | None = None) -> bool:
        """Return whether a statement runs a job and may do so in a transaction that another process commits.

        Temporary views, tables and functions, variables and what SET has changed end with the session that has them,
        so that its statements run in it.

        Raises:
            StatementSyntaxError: the text is not a statement that this warehouse runs.
        """
        replaced = self._state.with_variables(text)
        statement = read(replaced, parameters, database=self._state.database)
        # Another process has no values for Hive's variables.
        if replaced != text or self._state.objects.are_needed or self._state.max_lag != self._given_lag:
            return False
        if isinstance(statement, kinds.Insert | kinds.ChangeRows) and statement.evolves:
            return False
        if isinstance(statement, kinds.Insert):
            return statement.rows is None
        return isinstance(statement, kinds.Select | kinds.MultiInsert | kinds.ChangeRows)

    def check_ended(self) -> None:
        """See to it that no transaction is open that the session has begun, at the end of a script.

        Raises:
            InvalidOperationError: COMMIT or ROLLBACK is missing; closing the session rolls back.
        """
        transaction = self._state.transaction
        if transaction is not None and transaction.is_own:
            raise InvalidOperationError(
                "The end of the statements in",
                f"transaction {transaction.txn_id}",
                "START TRANSACTION has no COMMIT or ROLLBACK, so nothing of it counts; add one",
            )

    def explain(self, text: str, parameters: Mapping[str, object] | None = None) -> Route:
        """Return the route that a query, INSERT or CREATE TABLE AS SELECT would take now; nothing is run.

        In an open transaction it is that of its snapshot, with what it has written.

        A statement that no cluster can run has a route without a cluster; its candidates say why.
        """
        with own_errors("The search for a route"):
            text = self._state.with_variables(text)
            statement = read(text, parameters, database=self._state.database)
            if isinstance(statement, kinds.ExplainRoute):
                statement = statement.statement
            if isinstance(statement, kinds.ExecuteImmediate):
                statement, parameters, text = variables.statement_of(self._context(parameters), statement)
            if not isinstance(statement, kinds.RoutedStatement):
                raise InvalidOperationError(
                    "EXPLAIN ROUTE", statement.kind, "only statements that run on a cluster have a route"
                )
            context = self._context(parameters)
            check_statement(context, statement, text)
            return route(context, statement, may_lag=isinstance(statement, kinds.Select)).route

    def inspect(self, text: str) -> tuple[Inspection, ...]:
        """Return the objects of each statement of a text, by kind, role, name and place; nothing is run.

        No database is asked. Tables that are named without a database belong to the current one. Markers need no
        values. See :func:`airflow_hivex.core.inspect`, which needs no session.

        Raises:
            StatementSyntaxError: a statement cannot be read; ``line`` and ``column`` are those in the text.
            UnsupportedStatementError: a statement is SQL that this release does not run.
        """
        with own_errors("The inspection"):
            return inspect(self._state.with_variables(text), self._state.database)

    def snapshot_files(
        self, table: str, *, version: int | None = None, timestamp: datetime | str | None = None
    ) -> SnapshotFiles:
        """Return the files of a table or link in a new snapshot, or in that of the transaction, for other engines.

        ``version`` is the write id of an earlier version, ``timestamp`` a time at which a version was the present one.

        Raises:
            NoSuchTableError: it does not exist.
            InvalidOperationError: it is a view.
            NoSuchVersionError, VersionExpiredError: it has never had the version, or the version cannot be read now.
            RoutingError: the pinned cluster does not have it.
            StorageError: its directories cannot be listed.
        """
        statement = self._query_of_files(table, "snapshot_files", version, timestamp)
        with own_errors("The search for files"):
            return snapshot_files(self._context(None), statement)

    def scan(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        filter: Filter = None,
        parameters: Mapping[str, object] | None = None,
        threads: int | None = None,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> Scan:
        """Return a read of a table or link by pyarrow in this process, without Spark; see :class:`Scan`.

        Nothing is read before a method of the scan is called, which reads the table as it is then.

        Args:
            table: ``table`` or ``database.table``.
            columns: the columns to read; None reads all.
            filter: a condition that compares columns with constants in SQL (``"year = :year AND dep_delay > 60"``), a
                list of tuples (``[("year", "=", 2013)]``), or an expression of ``pyarrow.compute``. Partitions, stripes
                and row groups that it excludes are not read; an expression excludes none of them.
            parameters: values of the markers of ``filter``.
            threads: how many threads read files; None takes one more than the processors of this machine.
            version: the write id of an earlier version to read, with the columns of then.
            timestamp: a time, at which the version to read was the present one.
        """

        def statement_of(operation: str) -> tuple[StatementContext, kinds.Select]:
            return self._context(parameters), self._query_of_files(table, operation, version, timestamp)

        return Scan(table, statement_of, columns, filter, threads)

    def to_arrow(self, table: str, *args: Any, **options: Any) -> pa.Table:
        """Return ``scan(...).to_arrow()``, with the arguments of :meth:`scan`."""
        return self.scan(table, *args, **options).to_arrow()

    def to_batches(self, table: str, *args: Any, **options: Any) -> pa.RecordBatchReader:
        """Return ``scan(...).to_batches()``, with the arguments of :meth:`scan`."""
        return self.scan(table, *args, **options).to_batches()

    def to_pandas(self, table: str, *args: Any, **options: Any) -> pd.DataFrame:
        """Return ``scan(...).to_pandas()``, with the arguments of :meth:`scan`."""
        return self.scan(table, *args, **options).to_pandas()

    def to_polars(self, table: str, *args: Any, **options: Any) -> Any:
        """Return ``scan(...).to_polars()``, with the arguments of :meth:`scan`."""
        return self.scan(table, *args, **options).to_polars()

    def to_duckdb(self, table: str, connection: Any, view: str | None = None, *args: Any, **options: Any) -> Any:
        """Return ``scan(...).to_duckdb(connection, view)``, with the other arguments of :meth:`scan`."""
        return self.scan(table, *args, **options).to_duckdb(connection, view)

    def _query_of_files(
        self, table: str, operation: str, version: int | None = None, timestamp: datetime | str | None = None
    ) -> kinds.Select:
        """Return the query of all rows of a table or link, as they are or in an earlier version.

        Raises:
            NoSuchTableError: it does not exist.
            InvalidOperationError: it is a view, or the session is closed.
        """
        if self._is_closed:
            raise InvalidOperationError(operation, "the session", "it is closed; begin another one")
        name = read_table_name(table)
        check_name(self._context(None), name, table)
        if name.namespace is None and self._services.catalog.get_table(*self._state.qualify(name)).is_view:
            raise InvalidOperationError(operation, table, "it is a view, which has no files; session.sql reads it")
        text, parameters = query_of_version(table, version, timestamp)
        statement = read(text, parameters, database=self._state.database)
        assert isinstance(statement, kinds.Select)
        return statement

    def changes(
        self, table: str, since: Version | None, until: Version | None = None, max_rows: int | None = None
    ) -> Result:
        """Return the rows that a full ACID table has got and lost between two versions.

        Each row has the columns of the table in the later version, ``_change_type``, which is ``insert`` or
        ``delete``, and its ``_row_id``. An update deletes a row and inserts one. Changes that are undone in between
        are not there.

        Args:
            table: ``table`` or ``database.table``.
            since: the write id of the earlier version, or a time; None returns all rows of the later one as new.
            until: the write id of the later version, or a time; None stands for the present version.
            max_rows: the most rows that are returned; None returns all.

        Raises:
            NoSuchVersionError, VersionExpiredError: the table has never had a version, or it cannot be read any more.
            InvalidParametersError: a version is neither a write id nor a time, or ``until`` is before ``since``.
            InvalidOperationError: the table is insert-only, or has no versions.
        """
        name = read_table_name(table)
        check_name(self._context(None), name, table)
        with own_errors("The search for changes"):
            text = changes_query(self._context(None), name, since, until)
        return self.sql(text, max_rows=max_rows)

    def export_for_hive(self, table: str, directory: str | Path, partitions: Sequence[str] = ()) -> Export:
        """Copy the rows that a table has now to a new local directory, as full ACID files that Hive itself can read.

        ``partitions`` are names such as ``year=2013/month=1``, or leading parts of them; without, all are copied.

        Raises:
            NoSuchTableError, NoSuchColumnError, NoSuchPartitionError: the table, a partition key, or a partition does
                not exist.
            InvalidObjectError: a name is not a valid partition name.
            InvalidOperationError: it is a view, the directory is not empty, or Hive has no such column type.
        """
        name = read_table_name(table)
        check_name(self._context(None), name, table)
        found = self._services.catalog.get_table(*self._state.qualify(name))
        if found.is_view:
            raise InvalidOperationError("An export for Hive of", table, "it is a view; export a table made of its rows")
        text = exports.query_of(found, partitions)
        statement = read(text, database=self._state.database)
        assert isinstance(statement, kinds.Select)
        with own_errors("The export"):
            return exports.export_for_hive(self._context(None), statement, found, partitions, Path(directory))

    def warehouse(self, spark: GivenSession, cluster: str | None = None) -> Warehouse:
        """Return the session's tables as DataFrames of a SparkSession, which then runs all statements of the session.

        ``cluster`` is the one whose files that Spark reads, and is pinned; without, it is the one that is
        pinned already, else the default. Spark's SQL configuration is set as our jobs need it (time zone UTC).

        Raises:
            UnknownClusterError: it is not configured.
            InvalidOperationError: it is a session of Spark Connect.
        """
        from airflow_hivex.core.runners.given import GivenRunner, check_session

        check_session(spark)
        self._execute(kinds.UseCluster(cluster or self._state.cluster or self._services.clusters.default))
        self._state.runner = GivenRunner(spark)
        return Warehouse(spark, self._context, self._execute)

    def transaction_batch(self, table: str, count: int = 10, app_id: str | None = None) -> TransactionBatch:
        """Return ``count`` transactions on a table, opened together, for small writes that follow each other.

        Their rows share one delta directory, so that a stream of small commits does not leave one directory each.
        With ``app_id`` each write has a ``batch_id``, and counts once.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidOperationError: it cannot be written, or is insert-only, or the session is in a transaction.
            InvalidTransactionRequestError: the count is not one that can be opened at once.
        """
        name = read_table_name(table)
        check_name(self._context(None), name, table, kinds.Role.INSERT)
        return TransactionBatch(self._context, name, count, app_id)

    def cancel(self) -> None:
        """Stop the statement that runs now: its transaction is aborted, then its job is stopped.

        A transaction that the session has only joined goes on. For other threads and signal handlers.
        Without a running statement, nothing happens.
        """
        running = self._state.running
        if running is None:
            return
        running.cancelled = True
        # The thread that opens the transaction reads this flag afterwards.
        txn_id = running.opened_id
        if txn_id is None:
            return
        try:
            if running.joined is None or running.joined.is_own:
                self._services.transactions.abort(txn_id, "it was cancelled")
            else:
                self._withdraw_lock_request(running)
        except TransactionCommittedError:
            # It came too late, between the commit and its answer.
            return
        except HivexError as error:
            log.warning("Transaction %s could not be aborted: %s", txn_id, error)
        running.stop()

    @property
    def can_be_resumed(self) -> bool:
        """Return whether the running statement's job goes on when this process ends, for a session of the same writer.

        For other threads. That session runs the same statement, and waits for the job.
        """
        running = self._state.running
        operation = None if running is None else running.operation
        return operation is not None and operation.is_running

    def close(self) -> None:
        """End the session and drop its temporary tables.

        A statement that still runs in another thread is cancelled, its transaction rolled back.
        """
        self._is_closed = True
        self.cancel()
        transactions.leave(self._context(None))
        temporary_tables.drop_all(self._context(None))

    def _withdraw_lock_request(self, running: Running) -> None:
        """End the waiting of a statement for locks; other sessions of the transaction go on waiting."""
        lock_id = running.waiting_lock_id
        if lock_id is not None:
            # It may just have got them.
            with suppress(LockOfOpenTransactionError):
                self._services.locks.unlock(lock_id)

    def _context(
        self, parameters: Mapping[str, object] | None, max_rows: int | None = None, text: str | None = None
    ) -> StatementContext:
        return StatementContext(
            self._services, self._state, values_of(parameters), max_rows, text=text, execute=self._execute
        )

    def _execute(
        self,
        statement: kinds.Statement,
        parameters: Mapping[str, object] | None = None,
        max_rows: int | None = None,
        text: str | None = None,
        frames: Frames | None = None,
        batch_key: BatchKey | None = None,
    ) -> Result:
        context = replace(self._context(parameters, max_rows, text), frames=frames, batch_key=batch_key)
        check_statement(context, statement, text)
        temporary_tables.check_temporary_views(context, statement)
        temporary_tables.check_temporary_tables(context, statement)
        temporary_tables.note_use(context)
        if self._state.transaction is not None and not statement.IN_TRANSACTIONS:
            # As in Hive: everybody sees its changes at once.
            raise InvalidOperationError(
                statement.kind, f"transaction {self.txn_id}", "run it on its own, before or after the transaction"
            )
        context = replace(context, kind=statement.kind)
        result = HANDLERS[type(statement)](context, statement)
        if max_rows is not None and len(result.rows) > max_rows:
            # Spark stops a query at its limit; lists such as that of SHOW PARTITIONS end here.
            result = replace(result, rows=result.rows[:max_rows], truncated=True)
        return result
