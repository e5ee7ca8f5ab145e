"""The warehouse in a notebook: tables as DataFrames of the user's own SparkSession."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

from airflow_hivex.core.commands.frame_writes import FrameWrite, NewTable, WriteMode, query_frame, write_frame
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.execution.closed_names import check_name, check_statement
from airflow_hivex.core.execution.context import Frames, Result, StatementContext
from airflow_hivex.core.execution.frame_inputs import reading_frames
from airflow_hivex.core.execution.own_errors import own_errors
from airflow_hivex.core.execution.read_changes import ChangeStream, Version, changes_query
from airflow_hivex.core.execution.read_versions import query_of_version
from airflow_hivex.core.execution.statement_record import recorded
from airflow_hivex.core.merging import Merge, condition_of
from airflow_hivex.core.model.writes import BatchKey, batch_key
from airflow_hivex.core.parser.lexer.markers import parameter_literal, values_of
from airflow_hivex.core.parser.reader import read, read_table_name
from airflow_hivex.core.parser.statements import Commit, Role, Rollback, Select, StartTransaction, Statement

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_hivex.core.runners.given import Frame, GivenSession


class Execute(Protocol):
    """The type of a function that runs a statement of the session."""

    def __call__(
        self,
        statement: Statement,
        parameters: Mapping[str, object] | None = None,
        *,
        frames: Frames | None = None,
        batch_key: BatchKey | None = None,
    ) -> Result:
        """Run a statement, and return its result. The statement can read ``frames``.

        If ``batch_key`` was committed before, the statement is skipped.
        """


class Warehouse:
    """The tables of a session as DataFrames. :meth:`Session.warehouse` returns it.

    A DataFrame always shows the same snapshot, even if it is computed several times. This is the snapshot of the
    transaction (``START TRANSACTION``) or, without a transaction, of the call that returned the DataFrame. Within a
    transaction or :meth:`snapshot` the cleaner keeps the files of the snapshot. Otherwise the cleaner keeps the files
    for ``hivex.dataframe.retention.time`` after the call. DROP TABLE deletes the files in any case.
    """

    def __init__(
        self,
        spark: GivenSession,
        context: Callable[[Mapping[str, object] | None], StatementContext],
        execute: Execute,
    ) -> None:
        self._spark = spark
        self._context = context
        self._execute = execute

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """Use one snapshot for all DataFrames of the block, and keep its files until the block ends.

        The block is a read-only transaction of the session. Compute DataFrames within the block.

        Raises:
            InvalidOperationError: the session is in a transaction already. The DataFrames of a transaction share one
                snapshot.
        """
        self._execute(StartTransaction(read_only=True), None)
        try:
            yield self
        except BaseException:
            # The error of the block must reach the caller; a transaction that has ended meanwhile needs no rollback.
            with suppress(HivexError):
                self._execute(Rollback(), None)
            raise
        self._execute(Commit(), None)

    def table(self, name: str, *, version: int | None = None, timestamp: datetime | str | None = None) -> Frame:
        """Return the rows of ``table`` or ``database.table`` as a DataFrame, as one snapshot sees them.

        ``version`` is the write id of an old version of the table. ``timestamp`` selects the version at this time.

        Raises:
            NoSuchTableError: the table does not exist.
            NoSuchVersionError, VersionExpiredError: the table has never had the version, or the version is purged.
            RoutingError: the table is not on the session's cluster.
        """
        return self._query(*query_of_version(name, version, timestamp))

    def sql(self, text: str, parameters: Mapping[str, object] | None = None, **frames: Frame) -> Frame | Result:
        """Return the rows of a query as a DataFrame, or the result of any other statement.

        ``{name}`` in the text reads the DataFrame ``name`` of ``frames``, as in ``spark.sql``. A name without a
        database can also be a temporary view of the SparkSession.

        Raises:
            InvalidParametersError: one of ``frames`` is not a DataFrame, is not used, or belongs to another
                SparkSession.
            InvalidOperationError: a table and a temporary view have the same name.
            HivexError: any other error of :meth:`Session.sql`.
        """
        return self._sql(text, parameters, frames)

    def _sql(
        self,
        text: str,
        parameters: Mapping[str, object] | None,
        frames: Mapping[str, Frame],
        batch_key: BatchKey | None = None,
    ) -> Frame | Result:
        context = self._context(parameters)
        with recorded(context.services, context.session, "The statement", text) as ended:
            text = context.session.with_variables(text)
            with reading_frames(context, text, frames, self._spark) as (statement, inputs, spark):
                context = replace(context, frames=inputs)
                if context.session.record is not None:
                    context.session.record.describe(statement)
                check_statement(context, statement, text)
                if isinstance(statement, Select):
                    return query_frame(context, statement, spark)
                ended.result = self._execute(statement, parameters, frames=inputs, batch_key=batch_key)
                return ended.result

    def merge(
        self,
        source: Frame,
        into: str,
        on: str | Sequence[str],
        *,
        source_alias: str = "source",
        target_alias: str = "target",
        parameters: Mapping[str, object] | None = None,
        app_id: str | None = None,
        batch_id: int | None = None,
    ) -> Merge:
        """Return a MERGE of a DataFrame into ``table`` or ``database.table``; methods of :class:`Merge` add clauses.

        ``on`` is a condition in SQL, such as ``"source.id = target.id"``, or a list of columns that must be equal.
        ``parameters`` are the values of markers in the condition and in the clauses. :meth:`Merge.execute` runs the
        MERGE. With ``app_id`` and ``batch_id`` a repeated MERGE is skipped, as in :meth:`write`.

        Raises:
            StatementSyntaxError: ``into`` is not a name, or ``on`` is not a condition.
            InvalidParametersError: ``on`` names no column, or ``app_id`` or ``batch_id`` is not valid.
        """
        read_table_name(into)
        condition = condition_of(on, source_alias, target_alias)
        run = partial(self._merge, batch_key(app_id, batch_id))
        return Merge(run, source, into, condition, source_alias, target_alias, values_of(parameters))

    def _merge(self, key: BatchKey | None, text: str, parameters: Mapping[str, object], rows: Frame) -> Result:
        result = self._sql(text, parameters, {"rows": rows}, key)
        assert isinstance(result, Result)
        return result

    def _query(self, text: str, parameters: Mapping[str, object] | None = None) -> Frame:
        """Return the rows of a query of this module. A name in the query never means a temporary view of Spark."""
        context = self._context(parameters)
        with recorded(context.services, context.session, "The statement", text):
            statement = read(text, parameters, database=context.session.database)
            assert isinstance(statement, Select)
            if context.session.record is not None:
                context.session.record.describe(statement)
            check_statement(context, statement, text)
            return query_frame(context, statement, self._spark)

    def changes(self, name: str, since: Version | None, until: Version | None = None) -> Frame:
        """Return the inserted and deleted rows of a full ACID table between two versions; see :meth:`Session.changes`.

        Raises:
            HivexError: an error of :meth:`Session.changes`.
        """
        table = read_table_name(name)
        check_name(self._context(None), table, name)
        with own_errors("The search for changes"):
            text = changes_query(self._context(None), table, since, until)
        return self._query(text)

    def for_each_batch(
        self, name: str, function: Callable[[Frame, int], object], *, stream: str, since: Version | None = None
    ) -> int:
        """Call a function with the changes of a table that a stream has not processed yet.

        Return the number of batches.

        The function takes a DataFrame, as :meth:`changes` returns it, and the number of the batch. Each batch has a
        higher number than the batch before. The function is called until the stream has reached the current version.
        The metastore keeps the position of the stream. If the function fails, or the process is killed, the next call
        of this method begins with the same rows and number. So a function that writes with ``app_id`` and ``batch_id``
        writes each change once. Only one process at a time is allowed to process a stream. ``since`` is the version
        after which a new stream begins. By default the first batch of a new stream has all rows.

        Raises:
            VersionExpiredError: the position of the stream is older than the retention of the table.
            InvalidParametersError: ``stream`` is not a text of 1 to 128 printable characters.
            HivexError: an error of :meth:`Session.changes`.
        """
        table = read_table_name(name)
        context = self._context(None)
        check_name(context, table, name)
        with own_errors("The stream of changes"):
            batches = ChangeStream(context, table, stream, since)
        calls = 0
        while (batch := batches.begin()) is not None:
            function(self.changes(name, batch.since, batch.until), batch.batch_id)
            batches.end(batch)
            calls += 1
        return calls

    def write(
        self,
        rows: Frame,
        name: str,
        mode: str = "append",
        partition: Mapping[str, object] | None = None,
        *,
        create: bool = False,
        partitioned_by: str | Sequence[str] = (),
        clustered_by: str | Sequence[str] = (),
        buckets: int | None = None,
        format: str | None = None,
        properties: Mapping[str, str] | None = None,
        merge_schema: bool = False,
        where: str | None = None,
        app_id: str | None = None,
        batch_id: int | None = None,
    ) -> Result:
        """Commit the rows of a DataFrame to a table. Columns and fields of structs match by name.

        With ``app_id`` and ``batch_id`` a repeated write is skipped: if the application has already committed this
        batch or a higher batch number to the table, ``rows_written`` is 0.

        Args:
            rows: the DataFrame.
            name: ``table`` or ``database.table``.
            mode: ``append`` adds the rows. ``overwrite`` replaces the whole table or, in a partitioned table, each
                partition to which the rows belong. ``replace_where`` replaces the rows that satisfy ``where``.
                ``error`` and ``ignore`` create a table. If the table exists, ``error`` raises an error, and ``ignore``
                writes nothing.
            partition: values of leading partition columns; the DataFrame does not have these columns.
            create: whether to create a missing table with the columns of the DataFrame. The modes ``error`` and
                ``ignore`` do so in any case. The table and its rows appear in one commit.
            partitioned_by: the columns of the DataFrame that are the partition keys of a new table.
            clustered_by: the columns that decide the bucket of a row of a new table.
            buckets: the number of buckets of a new table.
            format: the format of a new table, as in ``USING``. With a format the table is insert-only, without a format
                full ACID.
            properties: the table properties of a new table.
            merge_schema: whether to add columns and fields of structs that only the DataFrame has to the end of the
                table, in the same commit. Columns that only the table has get their default value or NULL.
            where: a condition in SQL on columns of the table. All rows of the DataFrame must satisfy this condition,
                too.
            app_id: the application that writes batches.
            batch_id: the number of the batch. Each write of the application must have a higher number.

        Raises:
            NoSuchTableError: the table does not exist, and ``create`` is not set.
            AlreadyExistsError: the table exists, and the mode is ``error``.
            NoSuchColumnError, TypeMismatchError: the DataFrame does not have the columns of the table.
            ReplaceConditionError: a row of the DataFrame does not satisfy ``where``.
            InvalidOperationError: the mode is unknown, two columns of the DataFrame have the same name, an existing
                table has other partition keys or buckets, or columns would be added while a transaction is open.
            HivexError: any other error of an INSERT, or of a CREATE TABLE AS SELECT.
        """
        context = self._context(None)
        called = f"write(rows, {name!r}, mode={mode!r})"
        with recorded(context.services, context.session, "The write", called, "INSERT", name) as ended:
            kind = WriteMode.read(name, mode)
            write = FrameWrite(
                read_table_name(name),
                kind,
                {key.lower(): parameter_literal(key, value) for key, value in values_of(partition).items()},
                creates=create or kind.makes_tables,
                merges_schema=merge_schema,
                where=where,
                new=NewTable.of(name, partitioned_by, clustered_by, buckets, format, properties),
            )
            context = replace(context, batch_key=batch_key(app_id, batch_id))
            check_name(context, write.target, name, Role.INSERT)
            if context.session.record is not None:
                context.session.record.describe_as("INSERT", context.session.full_name(write.target))
            ended.result = write_frame(context, rows, write)
            return ended.result
