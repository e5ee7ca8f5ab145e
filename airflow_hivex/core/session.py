"""Session: the statements of one user, which run one after the other."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from airflow_hivex.core.commands import session_settings, temporary_tables, transactions, variables
from airflow_hivex.core.commands.handlers import run
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
from airflow_hivex.core.execution.read_changes import Version, changes_query
from airflow_hivex.core.execution.read_versions import query_of_version
from airflow_hivex.core.execution.routing import route
from airflow_hivex.core.execution.statement_record import recorded
from airflow_hivex.core.model.ended_statements import TaskTry
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE, MAX_NAME_LENGTH
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.model.routes import Route
from airflow_hivex.core.model.texts import check_length, check_text
from airflow_hivex.core.model.writes import BatchKey
from airflow_hivex.core.parser import statements as kinds
from airflow_hivex.core.parser.grammar.session_settings import variable_statement
from airflow_hivex.core.parser.lexer.markers import values_of
from airflow_hivex.core.parser.reader import read, read_table_name
from airflow_hivex.core.settings import MAX_LAG, MAX_LAG_COMMITS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from airflow_hivex.core.commands.arrow_reads import Filter
    from airflow_hivex.core.commands.exports import Export
    from airflow_hivex.core.commands.snapshot_files import SnapshotFiles
    from airflow_hivex.core.parser.inspection import Inspection
    from airflow_hivex.core.runners.given import GivenSession
    from airflow_hivex.core.scan import Scan
    from airflow_hivex.core.streaming import TransactionBatch
    from airflow_hivex.core.warehouse import Warehouse

log = logging.getLogger(__name__)

__all__ = ["Result", "Session"]


class Session:
    """A connection of a user to the warehouse, with a current database and optionally a pinned cluster.

    The statements of a session run one after the other. A session belongs to one thread; other threads are only allowed
    to use :meth:`cancel` and :attr:`can_be_resumed`.
    """

    def __init__(
        self,
        services: Services,
        *,
        user: str,
        database: str = DEFAULT_DATABASE,
        cluster: str | None = None,
        agent_info: str | TaskTry | None = None,
        txn_id: int | None = None,
        writer: str = "",
        progress: ProgressReport | None = None,
        max_lag: object = None,
        max_lag_commits: object = None,
        server_jobs_only: bool = False,
    ) -> None:
        self._services = services
        check_length("The name of a user", check_text("The name of a user", user), MAX_NAME_LENGTH)
        self._state = SessionState(
            user=user,
            agent_info=None if agent_info is None else str(agent_info),
            task=agent_info if isinstance(agent_info, TaskTry) else None,
            report=progress,
            server_jobs_only=server_jobs_only,
        )
        given = {MAX_LAG: max_lag, MAX_LAG_COMMITS: max_lag_commits}
        self._given_lag = self._state.max_lag = session_settings.max_lag_of(services.settings, given)
        self._is_closed = False
        self._execute(kinds.UseDatabase(database))
        self._execute(kinds.UseCluster(cluster))
        if txn_id is not None:
            transactions.join(self._context(None), txn_id, writer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def database(self) -> str:
        """Return the current database."""
        return self._state.database

    @property
    def cluster(self) -> str | None:
        """Return the cluster that USE CLUSTER has pinned, or None if no cluster is pinned."""
        return self._state.cluster

    @property
    def txn_id(self) -> int | None:
        """Return the id of the open transaction that the session has begun or joined, or None."""
        return None if self._state.transaction is None else self._state.transaction.txn_id

    @property
    def temporary_tables(self) -> list[str]:
        """Return the names of the session's temporary tables."""
        return sorted(self._state.objects.tables)

    @property
    def temporary_views(self) -> list[str]:
        """Return the names of the session's temporary views."""
        return sorted(self._state.objects.views)

    def sql(self, text: str, parameters: Mapping[str, object] | None = None, max_rows: int | None = None) -> Result:
        """Run one statement and return its result.

        Args:
            text: a statement of Spark SQL or of Hive.
            parameters: values of the ``:name`` markers. Spark binds the values, which are never a part of the text.
            max_rows: the largest number of rows that the statement returns; None returns all.

        Raises:
            StatementSyntaxError: the text is not a statement that this warehouse runs.
            RoutingError: no cluster has all tables of the statement; the error's ``route`` has the details.
            NoSuchObjectError, AnalysisError, TypeMismatchError, ...: the statement cannot run as written.
            InvalidParametersError: parameters do not fit the markers, or ``max_rows`` is negative.
            JobError: the job failed on the cluster. Its writes are not visible.
        """
        if self._is_closed:
            # Closing has rolled back the transaction, so that the statement would be a transaction of its own.
            raise InvalidOperationError("A statement in", "the session", "it is closed; begin another one")
        if max_rows is not None and not (isinstance(max_rows, int) and max_rows >= 0):
            raise InvalidParametersError(f"max_rows = {max_rows!r} is not a valid number of rows; None returns all.")
        with recorded(self._services, self._state, "The statement", text) as ended:
            with self._state.step("parse"):
                text = self._state.with_variables(text)
                statement = read(text, parameters, database=self._state.database)
            ended.result = self._execute(statement, parameters, max_rows, text)
            return ended.result

    def read(self, text: str, parameters: Mapping[str, object] | None = None) -> kinds.Statement:
        """Return a parsed statement, which is not run. For EXECUTE IMMEDIATE return the statement that would be run.

        Raises:
            StatementSyntaxError: the text is not a statement that this warehouse runs.
            NoSuchVariableError, InvalidParametersError: EXECUTE IMMEDIATE cannot be run as written.
        """
        statement = read(self._state.with_variables(text), parameters, database=self._state.database)
        if isinstance(statement, kinds.ExecuteImmediate):
            return variables.statement_of(self._context(parameters), statement).statement
        return statement

    def insert_rows(self, table: str, rows: Sequence[Sequence[object] | Mapping[str, object]]) -> Result:
        """Insert Python values, as INSERT INTO ... VALUES does.

        The rows are part of the open transaction, or of a transaction of their own.

        Args:
            table: ``table`` or ``database.table``.
            rows: sequences of values in the order of the table's columns, with the partition columns last; or mappings
                from column names to values, all with the same names. Missing columns become NULL.

        Raises:
            InvalidParametersError: there are no rows, the rows have different columns, or a value has no literal in
                SQL.
            HivexError: any other error of an INSERT.
        """
        if self._is_closed:
            raise InvalidOperationError("An INSERT in", "the session", "it is closed; begin another one")
        from airflow_hivex.core.commands.batch_writes import insert_rows

        name = read_table_name(table)
        check_name(self._context(None), name, table, kinds.Role.INSERT)
        text = f"insert_rows({table!r}, {len(rows)} rows)"
        with recorded(self._services, self._state, "The INSERT", text, "INSERT", self._state.full_name(name)) as ended:
            ended.result = insert_rows(self._context(None), name, rows)
            return ended.result

    def set_variable(self, name: str, value: str) -> None:
        """Set ``hivevar:name``, ``hiveconf:name`` or a parameter, as ``SET name = value`` does, to any text.

        Raises:
            InvalidParametersError: no variable or parameter of sessions has the name.
            InvalidOperationError: the metastore has another value of the setting, which a session cannot change.
        """
        self._execute(variable_statement(name, value))

    def is_detachable(self, text: str, parameters: Mapping[str, object] | None = None) -> bool:
        """Return whether a statement runs a job, and can also run in another process with a session of its own.

        Temporary views, tables and functions, variables and changes by SET exist only in this session. The result is
        False for a statement that can depend on such an object.

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
        if isinstance(statement, kinds.CopyInto):
            return not statement.merges_schema
        if isinstance(statement, kinds.Insert):
            return statement.rows is None
        return isinstance(statement, kinds.Select | kinds.MultiInsert | kinds.ChangeRows)

    def check_ended(self) -> None:
        """Ensure, at the end of a script, that the session has no open transaction that the session has begun.

        Raises:
            InvalidOperationError: COMMIT or ROLLBACK is missing. When the session is closed, the transaction is rolled
                back.
        """
        transaction = self._state.transaction
        if transaction is not None and transaction.is_own:
            raise InvalidOperationError(
                "The end of the statements in",
                f"transaction {transaction.txn_id}",
                "START TRANSACTION has no COMMIT or ROLLBACK, so nothing of it counts; add one",
            )

    def explain(self, text: str, parameters: Mapping[str, object] | None = None) -> Route:
        """Return the route that a query, INSERT or CREATE TABLE AS SELECT would take now. The statement is not run.

        In an open transaction, the transaction's snapshot and writes are used. If no cluster can run the statement,
        ``cluster`` of the route is None, and each of the route's ``candidates`` has the reason against one cluster.
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
        """Return the objects that each statement of a text names, with kind, role, name and place. No statement is run.

        The metastore is not read. A table without a database belongs to the current database. Markers need no values.
        See :func:`airflow_hivex.core.inspect`, which needs no session.

        Raises:
            StatementSyntaxError: a statement has a syntax error at ``line`` and ``column`` of the text.
            UnsupportedStatementError: a statement is SQL that this release does not run.
        """
        from airflow_hivex.core.parser.inspection import inspect

        with own_errors("The inspection"):
            return inspect(self._state.with_variables(text), self._state.database)

    def snapshot_files(
        self, table: str, *, version: int | None = None, timestamp: datetime | str | None = None
    ) -> SnapshotFiles:
        """Return the files of a table or link for other engines, in a new snapshot or the open transaction's snapshot.

        ``version`` is the write id of a version of the table. ``timestamp`` selects the version at a time.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidOperationError: the table is a view.
            NoSuchVersionError, VersionExpiredError: the table has never had the version, or the version is purged.
            RoutingError: the pinned cluster does not have the table.
            StorageError: the directories of the table cannot be listed.
        """
        from airflow_hivex.core.commands.snapshot_files import snapshot_files

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

        The table is read when a method of the scan is called. Each such call takes a new snapshot.

        Args:
            table: ``table`` or ``database.table``.
            columns: the columns to read; None reads all.
            filter: a condition that compares columns with constants in SQL (``"year = :year AND dep_delay > 60"``), a
                list of tuples (``[("year", "=", 2013)]``), or an expression of ``pyarrow.compute``. A condition or list
                skips partitions, stripes and row groups without matching rows; an expression does not.
            parameters: values of the markers of ``filter``.
            threads: the number of threads that read files; None is the number of processors plus one.
            version: the write id of the version to read, with the columns of that version.
            timestamp: a time; the version at this time is read.
        """
        from airflow_hivex.core.scan import Scan

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
        """Return ``scan(table, *args, **options).to_duckdb(connection, view)``; see :meth:`scan`."""
        return self.scan(table, *args, **options).to_duckdb(connection, view)

    def _query_of_files(
        self, table: str, operation: str, version: int | None = None, timestamp: datetime | str | None = None
    ) -> kinds.Select:
        """Return the query of all rows of a table or link, in the current or an earlier version.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidOperationError: the table is a view, or the session is closed.
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
        """Return the rows that were inserted into or deleted from a full ACID table between two versions.

        Each row has the columns of the version ``until``, ``_change_type`` (``insert`` or ``delete``) and ``_row_id``.
        An update deletes a row and inserts a row. A row that was inserted and deleted between the two versions is not
        returned.

        Args:
            table: ``table`` or ``database.table``.
            since: the write id of the first version, or a time. With None all rows of the version ``until`` are
                returned.
            until: the write id of the second version, or a time. None stands for the current version.
            max_rows: the largest number of rows; None returns all.

        Raises:
            NoSuchVersionError, VersionExpiredError: the table has never had a version, or the version is purged.
            InvalidParametersError: a version is neither a write id nor a time, or ``until`` is before ``since``.
            InvalidOperationError: the table is insert-only, or has no versions.
        """
        name = read_table_name(table)
        check_name(self._context(None), name, table)
        with own_errors("The search for changes"):
            text = changes_query(self._context(None), name, since, until)
        return self.sql(text, max_rows=max_rows)

    def export_for_hive(self, table: str, directory: str | Path, partitions: Sequence[str] = ()) -> Export:
        """Copy the current rows of a table to a new local directory, as full ACID files that Hive can read.

        ``partitions`` are names such as ``year=2013/month=1``, or beginnings of names such as ``year=2013``. By default
        all partitions are copied.

        Raises:
            NoSuchTableError, NoSuchColumnError, NoSuchPartitionError: the table, a partition key, or a partition does
                not exist.
            InvalidObjectError: a name is not a valid partition name.
            InvalidOperationError: the table is a view, the directory is not empty, or Hive does not have the type of a
                column.
        """
        from airflow_hivex.core.commands import exports

        name = read_table_name(table)
        check_name(self._context(None), name, table)
        found = self._services.catalog.get_table(*self._state.qualify(name))
        if found.is_view:
            raise InvalidOperationError("An export for Hive of", table, "it is a view; export a table made of its rows")
        text = exports.query_of(found, partitions)
        statement = read(text, database=self._state.database)
        assert isinstance(statement, kinds.Select)
        exported = f"export_for_hive({table!r})"
        with recorded(self._services, self._state, "The export", exported, "SELECT", found.full_name):
            return exports.export_for_hive(self._context(None), statement, found, partitions, Path(directory))

    def warehouse(self, spark: GivenSession, cluster: str | None = None) -> Warehouse:
        """Return a :class:`Warehouse`, which reads and writes tables as DataFrames of a SparkSession of the user.

        After this call, the SparkSession runs all statements of the session.

        ``cluster`` is the cluster whose files this Spark reads. The session pins this cluster. By default the pinned
        cluster is used, or else the default cluster. The SQL configuration of the SparkSession is changed; for example,
        its time zone is set to UTC.

        Raises:
            UnknownClusterError: the cluster is not configured.
            InvalidOperationError: the SparkSession is a session of Spark Connect.
        """
        from airflow_hivex.core.runners.given import GivenRunner, check_session

        check_session(spark)
        self._execute(kinds.UseCluster(cluster or self._state.cluster or self._services.clusters.default))
        self._state.runner = GivenRunner(spark)
        from airflow_hivex.core.warehouse import Warehouse

        return Warehouse(spark, self._context, self._execute)

    def transaction_batch(self, table: str, count: int = 10, app_id: str | None = None) -> TransactionBatch:
        """Return ``count`` transactions on a table, opened together, for a series of small writes.

        The rows of all these transactions share one delta directory. With ``app_id`` each write has a ``batch_id``, and
        a repeated write is skipped.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidOperationError: the table cannot be written or is insert-only, or the session is in a transaction.
            InvalidTransactionRequestError: ``count`` transactions cannot be opened at once.
        """
        from airflow_hivex.core.streaming import TransactionBatch

        name = read_table_name(table)
        check_name(self._context(None), name, table, kinds.Role.INSERT)
        return TransactionBatch(self._context, name, count, app_id)

    def cancel(self) -> None:
        """Stop the running statement, if there is one: abort the statement's transaction, then stop its job.

        A transaction that the session has joined stays open. Other threads and signal handlers are allowed to call this
        method.
        """
        running = self._state.running
        if running is None:
            return
        running.cancelled = True
        if self._state.record is not None:
            self._state.record.is_cancelled = True
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
            # The cancellation came too late: the transaction has committed.
            return
        except HivexError as error:
            log.warning("Transaction %s could not be aborted: %s", txn_id, error)
        running.stop()

    @property
    def can_be_resumed(self) -> bool:
        """Return whether the running statement's job continues after the end of this process.

        If it continues, another session of the same writer that runs the same statement waits for the job. Other
        threads are allowed to read this property.
        """
        running = self._state.running
        operation = None if running is None else running.operation
        return operation is not None and operation.is_running

    def close(self) -> None:
        """End the session and drop its temporary tables.

        If a statement runs in another thread, the statement is cancelled, and its transaction is rolled back.
        """
        self._is_closed = True
        self.cancel()
        transactions.leave(self._context(None))
        temporary_tables.drop_all(self._context(None))

    def _withdraw_lock_request(self, running: Running) -> None:
        """Withdraw the lock request of a statement. Other sessions in the same transaction continue to wait."""
        lock_id = running.waiting_lock_id
        if lock_id is not None:
            # The request may have acquired its locks meanwhile.
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
        if self._state.record is not None:
            self._state.record.describe(statement)
        check_statement(context, statement, text)
        temporary_tables.check_temporary_views(context, statement)
        temporary_tables.check_temporary_tables(context, statement)
        temporary_tables.note_use(context)
        if self._state.transaction is not None and not statement.IN_TRANSACTIONS:
            # As in Hive: the changes of such a statement are visible at once.
            raise InvalidOperationError(
                statement.kind, f"transaction {self.txn_id}", "run it on its own, before or after the transaction"
            )
        context = replace(context, kind=statement.kind)
        result = run(context, statement)
        if max_rows is not None and len(result.rows) > max_rows:
            # Spark stops a query at its limit; lists, such as the result of SHOW PARTITIONS, are cut here.
            result = replace(result, rows=result.rows[:max_rows], truncated=True)
        return result
